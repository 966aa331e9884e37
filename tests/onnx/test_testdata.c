/*
 * test_testdata.c: runs the models that ONNX publishes with inputs and outputs (Debian's libonnx-testdata). Supported
 * models give the published outputs, and the unsupported models and reasons are exactly those in unsupported.txt.
 * BRIGADE_ONNX_TABLE=FILE writes the table by operator to FILE, and BRIGADE_ONNX_LIST=FILE writes the list of
 * unsupported models. Without the package the tests are skipped.
 *
 * Inputs of a model are inputs of the graph. If shapes or numbers of steps depend on them, the test fixes the values of
 * integer and scalar inputs (bg_onnx_options.values), and if that is not enough, of all inputs.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/onnx.h>

#include "core/file.h"
#include "core/text.h"
#include "onnx/onnx.h"

#define DATA "/usr/share/libonnx-testdata/data"
enum { TENSORS = 32, PATH = 512, REASON = 512 };
static const double relative = 1e-3, absolute = 1e-7;
static const char *const folders[] = {"node", "simple", "pytorch-operator", "pytorch-converted"};

typedef enum verdict { PASSED, UNSUPPORTED, FAILED } verdict;

/* The outcome for a model. */
typedef struct outcome {
    char model[160], op[64], reason[REASON];
    verdict verdict;
    unsigned fixed; /* 0: no input is fixed; 1: integers and scalars are fixed; 2: all inputs are fixed */
} outcome;

static outcome outcomes[2048];
static size_t outcome_count;

/* ---- tensors of the data ---- */

typedef struct tensors {
    const bgi_tensor *list[TENSORS];
    uint32_t count;
    bgi_arena arena;
} tensors;

/* Reads input_0.pb, input_1.pb, ...; returns false if one of them is not a tensor. */
static bool read_tensors(const bg_onnx *onnx, const char *folder, const char *kind, tensors *out)
{
    for (out->count = 0; out->count < TENSORS; out->count++) {
        char path[PATH], *content;
        BgiOnnx__Tensor *tensor;
        bg_error error = {0};
        bg_status status;
        size_t size;

        snprintf(path, sizeof path, "%.400s/%s_%u.pb", folder, kind, out->count);
        if (bgi_file_load(path, (size_t)1 << 30, &content, &size, NULL) != BG_OK)
            return true;
        tensor = bgi_onnx__tensor__unpack(NULL, size, (const uint8_t *)content);
        free(content);
        if (tensor == NULL)
            return false;
        status = bgi_onnx_tensor_load(onnx, tensor, &out->arena, &out->list[out->count], &error);
        bgi_onnx__tensor__free_unpacked(tensor, NULL);
        if (status != BG_OK)
            return false;
    }
    return true;
}

/* Converts data that are bfloat16 in the model but stored as uint16 with the same bits. */
static void restore_bfloat16(tensors *t, const bg_onnx_port *ports, uint32_t count)
{
    for (uint32_t i = 0; i < t->count && i < count; i++) {
        bgi_tensor *made;

        if (strcmp(ports[i].element, "bfloat16") != 0 || t->list[i]->element != BGI_ONNX_UINT16)
            continue;
        made = bgi_tensor_make(&t->arena, BGI_ONNX_BFLOAT16, t->list[i]->rank, t->list[i]->dims);
        for (int64_t k = 0; k < made->count; k++)
            ((uint16_t *)made->data)[k] = (uint16_t)bgi_tensor_int(t->list[i], k);
        t->list[i] = made;
    }
}

static bool is_close(const bgi_tensor *a, const bgi_tensor *b, int64_t i)
{
    const double x = bgi_tensor_real(a, i), y = bgi_tensor_real(b, i);

    if (!bg_dtype_is_float(b->dtype))
        return bgi_tensor_int(a, i) == bgi_tensor_int(b, i);
    if (isnan(y) || isinf(y))
        return isnan(y) ? isnan(x) : x == y;
    /* Published bfloat16 data were truncated but conversions round, so results may differ by one unit in the last
     * place.
     */
    return fabs(x - y) <= absolute + (b->dtype == BG_BFLOAT16 ? 0x1p-7 : relative) * fabs(y);
}

/* ---- one run ---- */

