/*
 * test_build.c: checks the options of building a graph (sizes, fixed values, blocks, trained weights), and errors.
 * test_training.c and test_testdata.c check results.
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

#include <brigade/onnx.h>

#include "onnx/model.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/interpret.h"

static bg_error error;

static bg_onnx *parse(const test_model_file *file)
{
    bg_onnx *onnx = NULL;
    size_t size;
    uint8_t *bytes = test_model_file_pack(file, &size);

    if (bgi_onnx_parse("m.onnx", NULL, bytes, size, &onnx, &error) != BG_OK)
        fail_msg("%s", error.message);
    free(bytes);
    return onnx;
}

static bg_status build(bg_onnx *onnx, const bg_onnx_options *options)
{
    bg_graph *graph;
    bg_status status;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    status = bg_onnx_build(onnx, options, graph, &error);
    if (status == BG_OK)
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
    return status;
}

static void refuses(bg_onnx *onnx, const bg_onnx_options *options, bg_status status, const char *expected)
{
    assert_int_equal(build(onnx, options), status);
    if (strstr(error.message, expected) == NULL)
        fail_msg("the message is `%s`: expected `%s`", error.message, expected);
}

static void sizes_are_bound(void **state)
{
    bg_onnx_options options = bg_onnx_defaults();
    bg_onnx_size size = {"batch", 5};
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    onnx = parse(&file);
    refuses(onnx, NULL, BG_ERROR_INVALID, "dimensions without a size: `batch` (dimension 0 of input `x`)");
    options.batch_size = 7;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->outputs[0].type.dims[0], 7);
    assert_int_equal(bg_onnx_contents_of(onnx)->outputs[0].type.dims[1], 3);
    options.batch_size = 0;
    options.sizes = &size;
    options.size_count = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->inputs[0].type.dims[0], 5);
    size = (bg_onnx_size){"x:0", 6};
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->inputs[0].type.dims[0], 6);
    size = (bg_onnx_size){"x:1", 6};
    refuses(onnx, &options, BG_ERROR_INVALID, "the file fixes it to 4");
    size = (bg_onnx_size){"bach", 6};
    refuses(onnx, &options, BG_ERROR_INVALID, "`bach` is not a symbolic dimension");
    size = (bg_onnx_size){"x:2", 6};
    refuses(onnx, &options, BG_ERROR_INVALID, "`x:2` is not a symbolic dimension");
    size = (bg_onnx_size){"batch", 0};
    refuses(onnx, &options, BG_ERROR_INVALID, "`batch` is 0 but must be at least 1");
    options.size_count = 0;
    options.batch_size = -1;
    refuses(onnx, &options, BG_ERROR_INVALID, "options.batch_size is -1");
    bg_onnx_destroy(onnx);
    file.dims[0].dim_param = NULL;
    file.dims[0].has_dim_value = 1;
    file.dims[0].dim_value = 2;
    onnx = parse(&file);
    options.batch_size = 3;
    refuses(onnx, &options, BG_ERROR_INVALID, "the first dimension of input `x` is 2 in the file");
    options.batch_size = 2;
    assert_int_equal(build(onnx, &options), BG_OK);
    bg_onnx_destroy(onnx);
}

static void fixed_values_are_folded(void **state)
{
    const float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    bg_onnx_fixed fixed = {.input = "x", .type = bg_matrix(BG_FLOAT32, 2, 4), .data = x};
    bg_onnx_options options = bg_onnx_defaults();
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    onnx = parse(&file);
    options.values = &fixed;
    options.value_count = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->inputs[0].value.id, 0);
    assert_int_equal(bg_onnx_contents_of(onnx)->outputs[0].type.dims[0], 2);
    fixed.input = "z";
    refuses(onnx, &options, BG_ERROR_INVALID, "the file has no input `z`");
    fixed.input = "x";
    fixed.type = bg_vector(BG_FLOAT32, 8);
    refuses(onnx, &options, BG_ERROR_SHAPE, "`x` is given as float32 with 1 dimensions but is float32 with 2");
    bg_onnx_destroy(onnx);
}

static void weights_train_as_options_say(void **state)
{
    const char *all = "*", *w = "?", *other = "v*";
    bg_onnx_options options = bg_onnx_defaults();
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    onnx = parse(&file);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_PARAMETER);
    options.batch_size = 2;
    options.freeze = &all;
    options.freeze_count = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_FROZEN);
    options.train = &w;
    options.train_count = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_PARAMETER);
    options.train = &other;
    refuses(onnx, &options, BG_ERROR_INVALID,
            "options.train: the pattern \"v*\" matches no float initializer; the first of them is `w`");
    options.train_option = "--unfreeze";
    refuses(onnx, &options, BG_ERROR_INVALID, "--unfreeze: the pattern \"v*\" matches no float initializer");
    bg_onnx_destroy(onnx);
}

static void refusals_are_told_at_once(void **state)
{
    static char loop[] = "Loop", domain[] = "com.example";
    bg_onnx_options options = bg_onnx_defaults();
    const bg_onnx_contents *contents;
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    options.batch_size = 2;
    test_model_file_init(&file);
    file.nodes[0].domain = domain;
    file.nodes[1].op_type = loop;
    onnx = parse(&file);
    refuses(
        onnx, &options, BG_ERROR_UNSUPPORTED,
        "2 nodes cannot be expressed: node `/layer/0/Gemm` (Gemm): its domain is \"com.example\" but only ops of ONNX "
        "itself are known; node `Loop:c` (Loop): the steps of a graph are known when it is built: export the model by "
        "tracing");
    contents = bg_onnx_contents_of(onnx);
    assert_int_equal(contents->problem_count, 2);
    assert_int_equal(contents->problems[1].node, 1);
    assert_string_equal(contents->problems[1].op, "Loop");
    bg_onnx_destroy(onnx);
    test_model_file_init(&file);
    file.dims[1].dim_value = 5;
    onnx = parse(&file);
    assert_int_equal(build(onnx, &options), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "/layer/0/Gemm"));
    bg_onnx_destroy(onnx);
    test_model_file_init(&file);
    file.type.tensor_type = NULL; /* a sequence, for example */
    onnx = parse(&file);
    refuses(onnx, NULL, BG_ERROR_UNSUPPORTED, "input `x` is not a tensor, or has no element type");
    bg_onnx_destroy(onnx);
}

