/*
 * test_sections.c: weights that a model stores in several forms: whole or in pieces. Each form starts from the same
 * values and can continue from weights that another form has trained, however they are passed. Inference without
 * weights is an error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/checkpoint.h>
#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/safetensors.h>
#include <brigade/session.h>

#include "support/folder.h"

enum { ROWS = 24, WIDTH = 12, SAMPLES = 5, MOST_OUTPUTS = 64, UPDATES = 2, MOST_PIECES = 12, OFFERS = 12 };

/* The number of pieces of a model's embedding and projection; 1 means one whole tensor. */
typedef struct form {
    uint32_t embedding, projection;
    bg_serialize_mode mode; /* pieces of the projection: rows (OUTPUT_CHANNELS) or columns of its weight */
    bool is_tied;           /* the projection's weight is the embedding's */
    uint32_t replicas;      /* number of replicas; 0 means 1; with several, the optimizer state is sharded */
    const char *memmap_dir; /* the weights and the state are remote, in files */
    bool is_float16;        /* type of the parameters */
} form;

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* ---- the model ---- */

/* Returns the table of a serialized embedding: one parameter, or its concatenated pieces. */
static bg_value find_table(bg_graph *graph, uint32_t pieces)
{
    bg_value parts[MOST_PIECES];
    char name[64];

    for (uint32_t i = 0; i < pieces && pieces > 1; i++) {
        snprintf(name, sizeof name, "embedding.split_embeddings.%u.weight", i);
        parts[i] = bg_graph_find_variable(graph, name);
        assert_false(bg_value_is_null(parts[i]));
    }
    return pieces == 1 ? bg_graph_find_variable(graph, "embedding.weight") : bg_concat(graph, NULL, parts, pieces, 0);
}

static bg_value build(bg_graph *graph, const form *f, bool training)
{
    const bg_type ids = bg_vector(BG_INT32, SAMPLES), target = bg_matrix(BG_FLOAT32, SAMPLES, ROWS);
    const bg_section last = {
        .name = "shift", .whole = bg_vector(BG_FLOAT32, 2 * WIDTH), .first = WIDTH, .count = WIDTH};
    const bg_initializer initializer = {.kind = BG_INITIALIZE_TRUNCATED_NORMAL, .a = 0.5, .b = 0.25};
    bg_section first = last;
    bg_value x, a, b;

    first.first = 0;
    if (f->is_float16)
        bg_graph_set_parameter_dtype(graph, BG_FLOAT16);
    bg_block_start(graph, "all", BG_DEVICE_NONE);
    x = bg_serialized_embedding_layer(graph, "embedding", bg_graph_input(graph, "ids", &ids), ROWS, WIDTH, 3,
                                      BG_FLOAT32, f->embedding, NULL);
    x = bg_tanh(graph, bg_linear_layer(graph, "between", x, WIDTH, true));
    /* A vector with sections that the user defines. */
    if (f->embedding > 1) {
        a = bg_graph_section_parameter(graph, "shift.a", &first, &initializer);
        b = bg_graph_section_parameter(graph, "shift.b", &last, &initializer);
    } else {
        bg_value whole = bg_graph_parameter(graph, "shift", &first.whole, &initializer);
        a = bg_slice(graph, NULL, whole, 0, 0, WIDTH, 1);
        b = bg_slice(graph, NULL, whole, 0, WIDTH, 2 * WIDTH, 1);
    }
    if (f->is_float16)
        a = bg_cast(graph, NULL, a, BG_FLOAT32), b = bg_cast(graph, NULL, b, BG_FLOAT32);
    x = bg_multiply(graph, bg_add(graph, x, a), b);
    if (f->is_tied)
        x = bg_serialized_linear(graph, "head", x, find_table(graph, f->embedding), (bg_value){0}, f->mode,
                                 f->projection);
    else
        x = bg_split_projection_layer(graph, "head", x, ROWS, true, f->mode, f->projection, NULL);
    x = bg_add(graph, x, bg_linear_layer(graph, "after", x, ROWS, true));
    if (!training) {
        bg_graph_output(graph, "y", x);
        return x;
    }
    x = bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &target), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", x);
    return x;
}

typedef struct machine {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t replicas;
} machine;

