/*
 * Tests tensors that are sharded over a mesh, with the sizes of the GPT example's presets. Shards are compared element
 * by element with the definition, and joined again.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/mesh.h>

enum { MOST = 4096 };

static bg_error failure;

static const bg_shard_dim whole_dim, rows = {BG_MESH_TENSOR_1, 1, 0}, columns = {BG_MESH_TENSOR_2, 0, 0};

/* Tests shards of the vocabularies and hidden sizes of the presets 175B, 2.7B and tiny, and of two other models. */
static void test_preset_sizes(void **state)
{
    static const struct {
        bg_mesh mesh;
        int64_t vocabulary, hidden, rows, columns;
    } cases[] = {
        {{4, 8, 8}, 50257, 12288, 6288, 1536},
        {{1, 4, 4}, 50257, 2560, 12576, 640},
        {{1, 2, 2}, 128, 64, 64, 32},
        {{1, 3, 1}, 100, 6, 48, 6},
        {{1, 1, 2}, 20, 6, 32, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bg_shard shard = {.whole = bg_matrix(BG_FLOAT32, cases[i].vocabulary, cases[i].hidden),
                                .dims = {{BG_MESH_TENSOR_1, 1, 16}, columns}};
        bg_type piece;
        assert_int_equal(bg_shard_piece(&cases[i].mesh, &shard, &piece, &failure), BG_OK);
        assert_int_equal(piece.rank, 2);
        assert_int_equal(piece.dims[0], cases[i].rows);
        assert_int_equal(piece.dims[1], cases[i].columns);
    }
}

/* Returns the position in the whole tensor of element `index` of a shard's dimension, or -1 for padding. */
static int64_t find_element(const bg_shard_dim *how, int64_t size, int64_t piece_size, uint32_t coordinate,
                            int64_t index)
{
    const int64_t blocks = how->blocks > 0 ? how->blocks : 1, piece = piece_size / blocks;
    const int64_t element = coordinate * piece + index % piece;

    return element < size / blocks ? index / piece * (size / blocks) + element : -1;
}

static uint32_t coordinate_of(const bg_mesh *at, bg_mesh_axis axis)
{
    return axis == BG_MESH_TENSOR_1 ? at->tensor_1 : axis == BG_MESH_TENSOR_2 ? at->tensor_2 : 0;
}

/* Checks that every element of every shard is the element that the definition gives, and that joining all shards gives
 * the whole tensor. */
static void check_shard(const bg_mesh *mesh, const bg_shard *shard)
{
    int32_t whole[MOST], piece[MOST], joined[MOST];
    const int64_t count = bg_type_element_count(&shard->whole);
    bg_type type;

    for (int64_t e = 0; e < count; e++)
        whole[e] = (int32_t)e + 1;
    memset(joined, 0xff, sizeof joined);
    assert_int_equal(bg_shard_piece(mesh, shard, &type, &failure), BG_OK);
    assert_true(bg_type_element_count(&type) <= MOST);
    for (uint32_t replica = 0; replica < bg_mesh_replica_count(mesh); replica++) {
        const bg_mesh at = bg_mesh_coordinates(mesh, replica);
        memset(piece, 0xff, sizeof piece);
        assert_int_equal(bg_shard_cut(mesh, shard, &at, whole, piece, &failure), BG_OK);
        for (int64_t e = 0; e < bg_type_element_count(&type); e++) {
            int64_t rest = e, offset = 0, stride = 1;
            for (uint32_t i = type.rank; i-- > 0 && offset >= 0;) {
                const int64_t found = find_element(&shard->dims[i], shard->whole.dims[i], type.dims[i],
                                                   coordinate_of(&at, shard->dims[i].axis), rest % type.dims[i]);
                offset = found < 0 ? -1 : offset + found * stride;
                stride *= shard->whole.dims[i];
                rest /= type.dims[i];
            }
            assert_int_equal(piece[e], offset < 0 ? 0 : whole[offset]);
        }
        assert_int_equal(bg_shard_join(mesh, shard, &at, piece, joined, &failure), BG_OK);
    }
    assert_memory_equal(joined, whole, (size_t)count * sizeof *whole);
    assert_int_equal(joined[count], -1); /* no further elements */
}

static void test_every_element(void **state)
{
    static const bg_mesh meshes[] = {{1, 1, 1}, {1, 2, 2}, {2, 4, 1}, {1, 1, 4}, {1, 4, 2}, {1, 2, 4}};
    const bg_shard shards[] = {
        {.whole = bg_matrix(BG_INT32, 8, 24), .dims = {columns, {BG_MESH_TENSOR_1, 3, 0}}}, /* q, k, v */
        {.whole = bg_matrix(BG_INT32, 24, 8), .dims = {{BG_MESH_TENSOR_1, 3, 0}, columns}},
        {.whole = bg_matrix(BG_INT32, 21, 8),
         .dims = {{BG_MESH_TENSOR_1, 1, 16}, columns}}, /* shards with only padding */
        {.whole = bg_matrix(BG_INT32, 8, 10), .dims = {rows, {BG_MESH_TENSOR_2, 2, 2}}},
        {.whole = bg_matrix(BG_INT32, 8, 8), .dims = {rows, whole_dim}},
        {.whole = bg_vector(BG_INT32, 24), .dims = {{BG_MESH_TENSOR_1, 3, 0}}},
        {.whole = bg_vector(BG_INT32, 7), .dims = {{BG_MESH_TENSOR_2, 1, 4}}},
        {.whole = bg_tensor4(BG_INT32, 3, 8, 5, 4), .dims = {whole_dim, rows, {BG_MESH_NONE, 5, 0}, columns}},
        {.whole = bg_scalar(BG_INT32)},
    };

    (void)state;
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t s = 0; s < sizeof shards / sizeof *shards; s++)
            check_shard(&meshes[m], &shards[s]);
}

static void assert_refused(bg_status status, bg_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (strstr(failure.message, text) == NULL)
        fail_msg("`%s` is not in `%s`", text, failure.message);
    failure = (bg_error){0};
}

static void test_refusals(void **state)
{
    const bg_mesh mesh = {1, 4, 2};
    bg_shard shard = {.whole = bg_matrix(BG_FLOAT32, 6, 8), .dims = {rows, columns}};
    float data[64] = {0};
    bg_type out;

    (void)state;
    assert_refused(bg_shard_piece(&mesh, &shard, &out, &failure), BG_ERROR_SHAPE, "must divide the 6");
    shard.dims[0] = (bg_shard_dim){BG_MESH_TENSOR_1, 4, 0};
    assert_refused(bg_shard_piece(&mesh, &shard, &out, &failure), BG_ERROR_SHAPE, "must be equal");
    shard.dims[0] = (bg_shard_dim){BG_MESH_DATA, 1, 0};
    assert_refused(bg_shard_piece(&mesh, &shard, &out, &failure), BG_ERROR_INVALID, "one tensor axis");
    shard.dims[0] = whole_dim;
    assert_refused(bg_shard_cut(&mesh, &shard, &(bg_mesh){0, 0, 2}, data, data, &failure), BG_ERROR_INVALID, "0, 2");
    assert_refused(bg_shard_piece(&(bg_mesh){1, 0, 1}, &shard, &out, &failure), BG_ERROR_INVALID, "1 x 0 x 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preset_sizes),
        cmocka_unit_test(test_every_element),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("core/shard", tests, NULL, NULL);
}
