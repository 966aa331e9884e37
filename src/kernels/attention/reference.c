/*
 * reference.c: multi-head attention in plain C, one score at a time, so no array of size S x S is stored. For sample n,
 * head h, query i (operands as in attributes.h; D: the width of a head):
 *
 *     s_ij = scale q_i . k_j + b_ij  for the keys j that i may see; b_ij: the bias minus the slope times the distance
 *     lse_i = log sum_j exp(s_ij)
 *     p_ij = exp(s_ij - lse_i)
 *     y_i = sum_j m_ij p_ij v_j      m_ij: the dropout factor, 0 or 1 / (1 - probability)
 *
 * Backward, with g_i = dy_i . y_i, which is sum_j p_ij m_ij dy_i . v_j:
 *
 *     ds_ij = p_ij (m_ij dy_i . v_j - g_i)
 *     dq_i = scale sum_j ds_ij k_j     dk_j = scale sum_i ds_ij q_i     dv_j = sum_i m_ij p_ij dy_i
 */
#include "kernels/kernels.h"

#include <brigade/random.h>

#include "kernels/attention/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

enum { COLUMNS = 64 }; /* sums in double are kept for this many columns at a time */

/* Row `token` of a head begins at element start + token x stride. */
typedef struct rows_of {
    const void *data;
    int64_t start, stride;
} rows_of;

/* The operands of a call, in packed or separate form. In the packed form, qkv holds queries, keys and values. */
typedef struct operands_of {
    const void *inputs[3];
    const void *dy, *y, *log_sums;
    bg_dtype log_sums_dtype;
    void *gradients[3];
    const bg_type *bias_type; /* NULL: no bias */
    const void *bias;
} operands_of;

/* One head of one sample: its rows, and its random numbers. */
typedef struct head_of {
    const bg_kernel_call *call;
    const bgi_attention_attributes *attributes;
    const operands_of *operands;
    bg_dtype dtype;
    bool is_packed;
    rows_of rows[3];             /* queries, keys, values */
    rows_of results;             /* y and dy, without data */
    int64_t depth, length, keys; /* D, S, T */
    int64_t index;               /* the head's */
    int64_t group;               /* heads that share keys and values */
    int64_t sample;              /* index of the sample in the micro-batch */
    uint32_t global_sample;
    double slope;
} head_of;

static double load_input(const head_of *head, int which, int64_t token, int64_t d)
{
    const rows_of *rows = &head->rows[which];

    return bgi_load(head->dtype, rows->data, rows->start + token * rows->stride + d);
}

/* Returns the index in y and dy of element `d` of a token. */
static int64_t column_of(const head_of *head, int64_t token, int64_t d)
{
    return head->results.start + token * head->results.stride + d;
}

static int64_t first_key(const head_of *head, int64_t query)
{
    return bgi_attention_first_key(head->attributes, query);
}

static int64_t end_key(const head_of *head, int64_t query)
{
    return bgi_attention_end_key(head->attributes, query, head->keys);
}

static bool sees(const head_of *head, int64_t query, int64_t key)
{
    return key >= first_key(head, query) && key < end_key(head, query);
}

static double find_bias(const head_of *head, int64_t query, int64_t key)
{
    const bg_type *type = head->operands->bias_type;
    double bias = 0.0;

    if (type != NULL) {
        bias = bgi_load(type->dtype, head->operands->bias,
                        bgi_attention_bias_start(type, head->sample, head->index) +
                            query * bgi_attention_bias_stride(type) + key);
        if (type->dtype == BG_UINT8)
            bias = bias != 0.0 ? 0.0 : -INFINITY;
    }
    return head->slope == 0.0 ? bias : bias - head->slope * fabs((double)(query + head->attributes->offset - key));
}

static double compute_score(const head_of *head, int64_t query, int64_t key)
{
    double sum = 0.0;

    for (int64_t d = 0; d < head->depth; d++)
        sum += load_input(head, 0, query, d) * load_input(head, 1, key, d);
    return sum * head->attributes->scale + find_bias(head, query, key);
}