static void make_plan(machine *m, const form *f, bool training, bool makes_values)
{
    const bg_optimizer optimizer = bg_adamw(0.05);
    bg_options options = bg_options_defaults();
    bg_value y;

    memset(&error, 0, sizeof error);
    m->replicas = training && f->replicas > 0 ? f->replicas : 1;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.seed = 11;
    options.execution.cores = 1;
    options.numerics.initialize_missing = makes_values;
    options.replicas.count = m->replicas;
    options.memory.locations[BG_LOCATION_STATE].sharded = training && f->replicas > 1;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    options.files.memmap_dir = f->memmap_dir;
    if (f->memmap_dir != NULL)
        options.memory.locations[BG_LOCATION_WEIGHTS].place = options.memory.locations[BG_LOCATION_STATE].place =
            BG_PLACE_REMOTE;
    require(bg_graph_create(&m->graph, &error));
    y = build(m->graph, f, training);
    if (training)
        require(bg_plan_create_training(m->graph, y, &optimizer, &options, &m->plan, &error));
    else
        require(bg_plan_create_inference(m->graph, &options, &m->plan, &error));
}

static void open_machine(machine *m, const form *f, bool training, bg_weights *weights)
{
    make_plan(m, f, training, false);
    require(bg_session_create(m->plan, weights, &m->session, &error));
}

static void close_machine(machine *m)
{
    bg_session_destroy(m->session);
    bg_plan_destroy(m->plan);
    bg_graph_destroy(m->graph);
    *m = (machine){0};
}

static void train(machine *m, uint32_t updates)
{
    int32_t ids[2 * SAMPLES];
    float target[2 * SAMPLES * ROWS], loss[2];

    for (uint32_t i = 0; i < updates; i++) {
        for (uint32_t s = 0; s < m->replicas * SAMPLES; s++)
            ids[s] = (int32_t)((s % SAMPLES * 7 + i * 5) % ROWS); /* the same for all replicas */
        for (uint32_t e = 0; e < m->replicas * SAMPLES * ROWS; e++)
            target[e] = (float)(e % (SAMPLES * ROWS) % 17) / 8.0f - 1.0f;
        require(bg_session_run(m->session, (const void *[]){ids, target}, (void *[]){loss}, &error));
    }
}

static void infer(machine *m, float y[SAMPLES * ROWS])
{
    const int32_t ids[SAMPLES] = {0, 5, 11, 17, 23};

    memset(y, 0, SAMPLES * ROWS * sizeof *y);
    require(bg_session_run(m->session, (const void *[]){ids}, (void *[]){y}, &error));
}

/* ---- ways to pass weights ---- */

typedef enum road { SHARED, COPIED, WEIGHT_FILE, CHECKPOINT, CHECKPOINT_FOR_WEIGHTS, ROAD_COUNT } road;
static const char *const road_names[] = {"shared", "copied", "file", "checkpoint", "checkpoint for weights"};

static bg_weights *make_weights(void)
{
    bg_weights *weights = NULL;

    require(bg_weights_create(&weights, &error));
    return weights;
}

static void copy_weights(bg_weights *from, bg_weights *to)
{
    for (uint32_t i = 0; i < bg_weights_count(from); i++) {
        bg_weight weight;
        require(bg_weights_at(from, i, &weight, &error));
        require(bg_weights_set(to, weight.name, &weight.type, weight.data, &error));
    }
}

/* Passes all values through a safetensors file. */
static void copy_by_file(bg_weights *from, bg_weights *to, const char *folder)
{
    bg_safetensors_entry entries[MOST_OUTPUTS];
    bg_safetensors *file = NULL;
    char path[256];
    uint32_t count = bg_weights_count(from);

    assert_true(count <= MOST_OUTPUTS);
    for (uint32_t i = 0; i < count; i++) {
        bg_weight weight;
        void *data;
        require(bg_weights_at(from, i, &weight, &error));
        data = malloc(bg_type_size_bytes(&weight.type));
        assert_non_null(data);
        memcpy(data, weight.data, bg_type_size_bytes(&weight.type));
        entries[i] = (bg_safetensors_entry){.name = weight.name, .type = weight.type, .data = data};
    }
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    require(bg_safetensors_write(path, entries, count, NULL, 0, &error));
    for (uint32_t i = 0; i < count; i++)
        free((void *)(uintptr_t)entries[i].data);
    require(bg_safetensors_open(path, &file, &error));
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        require(bg_weights_set(to, entry->name, &entry->type, entry->data, &error));
    }
    bg_safetensors_destroy(file);
}