static void blocks_are_scopes(void **state)
{
    static char inner[] = "/layer/0/act/Relu";
    bg_onnx_options options = bg_onnx_defaults();
    const bg_onnx_contents *contents;
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    file.nodes[1].name = inner;
    onnx = parse(&file);
    contents = bg_onnx_contents_of(onnx);
    options.batch_size = 2;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_string_equal(contents->nodes[0].block, "layer/0");
    assert_string_equal(contents->nodes[1].block, "layer/0/act");
    assert_int_equal(contents->nodes[0].ops, 1);
    assert_true(contents->nodes[0].flops == 2.0 * 2 * 3 * 4);
    options.block_depth = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_string_equal(contents->nodes[0].block, "layer");
    assert_string_equal(contents->nodes[1].block, "layer");
    bg_onnx_destroy(onnx);
}

static void weights_need_a_build(void **state)
{
    test_model_file file;
    bg_weights *weights;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    onnx = parse(&file);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    assert_int_equal(bg_onnx_set_weights(onnx, weights, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_onnx_save_weights(onnx, weights, "/tmp/never.onnx", &error), BG_ERROR_INVALID);
    bg_weights_destroy(weights);
    bg_onnx_destroy(onnx);
}

/* Returns the number of the file's metadata with the key. */
static size_t count_key(const bg_onnx *onnx, const char *key)
{
    size_t count = 0;

    for (size_t i = 0; i < onnx->model->n_metadata_props; i++) {
        const char *found = onnx->model->metadata_props[i]->key;

        count += found != NULL && strcmp(found, key) == 0;
    }
    return count;
}

/* The metadata of a file are found, changed and removed by key. A repeated key has its first value, and one value after
 * a change. Entries without a key or a value do no harm. */
static void metadata_have_keys(void **state)
{
    static char names[2][8] = {"a", "b"}, values[3][8] = {"1", "2", "3"};
    BgiOnnx__Entry entries[4], *list[4];
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    test_model_file_init(&file);
    for (int i = 0; i < 4; i++) {
        bgi_onnx__entry__init(&entries[i]);
        list[i] = &entries[i];
    }
    entries[0].value = values[0];
    entries[1].key = entries[3].key = names[0];
    entries[1].value = values[1];
    entries[2].key = names[1];
    entries[3].value = values[2];
    file.model.n_metadata_props = 4;
    file.model.metadata_props = list;
    onnx = parse(&file);
    assert_string_equal(bg_onnx_metadata_find(onnx, "a"), "2");
    assert_string_equal(bg_onnx_metadata_find(onnx, "b"), "");
    assert_null(bg_onnx_metadata_find(onnx, "c"));
    assert_null(bg_onnx_metadata_find(NULL, "a"));
    assert_null(bg_onnx_metadata_find(onnx, NULL));
    assert_int_equal(bg_onnx_metadata_set(onnx, "a", bg_onnx_metadata_find(onnx, "a"), &error), BG_OK);
    assert_string_equal(bg_onnx_metadata_find(onnx, "a"), "2");
    assert_int_equal(count_key(onnx, "a"), 1);
    assert_int_equal(bg_onnx_metadata_set(onnx, "c", "4", NULL), BG_OK);
    assert_string_equal(bg_onnx_metadata_find(onnx, "c"), "4");
    assert_int_equal(onnx->model->n_metadata_props, 4);
    assert_int_equal(bg_onnx_metadata_set(onnx, "a", NULL, &error), BG_OK);
    assert_null(bg_onnx_metadata_find(onnx, "a"));
    assert_int_equal(bg_onnx_metadata_set(onnx, "none", NULL, &error), BG_OK);
    assert_int_equal(onnx->model->n_metadata_props, 3);
    assert_string_equal(bg_onnx_metadata_find(onnx, "b"), "");
    assert_int_equal(bg_onnx_metadata_set(NULL, "a", "1", &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "bg_onnx_metadata_set: `onnx` is NULL; this argument is required");
    assert_int_equal(bg_onnx_metadata_set(onnx, NULL, "1", &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "bg_onnx_metadata_set: `key` is NULL; this argument is required");
    bg_onnx_destroy(onnx);
}

static void metadata_survive_failed_allocations(void **state)
{
    test_model_file file;
    bg_onnx *onnx;
    bg_status status;

    (void)state;
    if (!test_allocations_available())
        skip();
    test_allocations_live(); /* counts from here on */
    test_model_file_init(&file);
    onnx = parse(&file);
    assert_int_equal(bg_onnx_metadata_set(onnx, "a", "1", &error), BG_OK);
    for (uint64_t n = 1;; n++) {
        const int64_t before = test_allocations_live();

        test_allocations_fail(n);
        status = bg_onnx_metadata_set(onnx, "a", "2", &error);
        test_allocations_fail(0);
        if (status == BG_OK)
            break;
        assert_int_equal(status, BG_ERROR_MEMORY);
        assert_int_equal(test_allocations_live(), before);
        assert_string_equal(bg_onnx_metadata_find(onnx, "a"), "1");
    }
    assert_string_equal(bg_onnx_metadata_find(onnx, "a"), "2");
    bg_onnx_destroy(onnx);
}

/* Saving a model keeps the file's metadata, with the changes. */
static void metadata_are_saved(void **state)
{
    bg_onnx_options options = bg_onnx_defaults();
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16];
    test_model_file file;
    bg_weights *weights;
    bg_onnx *onnx;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    test_model_file_init(&file);
    onnx = parse(&file);
    options.batch_size = 2;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    assert_int_equal(bg_onnx_set_weights(onnx, weights, &error), BG_OK);
    assert_int_equal(bg_onnx_metadata_set(onnx, "key", "0.5,2", &error), BG_OK);
    assert_int_equal(bg_onnx_save_weights(onnx, weights, path, &error), BG_OK);
    bg_onnx_destroy(onnx);
    assert_int_equal(bg_onnx_open(path, &onnx, &error), BG_OK);
    assert_string_equal(bg_onnx_metadata_find(onnx, "key"), "0.5,2");
    assert_int_equal(onnx->model->n_metadata_props, 1);
    bg_onnx_destroy(onnx);
    bg_weights_destroy(weights);
    test_folder_remove(folder);
}

/* A matrix that is added is a mask, which is not trained, if it contains -infinity. */
static void masks_do_not_train(void **state)
{
    static char op_add[] = "Add", mask[] = "mask";
    const char *const pattern = mask;
    bg_onnx_options options = bg_onnx_defaults();
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    options.batch_size = 3;
    test_model_file_init(&file);
    file.nodes[0].op_type = op_add;
    file.nodes[0].n_attribute = 0;
    onnx = parse(&file);
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_PARAMETER);
    bg_onnx_destroy(onnx);

    file.weight_values[5] = -INFINITY;
    onnx = parse(&file);
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_CONSTANT);
    bg_onnx_destroy(onnx);

    file.weight.name = mask;
    file.node_inputs[0][1] = mask;
    onnx = parse(&file);
    options.train = &pattern;
    options.train_count = 1;
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(bg_onnx_contents_of(onnx)->weights[0].use, BG_ONNX_PARAMETER);
    bg_onnx_destroy(onnx);
}