/* Compares an output with the published one; the reason of a failure is the first mismatch. */
static bool compare(const bg_onnx_port *port, const void *data, const bgi_tensor *wanted, char *reason)
{
    const bgi_tensor got = {.element = wanted->element, .dtype = port->type.dtype, .data = (void *)(uintptr_t)data};
    char text[BG_TYPE_TEXT_BYTES];

    if (strcmp(port->element, bgi_onnx_element_name(wanted->element)) != 0 || port->type.rank != wanted->rank ||
        memcmp(port->type.dims, wanted->dims, wanted->rank * sizeof wanted->dims[0]) != 0) {
        snprintf(reason, REASON, "output `%.40s` is %s of %s, the file's is %s of %u dimensions", port->name,
                 port->element, bg_type_text(&port->type, text), bgi_onnx_element_name(wanted->element), wanted->rank);
        return false;
    }
    for (int64_t i = 0; i < wanted->count; i++)
        if (!is_close(&got, wanted, i)) {
            snprintf(reason, REASON, "output `%.40s`, element %lld: %.9g, the file's is %.9g", port->name, (long long)i,
                     bgi_tensor_real(&got, i), bgi_tensor_real(wanted, i));
            return false;
        }
    return true;
}

static bg_status run_session(const bg_onnx_contents *contents, bg_session *session, const tensors *inputs,
                             const tensors *outputs, verdict *verdict_out, char *reason, bg_error *error)
{
    const void *ins[TENSORS] = {0};
    void *outs[TENSORS] = {0};
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < contents->input_count && i < inputs->count; i++) {
        const uint32_t place = bg_session_find_input(session, contents->inputs[i].name);

        if (place != UINT32_MAX)
            ins[place] = inputs->list[i]->data;
    }
    for (uint32_t i = 0; i < contents->output_count; i++) {
        const uint32_t place = bg_session_find_output(session, contents->outputs[i].name);

        if (place != UINT32_MAX)
            outs[place] = calloc(1, bg_type_size_bytes(&contents->outputs[i].type) + 1);
    }
    status = bg_session_run(session, ins, outs, error);
    *verdict_out = PASSED;
    for (uint32_t i = 0; i < contents->output_count && status == BG_OK && *verdict_out == PASSED; i++) {
        const uint32_t place = bg_session_find_output(session, contents->outputs[i].name);

        if (place == UINT32_MAX || !compare(&contents->outputs[i], outs[place], outputs->list[i], reason))
            *verdict_out = FAILED;
    }
    for (uint32_t i = 0; i < TENSORS; i++)
        free(outs[i]);
    return status;
}

static bg_status run_graph(bg_onnx *onnx, bg_graph *graph, const tensors *inputs, const tensors *outputs,
                           verdict *verdict_out, char *reason, bg_error *error)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(onnx);
    bg_options options = bg_options_defaults();
    bg_weights *weights = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_status status;

    options.execution.cores = 1;
    for (uint32_t i = 0; i < contents->output_count; i++)
        bg_graph_output(graph, contents->outputs[i].name, contents->outputs[i].value);
    BGI_TRY_CLEANUP(bg_weights_create(&weights, error));
    BGI_TRY_CLEANUP(bg_onnx_set_weights(onnx, weights, error));
    BGI_TRY_CLEANUP(bg_plan_create_inference(graph, &options, &plan, error));
    BGI_TRY_CLEANUP(bg_session_create(plan, weights, &session, error));
    BGI_TRY_CLEANUP(run_session(contents, session, inputs, outputs, verdict_out, reason, error));
cleanup:
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_weights_destroy(weights);
    return status;
}

/* Sets dimensions to those of the data, and the values of fixed inputs. */
static uint32_t bind(const bg_onnx_contents *contents, const tensors *inputs, unsigned fixed, bg_onnx_options *options,
                     bg_onnx_size *sizes, char (*names)[160], bg_onnx_fixed *values)
{
    uint32_t live = 0;

    options->mode = BG_ONNX_AS_WRITTEN;
    for (uint32_t i = 0; i < contents->input_count && i < inputs->count; i++) {
        const bg_onnx_port *port = &contents->inputs[i];
        const bgi_tensor *tensor = inputs->list[i];
        const bool is_number = !bg_dtype_is_float(tensor->dtype) || tensor->count <= 1;
        /* The first dimension of inputs of a graph is that of the samples. */
        const bool is_other =
            i > 0 && tensor->rank > 0 && inputs->list[0]->rank > 0 && tensor->dims[0] != inputs->list[0]->dims[0];

        if (tensor->count == 0 || fixed == 2 || is_other || (fixed == 1 && i > 0 && is_number)) {
            values[options->value_count++] =
                (bg_onnx_fixed){.input = port->name,
                                .type = bg_type_make(tensor->dtype, tensor->rank, tensor->dims),
                                .data = tensor->data};
            continue;
        }
        live++;
        for (uint32_t d = 0; d < tensor->rank; d++)
            if (!port->has_shape || port->dims[d].size < 0) {
                snprintf(names[options->size_count], sizeof names[0], "%s:%u", port->name, d);
                sizes[options->size_count] = (bg_onnx_size){names[options->size_count], tensor->dims[d]};
                options->size_count++;
            }
    }
    options->sizes = sizes;
    options->values = values;
    return live;
}

