/*
 * attention.c: multi-head attention in plain C, a row of scores at a time: nothing of size S x S is kept. For sample n,
 * head h, query i (operands as in attributes.h; D: the width of a head):
 *
 *     s_ij = scale q_i . k_j        for the keys j that i may see
 *     lse_i = log sum_j exp(s_ij)   p_ij = exp(s_ij - lse_i)      m_ij: the dropout's factor, 0 or 1 / (1 -
 * probability) y_i = sum_j m_ij p_ij v_j
 *
 * Backward, with g_i = dy_i . y_i, which is sum_j p_ij m_ij dy_i . v_j:
 *
 *     ds_ij = p_ij (m_ij dy_i . v_j - g_i)
 *     dq_i = scale sum_j ds_ij k_j     dk_j = scale sum_i ds_ij q_i     dv_j = sum_i m_ij p_ij dy_i
 */
#include "kernels/kernels.h"

#include <brigade/random.h>

#include "kernels/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

enum { COLUMNS = 64 }; /* sums are kept in double for so many columns at a time */

/* One head of one sample: where its rows are in qkv, and its random numbers. */
typedef struct head_of {
    const bg_kernel_call *call;
    const bgi_attention_attributes *attributes;
    bg_dtype dtype;
    const void *qkv;
    const void *cache;     /* where keys and values of all tokens are; NULL: in qkv */
    int64_t before;        /* tokens before those of qkv */
    int64_t width;         /* heads x D */
    int64_t depth, length; /* D, S */
    int64_t row;           /* of the sample's first token */
    int64_t index;         /* the head's */
    uint32_t sample;       /* global */
} head_of;

/* Of qkv, and of the cache. */
static int64_t place_of(const head_of *head, int64_t which, int64_t token, int64_t d)
{
    return ((head->row + token - head->before) * 3 + which) * head->width + head->index * head->depth + d;
}

static int64_t cached_place_of(const head_of *head, int64_t which, int64_t token, int64_t d)
{
    return (2 * token + which - 1) * head->width + head->index * head->depth + d;
}

static double load_qkv(const head_of *head, int64_t which, int64_t token, int64_t d)
{
    return head->cache != NULL && which > 0 ? bgi_load(head->dtype, head->cache, cached_place_of(head, which, token, d))
                                            : bgi_load(head->dtype, head->qkv, place_of(head, which, token, d));
}

/* Of a tensor [rows, heads x D]: y, dy. */
static int64_t column_of(const head_of *head, int64_t token, int64_t d)
{
    return (head->row + token - head->before) * head->width + head->index * head->depth + d;
}

static int64_t key_count(const head_of *head, int64_t query)
{
    return head->attributes->causal ? query + 1 : head->length;
}

static double compute_score(const head_of *head, int64_t query, int64_t key)
{
    double sum = 0.0;

    for (int64_t d = 0; d < head->depth; d++)
        sum += load_qkv(head, 0, query, d) * load_qkv(head, 1, key, d);
    return sum * head->attributes->scale;
}

/* m_ij */
static double find_factor(const head_of *head, int64_t query, int64_t key)
{
    const bgi_attention_attributes *attributes = head->attributes;
    const bg_kernel_env *env = head->call->env;
    const uint32_t philox_key[2] = {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)};
    const int64_t blocks = (head->length + 3) / 4;
    uint32_t words[4];

    if (!env->training || attributes->probability == 0.0)
        return 1.0;
    bg_philox(
        (const uint32_t[]){
            (uint32_t)((bgi_attention_head(env, attributes, head->index) * head->length + query) * blocks + key / 4),
            head->sample, attributes->random_id, (uint32_t)env->step},
        philox_key, words);
    return words[key % 4] * 0x1p-32 >= attributes->probability ? 1.0 / (1.0 - attributes->probability) : 0.0;
}

typedef void (*head_function)(const head_of *head, int64_t statistics);

/* `statistics` is the index of the head's first row statistic: [N, heads, S]. */
static void for_each_head(const bg_kernel_call *call, uint32_t qkv, head_function function)
{
    const bgi_attention_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, qkv);
    const int64_t width = type->dims[type->rank - 1] / 3, length = attributes->sequence_length;
    const int64_t samples = bg_type_element_count(type) / (3 * width * length);

    for (int64_t n = 0; n < samples; n++)
        for (int64_t h = 0; h < attributes->heads; h++) {
            const head_of head = {.call = call,
                                  .attributes = attributes,
                                  .dtype = type->dtype,
                                  .qkv = call->operands[qkv],
                                  .width = width,
                                  .depth = width / attributes->heads,
                                  .length = length,
                                  .row = n * length,
                                  .index = h,
                                  .sample = call->env->micro_batch * (uint32_t)samples + (uint32_t)n};

            function(&head, (n * attributes->heads + h) * length);
        }
}

/* ---- forward ---- */

static double compute_log_sum(const head_of *head, int64_t query)
{
    double maximum = -INFINITY, sum = 0.0;

    for (int64_t key = 0; key < key_count(head, query); key++)
        maximum = fmax(maximum, compute_score(head, query, key));
    for (int64_t key = 0; key < key_count(head, query); key++)
        sum += exp(compute_score(head, query, key) - maximum);
    return maximum + log(sum);
}