/* Returns the dropout factor m_ij. */
static double find_factor(const head_of *head, int64_t query, int64_t key)
{
    const bgi_attention_attributes *attributes = head->attributes;
    const bg_kernel_env *env = head->call->env;
    const uint32_t philox_key[2] = {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)};
    const int64_t blocks = (head->keys + 3) / 4;
    uint32_t words[4];

    if (!env->training || attributes->probability == 0.0)
        return 1.0;
    bg_philox(
        (const uint32_t[]){
            (uint32_t)((bgi_attention_head(env, attributes, head->index) * head->length + query) * blocks + key / 4),
            head->global_sample, attributes->random_id, (uint32_t)env->step},
        philox_key, words);
    return words[key % 4] * 0x1p-32 >= attributes->probability ? 1.0 / (1.0 - attributes->probability) : 0.0;
}

typedef void (*head_function)(const head_of *head, int64_t statistics);

/* Calls `function` for each head of each sample; its argument `statistics` is the index of the head's first row in
 * log_sum_exp [N, heads, S]. */
static void for_each_packed_head(const bg_kernel_call *call, uint32_t qkv, const operands_of *operands,
                                 head_function function)
{
    const bgi_attention_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, qkv);
    const int64_t width = type->dims[type->rank - 1] / 3, length = attributes->sequence_length;
    const int64_t samples = bg_type_element_count(type) / (3 * width * length), depth = width / attributes->heads;

    for (int64_t n = 0; n < samples; n++)
        for (int64_t h = 0; h < attributes->heads; h++) {
            head_of head = {.call = call,
                            .attributes = attributes,
                            .operands = operands,
                            .dtype = type->dtype,
                            .is_packed = true,
                            .results = {NULL, n * length * width + h * depth, width},
                            .depth = depth,
                            .length = length,
                            .keys = length,
                            .index = h,
                            .group = 1,
                            .sample = n,
                            .global_sample = call->env->micro_batch * (uint32_t)samples + (uint32_t)n};

            for (int which = 0; which < 3; which++)
                head.rows[which] =
                    (rows_of){operands->inputs[which], (n * length * 3 + which) * width + h * depth, 3 * width};
            function(&head, (n * attributes->heads + h) * length);
        }
}

/* Finds head `h` of sample `n`; input `q` has the queries, and the following inputs have the keys and values. */
static head_of find_head_apart(const bg_kernel_call *call, uint32_t q, const operands_of *operands, int64_t n,
                               int64_t h)
{
    const bgi_attention_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, q);
    const int64_t width = type->dims[2], length = type->dims[1], keys = bgi_input_type(call, q + 1)->dims[1];
    const int64_t depth = width / attributes->heads, group = attributes->heads / attributes->key_heads;
    head_of head = {.call = call,
                    .attributes = attributes,
                    .operands = operands,
                    .dtype = type->dtype,
                    .rows = {{operands->inputs[0], n * length * width + h * depth, width}},
                    .results = {NULL, n * length * width + h * depth, width},
                    .depth = depth,
                    .length = length,
                    .keys = keys,
                    .index = h,
                    .group = group,
                    .sample = n,
                    .global_sample = call->env->micro_batch * (uint32_t)type->dims[0] + (uint32_t)n,
                    .slope = bgi_attention_slope(attributes, h)};

    for (int which = 1; which < 3; which++)
        head.rows[which] =
            (rows_of){operands->inputs[which], (n * keys * attributes->key_heads + h / group) * depth, width / group};
    return head;
}

static void for_each_head_apart(const bg_kernel_call *call, uint32_t q, const operands_of *operands,
                                head_function function)
{
    const bgi_attention_attributes *attributes = call->attributes;

    for (int64_t n = 0; n < bgi_input_type(call, q)->dims[0]; n++)
        for (int64_t h = 0; h < attributes->heads; h++) {
            const head_of head = find_head_apart(call, q, operands, n, h);
            function(&head, (n * attributes->heads + h) * head.length);
        }
}

/* Returns the operands of a call with separate inputs: queries, keys and values are inputs q, q + 1 and q + 2; the
 * bias, if any, is input `bias`. */