/* Makes a machine of another form that continues with the values of `from`. The caller destroys `weights`. */
static void move_on(machine *from, const form *f, bool training, road way, machine *to, bg_weights **out_weights)
{
    char folder[TEST_FOLDER_BYTES];
    bg_weights *weights = way == SHARED ? NULL : make_weights();

    test_folder_create(folder);
    if (way == SHARED)
        open_machine(to, f, training, bg_session_weights(from->session));
    else if (way == COPIED)
        copy_weights(bg_session_weights(from->session), weights);
    else if (way == WEIGHT_FILE)
        copy_by_file(bg_session_weights(from->session), weights, folder);
    else
        require(bg_checkpoint_save(from->session, folder, NULL, &error));
    if (way == CHECKPOINT_FOR_WEIGHTS)
        require(bg_checkpoint_load_weights(weights, folder, NULL, NULL, &error));
    if (way == CHECKPOINT) { /* loaded into the session */
        const bg_checkpoint_load_options all = {.struct_bytes = sizeof all,
                                                .differences = training ? BG_CHECKPOINT_REFUSE : BG_CHECKPOINT_IGNORE};
        make_plan(to, f, training, true);
        require(bg_session_create(to->plan, weights, &to->session, &error));
        require(bg_checkpoint_load(to->session, folder, &all, NULL, &error));
    } else if (way != SHARED) {
        open_machine(to, f, training, weights);
    }
    assert_int_equal(bg_session_set_step(to->session, bg_session_step(from->session), NULL), BG_OK);
    test_folder_remove(folder);
    *out_weights = weights;
}

static void expect_weights(bg_weights *found, bg_weights *wanted, const char *what)
{
    assert_int_equal(bg_weights_count(found), bg_weights_count(wanted));
    for (uint32_t i = 0; i < bg_weights_count(wanted); i++) {
        bg_weight should, is;
        bool same;
        void *copy;
        require(bg_weights_at(wanted, i, &should, &error));
        copy = malloc(bg_type_size_bytes(&should.type));
        assert_non_null(copy);
        memcpy(copy, should.data, bg_type_size_bytes(&should.type));
        require(bg_weights_find(found, should.name, &is, &error));
        same = bg_type_equal(&is.type, &should.type) && is.role == should.role &&
               memcmp(copy, is.data, bg_type_size_bytes(&should.type)) == 0;
        free(copy);
        if (!same)
            fail_msg("%s: `%s` is another", what, should.name);
    }
}

/* ---- tests ---- */

