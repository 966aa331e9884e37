/*
 * Compares replica groups with the GPT example's vectors and with a plain scan of the replicas, and checks their laws.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/mesh.h>

enum { MOST = 64 };

static bg_error failure;

static void assert_groups(const uint32_t *groups, const char *expected)
{
    char text[2 * MOST + 1] = "";

    for (size_t i = 0; i < (strlen(expected) + 1) / 2; i++) {
        text[2 * i] = (char)('0' + groups[i]);
        text[2 * i + 1] = expected[2 * i + 1] == '\0' ? '\0' : ' ';
    }
    assert_string_equal(text, expected);
}

/* The library has every grouping that the GPT example uses on a mesh of 2 x 2 x 2 replicas. */
static void test_vectors_of_eight_replicas(void **state)
{
    static const struct {
        bg_replica_group group, constant;
        const char *groups, *transposed;
    } cases[] = {
        {{2, 2}, {2, 1}, "0 1 0 1 2 3 2 3", "0 0 1 1 0 0 1 1"}, /* tp1: its transpose has no single stride */
        {{2, 1}, {4, 2}, "0 0 1 1 2 2 3 3", "0 1 0 1 0 1 0 1"}, /* tp2 */
        {{4, 1}, {2, 4}, "0 0 0 0 1 1 1 1", "0 1 2 3 0 1 2 3"}, /* tp_all; transposed: dp */
        {{2, 4}, {4, 1}, "0 1 2 3 0 1 2 3", "0 0 0 0 1 1 1 1"}, /* dp */
        {{0, 2}, {2, 1}, "0 1 0 1 0 1 0 1", "0 0 1 1 2 2 3 3"}, /* a missing size is replicas / stride */
        {{8, 1}, {1, 1}, "0 0 0 0 0 0 0 0", "0 1 2 3 4 5 6 7"},
        {{1, 7}, {8, 1}, "0 1 2 3 4 5 6 7", "0 0 0 0 0 0 0 0"}, /* with a size of 1 the stride has no effect */
    };
    uint32_t groups[8], transposed[8];
    bg_replica_group constant;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(bg_replica_group_assign(8, &cases[i].group, groups, &failure), BG_OK);
        assert_groups(groups, cases[i].groups);
        assert_int_equal(bg_replica_group_transpose(8, groups, transposed, &failure), BG_OK);
        assert_groups(transposed, cases[i].transposed);
        assert_int_equal(bg_replica_group_constant(8, transposed, &constant, &failure), BG_OK);
        assert_int_equal(constant.size, cases[i].constant.size);
        assert_int_equal(constant.stride, cases[i].constant.stride);
    }
    assert_int_equal(bg_replica_group_assign(8, &(bg_replica_group){2, 2}, groups, &failure), BG_OK);
    bg_replica_group_transpose(8, groups, transposed, &failure);
    bg_replica_group_constant(8, transposed, &constant, &failure);
    bg_replica_group_assign(8, &constant, groups, &failure);
    assert_groups(groups, "0 0 1 1 2 2 3 3");
}

/* Computes groups by their definition: the first replica without a group forms one with replicas at multiples of the
 * stride after it. Returns false if one of these replicas already has a group or does not exist. */
static bool scan(uint32_t replicas, uint32_t size, uint32_t stride, uint32_t *out)
{
    uint32_t count = 0;

    memset(out, 0xff, replicas * sizeof *out);
    for (uint32_t first = 0; first < replicas; first++) {
        if (out[first] != UINT32_MAX)
            continue;
        for (uint32_t m = 0; m < size; m++) {
            const uint32_t replica = first + m * stride;
            if (replica >= replicas || out[replica] != UINT32_MAX)
                return false;
            out[replica] = count;
        }
        count++;
    }
    return true;
}

/* For all sizes, strides and numbers of replicas, a grouping is accepted exactly when the scan succeeds, and has the
 * same groups. Transposing twice restores the groups. The constant part of groups with one stride is the grouping
 * itself. */