static operands_of find_operands_apart(const bg_kernel_call *call, uint32_t q, uint32_t bias)
{
    operands_of operands = {.inputs = {call->operands[q], call->operands[q + 1], call->operands[q + 2]}};

    if (bias < call->input_count && bgi_input_type(call, bias)->dtype != BG_DTYPE_NONE) {
        operands.bias_type = bgi_input_type(call, bias);
        operands.bias = call->operands[bias];
    }
    return operands;
}

/* ---- forward ---- */

/* Returns the log_sum_exp of a query. In the separate form, it is minus infinity if the query sees no key. (In the
 * packed form, each query sees itself.) */
static double compute_log_sum(const head_of *head, int64_t query)
{
    double maximum = -INFINITY, sum = 0.0;

    for (int64_t key = first_key(head, query); key < end_key(head, query); key++) {
        const double score = compute_score(head, query, key);
        maximum = isnan(score) ? score : fmax(maximum, score);
    }
    if (maximum == -INFINITY && !head->is_packed)
        return maximum;
    for (int64_t key = first_key(head, query); key < end_key(head, query); key++)
        sum += exp(compute_score(head, query, key) - maximum);
    return maximum + log(sum);
}

static void compute_row(const head_of *head, int64_t query, double log_sum)
{
    for (int64_t begin = 0; begin < head->depth; begin += COLUMNS) {
        const int64_t columns = head->depth - begin < COLUMNS ? head->depth - begin : COLUMNS;
        double sums[COLUMNS] = {0};

        for (int64_t key = first_key(head, query); key < end_key(head, query); key++) {
            const double share = find_factor(head, query, key) * exp(compute_score(head, query, key) - log_sum);

            for (int64_t d = 0; d < columns; d++)
                sums[d] += share * load_input(head, 2, key, begin + d);
        }
        for (int64_t d = 0; d < columns; d++)
            bgi_store(head->dtype, bgi_output(head->call, 0), column_of(head, query, begin + d), sums[d]);
    }
}

static void compute_head(const head_of *head, int64_t statistics)
{
    for (int64_t query = 0; query < head->length; query++) {
        const double found = compute_log_sum(head, query);
        const double log_sum = found == -INFINITY && !head->is_packed ? 0.0 : found; /* exp(-infinity - 0): zeros */

        bgi_store(bgi_output_type(head->call, 1)->dtype, bgi_output(head->call, 1), statistics + query, log_sum);
        compute_row(head, query, log_sum);
    }
}

void bgi_reference_attention(const bg_kernel_call *call, uint32_t part)
{
    const void *qkv = call->operands[0];
    const operands_of operands = {.inputs = {qkv, qkv, qkv}};

    (void)part;
    for_each_packed_head(call, 0, &operands, compute_head);
}

void bgi_reference_dot_product_attention(const bg_kernel_call *call, uint32_t part)
{
    const operands_of operands = find_operands_apart(call, 0, 3);

    (void)part;
    for_each_head_apart(call, 0, &operands, compute_head);
}

/* Copies the new keys and values to the cache, and computes the results of the queries, which begin at position
 * `before`, from the keys and values in the cache. */
static void compute_cached_head(const head_of *head, int64_t statistics)
{
    const int64_t before = bgi_attention_position(head->call), width = head->results.stride;
    void *cache = head->call->operands[1];
    head_of all = *head;

    (void)statistics;
    all.keys = head->call->types[1].dims[0];
    all.rows[0].start -= before * all.rows[0].stride;
    all.results.start -= before * width;
    for (int which = 1; which < 3; which++) {
        all.rows[which] = (rows_of){cache, (which - 1) * width + head->index * head->depth, 2 * width};
        for (int64_t token = 0; token < head->length; token++)
            for (int64_t d = 0; d < head->depth; d++)
                bgi_store(head->dtype, cache, all.rows[which].start + (before + token) * all.rows[which].stride + d,
                          load_input(head, which, token, d));
    }
    for (int64_t query = before; query < before + all.length; query++)
        compute_row(&all, query, compute_log_sum(&all, query));
}