#define ROWS_OF BG_SERIALIZE_OUTPUT_CHANNELS
static const form forms[] = {
    {.embedding = 1, .projection = 1, .mode = ROWS_OF},
    {.embedding = 2, .projection = 3, .mode = ROWS_OF},
    {.embedding = 12, .projection = 8, .mode = ROWS_OF},
    {.embedding = 4, .projection = 1, .mode = ROWS_OF},
    {.embedding = 3, .projection = 2, .mode = ROWS_OF, .replicas = 2},
    {.embedding = 1, .projection = 3, .mode = ROWS_OF},
};
static const form columns[] = {
    {.embedding = 1, .projection = 1, .mode = BG_SERIALIZE_REDUCING_DIM},
    {.embedding = 2, .projection = 2, .mode = BG_SERIALIZE_REDUCING_DIM},
    {.embedding = 1, .projection = 6, .mode = BG_SERIALIZE_REDUCING_DIM},
    {.embedding = 3, .projection = 2, .mode = ROWS_OF},
};
static const form tied[] = {
    {.embedding = 1, .projection = 1, .mode = ROWS_OF, .is_tied = true},
    {.embedding = 4, .projection = 1, .mode = ROWS_OF, .is_tied = true},
    {.embedding = 2, .projection = 6, .mode = ROWS_OF, .is_tied = true},
};
static const form narrow[] = {
    {.embedding = 1, .projection = 1, .mode = ROWS_OF, .is_float16 = true},
    {.embedding = 4, .projection = 2, .mode = ROWS_OF, .is_float16 = true},
};
static const struct {
    const form *forms;
    size_t count;
    bool keeps_order; /* keeps the split of sums in the forward pass, so that bits of results do not depend on the form
                       */
} families[] = {
    {forms, sizeof forms / sizeof forms[0], true},
    {columns, sizeof columns / sizeof columns[0], false},
    {tied, sizeof tied / sizeof tied[0], true},
    {narrow, sizeof narrow / sizeof narrow[0], true},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* Converts one form to another, and checks that no value is lost or changed. Inference gives the same results as with
 * whole weights that are set one by one, and training continues as without the conversion. */
static void move_between(const form *a, const form *b, road way, bool keeps_order)
{
    machine first = {0}, next = {0}, same = {0}, test = {0}, plain = {0};
    bg_weights *next_weights = NULL, *same_weights = NULL, *test_weights = NULL, *plain_weights = make_weights();
    float found[SAMPLES * ROWS], wanted[SAMPLES * ROWS];
    const bool same_sums = keeps_order && a->projection == b->projection && a->replicas == b->replicas;
    char what[160];

    snprintf(what, sizeof what, "%s: %u, %u to %u, %u (mode %d)", road_names[way], a->embedding, a->projection,
             b->embedding, b->projection, (int)b->mode);
    open_machine(&first, a, true, NULL);
    train(&first, UPDATES);

    move_on(&first, b, false, way, &test, &test_weights);
    infer(&test, found);
    copy_weights(bg_session_weights(first.session), plain_weights);
    open_machine(&plain, b, false, plain_weights);
    infer(&plain, wanted);
    if (memcmp(found, wanted, sizeof found) != 0)
        fail_msg("%s: inference has other results", what);
    if (keeps_order) {
        close_machine(&plain);
        open_machine(&plain, a, false, bg_session_weights(first.session));
        infer(&plain, wanted);
        if (memcmp(found, wanted, sizeof found) != 0)
            fail_msg("%s: the pieces change the results", what);
    }
    close_machine(&test);

    /* Compares the weights, the optimizer's state, and the result of further training. The gradient of the projection's
     * input is a sum over its pieces, so the same number of pieces gives the same bits as the first form. */
    move_on(&first, same_sums ? a : b, true, COPIED, &same, &same_weights);
    expect_weights(bg_session_weights(same.session), bg_session_weights(first.session), what);
    move_on(&first, b, true, way, &next, &next_weights);
    expect_weights(bg_session_weights(next.session), bg_session_weights(same.session), what);
    train(&next, UPDATES);
    train(&same, UPDATES);
    expect_weights(bg_session_weights(next.session), bg_session_weights(same.session), what);
    close_machine(&next), close_machine(&same), close_machine(&plain), close_machine(&first);
    bg_weights_destroy(next_weights), bg_weights_destroy(same_weights);
    bg_weights_destroy(test_weights), bg_weights_destroy(plain_weights);
}

static void any_form_goes_on(void **state)
{
    (void)state;
    for (size_t k = 0; k < FAMILIES; k++)
        for (size_t a = 0; a < families[k].count; a++)
            for (size_t b = 0; b < families[k].count; b++)
                for (int way = 0; way < ROAD_COUNT; way++)
                    move_between(&families[k].forms[a], &families[k].forms[b], (road)way, families[k].keeps_order);
}

/* Sums over columns have another order, so their bits differ; the trained weights are still those of the whole
 * tensor. */
static void columns_train_like_the_whole(void **state)
{
    machine whole = {0};

    (void)state;
    open_machine(&whole, &columns[0], true, NULL);
    train(&whole, UPDATES);
    for (size_t i = 1; i < sizeof columns / sizeof columns[0]; i++) {
        bg_weights *wanted = bg_session_weights(whole.session), *found;
        machine pieces = {0};
        open_machine(&pieces, &columns[i], true, NULL);
        train(&pieces, UPDATES);
        found = bg_session_weights(pieces.session);
        assert_int_equal(bg_weights_count(found), bg_weights_count(wanted));
        for (uint32_t w = 0; w < bg_weights_count(wanted); w++) {
            bg_weight should, is;
            require(bg_weights_at(wanted, w, &should, &error));
            require(bg_weights_find(found, should.name, &is, &error));
            assert_true(bg_type_equal(&is.type, &should.type));
            for (int64_t e = 0; should.type.dtype == BG_FLOAT32 && e < bg_type_element_count(&should.type); e++)
                if (!(fabsf(((const float *)is.data)[e] - ((const float *)should.data)[e]) <= 1e-4f))
                    fail_msg("form %zu: `%s`[%lld] is %g instead of %g", i, should.name, (long long)e,
                             (double)((const float *)is.data)[e], (double)((const float *)should.data)[e]);
        }
        close_machine(&pieces);
    }
    close_machine(&whole);
}

/* The same seed gives the same values for the pieces and for all parameters after them. */
static void first_values_are_equal(void **state)
{
    (void)state;
    for (size_t k = 0; k < FAMILIES; k++) {
        machine whole = {0};
        open_machine(&whole, &families[k].forms[0], true, NULL);
        for (size_t i = 1; i < families[k].count; i++) {
            machine pieces = {0};
            open_machine(&pieces, &families[k].forms[i], true, NULL);
            expect_weights(bg_session_weights(pieces.session), bg_session_weights(whole.session), "first values");
            close_machine(&pieces);
        }
        close_machine(&whole);
    }
}

/* With two sessions at the same time, each run sees the other session's results. */
static void sessions_take_turns(void **state)
{
    static const form other = {.embedding = 12, .projection = 3, .mode = ROWS_OF};
    machine a = {0}, b = {0}, test = {0}, alone = {0};
    float found[SAMPLES * ROWS], before[SAMPLES * ROWS];

    (void)state;
    open_machine(&a, &forms[1], true, NULL);
    open_machine(&b, &other, true, bg_session_weights(a.session));
    open_machine(&test, &forms[3], false, bg_session_weights(a.session));
    open_machine(&alone, &forms[5], true, NULL);
    infer(&test, before);
    for (int i = 0; i < 3; i++) {
        train(&a, 1), train(&b, 1);
        train(&alone, 1), train(&alone, 1); /* the first batch each time */
        infer(&test, found);
        assert_true(memcmp(found, before, sizeof found) != 0);
        memcpy(before, found, sizeof before);
    }
    expect_weights(bg_session_weights(b.session), bg_session_weights(alone.session), "in turns");
    assert_int_equal(bg_session_step(a.session), 6);
    close_machine(&alone), close_machine(&test), close_machine(&b);
    /* The weights keep the values of the destroyed session. */
    open_machine(&test, &forms[0], false, bg_session_weights(a.session));
    infer(&test, found);
    assert_memory_equal(found, before, sizeof found);
    close_machine(&test), close_machine(&a);
}

/* ---- values given as pieces ---- */

/* Sets piece `i` of `count` pieces of a matrix of ROWS rows; `values` has the whole matrix. */
static bg_status give_piece(bg_weights *weights, uint32_t i, uint32_t count, const float *values)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS / count, WIDTH);
    char name[64];

    snprintf(name, sizeof name, "embedding.split_embeddings.%u.weight", i);
    return bg_weights_set(weights, name, &type, values + (size_t)i * ROWS / count * WIDTH, &error);
}