static void test_laws(void **state)
{
    uint32_t groups[MOST], expected[MOST], once[MOST], twice[MOST];

    (void)state;
    for (uint32_t replicas = 1; replicas <= 24; replicas++)
        for (uint32_t size = 1; size <= replicas + 1; size++)
            for (uint32_t stride = 1; stride <= replicas; stride++) {
                const bg_replica_group group = {size, size == 1 ? 1 : stride};
                const bool works = replicas % stride == 0 && scan(replicas, size, group.stride, expected);
                bg_replica_group constant;
                if (size == 1 && stride > 1)
                    continue;
                assert_int_equal(bg_replica_group_assign(replicas, &group, groups, NULL) == BG_OK, works);
                if (!works)
                    continue;
                assert_memory_equal(groups, expected, replicas * sizeof *groups);
                assert_int_equal(bg_replica_group_transpose(replicas, groups, once, &failure), BG_OK);
                assert_int_equal(bg_replica_group_transpose(replicas, once, twice, &failure), BG_OK);
                assert_memory_equal(groups, twice, replicas * sizeof *groups);
                assert_int_equal(bg_replica_group_constant(replicas, groups, &constant, &failure), BG_OK);
                bg_replica_group_assign(replicas, &constant, twice, &failure);
                assert_memory_equal(groups, twice, replicas * sizeof *groups);
                /* A tensor that is sharded over a group is equal along its transpose: each pair of a group and a
                 * transposed group has one replica in common. */
                for (uint32_t a = 0; a < replicas; a++)
                    for (uint32_t b = 0; b < a; b++)
                        assert_false(groups[a] == groups[b] && once[a] == once[b]);
            }
}

/* For groups without one stride, the constant part is the common part of all runs of members, or single replicas. */
static void test_uneven_groups(void **state)
{
    static const struct {
        uint32_t replicas, groups[12];
        bg_replica_group part;
    } cases[] = {{12, {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 2}, {2, 1}},
                 {12, {0, 0, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2}, {2, 1}},
                 {6, {0, 1, 1, 0, 0, 1}, {1, 1}},
                 {8, {0, 1, 0, 1, 1, 0, 1, 0}, {1, 1}}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_replica_group part = {0};
        assert_int_equal(bg_replica_group_constant(cases[i].replicas, cases[i].groups, &part, &failure), BG_OK);
        assert_int_equal(part.size, cases[i].part.size);
        assert_int_equal(part.stride, cases[i].part.stride);
    }
}

/* Groups along axes equal the example's groups with a (size, stride); members ascend, and differ in the coordinates of
 * the axes. */
static void test_axes(void **state)
{
    static const bg_mesh meshes[] = {{1, 1, 1}, {2, 2, 2}, {3, 2, 4}, {2, 4, 1}, {1, 3, 5}, {4, 1, 2}};

    (void)state;
    for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
        const bg_mesh *mesh = &meshes[k];
        const uint32_t replicas = bg_mesh_replica_count(mesh);
        const bg_replica_group tensor_1 = {mesh->tensor_1, mesh->tensor_2}, tensor_2 = {mesh->tensor_2, 1};
        const bg_replica_group tensor = {mesh->tensor_1 * mesh->tensor_2, 1};
        const bg_replica_group data = {mesh->data, mesh->tensor_1 * mesh->tensor_2};
        const struct {
            uint32_t axes;
            const bg_replica_group *group;
        } cases[] = {{BG_MESH_TENSOR_1, &tensor_1},
                     {BG_MESH_TENSOR_2, &tensor_2},
                     {BG_MESH_TENSOR, &tensor},
                     {BG_MESH_DATA, &data}};
        assert_int_equal(bg_mesh_validate(mesh, &failure), BG_OK);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            uint32_t groups[MOST];
            assert_int_equal(bg_replica_group_assign(replicas, cases[c].group, groups, &failure), BG_OK);
            assert_int_equal(bg_mesh_group_size(mesh, cases[c].axes), cases[c].group->size);
            for (uint32_t r = 0; r < replicas; r++)
                assert_int_equal(bg_mesh_group_index(mesh, cases[c].axes, r), groups[r]);
        }
        for (uint32_t axes = BG_MESH_NONE; axes <= BG_MESH_ALL; axes++)
            for (uint32_t r = 0; r < replicas; r++) {
                const bg_mesh at = bg_mesh_coordinates(mesh, r);
                assert_int_equal(bg_mesh_replica(mesh, &at), r);
                assert_int_equal(bg_mesh_group_at(mesh, axes, r, bg_mesh_group_member(mesh, axes, r)), r);
                for (uint32_t m = 0; m < bg_mesh_group_size(mesh, axes); m++) {
                    const uint32_t other = bg_mesh_group_at(mesh, axes, r, m);
                    const bg_mesh there = bg_mesh_coordinates(mesh, other);
                    assert_int_equal(bg_mesh_group_index(mesh, axes, other), bg_mesh_group_index(mesh, axes, r));
                    assert_int_equal(bg_mesh_group_member(mesh, axes, other), m);
                    assert_true((axes & BG_MESH_DATA) != 0 || there.data == at.data);
                    assert_true((axes & BG_MESH_TENSOR_1) != 0 || there.tensor_1 == at.tensor_1);
                    assert_true((axes & BG_MESH_TENSOR_2) != 0 || there.tensor_2 == at.tensor_2);
                    assert_true(m == 0 || bg_mesh_group_at(mesh, axes, r, m - 1) < other);
                }
            }
    }
}