void bgi_reference_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    const void *qkv = call->operands[0];
    const operands_of operands = {.inputs = {qkv, qkv, qkv}};

    (void)part;
    for_each_packed_head(call, 0, &operands, compute_cached_head);
}

static void compute_cached_head_apart(const head_of *head, int64_t statistics)
{
    const bg_kernel_call *call = head->call;
    const int64_t before = bgi_attention_sample_position(call, head->sample);
    head_of all = *head;

    (void)statistics;
    all.keys = bgi_input_type(call, 3)->dims[1];
    all.rows[0].start -= before * all.rows[0].stride;
    all.results.start -= before * all.results.stride;
    for (int which = 1; which < 3; which++) {
        const int64_t width = head->rows[which].stride;
        void *cache = call->operands[2 + which];

        all.rows[which] =
            (rows_of){cache, head->sample * all.keys * width + head->index / head->group * head->depth, width};
        for (int64_t token = 0; token < head->length; token++)
            for (int64_t d = 0; d < head->depth; d++)
                bgi_store(head->dtype, cache, all.rows[which].start + (before + token) * width + d,
                          load_input(head, which, token, d));
    }
    for (int64_t query = before; query < before + all.length; query++)
        compute_row(&all, query, compute_log_sum(&all, query));
}

void bgi_reference_dot_product_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    const operands_of operands = find_operands_apart(call, 0, UINT32_MAX);

    (void)part;
    for_each_head_apart(call, 0, &operands, compute_cached_head_apart);
}

/* ---- backward: dy, queries, keys, values, y, log_sum_exp -> gradients of queries, keys and values ---- */

typedef struct pair {
    double weight;   /* m_ij p_ij */
    double gradient; /* ds_ij times a scale */
} pair;

static double load_dy(const head_of *head, int64_t query, int64_t d)
{
    return bgi_load(head->dtype, head->operands->dy, column_of(head, query, d));
}

static pair differentiate_score(const head_of *head, int64_t statistics, int64_t query, int64_t key, double scale)
{
    const double log_sum = bgi_load(head->operands->log_sums_dtype, head->operands->log_sums, statistics + query);
    const double p = exp(compute_score(head, query, key) - log_sum), factor = find_factor(head, query, key);
    double along_v = 0.0, along_y = 0.0;

    for (int64_t d = 0; d < head->depth; d++) {
        const double dy = load_dy(head, query, d);

        along_v += dy * load_input(head, 2, key, d);
        along_y += dy * bgi_load(head->dtype, head->operands->y, column_of(head, query, d));
    }
    return (pair){factor * p, scale * p * (factor * along_v - along_y)};
}

static void store_gradients(const head_of *head, int which, int64_t token, int64_t begin, int64_t columns,
                            const double *sums)
{
    const int64_t first = head->rows[which].start + token * head->rows[which].stride + begin;

    for (int64_t d = 0; d < columns; d++)
        bgi_store(head->dtype, head->operands->gradients[which], first + d, sums[d]);
}

/* Computes dq of a query: a sum over the keys that the query sees, ascending. */
static void sum_query(const head_of *head, int64_t statistics, int64_t query, int64_t begin, int64_t columns)
{
    double sums[COLUMNS] = {0};

    for (int64_t key = first_key(head, query); key < end_key(head, query); key++) {
        const pair at = differentiate_score(head, statistics, query, key, head->attributes->scale);

        for (int64_t d = 0; d < columns; d++)
            sums[d] += at.gradient * load_input(head, 1, key, begin + d);
    }
    store_gradients(head, 0, query, begin, columns, sums);
}