static void fill(float *values, size_t count, float offset)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 37) / 16.0f + offset;
}

static void expect_table(bg_weights *weights, const float *values)
{
    bg_weight weight;

    require(bg_weights_find(weights, "embedding.weight", &weight, &error));
    assert_int_equal(weight.type.dims[0], ROWS);
    assert_memory_equal(weight.data, values, ROWS * WIDTH * sizeof *values);
}

static void pieces_are_taken(void **state)
{
    float values[ROWS * WIDTH];
    bg_weights *weights = make_weights();
    machine m = {0};
    bg_weight weight;
    uint32_t count;

    (void)state;
    fill(values, ROWS * WIDTH, 0.0f);
    for (uint32_t i = 8; i-- > 0;)
        require(give_piece(weights, i, 8, values));
    assert_int_equal(bg_weights_count(weights), 8);
    require(bg_weights_find(weights, "embedding.split_embeddings.7.weight", &weight, &error));
    for (int round = 0; round < 2; round++) {
        open_machine(&m, &forms[round == 0 ? 1 : 0], true, weights);
        expect_table(weights, values);
        count = bg_weights_count(weights);
        assert_int_equal(count, 24);
        for (uint32_t i = 0; i < count; i++) {
            require(bg_weights_at(weights, i, &weight, &error));
            assert_null(strstr(weight.name, "split_"));
        }
        assert_int_equal(bg_weights_at(weights, count, &weight, NULL), BG_ERROR_INVALID);
        assert_int_equal(bg_weights_find(weights, "embedding.split_embeddings.7.weight", &weight, &error),
                         BG_ERROR_NOT_FOUND);
        assert_non_null(strstr(error.message, "the weights have the whole, `embedding.weight`"));
        memset(&error, 0, sizeof error);
        /* Sets a piece of an existing whole tensor, for any number of pieces. */
        fill(values + 6 * WIDTH, 6 * WIDTH, 9.0f);
        require(give_piece(weights, 1, 4, values));
        expect_table(weights, values);
        assert_int_equal(bg_weights_count(weights), count);
        close_machine(&m);
        expect_table(weights, values);
    }
    memset(&error, 0, sizeof error);
    assert_int_equal(give_piece(weights, 3, 3, values), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "piece 3 of `embedding.weight` is float32[8,12]"));
    bg_weights_destroy(weights);
}

