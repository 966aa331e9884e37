/*
 * test_zoo.c: tests every op that a model can have, with its gradient, over random shapes and attributes. Each op must
 * have a fast kernel for each type and instruction set, and derivatives that agree with central differences in float64.
 * Attributes of any bytes must not cause a crash.
 *
 * A new op needs a function in zoo.h; without it, the first test fails and names the op.
 */
#include "ops/zoo.h"

#include <math.h>

#include "core/arena.h"
#include "core/narrow.h"
#include "kernels/cpu/variant.h"
#include "kernels/pool/attributes.h"
#include "support/interpret.h"

static zoo create(int animal, int kind, bg_dtype dtype, uint64_t seed, bg_value *out)
{
    const zoo z = create_graph(animal, kind, dtype, seed, out);
    bg_error error = {0};

    if (bg_graph_check(z.graph, &error) != BG_OK)
        fail_msg("%s %d, seed %d: %s", animals[animal].name, kind, (int)seed, error.message);
    return z;
}

/* ---- kernels ---- */

/* Ops that only plans add, or that need a mesh, replicas or a remote buffer, have their own tests. */
static const bg_op_type *const elsewhere[] = {
    &bgi_op_linear_backward_weights_accumulate,
    &bgi_op_matmul_accumulate,
    &bgi_op_fused_product,
    &bgi_op_quantized_linear,
    &bgi_op_quantized_embedding,
    &bgi_op_fused_conv2d,
    &bgi_op_copy,
    &bgi_op_accumulate,
    &bgi_op_accumulate_tree,
    &bgi_op_scaled_sum,
    &bgi_op_sgd_update,
    &bgi_op_adam_update,
    &bgi_op_rmsprop_update,
    &bgi_op_lamb_moments,
    &bgi_op_lamb_update,
    &bgi_op_total_scale,
    &bgi_op_running_factors,
    &bgi_op_square_sum,
    &bgi_op_gradient_norm,
    &bgi_op_clip_scale,
    &bgi_op_range_count,
    &bgi_op_loss_scale,
    &bgi_op_loss_guard,
    &bgi_op_conv2d_backward_weights_accumulate,
    &bgi_op_conv2d_pool,
    &bgi_op_conv2d_pool_backward_input,
    &bgi_op_conv2d_pool_backward_weights,
    &bgi_op_conv2d_pool_backward_weights_accumulate,
    &bgi_op_fused_batch_norm,
    &bgi_op_fused_batch_norm_backward,
    &bgi_op_batch_norm_moments,
    &bgi_op_sync_batch_norm,
    &bgi_op_batch_norm_gradient_sums,
    &bgi_op_sync_batch_norm_backward,
    &bgi_op_embedding_slots,
    &bgi_op_embedding_rows,
    &bgi_op_embedding_rows_add,
    &bgi_op_remote_load,
    &bgi_op_remote_store,
    &bgi_op_all_reduce,
    &bgi_op_all_gather,
    &bgi_op_reduce_scatter,
    &bgi_op_identical_inputs,
    &bgi_op_norm_sums,
    &bgi_op_sharded_norm,
    &bgi_op_norm_gradient_sums,
    &bgi_op_sharded_norm_backward,
    &bgi_op_logit_maximum,
    &bgi_op_logit_sums,
    &bgi_op_sharded_cross_entropy,
};

static const bg_op_type *const all_types[] = {
#define TYPE(name) &bgi_op_##name,
    BGI_OP_TYPES(TYPE)
#undef TYPE
};

enum { TYPES = sizeof all_types / sizeof *all_types };

/* Returns whether the op computes in the type: whether one of its operands or its first result has the type. */
static bool works_in(const bg_graph *graph, const bgi_op *op, bg_dtype dtype)
{
    for (uint32_t i = 0; i < op->input_count; i++)
        if (bgi_graph_value(graph, op->inputs[i])->type.dtype == dtype)
            return true;
    return op->outputs[0].id != 0 && bgi_graph_value(graph, op->outputs[0])->type.dtype == dtype;
}

static const struct {
    bg_kernel_policy policy;
    bgi_isa isa;
    const char *suffix;
} sets[] = {{BG_KERNELS_PORTABLE, BGI_ISA_PORTABLE, ".portable"},
            {BG_KERNELS_NEON, BGI_ISA_NEON, ".neon"},
            {BG_KERNELS_AVX2, BGI_ISA_AVX2, ".avx2"},
            {BG_KERNELS_AVX512, BGI_ISA_AVX512, ".avx512"}};
enum { SETS = sizeof sets / sizeof sets[0] };
static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16};