/* Computes dk and dv of a key: sums over the heads that share the key, and the queries that see it, ascending. */
static void sum_key(const head_of *first, int64_t first_statistics, int64_t key, int64_t begin, int64_t columns)
{
    double dk[COLUMNS] = {0}, dv[COLUMNS] = {0};

    for (int64_t g = 0; g < first->group; g++) {
        const int64_t statistics = first_statistics + g * first->length;
        head_of head = *first;

        if (g > 0)
            head = find_head_apart(first->call, 1, first->operands, first->sample, first->index + g);
        for (int64_t query = 0; query < head.length; query++) {
            pair at;

            if (!sees(&head, query, key))
                continue;
            at = differentiate_score(&head, statistics, query, key, head.attributes->scale);
            for (int64_t d = 0; d < columns; d++) {
                dk[d] += at.gradient * load_input(&head, 0, query, begin + d);
                dv[d] += at.weight * load_dy(&head, query, begin + d);
            }
        }
    }
    store_gradients(first, 1, key, begin, columns, dk);
    store_gradients(first, 2, key, begin, columns, dv);
}

static void differentiate_head(const head_of *head, int64_t statistics)
{
    for (int64_t begin = 0; begin < head->depth; begin += COLUMNS) {
        const int64_t columns = head->depth - begin < COLUMNS ? head->depth - begin : COLUMNS;

        for (int64_t query = 0; query < head->length; query++)
            sum_query(head, statistics, query, begin, columns);
        for (int64_t key = 0; head->index % head->group == 0 && key < head->keys; key++)
            sum_key(head, statistics, key, begin, columns);
    }
}

void bgi_reference_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    const void *qkv = call->operands[1];
    void *dqkv = bgi_output(call, 0);
    const operands_of operands = {.inputs = {qkv, qkv, qkv},
                                  .dy = call->operands[0],
                                  .y = call->operands[2],
                                  .log_sums = call->operands[3],
                                  .log_sums_dtype = bgi_input_type(call, 3)->dtype,
                                  .gradients = {dqkv, dqkv, dqkv}};

    (void)part;
    for_each_packed_head(call, 1, &operands, differentiate_head);
}

/* Returns the operands of a call whose inputs are dy, q, k, v, y, log_sum_exp and perhaps bias. */
static operands_of find_backward_operands(const bg_kernel_call *call)
{
    operands_of operands = find_operands_apart(call, 1, 6);

    operands.dy = call->operands[0];
    operands.y = call->operands[4];
    operands.log_sums = call->operands[5];
    operands.log_sums_dtype = bgi_input_type(call, 5)->dtype;
    return operands;
}

void bgi_reference_dot_product_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    operands_of operands = find_backward_operands(call);

    (void)part;
    for (uint32_t which = 0; which < 3; which++)
        operands.gradients[which] = bgi_output(call, which);
    for_each_head_apart(call, 1, &operands, differentiate_head);
}

/* Computes one element of the bias's gradient: a sum over all samples, heads and queries that share the element,
 * ascending. */
static double sum_bias(const bg_kernel_call *call, const operands_of *operands, int64_t n, int64_t h, int64_t row,
                       int64_t key)
{
    const bgi_attention_attributes *attributes = call->attributes;
    const bg_type *type = operands->bias_type, *q = bgi_input_type(call, 1);
    double sum = 0.0;

    for (int64_t sample = 0; sample < q->dims[0]; sample++)
        for (int64_t index = 0; index < attributes->heads; index++) {
            const head_of head = find_head_apart(call, 1, operands, sample, index);

            if ((type->dims[0] > 1 && sample != n) || (type->dims[1] > 1 && index != h))
                continue;
            for (int64_t query = 0; query < head.length; query++)
                if ((type->dims[2] == 1 || query == row) && sees(&head, query, key))
                    sum +=
                        differentiate_score(&head, (sample * attributes->heads + index) * head.length, query, key, 1.0)
                            .gradient;
        }
    return sum;
}

void bgi_reference_dot_product_attention_bias_backward(const bg_kernel_call *call, uint32_t part)
{
    const operands_of operands = find_backward_operands(call);
    const bg_type *type = operands.bias_type;
    int64_t at = 0;

    (void)part;
    for (int64_t n = 0; n < type->dims[0]; n++)
        for (int64_t h = 0; h < type->dims[1]; h++)
            for (int64_t row = 0; row < type->dims[2]; row++)
                for (int64_t key = 0; key < type->dims[3]; key++)
                    bgi_store(type->dtype, bgi_output(call, 0), at++, sum_bias(call, &operands, n, h, row, key));
}