static void compute_row(const head_of *head, int64_t query, double log_sum)
{
    for (int64_t begin = 0; begin < head->depth; begin += COLUMNS) {
        const int64_t columns = head->depth - begin < COLUMNS ? head->depth - begin : COLUMNS;
        double sums[COLUMNS] = {0};

        for (int64_t key = 0; key < key_count(head, query); key++) {
            const double share = find_factor(head, query, key) * exp(compute_score(head, query, key) - log_sum);

            for (int64_t d = 0; d < columns; d++)
                sums[d] += share * load_qkv(head, 2, key, begin + d);
        }
        for (int64_t d = 0; d < columns; d++)
            bgi_store(head->dtype, bgi_output(head->call, 0), column_of(head, query, begin + d), sums[d]);
    }
}

static void compute_head(const head_of *head, int64_t statistics)
{
    for (int64_t query = 0; query < head->length; query++) {
        const double log_sum = compute_log_sum(head, query);

        bgi_store(bgi_output_type(head->call, 1)->dtype, bgi_output(head->call, 1), statistics + query, log_sum);
        compute_row(head, query, log_sum);
    }
}

void bgi_reference_attention(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_head(call, 0, compute_head);
}

static void compute_cached_head(const head_of *head, int64_t statistics)
{
    void *cache = head->call->operands[1];
    head_of all = *head;

    (void)statistics;
    all.cache = cache;
    all.before = bgi_attention_position(head->call);
    for (int64_t token = all.before; token < all.before + all.length; token++)
        for (int64_t which = 1; which < 3; which++)
            for (int64_t d = 0; d < all.depth; d++)
                bgi_store(all.dtype, cache, cached_place_of(&all, which, token, d),
                          bgi_load(all.dtype, all.qkv, place_of(&all, which, token, d)));
    for (int64_t query = all.before; query < all.before + all.length; query++)
        compute_row(&all, query, compute_log_sum(&all, query));
}

void bgi_reference_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_head(call, 0, compute_cached_head);
}

/* ---- backward: dy, qkv, y, log_sum_exp -> dqkv ---- */

typedef struct pair {
    double weight;   /* m_ij p_ij */
    double gradient; /* scale ds_ij */
} pair;

static double load_dy(const head_of *head, int64_t query, int64_t d)
{
    return bgi_load(head->dtype, head->call->operands[0], column_of(head, query, d));
}

static pair differentiate_score(const head_of *head, int64_t statistics, int64_t query, int64_t key)
{
    const bg_dtype dtype = bgi_input_type(head->call, 3)->dtype;
    const double log_sum = bgi_load(dtype, head->call->operands[3], statistics + query);
    const double p = exp(compute_score(head, query, key) - log_sum), factor = find_factor(head, query, key);
    double along_v = 0.0, along_y = 0.0;

    for (int64_t d = 0; d < head->depth; d++) {
        const double dy = load_dy(head, query, d);

        along_v += dy * load_qkv(head, 2, key, d);
        along_y += dy * bgi_load(head->dtype, head->call->operands[2], column_of(head, query, d));
    }
    return (pair){factor * p, head->attributes->scale * p * (factor * along_v - along_y)};
}

static void store_gradients(const head_of *head, int64_t which, int64_t token, int64_t begin, int64_t columns,
                            const double *sums)
{
    const int64_t first = ((head->row + token) * 3 + which) * head->width + head->index * head->depth + begin;

    for (int64_t d = 0; d < columns; d++)
        bgi_store(head->dtype, bgi_output(head->call, 0), first + d, sums[d]);
}

/* dq of a query: over the keys that it sees, ascending. */
static void sum_query(const head_of *head, int64_t statistics, int64_t query, int64_t begin, int64_t columns)
{
    double sums[COLUMNS] = {0};

    for (int64_t key = 0; key < key_count(head, query); key++) {
        const pair at = differentiate_score(head, statistics, query, key);

        for (int64_t d = 0; d < columns; d++)
            sums[d] += at.gradient * load_qkv(head, 1, key, begin + d);
    }
    store_gradients(head, 0, query, begin, columns, sums);
}

/* dk and dv of a key: over the queries that see it, ascending. */
static void sum_key(const head_of *head, int64_t statistics, int64_t key, int64_t begin, int64_t columns)
{
    double dk[COLUMNS] = {0}, dv[COLUMNS] = {0};

    for (int64_t query = head->attributes->causal ? key : 0; query < head->length; query++) {
        const pair at = differentiate_score(head, statistics, query, key);

        for (int64_t d = 0; d < columns; d++) {
            dk[d] += at.gradient * load_qkv(head, 0, query, begin + d);
            dv[d] += at.weight * load_dy(head, query, begin + d);
        }
    }
    store_gradients(head, 1, key, begin, columns, dk);
    store_gradients(head, 2, key, begin, columns, dv);
}

static void differentiate_head(const head_of *head, int64_t statistics)
{
    for (int64_t begin = 0; begin < head->depth; begin += COLUMNS) {
        const int64_t columns = head->depth - begin < COLUMNS ? head->depth - begin : COLUMNS;

        for (int64_t token = 0; token < head->length; token++) {
            sum_query(head, statistics, token, begin, columns);
            sum_key(head, statistics, token, begin, columns);
        }
    }
}

void bgi_reference_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_head(call, 1, differentiate_head);
}