/* For each op type, the element types in which it occurred, and the types and instruction sets for which it had a fast
 * kernel for some shape. */
typedef struct record {
    bool is_met, is_met_as[3], is_fast[3][SETS];
} record;

static void look(const bg_graph *graph, int d, record *records)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (int t = 0; t < TYPES; t++) {
            const bgi_op *op = &graph->ops[o];

            if (all_types[t] != op->type)
                continue;
            records[t].is_met = true;
            if (!works_in(graph, op, dtypes[d]))
                continue;
            records[t].is_met_as[d] = true;
            for (int s = 0; s < SETS; s++)
                if (bgi_isa_includes(bgi_cpu_isa(), sets[s].isa) && is_fast(graph, op, sets[s].policy, sets[s].suffix))
                    records[t].is_fast[d][s] = true;
        }
}

static void report(const record *records)
{
    char missing[4096] = "";
    size_t length = 0;

    for (int t = 0; t < TYPES; t++)
        for (int d = 0; d < 3; d++)
            for (int s = 0; s < SETS; s++) {
                if (!bgi_isa_includes(bgi_cpu_isa(), sets[s].isa) || records[t].is_fast[d][s] ||
                    !records[t].is_met_as[d])
                    continue;
                if (length < sizeof missing - 100)
                    length += (size_t)snprintf(missing + length, sizeof missing - length, " %s %s%s;",
                                               all_types[t]->name, bg_dtype_name(dtypes[d]), sets[s].suffix);
            }
    if (length > 0)
        fail_msg("missing fast kernels:%s", missing);
}

static void test_every_op_has_its_kernels(void **state)
{
    static record records[TYPES];

    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++)
            for (int d = 0; d < 3; d++)
                for (uint64_t round = 1; round <= 2; round++) {
                    bg_value value, seed, gradients[MOST_PARAMETERS];
                    zoo z = create(a, kind, dtypes[d], round, &value);

                    derive(&z, value, &seed, gradients);
                    look(z.graph, d, records);
                    bg_graph_destroy(z.graph);
                }
    report(records);
    for (int t = 0; t < TYPES; t++) {
        bool is_elsewhere = false;

        for (size_t e = 0; e < sizeof elsewhere / sizeof *elsewhere; e++)
            is_elsewhere = is_elsewhere || elsewhere[e] == all_types[t];
        if (records[t].is_met == is_elsewhere)
            fail_msg("%s: it is %s", all_types[t]->name,
                     is_elsewhere ? "here and elsewhere" : "neither here nor elsewhere");
    }
}

/* ---- gradients ---- */

static double sum_products(const bgi_test_interpreter *interpreter, bg_value value, bg_value seed)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);
    double sum = 0.0;

    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        sum += bgi_load(type.dtype, bgi_test_data(interpreter, value), i) *
               bgi_load(type.dtype, bgi_test_data(interpreter, seed), i);
    return sum;
}

/* Compares gradients with central differences, for which it changes some elements of each operand up and down. */
static void check_differences(zoo *z, bg_value value, bg_value seed, const bg_value *gradients, const char *what)
{
    const double step = 1e-5;
    bgi_test_interpreter interpreter;

    bgi_test_interpreter_init(&interpreter, z->graph);
    interpreter.env.training = true;
    for (uint32_t v = 1; v < z->graph->value_count; v++) {
        const bgi_value *leaf = &z->graph->values[v];

        for (int64_t i = 0; leaf->kind == BGI_VALUE_VARIABLE && i < bg_type_element_count(&leaf->type); i++)
            bgi_store(leaf->type.dtype, bgi_test_data(&interpreter, (bg_value){v}), i,
                      z->low + (z->high - z->low) * (double)draw(z, 0, 1000000) * 1e-6);
    }
    for (uint32_t p = 0; p < z->count; p++) {
        const bg_type type = bg_graph_type(z->graph, z->parameters[p]);
        const int64_t count = bg_type_element_count(&type);

        for (int round = 0; round < 3; round++) {
            const int64_t at = draw(z, 0, count - 1);
            double *data = bgi_test_data(&interpreter, z->parameters[p]), found = 0.0, sums[2], numeric;
            const double before = data[at];

            for (int side = 0; side < 2; side++) {
                data[at] = before + (side == 0 ? step : -step);
                bgi_test_interpret(&interpreter);
                sums[side] = sum_products(&interpreter, value, seed);
            }
            data[at] = before;
            bgi_test_interpret(&interpreter);
            if (!bg_value_is_null(gradients[p]))
                found = ((const double *)bgi_test_data(&interpreter, gradients[p]))[at];
            numeric = (sums[0] - sums[1]) / (2.0 * step);
            if (!(fabs(numeric - found) <= 2e-6 + 2e-4 * fabs(numeric)))
                fail_msg("%s: d operand %u [%lld] is %.9g, by differences %.9g", what, p, (long long)at, found,
                         numeric);
        }
    }
    bgi_test_interpreter_clear(&interpreter);
}