static void run_fixed(bg_onnx *onnx, const tensors *inputs, const tensors *outputs, unsigned fixed, outcome *out)
{
    static char names[TENSORS * BG_MAX_RANK][160];
    bg_onnx_size sizes[TENSORS * BG_MAX_RANK];
    bg_onnx_fixed values[TENSORS];
    bg_onnx_options options = bg_onnx_defaults();
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_status status;

    bind(bg_onnx_contents_of(onnx), inputs, fixed, &options, sizes, names, values);
    out->fixed = fixed;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    status = bg_onnx_build(onnx, &options, graph, &error);
    if (status != BG_OK) {
        out->verdict = status == BG_ERROR_UNSUPPORTED || status == BG_ERROR_SHAPE ? UNSUPPORTED : FAILED;
        if (bg_onnx_contents_of(onnx)->problem_count > 0) {
            const bg_onnx_problem *problem = bg_onnx_contents_of(onnx)->problems;

            snprintf(out->reason, REASON, "%s%s%.300s", problem->op, problem->op[0] != '\0' ? ": " : "",
                     problem->reason);
        } else {
            snprintf(out->reason, REASON, "%.400s", error.message);
        }
    } else {
        status = run_graph(onnx, graph, inputs, outputs, &out->verdict, out->reason, &error);
        if (status != BG_OK) {
            out->verdict = FAILED;
            snprintf(out->reason, REASON, "it was built, and then: %.400s", error.message);
        }
    }
    bg_graph_destroy(graph);
}

/* ---- one model ---- */

static void note_op(const bg_onnx *onnx, outcome *out)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(onnx);
    const char *op = "none";

    for (uint32_t i = 0; i < contents->node_count; i++)
        if (strcmp(contents->nodes[i].op, "Constant") != 0) {
            op = contents->nodes[i].op;
            break;
        }
    snprintf(out->op, sizeof out->op, "%s", op);
}

static void run_model(const char *folder, outcome *out)
{
    char path[PATH];
    bg_error error = {0};
    bg_onnx *onnx = NULL;

    out->verdict = UNSUPPORTED;
    snprintf(out->op, sizeof out->op, "none");
    snprintf(path, sizeof path, "%.400s/model.onnx", folder);
    if (bg_onnx_open(path, &onnx, &error) != BG_OK) {
        if (error.status != BG_ERROR_UNSUPPORTED)
            out->verdict = FAILED;
        snprintf(out->reason, REASON, "%.400s",
                 error.message + (strncmp(error.message, path, strlen(path)) == 0 ? strlen(path) + 2 : 0));
        return;
    }
    note_op(onnx, out);
    for (unsigned set = 0; set < 8; set++) {
        tensors inputs = {0}, outputs = {0};

        snprintf(path, sizeof path, "%.400s/test_data_set_%u", folder, set);
        if (access(path, F_OK) != 0)
            break;
        if (!read_tensors(onnx, path, "input", &inputs) || !read_tensors(onnx, path, "output", &outputs)) {
            snprintf(out->reason, REASON, "its data are no tensors of numbers (sequences, optional values, strings)");
        } else if (outputs.count < bg_onnx_contents_of(onnx)->output_count) {
            snprintf(out->reason, REASON, "its data have fewer outputs than the model");
        } else {
            restore_bfloat16(&inputs, bg_onnx_contents_of(onnx)->inputs, bg_onnx_contents_of(onnx)->input_count);
            restore_bfloat16(&outputs, bg_onnx_contents_of(onnx)->outputs, bg_onnx_contents_of(onnx)->output_count);
            for (unsigned fixed = 0; fixed < 3; fixed++) {
                run_fixed(onnx, &inputs, &outputs, fixed, out);
                if (out->verdict != UNSUPPORTED)
                    break;
            }
        }
        bgi_arena_clear(&inputs.arena);
        bgi_arena_clear(&outputs.arena);
        if (out->verdict != PASSED)
            break;
    }
    bg_onnx_destroy(onnx);
}