/* Makes the first node of a PyTorch file an `op` that reads a weight `name` with these values. Returns the use of the
 * weight. */
static bg_onnx_use use_of(const char *op, const char *name, const float *values)
{
    static char pytorch[] = "pytorch", copies[2][32];
    bg_onnx_options options = bg_onnx_defaults();
    test_model_file file;
    bg_onnx_use use;
    bg_onnx *onnx;

    snprintf(copies[0], sizeof copies[0], "%s", op);
    snprintf(copies[1], sizeof copies[1], "%s", name);
    options.batch_size = 3;
    test_model_file_init(&file);
    file.model.producer_name = pytorch;
    file.nodes[0].op_type = copies[0];
    if (strcmp(op, "Gemm") != 0)
        file.nodes[0].n_attribute = 0;
    file.weight.name = file.node_inputs[0][1] = copies[1];
    for (int i = 0; i < 12 && values != NULL; i++)
        file.weight_values[i] = values[i % 4];
    onnx = parse(&file);
    use = bg_onnx_contents_of(onnx)->weights[0].use;
    if (strcmp(op, "Equal") != 0) /* Relu of an integer is not supported */
        assert_int_equal(build(onnx, &options), BG_OK);
    bg_onnx_destroy(onnx);
    return use;
}

/* Buffers are recognized by their use as added or multiplied values, by names, or because no gradient reaches them. */
static void buffers_are_told_from_parameters(void **state)
{
    static const float zeros_and_ones[] = {0.0f, 1.0f, 1.0f, 0.0f}, ones[] = {1.0f, 1.0f, 1.0f, 1.0f},
                       large[] = {0.0f, -1e4f, 0.0f, 0.0f}, waves[] = {0.6f, 0.8f, 0.0f, 1.0f};

    (void)state;
    assert_int_equal(use_of("Mul", "w", NULL), BG_ONNX_PARAMETER);
    assert_int_equal(use_of("Mul", "w", ones), BG_ONNX_PARAMETER);
    assert_int_equal(use_of("Mul", "w", zeros_and_ones), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Gemm", "w", zeros_and_ones), BG_ONNX_PARAMETER);
    assert_int_equal(use_of("Add", "w", large), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Add", "w", waves), BG_ONNX_PARAMETER); /* the same angles in all rows */
    assert_int_equal(use_of("Equal", "w", NULL), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Mul", "layer.attn_mask", NULL), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Mul", "mask", NULL), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Mul", "loss.pos_weight", NULL), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Mul", "my.loss.weight", NULL), BG_ONNX_CONSTANT);
    assert_int_equal(use_of("Mul", "floss.weight", NULL), BG_ONNX_PARAMETER);
    assert_int_equal(use_of("Mul", "unmask", NULL), BG_ONNX_PARAMETER);
}