static bool is_quick(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL;
}

static void test_every_gradient_is_a_derivative(void **state)
{
    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++)
            for (uint64_t seed = 1; seed <= (is_quick() ? 1 : 4); seed++) {
                bg_value value, weights, gradients[MOST_PARAMETERS] = {{0}};
                zoo z = create(a, kind, BG_FLOAT64, seed, &value);
                char what[64];

                snprintf(what, sizeof what, "%s %d, seed %d", animals[a].name, kind, (int)seed);
                /* ops that compute in float32 cannot resolve such small differences; stopped gradients, caches and
                 * counts have no gradient */
                if (!(animals[a].build == elements && (kind == 1 || kind == 5 || kind == 7)) &&
                    !(animals[a].build == attention && kind >= 4) && !(animals[a].build == loss && kind == 9) &&
                    derive(&z, value, &weights, gradients))
                    check_differences(&z, value, weights, gradients, what);
                bg_graph_destroy(z.graph);
            }
}

/* ---- attributes of any bytes, for ops that a caller adds and for their gradients ---- */

/* Returns whether a graph accepts the types and they fit in memory, because kernels read each element along an axis. */
static bool are_types(const bg_type *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (types[i].dtype != BG_DTYPE_NONE &&
            (bg_type_validate(&types[i], NULL) != BG_OK || bg_type_element_count(&types[i]) > 1 << 24))
            return false;
    return true;
}

static bool is_pool(const bg_op_type *type)
{
    return type == &bgi_op_max_pool2d || type == &bgi_op_avg_pool2d || type == &bgi_op_max_pool2d_backward ||
           type == &bgi_op_avg_pool2d_backward;
}

static void fuzz(zoo *z, const bgi_op *op, int rounds)
{
    const size_t bytes = op->type->attributes_bytes;
    bg_type types[64], outputs[64];
    unsigned char *attributes = malloc(bytes + 1);

    assert_non_null(attributes);
    for (int round = 0; round < rounds; round++) {
        bg_op_signature signature = bgi_op_signature(z->graph, op, types);
        bg_kernel kernel = {0};
        bg_error error = {0};

        memcpy(attributes, op->attributes, bytes);
        for (int64_t changes = draw(z, 1, 3); changes > 0; changes--) {
            static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 0xf0};

            attributes[draw(z, 0, (int64_t)bytes - 1)] =
                draw(z, 0, 1) ? values[draw(z, 0, 7)] : (unsigned char)draw(z, 0, 255);
        }
        if (is_pool(op->type)) { /* a bool has only these values; the backward's attributes begin with the forward's */
            bg_pool2d_options *options = &((bgi_pool2d_attributes *)(void *)attributes)->options;

            *(unsigned char *)&options->ceil_mode &= 1;
            *(unsigned char *)&options->count_include_pad &= 1;
        }
        signature.attributes = attributes;
        memset(outputs, 0, sizeof outputs);
        if (op->type->infer(&signature, outputs, &error) != BG_OK) {
            assert_true(error.message[0] != '\0');
            continue;
        }
        if (!are_types(outputs, op->output_count)) /* a plan for these shapes cannot be made */
            continue;
        for (uint32_t i = 0; i < op->output_count; i++)
            types[op->input_count + i] = outputs[i];
        if (op->type->cost != NULL)
            op->type->cost(&signature);
        if (op->type->kernel != NULL)
            op->type->kernel(&signature, BG_KERNELS_FAST, &kernel, &error);
    }
    free(attributes);
}

static void test_any_attributes_are_judged(void **state)
{
    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++) {
            bg_value value, weights, gradients[MOST_PARAMETERS] = {{0}};
            zoo z = create(a, kind, BG_FLOAT32, 5, &value);

            derive(&z, value, &weights, gradients);
            for (size_t o = 0; o < z.graph->op_count; o++)
                if (z.graph->ops[o].type->attributes_bytes > 0)
                    fuzz(&z, &z.graph->ops[o], is_quick() ? 20 : 200);
            bg_graph_destroy(z.graph);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_its_kernels),
        cmocka_unit_test(test_every_gradient_is_a_derivative),
        cmocka_unit_test(test_any_attributes_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