/* Groups of collectives that are given by size, stride and transposition are converted to axes. */
static void test_groups_to_axes(void **state)
{
    static const bg_mesh meshes[] = {{2, 2, 2}, {3, 2, 4}, {1, 4, 2}, {4, 1, 3}, {2, 5, 1}, {1, 1, 1}};
    uint32_t groups[64], columns[64], axes = 99;

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        const bg_mesh *mesh = &meshes[i];
        const uint32_t replicas = bg_mesh_replica_count(mesh);
        const uint32_t real = (mesh->data > 1 ? BG_MESH_DATA : 0) | (mesh->tensor_1 > 1 ? BG_MESH_TENSOR_1 : 0) |
                              (mesh->tensor_2 > 1 ? BG_MESH_TENSOR_2 : 0);
        for (uint32_t asked = BG_MESH_NONE; asked <= BG_MESH_ALL; asked++) {
            for (uint32_t r = 0; r < replicas; r++)
                groups[r] = bg_mesh_group_index(mesh, asked, r);
            assert_int_equal(bg_mesh_find_axes(mesh, groups, &axes, &failure), BG_OK);
            assert_int_equal(axes, asked & real);
            assert_int_equal(bg_replica_group_transpose(replicas, groups, columns, &failure), BG_OK);
            assert_int_equal(bg_mesh_find_axes(mesh, columns, &axes, &failure), BG_OK);
            assert_int_equal(axes, ~asked & real);
        }
    }
    assert_int_equal(bg_replica_group_assign(8, &(bg_replica_group){2, 2}, groups, &failure), BG_OK);
    assert_int_equal(bg_mesh_find_axes(&meshes[0], groups, &axes, &failure), BG_OK);
    assert_int_equal(axes, BG_MESH_TENSOR_1);
}

static void assert_refused(bg_status status, const char *text)
{
    assert_int_equal(status, BG_ERROR_INVALID);
    if (strstr(failure.message, text) == NULL)
        fail_msg("`%s` is not in `%s`", text, failure.message);
    failure = (bg_error){0};
}

static void test_refusals(void **state)
{
    uint32_t groups[8];
    bg_replica_group out;

    (void)state;
    assert_refused(bg_mesh_validate(&(bg_mesh){2, 0, 1}, &failure), "2 x 0 x 1");
    assert_refused(bg_mesh_validate(&(bg_mesh){65536, 65536, 65536}, &failure), "at most 65536");
    assert_refused(bg_replica_group_resolve(8, &(bg_replica_group){2, 3}, &out, &failure), "stride 3");
    assert_refused(bg_replica_group_resolve(8, &(bg_replica_group){2, 0}, &out, &failure), "stride 0");
    assert_refused(bg_replica_group_resolve(8, &(bg_replica_group){2, 16}, &out, &failure), "stride 16");
    assert_refused(bg_replica_group_resolve(8, &(bg_replica_group){9, 1}, &out, &failure), "size 9");
    assert_refused(bg_replica_group_resolve(8, &(bg_replica_group){3, 1}, &out, &failure), "size 3");
    assert_refused(bg_replica_group_resolve(0, &(bg_replica_group){1, 1}, &out, &failure), "0 replicas");
    assert_refused(bg_replica_group_transpose(3, (const uint32_t[]){0, 0, 1}, groups, &failure),
                   "groups of different sizes");
    assert_refused(bg_replica_group_transpose(3, (const uint32_t[]){1, 0, 2}, groups, &failure), "replica 0");
    assert_int_equal(bg_replica_group_assign(8, &(bg_replica_group){2, 2}, groups, &failure), BG_OK);
    assert_refused(bg_mesh_find_axes(&(bg_mesh){2, 4, 1}, groups, &(uint32_t){0}, &failure), "mesh of 2 x 4 x 1");
    assert_refused(bg_mesh_find_axes(&(bg_mesh){2, 0, 1}, groups, &(uint32_t){0}, &failure), "2 x 0 x 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_of_eight_replicas),
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_uneven_groups),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_groups_to_axes),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("core/mesh", tests, NULL, NULL);
}