/* Makes a file whose first node is an Identity of the weight with the name `b`, which the second node reads. */
static void make_joined(test_model_file *file, char *producer)
{
    static char identity[] = "Identity", gemm[] = "Gemm", name[] = "/layer/Gemm", x[] = "x";

    test_model_file_init(file);
    file->model.producer_name = producer;
    file->nodes[1].op_type = gemm;
    file->nodes[1].name = name;
    file->nodes[1].n_input = 2;
    file->nodes[1].n_attribute = 1;
    file->nodes[1].attribute = file->attribute_list;
    file->node_inputs[1][0] = x;
    file->node_inputs[1][1] = file->node_outputs[0][0];
    file->nodes[0].op_type = identity;
    file->nodes[0].name = identity;
    file->nodes[0].n_attribute = 0;
    file->nodes[0].n_input = 1;
    file->node_inputs[0][0] = file->weight.name;
}

/* PyTorch replaces equal initializers by Identity nodes; each name becomes a separate weight again. In files of other
 * producers Identity nodes are kept. */
static void joined_weights_come_apart(void **state)
{
    static char pytorch[] = "pytorch", other[] = "other", standard[] = "ai.onnx";
    bg_onnx_options options = bg_onnx_defaults();
    const bg_onnx_contents *contents;
    test_model_file file;
    bg_onnx *onnx;

    (void)state;
    options.batch_size = 3;
    make_joined(&file, pytorch);
    onnx = parse(&file);
    contents = bg_onnx_contents_of(onnx);
    assert_int_equal(contents->node_count, 1);
    assert_int_equal(contents->weight_count, 2);
    assert_string_equal(contents->weights[1].name, "b");
    assert_int_equal(build(onnx, &options), BG_OK);
    assert_int_equal(contents->weights[0].use, BG_ONNX_CONSTANT); /* no node reads it now */
    assert_int_equal(contents->weights[1].use, BG_ONNX_PARAMETER);
    bg_onnx_destroy(onnx);

    make_joined(&file, pytorch); /* ONNX's standard domain has two names */
    file.nodes[0].domain = standard;
    onnx = parse(&file);
    assert_int_equal(bg_onnx_contents_of(onnx)->weight_count, 2);
    file.nodes[0].domain = other;
    bg_onnx_destroy(onnx);
    onnx = parse(&file);
    assert_int_equal(bg_onnx_contents_of(onnx)->weight_count, 1);
    bg_onnx_destroy(onnx);

    make_joined(&file, other);
    onnx = parse(&file);
    contents = bg_onnx_contents_of(onnx);
    assert_int_equal(contents->node_count, 2);
    assert_int_equal(contents->weight_count, 1);
    assert_int_equal(build(onnx, &options), BG_OK);
    bg_onnx_destroy(onnx);

    make_joined(&file, pytorch); /* an output of the model remains an output */
    file.output.name = file.node_outputs[0][0];
    onnx = parse(&file);
    assert_int_equal(bg_onnx_contents_of(onnx)->weight_count, 1);
    bg_onnx_destroy(onnx);
}

