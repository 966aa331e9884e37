/*
 * test_attention_pairs.c: attention of bfloat16 pairs, on processors that have the instructions: the bits that
 * attention/pairs_body.h specifies, computed here number by number in portable C.
 */
#include "kernels/kernel_case.h"

#include <brigade/random.h>

#include "core/narrow.h"
#include "kernels/attention/attributes.h"
#include "kernels/attention/fast.h"

enum { KEYS = BGI_ATTENTION_KEYS, QUERIES = BGI_ATTENTION_QUERIES, LANES_OF_A_VECTOR = 16 };

/* ---- numbers as the instructions compute them ---- */

/* Returns a zero of the same sign for a subnormal number, because the instructions treat subnormal inputs and results
 * as zero. */
static float flush(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static float round_to_bfloat16(float x)
{
    return bgi_bfloat16_to_float(bgi_bfloat16_from_float(flush(x)));
}

/* Adds the products of elements 2i and 2i + 1 to the sum. */
static float add_pair(float sum, float a0, float b0, float a1, float b1)
{
    sum = flush(fmaf(flush(a1), flush(b1), flush(sum)));
    return flush(fmaf(flush(a0), flush(b0), sum));
}

/* Computes the exponential as vexp of cpu/math_body.h does. */
static float exponential(float x)
{
    static const float p[] = {5.000000000e-01f, 1.666656963e-01f, 4.166654542e-02f, 8.364380693e-03f, 1.392768462e-03f};
    const float inside = fmaxf(fminf(x, 89.0f), -104.0f), n = rintf(inside * 1.44269504f);
    const float r = fmaf(n, -1.42860682e-6f, fmaf(n, -0.693145752f, inside));
    const int whole = (int)n, half = (whole - (whole < 0)) / 2;
    float sum = p[4];

    for (int i = 3; i >= 0; i--)
        sum = fmaf(sum, r, p[i]);
    return (fmaf(sum, r * r, r) + 1.0f) * ldexpf(1.0f, half) * ldexpf(1.0f, whole - half);
}

/* Adds the elements of a vector in the order of vsum of cpu/simd.h. */
static float sum_lanes(float *lanes)
{
    for (int width = LANES_OF_A_VECTOR / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

/* ---- a problem ---- */

typedef struct problem {
    int64_t samples, queries, keys, depth;
    bool is_packed;
    bgi_attention_attributes attributes; /* heads, key_heads and the others */
    bg_type bias_type;                   /* rank 0: no bias */
    bg_kernel_env env;
    const uint16_t *inputs[3], *dy;
    const void *bias;
    uint16_t *y, *gradients[3];
    float *log_sums;
} problem;

/* A head of a sample. */
typedef struct head {
    const problem *p;
    int64_t sample, index, key_index;
} head;

static head find_head(const problem *p, int64_t sample, int64_t index)
{
    return (head){p, sample, index, index / (p->attributes.heads / p->attributes.key_heads)};
}

static int64_t input_index(const head *h, int which, int64_t token, int64_t d)
{
    const problem *p = h->p;
    const int64_t heads = which == 0 ? p->attributes.heads : p->attributes.key_heads;
    const int64_t tokens = which == 0 ? p->queries : p->keys, index = which == 0 ? h->index : h->key_index;

    return p->is_packed ? (((h->sample * tokens + token) * 3 + which) * heads + index) * p->depth + d
                        : ((h->sample * tokens + token) * heads + index) * p->depth + d;
}

/* Returns an element of q, k or v, or 0 beyond the last column or token. */
static float input(const head *h, int which, int64_t token, int64_t d)
{
    if (d >= h->p->depth || token >= (which == 0 ? h->p->queries : h->p->keys))
        return 0.0f;
    return bgi_bfloat16_to_float(h->p->inputs[which][input_index(h, which, token, d)]);
}

/* Returns the index of an element in y and dy. */
static int64_t result_index(const head *h, int64_t query, int64_t d)
{
    return ((h->sample * h->p->queries + query) * h->p->attributes.heads + h->index) * h->p->depth + d;
}

static float load_dy(const head *h, int64_t query, int64_t d)
{
    if (d >= h->p->depth || query >= h->p->queries)
        return 0.0f;
    return bgi_bfloat16_to_float(h->p->dy[result_index(h, query, d)]);
}

static bool sees(const head *h, int64_t query, int64_t key)
{
    return key >= bgi_attention_first_key(&h->p->attributes, query) &&
           key < bgi_attention_end_key(&h->p->attributes, query, h->p->keys);
}

static bool is_biased(const head *h)
{
    return h->p->bias != NULL || h->p->attributes.alibi != 0.0;
}

static float find_bias(const head *h, int64_t query, int64_t key)
{
    const problem *p = h->p;
    const float slope = (float)bgi_attention_slope(&p->attributes, h->index);
    float bias = 0.0f;

    if (p->bias != NULL) {
        bias = (float)bgi_load(p->bias_type.dtype, p->bias,
                               bgi_attention_bias_start(&p->bias_type, h->sample, h->index) +
                                   query * bgi_attention_bias_stride(&p->bias_type) + key);
        if (p->bias_type.dtype == BG_UINT8)
            bias = bias != 0.0f ? 0.0f : -INFINITY;
    }
    return slope == 0.0f ? bias : bias - slope * fabsf((float)(query + p->attributes.offset - key));
}

/* Returns the factor of dropout. */
static float find_factor(const head *h, int64_t query, int64_t key)
{
    const problem *p = h->p;
    const uint32_t philox_key[2] = {(uint32_t)p->env.seed,
                                    (uint32_t)(p->env.seed >> 32) ^ (uint32_t)(p->env.step >> 32)};
    const int64_t blocks = (p->keys + 3) / 4;
    uint32_t words[4];

    bg_philox((const uint32_t[]){(uint32_t)((h->index * p->queries + query) * blocks + key / 4),
                                 p->env.micro_batch * (uint32_t)p->samples + (uint32_t)h->sample,
                                 p->attributes.random_id, (uint32_t)p->env.step},
              philox_key, words);
    return words[key % 4] * 0x1p-32 >= p->attributes.probability ? (float)(1.0 / (1.0 - p->attributes.probability))
                                                                 : 0.0f;
}

static bool drops(const head *h)
{
    return h->p->env.training && h->p->attributes.probability > 0.0;
}

/* Computes an element of q k^T, without the scale, or of dy v^T. */
static float multiply_rows(const head *h, bool is_gradient, int64_t query, int64_t key)
{
    float sum = 0.0f;

    for (int64_t d = 0; d < h->p->depth; d += 2)
        sum = is_gradient ? add_pair(sum, load_dy(h, query, d), input(h, 2, key, d), load_dy(h, query, d + 1),
                                     input(h, 2, key, d + 1))
                          : add_pair(sum, input(h, 0, query, d), input(h, 1, key, d), input(h, 0, query, d + 1),
                                     input(h, 1, key, d + 1));
    return sum;
}

/* ---- forward ---- */

static void attend(const head *h, int64_t query)
{
    const problem *p = h->p;
    float y[256] = {0}, maximum = -INFINITY, sum = 0.0f;

    for (int64_t k0 = 0; k0 < p->keys; k0 += KEYS) {
        float scores[KEYS], total[LANES_OF_A_VECTOR] = {0}, before = maximum, shift, factor;

        for (int64_t j = 0; j < KEYS; j++) {
            scores[j] = -INFINITY;
            if (!sees(h, query, k0 + j))
                continue;
            scores[j] = multiply_rows(h, false, query, k0 + j) * (float)p->attributes.scale;
            if (is_biased(h))
                scores[j] += find_bias(h, query, k0 + j);
            maximum = scores[j] > maximum ? scores[j] : maximum;
        }
        shift = maximum == -INFINITY ? 0.0f : maximum;
        factor = maximum == before ? 1.0f : expf(before - shift);
        for (int64_t j = 0; j < KEYS; j++) {
            const float share = exponential(scores[j] - shift);

            total[j % LANES_OF_A_VECTOR] += share;
            scores[j] = round_to_bfloat16(drops(h) ? share * find_factor(h, query, k0 + j) : share);
        }
        sum = sum * factor + sum_lanes(total);
        for (int64_t d = 0; d < p->depth; d++) {
            y[d] *= factor;
            for (int64_t j = 0; j < KEYS; j += 2)
                y[d] = add_pair(y[d], scores[j], input(h, 2, k0 + j, d), scores[j + 1], input(h, 2, k0 + j + 1, d));
        }
    }
    for (int64_t d = 0; d < p->depth; d++)
        p->y[result_index(h, query, d)] = bgi_bfloat16_from_float(sum == 0.0f ? y[d] : y[d] / sum + 0.0f);
    p->log_sums[(h->sample * p->attributes.heads + h->index) * p->queries + query] =
        sum == 0.0f ? 0.0f : (float)((double)maximum + log((double)sum));
}

/* ---- backward ---- */

typedef struct block {
    int64_t q0, k0, q_count, k_count;
    float shares[QUERIES + 1][KEYS + 1], gradients[QUERIES + 1][KEYS + 1]; /* zeros after the last query and key */
} block;

/* Computes the dot product of dy and y of a query. */
static float measure(const head *h, int64_t query)
{
    float lanes[LANES_OF_A_VECTOR] = {0};

    for (int64_t d = 0; d < h->p->depth; d++)
        lanes[d % LANES_OF_A_VECTOR] =
            fmaf(load_dy(h, query, d), bgi_bfloat16_to_float(h->p->y[result_index(h, query, d)]),
                 lanes[d % LANES_OF_A_VECTOR]);
    return sum_lanes(lanes);
}

static void differentiate_score(const head *h, int64_t query, int64_t key, float gradient_scale, float *share,
                                float *gradient)
{
    const problem *p = h->p;
    const float log_sum = p->log_sums[(h->sample * p->attributes.heads + h->index) * p->queries + query];
    const float score = multiply_rows(h, false, query, key), scale = (float)p->attributes.scale;
    const float weight = exponential(is_biased(h) ? fmaf(scale, score, find_bias(h, query, key)) - log_sum
                                                  : fmaf(scale, score, -log_sum));
    const float factor = drops(h) ? find_factor(h, query, key) : 1.0f;

    *share = factor * weight;
    *gradient = gradient_scale * weight * (factor * multiply_rows(h, true, query, key) - measure(h, query));
}

/* Fills a block with rounded values. Returns false if no query of the block sees a key. */
static bool make_block(const head *h, int64_t q0, int64_t k0, block *b)
{
    const problem *p = h->p;
    const int64_t q_count = p->queries - q0 < QUERIES ? p->queries - q0 : QUERIES;
    const int64_t end = bgi_attention_end_key(&p->attributes, q0 + q_count - 1, p->keys);

    memset(b, 0, sizeof *b);
    b->q0 = q0, b->k0 = k0, b->q_count = q_count;
    b->k_count = end - k0 < KEYS ? end - k0 : KEYS;
    if (b->k_count <= 0 || bgi_attention_first_key(&p->attributes, q0) >= k0 + b->k_count)
        return false;
    for (int64_t i = 0; i < b->q_count; i++)
        for (int64_t j = 0; j < b->k_count; j++) {
            if (!sees(h, q0 + i, k0 + j))
                continue;
            differentiate_score(h, q0 + i, k0 + j, (float)p->attributes.scale, &b->shares[i][j], &b->gradients[i][j]);
            b->shares[i][j] = round_to_bfloat16(b->shares[i][j]);
            b->gradients[i][j] = round_to_bfloat16(b->gradients[i][j]);
        }
    return true;
}

static void add_block_to_queries(const head *h, const block *b, float *dq)
{
    for (int64_t i = 0; i < b->q_count; i++)
        for (int64_t d = 0; d < h->p->depth; d++) {
            float *sum = &dq[(b->q0 + i) * h->p->depth + d];

            for (int64_t j = 0; j < b->k_count; j += 2)
                *sum = add_pair(*sum, b->gradients[i][j], input(h, 1, b->k0 + j, d), b->gradients[i][j + 1],
                                input(h, 1, b->k0 + j + 1, d));
        }
}

static void add_block_to_keys(const head *h, const block *b, float *dk, float *dv)
{
    for (int64_t j = 0; j < b->k_count; j++)
        for (int64_t d = 0; d < h->p->depth; d++) {
            float *k = &dk[j * h->p->depth + d], *v = &dv[j * h->p->depth + d];

            for (int64_t i = 0; i < b->q_count; i += 2) {
                const int64_t q = b->q0 + i;

                *k = add_pair(*k, b->gradients[i][j], input(h, 0, q, d), b->gradients[i + 1][j], input(h, 0, q + 1, d));
                *v = add_pair(*v, b->shares[i][j], load_dy(h, q, d), b->shares[i + 1][j], load_dy(h, q + 1, d));
            }
        }
}

static void store_gradients(const head *h, int which, int64_t first, int64_t count, const float *sums)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t d = 0; d < h->p->depth; d++)
            h->p->gradients[which][input_index(h, which, first + i, d)] =
                bgi_bfloat16_from_float(sums[i * h->p->depth + d]);
}

/* Computes the gradients of the heads that share keys; `first` is the first of these heads. */
static void differentiate(const problem *p, int64_t sample, int64_t first)
{
    const int64_t group = p->attributes.heads / p->attributes.key_heads, size = p->queries * p->depth;
    float *dq = calloc((size_t)(group * size + 2 * KEYS * p->depth), sizeof *dq), *dk = dq + group * size;
    float *dv = dk + KEYS * p->depth;
    block *b = malloc(sizeof *b);

    assert_true(dq != NULL && b != NULL);
    for (int64_t k0 = 0; k0 < p->keys; k0 += KEYS) {
        const head keys = find_head(p, sample, first);
        const int64_t count = p->keys - k0 < KEYS ? p->keys - k0 : KEYS;

        memset(dk, 0, (size_t)(2 * KEYS * p->depth) * sizeof *dk);
        for (int64_t g = 0; g < group; g++) {
            const head h = find_head(p, sample, first + g);

            for (int64_t q0 = 0; q0 < p->queries; q0 += QUERIES) {
                if (!make_block(&h, q0, k0, b))
                    continue;
                add_block_to_queries(&h, b, dq + g * size);
                add_block_to_keys(&h, b, dk, dv);
            }
        }
        store_gradients(&keys, 1, k0, count, dk);
        store_gradients(&keys, 2, k0, count, dv);
    }
    for (int64_t g = 0; g < group; g++) {
        const head h = find_head(p, sample, first + g);
        store_gradients(&h, 0, 0, p->queries, dq + g * size);
    }
    free(dq);
    free(b);
}

/* Computes one element of the bias's gradient. */
static float sum_bias(const problem *p, int64_t n, int64_t index, int64_t row, int64_t key)
{
    float sum = 0.0f, share, gradient;

    for (int64_t sample = 0; sample < p->samples; sample++)
        for (int64_t i = 0; i < p->attributes.heads; i++) {
            const head h = find_head(p, sample, i);

            if ((p->bias_type.dims[0] > 1 && sample != n) || (p->bias_type.dims[1] > 1 && i != index))
                continue;
            for (int64_t query = 0; query < p->queries; query++)
                if ((p->bias_type.dims[2] == 1 || query == row) && sees(&h, query, key)) {
                    differentiate_score(&h, query, key, 1.0f, &share, &gradient);
                    sum += gradient;
                }
        }
    return sum;
}

/* ---- comparisons ---- */

static void compare(const char *what, const void *got, const void *wanted, bg_dtype dtype, int64_t count)
{
    const size_t bytes = bg_dtype_size_bytes(dtype);

    for (int64_t i = 0; i < count; i++)
        if (memcmp((const char *)got + (size_t)i * bytes, (const char *)wanted + (size_t)i * bytes, bytes) != 0)
            fail_msg("%s [%lld] is %.9g, not %.9g", what, (long long)i, bgi_load(dtype, got, i),
                     bgi_load(dtype, wanted, i));
}

static void run(const kernel_case *c, int order, void **results)
{
    const bgi_kernel_request request = {.id = c->id,
                                        .types = c->types,
                                        .input_count = c->input_count,
                                        .output_count = c->output_count,
                                        .attributes = c->attributes};
    bg_kernel kernel;

    assert_true(bgi_cpu_select(&request, BGI_ISA_AVX512_BF16, &kernel));
    assert_non_null(strstr(kernel.name, ".avx512-bf16"));
    assert_true(case_run(c, BGI_ISA_AVX512_BF16, order, results));
}

static void compute(problem *p)
{
    for (int64_t sample = 0; sample < p->samples; sample++)
        for (int64_t index = 0; index < p->attributes.heads; index++) {
            const head h = find_head(p, sample, index);

            for (int64_t query = 0; query < p->queries; query++)
                attend(&h, query);
        }
}

static void compute_gradients(problem *p)
{
    const int64_t group = p->attributes.heads / p->attributes.key_heads;

    for (int64_t sample = 0; sample < p->samples; sample++)
        for (int64_t index = 0; index < p->attributes.heads; index += group)
            differentiate(p, sample, index);
}

static void *take(const bg_type *type)
{
    void *data = calloc(1, bg_type_size_bytes(type));

    assert_non_null(data);
    return data;
}

static void check_bias_gradient(const problem *p, const kernel_case *back)
{
    const bg_type *type = &p->bias_type;
    kernel_case c = *back;
    void *results[CASE_OPERANDS];
    int64_t at = 0;

    c.id = BGI_KERNEL_DOT_PRODUCT_ATTENTION_BIAS_BACKWARD;
    c.output_count = 1;
    c.types[c.input_count] = *type;
    c.initial[c.input_count] = (void *)(uintptr_t)p->bias;
    run(&c, 1, results);
    for (int64_t n = 0; n < type->dims[0]; n++)
        for (int64_t h = 0; h < type->dims[1]; h++)
            for (int64_t row = 0; row < type->dims[2]; row++)
                for (int64_t key = 0; key < type->dims[3]; key++, at++) {
                    const float sum = sum_bias(p, n, h, row, key);
                    uint8_t stored[sizeof(double)];

                    bgi_store(type->dtype, stored, 0, (double)sum);
                    if (memcmp(stored, (char *)results[c.input_count] + (size_t)at * bg_dtype_size_bytes(type->dtype),
                               bg_dtype_size_bytes(type->dtype)) != 0)
                        fail_msg("dbias [%lld] is %.9g, not %.9g", (long long)at,
                                 bgi_load(type->dtype, results[c.input_count], at), sum);
                }
    free_results(&c, results);
}

/* Runs the forward and, from its results, the gradients. Inputs are uniform in -range..range. */
static void check(problem p, random_state *random, double range)
{
    const int64_t heads = p.attributes.heads, key_heads = p.attributes.key_heads;
    const bg_type q = bg_tensor3(BG_BFLOAT16, p.samples, p.queries, (p.is_packed ? 3 : 1) * heads * p.depth);
    const bg_type k = bg_tensor3(BG_BFLOAT16, p.samples, p.keys, key_heads * p.depth);
    const bg_type y = bg_tensor3(BG_BFLOAT16, p.samples, p.queries, heads * p.depth);
    const bg_type log_sums = bg_tensor3(BG_FLOAT32, p.samples, heads, p.queries);
    const bg_type *const types[] = {&q, &k, &k, &p.bias_type};
    const uint32_t inputs = p.is_packed ? 1 : p.bias_type.rank > 0 ? 4 : 3, before = p.is_packed ? 1 : 3;
    kernel_case c = {.id = p.is_packed ? BGI_KERNEL_ATTENTION : BGI_KERNEL_DOT_PRODUCT_ATTENTION};
    kernel_case back = {.id = p.is_packed ? BGI_KERNEL_ATTENTION_BACKWARD : BGI_KERNEL_DOT_PRODUCT_ATTENTION_BACKWARD};
    void *results[CASE_OPERANDS], *gradients[CASE_OPERANDS];

    p.attributes.sequence_length = p.keys;
    p.attributes.serialization = 1;
    p.env = (bg_kernel_env){.seed = (uint64_t)draw(random) << 32 | draw(random),
                            .step = draw(random),
                            .micro_batch = draw(random) % 100,
                            .training = true};
    c.attributes = back.attributes = &p.attributes;
    c.env = back.env = p.env;
    for (uint32_t i = 0; i < inputs; i++) {
        const bool is_mask = i == 3 && p.bias_type.dtype == BG_UINT8;

        case_input(&c, *types[i], random, is_mask ? 0 : -range, is_mask ? 1 : range);
    }
    for (uint32_t i = 0; i < 3; i++)
        p.inputs[i] = c.initial[p.is_packed ? 0 : i];
    p.bias = inputs == 4 ? c.initial[3] : NULL;
    case_output(&c, y);
    case_output(&c, log_sums);
    p.y = take(&y);
    p.log_sums = take(&log_sums);
    compute(&p);
    run(&c, 0, results);
    compare("y", results[inputs], p.y, BG_BFLOAT16, bg_type_element_count(&y));
    compare("log_sum", results[inputs + 1], p.log_sums, BG_FLOAT32, bg_type_element_count(&log_sums));

    p.dy = case_input(&back, y, random, -range, range);
    for (uint32_t i = 0; i < before; i++)
        memcpy(case_input(&back, *types[i], random, 0, 1), c.initial[i], bg_type_size_bytes(types[i]));
    memcpy(case_input(&back, y, random, 0, 1), p.y, bg_type_size_bytes(&y));
    memcpy(case_input(&back, log_sums, random, 0, 1), p.log_sums, bg_type_size_bytes(&log_sums));
    if (inputs == 4)
        memcpy(case_input(&back, p.bias_type, random, 0, 1), p.bias, bg_type_size_bytes(&p.bias_type));
    for (uint32_t i = 0; i < before; i++)
        case_output(&back, *types[i]);
    for (int i = 0; i < 3; i++)
        p.gradients[i] = p.is_packed && i > 0 ? p.gradients[0] : take(types[p.is_packed ? 0 : i]);
    compute_gradients(&p);
    run(&back, 1, gradients);
    for (uint32_t i = 0; i < before; i++)
        compare(i == 0   ? "dq"
                : i == 1 ? "dk"
                         : "dv",
                gradients[back.input_count + i], p.gradients[i], BG_BFLOAT16, bg_type_element_count(types[i]));
    if (inputs == 4 && p.bias_type.dtype != BG_UINT8)
        check_bias_gradient(&p, &back);
    for (uint32_t i = 0; i < before; i++)
        free(p.gradients[i]);
    free(p.y);
    free(p.log_sums);
    free_results(&c, results);
    free_results(&back, gradients);
    case_clear(&c);
    case_clear(&back);
}

static void skip_without_pairs(void)
{
    if (bgi_cpu_isa() < BGI_ISA_AVX512_BF16) {
        print_message("this processor has no %s\n", bgi_isa_name(BGI_ISA_AVX512_BF16));
        skip();
    }
}

static problem make_packed(int64_t samples, int64_t length, int64_t heads, int64_t depth, bool causal, double dropout)
{
    return (problem){.samples = samples,
                     .queries = length,
                     .keys = length,
                     .depth = depth,
                     .is_packed = true,
                     .attributes = {.heads = heads,
                                    .key_heads = heads,
                                    .causal = causal,
                                    .scale = 0.37,
                                    .probability = dropout,
                                    .random_id = 7}};
}

/* Lengths are at and around those of blocks, also odd; heads have widths of whole vectors or odd widths; there are
 * several panels. */
static void test_packed(void **state)
{
    random_state random = {61};

    (void)state;
    skip_without_pairs();
    check(make_packed(1, 1, 1, 1, true, 0.0), &random, 1.0);
    check(make_packed(2, 33, 2, 5, true, 0.0), &random, 1.0);
    check(make_packed(1, 97, 1, 64, true, 0.0), &random, 1.0);
    check(make_packed(1, 129, 1, 17, true, 0.25), &random, 2.0);
    check(make_packed(1, 193, 2, 32, false, 0.0), &random, 1.0);
    check(make_packed(1, 30, 1, 80, false, 0.1), &random, 1.0);
    check(make_packed(1, 35, 1, 200, true, 0.0), &random, 1.0);
}

static problem make_apart(int64_t samples, int64_t queries, int64_t keys, int64_t heads, int64_t key_heads,
                          int64_t depth)
{
    return (problem){.samples = samples,
                     .queries = queries,
                     .keys = keys,
                     .depth = depth,
                     .attributes = {.heads = heads, .key_heads = key_heads, .scale = 0.6, .random_id = 3}};
}

/* Heads share keys; masks and biases have gradients; there are windows, offsets, slopes, and queries that see no key.
 */
static void test_apart(void **state)
{
    random_state random = {62};
    problem p = make_apart(2, 37, 99, 4, 2, 12);

    (void)state;
    skip_without_pairs();
    check(p, &random, 1.0);
    p.bias_type = bg_type_make(BG_UINT8, 4, (const int64_t[]){2, 1, 37, 99});
    check(p, &random, 1.0);
    p.bias_type = bg_type_make(BG_BFLOAT16, 4, (const int64_t[]){1, 4, 1, 99});
    p.attributes.probability = 0.4;
    check(p, &random, 1.0);
    p = make_apart(1, 70, 130, 2, 1, 7);
    p.attributes.causal = true;
    p.attributes.offset = 40;
    p.attributes.window = 25;
    p.attributes.alibi = 8.0;
    check(p, &random, 1.0);
    p.bias_type = bg_type_make(BG_FLOAT32, 4, (const int64_t[]){1, 1, 70, 130});
    p.attributes.offset = -9;
    check(p, &random, 1.0);
}

/* Scores differ so much that weights round to 0; products and sums are below the smallest normal number. */
static void test_extremes(void **state)
{
    random_state random = {63};

    (void)state;
    skip_without_pairs();
    check(make_packed(1, 130, 1, 8, true, 0.0), &random, 20.0);
    check(make_packed(1, 130, 1, 8, true, 0.0), &random, 3e-19);
    check(make_packed(1, 50, 1, 8, false, 0.0), &random, 3e-38);
}

/* Attention with a cache gives the same bits as attention of the whole sequence. */
static void test_cached(void **state)
{
    enum { LENGTH = 200, HEADS = 2, DEPTH = 16, WIDTH = HEADS * DEPTH };
    static const int64_t counts[] = {1, 33, 64, 1, 1, 99, 1};
    const bg_type all = bg_matrix(BG_BFLOAT16, LENGTH, 3 * WIDTH), y = bg_matrix(BG_BFLOAT16, LENGTH, WIDTH);
    const bg_type log_sums = bg_tensor3(BG_FLOAT32, 1, HEADS, LENGTH),
                  cache = bg_matrix(BG_BFLOAT16, LENGTH, 2 * WIDTH);
    const bgi_attention_attributes whole = {
        .heads = HEADS, .sequence_length = LENGTH, .causal = 1, .scale = 0.4, .serialization = 1};
    random_state random = {64};
    kernel_case c = {.id = BGI_KERNEL_ATTENTION, .attributes = &whole};
    void *results[CASE_OPERANDS], *stored = take(&cache);
    int64_t at = 0;

    (void)state;
    skip_without_pairs();
    case_input(&c, all, &random, -2, 2);
    case_output(&c, y);
    case_output(&c, log_sums);
    run(&c, 0, results);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; at += counts[i++]) {
        const bg_type some = bg_matrix(BG_BFLOAT16, counts[i], 3 * WIDTH),
                      part = bg_matrix(BG_BFLOAT16, counts[i], WIDTH);
        bgi_attention_attributes attributes = whole;
        kernel_case step = {.id = BGI_KERNEL_ATTENTION_CACHED, .attributes = &attributes};
        void *got[CASE_OPERANDS];

        attributes.sequence_length = counts[i];
        memcpy(case_input(&step, some, &random, 0, 1), (uint16_t *)c.initial[0] + at * 3 * WIDTH,
               bg_type_size_bytes(&some));
        memcpy(case_input(&step, cache, &random, 0, 1), stored, bg_type_size_bytes(&cache));
        *(int32_t *)case_input(&step, bg_vector(BG_INT32, 1), &random, 0, 1) = (int32_t)at;
        case_output(&step, part);
        run(&step, 0, got);
        compare("y of a step", got[3], (uint16_t *)results[1] + at * WIDTH, BG_BFLOAT16, counts[i] * WIDTH);
        memcpy(stored, got[1], bg_type_size_bytes(&cache));
        free_results(&step, got);
        case_clear(&step);
    }
    assert_int_equal(at, LENGTH);
    free(stored);
    free_results(&c, results);
    case_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed), cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_extremes), cmocka_unit_test(test_cached)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