/* If a session cannot be created, the given pieces do not change. */
static void incomplete_pieces_are_refused(void **state)
{
    float values[ROWS * WIDTH];

    (void)state;
    fill(values, ROWS * WIDTH, 0.0f);
    for (int training = 0; training < 2; training++) {
        bg_weights *weights = make_weights();
        machine m = {0};
        require(give_piece(weights, 0, 3, values));
        require(give_piece(weights, 2, 3, values));
        make_plan(&m, &forms[3], training != 0, true);
        assert_int_equal(bg_session_create(m.plan, weights, &m.session, &error), BG_ERROR_SHAPE);
        assert_non_null(strstr(error.message, "`embedding.weight` has 2 of its 3 pieces"));
        assert_int_equal(bg_weights_count(weights), 2);
        memset(&error, 0, sizeof error);
        require(give_piece(weights, 1, 3, values));
        require(bg_session_create(m.plan, weights, &m.session, &error));
        expect_table(weights, values);
        close_machine(&m);
        bg_weights_destroy(weights);
    }
}

/* The test makes checkpoints with pieces, like those of earlier releases, with a model whose pieces are separate
 * parameters. */
static void checkpoints_of_pieces_are_read(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.05);
    const bg_type ids = bg_vector(BG_INT32, 4), piece = bg_matrix(BG_FLOAT32, ROWS / 2, WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 1.0};
    const int32_t input[4] = {0, 3, 7, 2};
    bg_options options = bg_options_defaults();
    float table[2][3][ROWS * WIDTH / 2], loss;
    char folder[TEST_FOLDER_BYTES];
    machine old = {0}, now = {0};
    bg_value a, b, x;

    (void)state;
    memset(&error, 0, sizeof error);
    test_folder_create(folder);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    require(bg_graph_create(&old.graph, &error));
    bg_block_start(old.graph, "all", BG_DEVICE_NONE);
    a = bg_graph_parameter(old.graph, "embedding.split_embeddings.0.weight", &piece, &normal);
    b = bg_graph_parameter(old.graph, "embedding.split_embeddings.1.weight", &piece, &normal);
    x = bg_graph_input(old.graph, "ids", &ids);
    x = bg_add(old.graph, bg_embedding(old.graph, NULL, a, x, -1), bg_embedding(old.graph, NULL, b, x, -1));
    x = bg_reduce(old.graph, "loss", BG_REDUCE_SUM, bg_multiply(old.graph, x, x), NULL, 0, false);
    bg_graph_output(old.graph, "loss", x);
    require(bg_plan_create_training(old.graph, x, &optimizer, &options, &old.plan, &error));
    require(bg_session_create(old.plan, NULL, &old.session, &error));
    require(bg_session_run(old.session, (const void *[]){input}, (void *[]){&loss}, &error));
    for (uint32_t p = 0; p < 2; p++)
        for (uint32_t k = 0; k < 3; k++) {
            static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
            char name[80];
            bg_weight weight;
            snprintf(name, sizeof name, "embedding.split_embeddings.%u.weight%s", p, suffixes[k]);
            require(bg_weights_find(bg_session_weights(old.session), name, &weight, &error));
            memcpy(table[p][k], weight.data, sizeof table[p][k]);
        }
    require(bg_checkpoint_save(old.session, folder, NULL, &error));
    close_machine(&old);
    for (int form_index = 0; form_index < 4; form_index++) {
        static const char *const names[] = {"embedding.weight", "embedding.weight.exp_avg",
                                            "embedding.weight.exp_avg_sq"};
        const bg_checkpoint_load_options quiet = {
            .struct_bytes = sizeof quiet, .differences = BG_CHECKPOINT_IGNORE, .drop = "parameters"};
        open_machine(&now, &forms[form_index], true, NULL);
        require(bg_checkpoint_load(now.session, folder, &quiet, NULL, &error));
        for (uint32_t k = 0; k < 3; k++) {
            bg_weight weight;
            require(bg_weights_find(bg_session_weights(now.session), names[k], &weight, &error));
            for (uint32_t p = 0; p < 2; p++)
                assert_memory_equal((const char *)weight.data + p * sizeof table[p][k], table[p][k],
                                    sizeof table[p][k]);
        }
        train(&now, 1);
        assert_int_equal(bg_session_step(now.session), 2);
        close_machine(&now);
    }
    test_folder_remove(folder);
}

/* ---- files of remote buffers ---- */