/* Replaces the model's second node by an If of a constant, with a branch of one node that computes `made` from
 * `read`. */
typedef struct branch_file {
    test_model_file file;
    BgiOnnx__Attribute value, branch, *value_list[1], *branch_list[1];
    BgiOnnx__Graph graph;
    BgiOnnx__Node node, *node_list[1];
    BgiOnnx__ValueInfo output, *output_list[1];
    char *reads[1], *makes[1];
} branch_file;

static bg_onnx *parse_branch(branch_file *f, const char *op, const char *read, const char *made, const char *outcome)
{
    static char op_constant[] = "Constant", op_if[] = "If", value[] = "value_int", then[] = "then_branch";
    const char *const texts[] = {op, read, made, outcome};
    static char copies[4][32];

    for (int i = 0; i < 4; i++)
        snprintf(copies[i], sizeof copies[i], "%s", texts[i]);
    test_model_file_init(&f->file);
    bgi_onnx__attribute__init(&f->value);
    bgi_onnx__attribute__init(&f->branch);
    bgi_onnx__graph__init(&f->graph);
    bgi_onnx__node__init(&f->node);
    bgi_onnx__value_info__init(&f->output);
    f->value.name = value;
    f->value.has_i = 1;
    f->value.i = 1;
    f->value.has_type = 1;
    f->value.type = 2;
    f->value_list[0] = &f->value;
    f->file.nodes[0].op_type = op_constant;
    f->file.nodes[0].n_input = 0;
    f->file.nodes[0].attribute = f->value_list;
    f->node.op_type = copies[0];
    f->reads[0] = copies[1];
    f->makes[0] = copies[2];
    f->output.name = copies[3];
    f->node.n_input = f->node.n_output = 1;
    f->node.input = f->reads;
    f->node.output = f->makes;
    f->node_list[0] = &f->node;
    f->output_list[0] = &f->output;
    f->graph.n_node = f->graph.n_output = 1;
    f->graph.node = f->node_list;
    f->graph.output = f->output_list;
    f->branch.name = then;
    f->branch.g = &f->graph;
    f->branch_list[0] = &f->branch;
    f->file.nodes[1].op_type = op_if;
    f->file.nodes[1].n_attribute = 1;
    f->file.nodes[1].attribute = f->branch_list;
    return parse(&f->file);
}