static int order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Runs the models of one folder; returns how many failed. */
static unsigned run_folder(const char *kind)
{
    struct dirent **entries;
    char path[PATH];
    unsigned failed = 0;
    int count;

    snprintf(path, sizeof path, DATA "/%s", kind);
    count = scandir(path, &entries, NULL, order);
    if (count < 0) {
        print_message("skipped: %s is not there (Debian's libonnx-testdata)\n", path);
        skip();
    }
    for (int i = 0; i < count; i++) {
        outcome *out = &outcomes[outcome_count];

        if (strncmp(entries[i]->d_name, "test_", 5) == 0) {
            snprintf(out->model, sizeof out->model, "%s/%.100s", kind, entries[i]->d_name);
            snprintf(path, sizeof path, DATA "/%s", out->model);
            run_model(path, out);
            outcome_count++;
            if (out->verdict == FAILED) {
                print_message("failed: %s: %s\n", out->model, out->reason);
                failed++;
            }
        }
        free(entries[i]);
    }
    free(entries);
    return failed;
}

/* ---- results ---- */

static int by_op(const void *a, const void *b)
{
    const outcome *x = a, *y = b;
    const int order_of_ops = strcmp(x->op, y->op);

    return order_of_ops != 0 ? order_of_ops : strcmp(x->model, y->model);
}

static void write_table(const char *path)
{
    FILE *file = fopen(path, "w");
    unsigned sums[4] = {0};

    assert_non_null(file);
    qsort(outcomes, outcome_count, sizeof outcomes[0], by_op);
    fprintf(file, "| Operator | Passed | of these with fixed inputs | Unsupported | Failed |\n|---|---|---|---|---|\n");
    for (size_t i = 0, end; i < outcome_count; i = end) {
        unsigned counts[4] = {0};

        for (end = i; end < outcome_count && strcmp(outcomes[end].op, outcomes[i].op) == 0; end++) {
            counts[outcomes[end].verdict]++;
            counts[3] += outcomes[end].verdict == PASSED && outcomes[end].fixed > 0;
        }
        fprintf(file, "| %s | %u | %u | %u | %u |\n", outcomes[i].op, counts[PASSED], counts[3], counts[UNSUPPORTED],
                counts[FAILED]);
        for (int k = 0; k < 4; k++)
            sums[k] += counts[k];
    }
    fprintf(file, "| all %zu | %u | %u | %u | %u |\n", outcome_count, sums[PASSED], sums[3], sums[UNSUPPORTED],
            sums[FAILED]);
    fclose(file);
}

/* Returns a text with a line "node/test_x: reason" for each unsupported model. */
static char *list_of_refusals(void)
{
    bgi_string text = {0};
    char *out = NULL;

    for (size_t i = 0; i < outcome_count; i++)
        if (outcomes[i].verdict == UNSUPPORTED)
            bgi_string_add(&text, "%s: %s\n", outcomes[i].model, outcomes[i].reason);
    assert_int_equal(bgi_string_finish(&text, &out, NULL), BG_OK);
    return out;
}

static void no_model_fails(void **state)
{
    unsigned failed = 0, passed = 0;

    (void)state;
    outcome_count = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        failed += run_folder(folders[i]);
    for (size_t i = 0; i < outcome_count; i++)
        passed += outcomes[i].verdict == PASSED;
    print_message("%u of %zu models passed\n", passed, outcome_count);
    assert_int_equal(failed, 0);
}

static void refusals_are_those_of_the_list(void **state)
{
    char *content, *list;
    size_t size;

    (void)state;
    if (outcome_count == 0)
        skip();
    list = list_of_refusals();
    if (getenv("BRIGADE_ONNX_LIST") != NULL)
        assert_int_equal(bgi_file_save(getenv("BRIGADE_ONNX_LIST"), list, strlen(list), NULL), BG_OK);
    if (getenv("BRIGADE_ONNX_TABLE") != NULL)
        write_table(getenv("BRIGADE_ONNX_TABLE"));
    assert_int_equal(bgi_file_load("tests/onnx/unsupported.txt", (size_t)1 << 20, &content, &size, NULL), BG_OK);
    assert_string_equal(list, content);
    free(content);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_model_fails),
        cmocka_unit_test(refusals_are_those_of_the_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