/* Pieces that are trained in files have the same values as in memory, and other sessions read these values. */
static void files_keep_sections(void **state)
{
    char folder[TEST_FOLDER_BYTES], other[TEST_FOLDER_BYTES];
    form f = {.embedding = 4, .projection = 3, .mode = ROWS_OF};
    machine m = {0}, alone = {0}, test = {0};
    float found[SAMPLES * ROWS], wanted[SAMPLES * ROWS];

    (void)state;
    test_folder_create(folder);
    test_folder_create(other);
    open_machine(&alone, &forms[5], true, NULL);
    f.memmap_dir = folder;
    for (int round = 0; round < 3; round++) {
        open_machine(&m, &f, true, NULL);
        assert_int_equal(bg_session_note(m.session) != NULL, round > 0);
        expect_weights(bg_session_weights(m.session), bg_session_weights(alone.session), "from files");
        if (round == 2) { /* that session only read the values */
            close_machine(&m);
            open_machine(&m, &f, true, NULL);
            assert_non_null(bg_session_note(m.session));
        }
        train(&m, 2), train(&alone, 2);
        open_machine(&test, &forms[2], false, bg_session_weights(m.session));
        infer(&test, found);
        close_machine(&test);
        open_machine(&test, &forms[0], false, bg_session_weights(alone.session));
        infer(&test, wanted);
        close_machine(&test);
        assert_memory_equal(found, wanted, sizeof found);
        /* A new value of a piece is written to the file. */
        for (int k = 0; k < 2; k++) {
            float values[ROWS * WIDTH];
            fill(values, ROWS * WIDTH, (float)round);
            require(give_piece(bg_session_weights(k == 0 ? m.session : alone.session), 1, 6, values));
        }
        expect_weights(bg_session_weights(m.session), bg_session_weights(alone.session), "in files");
        require(bg_session_flush(m.session, NULL, &error));
        close_machine(&m);
    }
    /* The weights of another session can be trained in files; that session is destroyed first. */
    f.memmap_dir = other;
    open_machine(&m, &f, true, bg_session_weights(alone.session));
    train(&m, 1);
    close_machine(&alone);
    close_machine(&m);
    test_folder_remove(folder);
    test_folder_remove(other);
}

/* ---- inference without weights ---- */

static void missing_weights_are_named(void **state)
{
    static const char *const names[] = {"embedding.weight", "between.weight", "between.bias", "shift",
                                        "head.weight",      "head.bias",      "after.weight", "after.bias"};
    float y[SAMPLES * ROWS];
    machine trained = {0}, m = {0};

    (void)state;
    open_machine(&trained, &forms[0], true, NULL);
    for (size_t missing = 0; missing <= 8; missing++) { /* 8: none */
        bg_weights *weights = make_weights();
        bg_status status;
        for (size_t i = 0; i < 8; i++) {
            bg_weight weight;
            require(bg_weights_find(bg_session_weights(trained.session), names[i], &weight, &error));
            if (i != missing)
                require(bg_weights_set(weights, names[i], &weight.type, weight.data, &error));
        }
        make_plan(&m, &forms[1], false, false);
        status = bg_session_create(m.plan, weights, &m.session, &error);
        assert_int_equal(status, missing < 8 ? BG_ERROR_NOT_FOUND : BG_OK);
        assert_int_equal(bg_weights_count(weights), missing < 8 ? 7 : 8);
        if (missing < 8) {
            char wanted[160];
            snprintf(wanted, sizeof wanted, "the weights lack 1 of the plan's parameters: `%s`; ", names[missing]);
            if (strstr(error.message, wanted) == NULL || strstr(error.message, "initialize_missing") == NULL)
                fail_msg("%s", error.message);
        }
        close_machine(&m);
        bg_weights_destroy(weights);
    }
    close_machine(&trained);

    /* A session without weights is an error, unless the plan requests weights from the seed. */
    make_plan(&m, &forms[0], false, false);
    assert_int_equal(bg_session_create(m.plan, NULL, &m.session, &error), BG_ERROR_NOT_FOUND);
    close_machine(&m);
    make_plan(&m, &forms[1], false, true);
    require(bg_session_create(m.plan, NULL, &m.session, &error));
    infer(&m, y);
    open_machine(&trained, &forms[0], true, NULL);
    for (size_t i = 0; i < 8; i++) {
        bg_weight made, wanted;
        require(bg_weights_find(bg_session_weights(m.session), names[i], &made, &error));
        require(bg_weights_find(bg_session_weights(trained.session), names[i], &wanted, &error));
        assert_memory_equal(made.data, wanted.data, bg_type_size_bytes(&made.type));
    }
    close_machine(&m), close_machine(&trained);
}