static void branches_take_the_place_of_their_node(void **state)
{
    static const struct {
        const char *op, *read, *made, *outcome;
        bg_status status;
        const char *expected;
    } cases[] = {
        {"Relu", "x", "r", "r", BG_OK, NULL},
        {"Relu", "x", "r", "x", BG_OK, NULL}, /* a branch may return a value from outside */
        {"Relu", "x", "b", "b", BG_ERROR_PARSE, "node `` (Relu) of its branch: the name `b` is already used"},
        {"Relu", "nowhere", "r", "r", BG_ERROR_PARSE, "nothing before it makes its input `nowhere`"},
        {"Relu", "x", "r", "nowhere", BG_ERROR_PARSE, "its branch does not make its output `nowhere`"},
        {"Unheard", "x", "r", "r", BG_ERROR_UNSUPPORTED, "node `` (Unheard) of its branch: the op is not known"},
    };
    bg_onnx_options options = bg_onnx_defaults();
    branch_file f;
    bg_onnx *onnx;

    (void)state;
    options.batch_size = 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        onnx = parse_branch(&f, cases[i].op, cases[i].read, cases[i].made, cases[i].outcome);
        if (cases[i].expected != NULL)
            refuses(onnx, &options, cases[i].status, cases[i].expected);
        else if (build(onnx, &options) != BG_OK)
            fail_msg("%s", error.message);
        bg_onnx_destroy(onnx);
    }
    onnx = parse_branch(&f, "Relu", "x", "r", "r");
    bg_onnx_destroy(onnx);
    f.value.i = 0;
    onnx = parse(&f.file);
    refuses(onnx, &options, BG_ERROR_UNSUPPORTED, "attribute `else_branch` is missing");
    bg_onnx_destroy(onnx);
    f.file.node_inputs[1][0] = f.file.input.name;
    onnx = parse(&f.file);
    refuses(onnx, &options, BG_ERROR_UNSUPPORTED, "its condition must be known when the graph is built");
    bg_onnx_destroy(onnx);
}

/* A file with one RNN node whose operands are all inputs: x [3, 2, 1], w and r [D, 1, 1], lengths [2]. */
typedef struct recurrence_file {
    test_model_file base;
    BgiOnnx__ValueInfo infos[4], *info_list[4];
    BgiOnnx__Type types[4];
    BgiOnnx__TensorType tensor_types[4];
    BgiOnnx__Shape shapes[4];
    BgiOnnx__Dimension dims[4][3], *dim_lists[4][3];
    char *inputs[5];
    BgiOnnx__Attribute direction, *attribute_list[1];
} recurrence_file;

static void describe_input(recurrence_file *f, int i, char *name, int32_t element, uint32_t rank, const int64_t *dims)
{
    bgi_onnx__value_info__init(&f->infos[i]);
    bgi_onnx__type__init(&f->types[i]);
    bgi_onnx__tensor_type__init(&f->tensor_types[i]);
    bgi_onnx__shape__init(&f->shapes[i]);
    for (uint32_t d = 0; d < rank; d++) {
        bgi_onnx__dimension__init(&f->dims[i][d]);
        f->dims[i][d].has_dim_value = 1;
        f->dims[i][d].dim_value = dims[d];
        f->dim_lists[i][d] = &f->dims[i][d];
    }
    f->shapes[i].n_dim = rank;
    f->shapes[i].dim = f->dim_lists[i];
    f->tensor_types[i].has_elem_type = 1;
    f->tensor_types[i].elem_type = element;
    f->tensor_types[i].shape = &f->shapes[i];
    f->types[i].tensor_type = &f->tensor_types[i];
    f->infos[i].name = name;
    f->infos[i].type = &f->types[i];
    f->info_list[i] = &f->infos[i];
}

static bg_onnx *parse_recurrence(recurrence_file *f, char *direction, int64_t directions)
{
    static char rnn[] = "RNN", names[4][8] = {"x", "w", "r", "lengths"}, none[] = "", attribute[] = "direction";
    const int64_t x[] = {3, 2, 1}, weights[] = {directions, 1, 1}, lengths[] = {2};

    memset(f, 0, sizeof *f);
    test_model_file_init(&f->base);
    describe_input(f, 0, names[0], BGI_ONNX_FLOAT, 3, x);
    describe_input(f, 1, names[1], BGI_ONNX_FLOAT, 3, weights);
    describe_input(f, 2, names[2], BGI_ONNX_FLOAT, 3, weights);
    describe_input(f, 3, names[3], BGI_ONNX_INT32, 1, lengths);
    for (int i = 0; i < 3; i++)
        f->inputs[i] = names[i];
    f->inputs[3] = none;
    f->inputs[4] = names[3];
    bgi_onnx__attribute__init(&f->direction);
    f->direction.name = attribute;
    f->direction.has_type = 1;
    f->direction.type = 3;
    f->direction.has_s = 1;
    f->direction.s = (ProtobufCBinaryData){strlen(direction), (uint8_t *)direction};
    f->attribute_list[0] = &f->direction;
    f->base.nodes[0].op_type = rnn;
    f->base.nodes[0].n_input = 5;
    f->base.nodes[0].input = f->inputs;
    f->base.nodes[0].attribute = f->attribute_list;
    f->base.graph.n_initializer = 0;
    f->base.graph.n_input = 4;
    f->base.graph.input = f->info_list;
    return parse(&f->base);
}

/* Each sequence is reversed within its own length. Results are stored at their time steps, and are 0 after the end. */
static void reversed_sequences_have_lengths(void **state)
{
    const double x[6] = {0.5, -1.0, 0.25, 0.75, 9.0, -0.5}, w[2] = {0.5, -1.5}, r[2] = {0.25, 0.75};
    const double lengths[2] = {2, 3}, nothing = 0.0;
    static char names[2][16] = {"reverse", "bidirectional"};

    (void)state;
    for (int64_t directions = 1; directions <= 2; directions++) {
        const bg_onnx_options options = bg_onnx_defaults();
        bgi_test_interpreter interpreter;
        const bg_onnx_contents *contents;
        recurrence_file file;
        bg_onnx *onnx = parse_recurrence(&file, names[directions - 1], directions);
        bg_graph *graph = NULL;
        double found[12];

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        if (bg_onnx_build(onnx, &options, graph, &error) != BG_OK)
            fail_msg("%s", error.message);
        contents = bg_onnx_contents_of(onnx);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, contents->inputs[0].value, x);
        bgi_test_set(&interpreter, contents->inputs[1].value, w);
        bgi_test_set(&interpreter, contents->inputs[2].value, r);
        bgi_test_set(&interpreter, contents->inputs[3].value, lengths);
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, contents->outputs[0].value, found); /* [3, directions, 2, 1], relu */
        for (int n = 0; n < 2; n++) {
            const int64_t last = directions - 1; /* the reversed direction */
            double h = 0.0;

            for (int t = 2; t >= 0; t--) {
                h = t < (int)lengths[n] ? tanh(w[last] * x[2 * t + n] + r[last] * h) : h;
                if (fabs(found[(t * directions + last) * 2 + n] - fmax(t < (int)lengths[n] ? h : nothing, 0.0)) > 1e-6)
                    fail_msg("%s, step %d of sequence %d is %g", names[last], t, n,
                             found[(t * directions + last) * 2 + n]);
            }
        }
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
        bg_onnx_destroy(onnx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_do_not_train),
        cmocka_unit_test(buffers_are_told_from_parameters),
        cmocka_unit_test(joined_weights_come_apart),
        cmocka_unit_test(branches_take_the_place_of_their_node),
        cmocka_unit_test(sizes_are_bound),
        cmocka_unit_test(fixed_values_are_folded),
        cmocka_unit_test(weights_train_as_options_say),
        cmocka_unit_test(refusals_are_told_at_once),
        cmocka_unit_test(reversed_sequences_have_lengths),
        cmocka_unit_test(blocks_are_scopes),
        cmocka_unit_test(weights_need_a_build),
        cmocka_unit_test(metadata_have_keys),
        cmocka_unit_test(metadata_survive_failed_allocations),
        cmocka_unit_test(metadata_are_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