/* A long list in the message ends with the number of names that are left out. Running statistics are required like
 * parameters; values that the model itself writes are not. */
static void the_list_is_bounded(void **state)
{
    const bg_type images = {.dtype = BG_FLOAT32, .rank = 2, .dims = {4, 6}};
    bg_options options = bg_options_defaults();
    machine m = {0};
    bg_value x;

    (void)state;
    memset(&error, 0, sizeof error);
    require(bg_graph_create(&m.graph, &error));
    bg_block_start(m.graph, "all", BG_DEVICE_NONE);
    x = bg_graph_input(m.graph, "x", &images);
    for (int i = 0; i < OFFERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        x = bg_batch_norm_layer(m.graph, name, x, 0.1, 1e-5);
    }
    bg_graph_output(m.graph, "y", x);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    require(bg_plan_create_inference(m.graph, &options, &m.plan, &error));
    assert_int_equal(bg_session_create(m.plan, NULL, &m.session, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "the weights lack 48 of the plan's parameters: `n0.weight`, `n0.bias`, "
                                          "`n0.running_mean`, `n0.running_var`, `n1.weight`, "));
    assert_non_null(strstr(error.message, "`n1.running_var` and 40 more; "));
    assert_null(strstr(error.message, "`n2."));
    close_machine(&m);
}

/* ---- graphs ---- */

static void wrong_sections_are_refused(void **state)
{
    static const struct {
        bg_section section;
        double a; /* the constant of the initializer */
        const char *message;
    } cases[] = {
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 0, 4, 5},
         0.0,
         "the section of 5 elements from 4 along dimension 0 must have at least one and lie inside `w`, float32[8,4]"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 2, 0, 1}, 0.0, "along dimension 2"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 0, -1, 2}, 0.0, "from -1"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 0, 0, 0}, 0.0, "section of 0"},
        {{"", {BG_FLOAT32, 2, {8, 4}}, 0, 0, 1}, 0.0, "does not name its whole tensor"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 0, 3, 2}, 0.0, "it and `w.a` overlap as sections of `w`"},
        {{"w", {BG_FLOAT32, 2, {8, 5}}, 0, 4, 2}, 0.0, "not of the same type"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 1, 0, 2}, 0.0, "not of the same type"},
        {{"w", {BG_FLOAT32, 2, {8, 4}}, 0, 4, 2}, 1.0, "not of the same type"},
        {{"plain", {BG_FLOAT32, 2, {8, 4}}, 0, 4, 2}, 0.0, "`plain`, which is also a variable"},
    };
    const bg_type type = bg_matrix(BG_FLOAT32, 8, 4);
    const bg_section first = {"w", bg_matrix(BG_FLOAT32, 8, 4), 0, 0, 4};

    (void)state;
    for (size_t i = 0; i <= sizeof cases / sizeof cases[0]; i++) {
        const bool is_last = i == sizeof cases / sizeof cases[0];
        const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
        const bg_initializer given = {.kind = BG_INITIALIZE_CONSTANT, .a = is_last ? 0.0 : cases[i].a};
        bg_graph *graph;
        memset(&error, 0, sizeof error);
        require(bg_graph_create(&graph, &error));
        bg_graph_parameter(graph, "plain", &type, &zero);
        bg_graph_section_parameter(graph, "w.a", &first, NULL);
        require(bg_graph_check(graph, &error));
        if (is_last)
            bg_graph_parameter(graph, "w", &type, &zero);
        else
            bg_graph_section_parameter(graph, "w.b", &cases[i].section, &given);
        assert_true(bg_graph_check(graph, &error) != BG_OK);
        if (strstr(error.message, is_last ? "variable `w`: sections of a tensor" : cases[i].message) == NULL)
            fail_msg("%zu: %s", i, error.message);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_form_goes_on),
        cmocka_unit_test(columns_train_like_the_whole),
        cmocka_unit_test(first_values_are_equal),
        cmocka_unit_test(sessions_take_turns),
        cmocka_unit_test(pieces_are_taken),
        cmocka_unit_test(incomplete_pieces_are_refused),
        cmocka_unit_test(checkpoints_of_pieces_are_read),
        cmocka_unit_test(files_keep_sections),
        cmocka_unit_test(missing_weights_are_named),
        cmocka_unit_test(the_list_is_bounded),
        cmocka_unit_test(wrong_sections_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
