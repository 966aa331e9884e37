/*
 * attention_body.h: attention without a matrix of scores. Scores are made a block of queries by a block of keys at a
 * time, both products by the tiles of gemm_body.h.
 *
 *              keys 0..95    96..191             forward: a run of queries takes block after block of keys; each row
 *     q  0..31 [ \         ]                     keeps its largest score and the sum of exponentials so far, and what
 *       32..63 [    \      ]                     it has summed up is scaled down when a larger score comes (Milakov,
 *       64..95 [       \   ]                     Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
 *       96..   [           ][ \         ]        et al., "FlashAttention", 2022).
 *
 * Backward (the same paper): blocks of keys in the outer loop, whose gradients stay in scratch; scores are made again
 * from queries, keys and the saved log_sum_exp. Where attention is causal, blocks above the diagonal are left out, and
 * what is above it in a block counts as a share of zero: a NaN there spreads over the block. Names and formulas:
 * reference/attention.c.
 */
#ifndef BGI_CPU_ATTENTION_BODY_H
#define BGI_CPU_ATTENTION_BODY_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm_body.h"
#include "kernels/cpu/loss_body.h"
#include "kernels/cpu/move_body.h"

/* One head of one sample. */
typedef struct attention_head {
    const bgi_attention *plan;
    const bgi_attention_attributes *attributes;
    const void *qkv;
    const void *cache; /* where keys and values of all tokens are; NULL: in qkv */
    int64_t before;    /* tokens before those of qkv */
    int64_t sample, index;
    int64_t number; /* in the whole model: counts random numbers */
    dropout_mask mask;
    bool drops;
} attention_head;

static attention_head find_head(const bg_kernel_call *call, const bgi_attention *a, const void *qkv, int64_t number)
{
    const bgi_attention_attributes *attributes = call->attributes;
    attention_head head = {.plan = a,
                           .attributes = attributes,
                           .qkv = qkv,
                           .sample = number / a->heads,
                           .index = number % a->heads,
                           .drops = call->env->training && attributes->probability > 0.0};

    head.number = bgi_attention_head(call->env, attributes, head.index);
    head.mask = find_mask(call->env, attributes->probability, attributes->random_id,
                          call->env->micro_batch * (uint32_t)a->samples + (uint32_t)head.sample);
    return head;
}

/* Which = 0, 1, 2: the first element of a token's query, key or value in qkv. */
static int64_t find_token(const attention_head *head, int64_t which, int64_t token)
{
    const bgi_attention *a = head->plan;

    return ((head->sample * a->length + token - head->before) * 3 + which) * a->width + head->index * a->depth;
}

/* The same in a tensor [rows, width]: y, dy. */
static int64_t find_row(const attention_head *head, int64_t token)
{
    return (head->sample * head->plan->length + token - head->before) * head->plan->width +
           head->index * head->plan->depth;
}

/* `count` rows of the head's depth, `stride` elements apart, as float32 rows in whole cache lines, the rest zero. */
static void gather_rows(const bgi_attention *a, const void *data, int64_t start, int64_t stride, int64_t count,
                        float *to)
{
    for (int64_t i = 0; i < count; i++, to += a->padded) {
        read_floats(a->dtype, data, start + i * stride, a->depth, to);
        memset(to + a->depth, 0, (size_t)(a->padded - a->depth) * sizeof(float));
    }
}

static void gather_tokens(const attention_head *head, int64_t which, int64_t first, int64_t count, float *to)
{
    const bgi_attention *a = head->plan;

    if (head->cache != NULL && which > 0)
        gather_rows(a, head->cache, (2 * first + which - 1) * a->width + head->index * a->depth, 2 * a->width, count,
                    to);
    else
        gather_rows(a, head->qkv, find_token(head, which, first), 3 * a->width, count, to);
}

/* rows [count][padded] -> to [depth][KEYS], zeros behind. */
static void transpose_rows(const bgi_attention *a, const float *rows, int64_t count, float *to)
{
    transpose_matrix(rows, a->padded, count, a->depth, to, BGI_ATTENTION_KEYS, bgi_cpu_round_up(count, LANES));
}

/* A block of scores: queries q0.. by keys k0... */
typedef struct score_block {
    int64_t q0, q_count, k0, k_count;
} score_block;

/* As many keys as the last query of the block sees; 0: none. */
static score_block cut_block(const attention_head *head, int64_t q0, int64_t q_end, int64_t k0)
{
    const int64_t q_count = clip(q_end - q0, BGI_ATTENTION_QUERIES);
    const int64_t seen = head->attributes->causal ? q0 + q_count : head->plan->length;

    return (score_block){q0, q_count, k0, seen <= k0 ? 0 : clip(seen - k0, BGI_ATTENTION_KEYS)};
}

/* How many of the block's keys its query `i` sees: at least one. */
static int64_t count_seen(const attention_head *head, const score_block *block, int64_t i)
{
    return head->attributes->causal ? clip(block->q0 + i + 1 - block->k0, block->k_count) : block->k_count;
}

/* The dropout's factors of the block's query `i`. */
static void make_row_factors(const attention_head *head, const score_block *block, int64_t i, float *factors)
{
    const int64_t length = head->plan->length, row = head->number * length + block->q0 + i;

    make_factors(&head->mask, (uint32_t)(row * ((length + 3) / 4) + block->k0 / 4), block->k_count, factors);
}

/* ---- forward ---- */

typedef struct forward_scratch {
    float *keys, *values; /* keys: transposed */
    float *queries, *y, *maxima, *sums;
    float *scores;
} forward_scratch;

static forward_scratch cut_forward_scratch(const bgi_attention *a, float *scratch)
{
    forward_scratch s;

    s.keys = scratch;
    s.values = s.keys + BGI_ATTENTION_KEYS * a->padded;
    s.queries = s.values + BGI_ATTENTION_KEYS * a->padded;
    s.y = s.queries + BGI_ATTENTION_RUN * a->padded;
    s.maxima = s.y + BGI_ATTENTION_RUN * a->padded;
    s.sums = s.maxima + BGI_ATTENTION_RUN;
    s.scores = s.sums + BGI_ATTENTION_RUN;
    return s;
}

/* Scores of one row, times scale, up to whole vectors; those that are not seen become minus infinity. Returns the
 * largest: NaN when there is one. */
static float scale_scores(float *scores, float scale, int64_t seen)
{
    const int64_t end = bgi_cpu_round_up(seen, LANES);

    for (int64_t j = 0; j < end; j += LANES)
        vstore(scores + j, vload(scores + j) * vset(scale));
    for (int64_t j = seen; j < end; j++)
        scores[j] = -INFINITY;
    return find_row_maximum(scores, end);
}

/* Scores become shares of the sum so far, which is brought to the new maximum; y too, unless this is the first block.
 * Shares behind the last that is seen are zero. */
static void absorb_scores(const bgi_attention *a, float *scores, float scale, int64_t seen, int64_t k_count,
                          bool is_first, float *maximum, float *sum, float *y)
{
    const float largest = scale_scores(scores, scale, seen), before = is_first ? -INFINITY : *maximum;
    const float now = largest > before || largest != largest ? largest : before;
    const float shift = now == -INFINITY ? 0.0f : now;
    const int64_t end = bgi_cpu_round_up(seen, LANES);
    vf total = vset(0.0f);

    for (int64_t j = 0; j < end; j += LANES) {
        const vf share = vexp(vload(scores + j) - vset(shift));

        total += share;
        vstore(scores + j, share);
    }
    memset(scores + end, 0, (size_t)(bgi_cpu_round_up(k_count, LANES) - end) * sizeof(float));
    if (is_first) {
        *sum = vsum(total);
    } else {
        const float factor = now == before ? 1.0f : expf(before - shift);

        *sum = *sum * factor + vsum(total);
        for (int64_t d = 0; factor != 1.0f && d < a->padded; d += LANES)
            vstore(y + d, vload(y + d) * vset(factor));
    }
    *maximum = now;
}

static void multiply_factors(float *shares, const float *factors, int64_t count)
{
    for (int64_t j = 0; j < count; j += LANES)
        vstore(shares + j, vload(shares + j) * vload(factors + j));
}

/* The queries of a run that begins at `first` and the block of keys that lies in scratch. */
static void attend_block(const attention_head *head, const score_block *block, int64_t first, const forward_scratch *s)
{
    const bgi_attention *a = head->plan;
    const int64_t at = block->q0 - first, width = bgi_cpu_round_up(block->k_count, LANES);
    float factors[BGI_ATTENTION_KEYS];

    multiply_block(&(gemm_block){.a = s->queries + at * a->padded,
                                 .a_row = a->padded,
                                 .a_column = 1,
                                 .b = s->keys,
                                 .b_row = BGI_ATTENTION_KEYS,
                                 .c = s->scores,
                                 .c_row = BGI_ATTENTION_KEYS,
                                 .m = block->q_count,
                                 .n = width,
                                 .k = a->depth});
    for (int64_t i = 0; i < block->q_count; i++) {
        float *scores = s->scores + i * BGI_ATTENTION_KEYS;

        absorb_scores(a, scores, (float)head->attributes->scale, count_seen(head, block, i), block->k_count,
                      block->k0 == 0, &s->maxima[at + i], &s->sums[at + i], s->y + (at + i) * a->padded);
        if (head->drops) {
            make_row_factors(head, block, i, factors);
            multiply_factors(scores, factors, block->k_count);
        }
    }
    multiply_block(&(gemm_block){.a = s->scores,
                                 .a_row = BGI_ATTENTION_KEYS,
                                 .a_column = 1,
                                 .b = s->values,
                                 .b_row = a->padded,
                                 .c = s->y + at * a->padded,
                                 .c_row = a->padded,
                                 .m = block->q_count,
                                 .n = a->padded,
                                 .k = block->k_count,
                                 .add = block->k0 > 0});
}

/* Queries first..end of a head. log_sums may be NULL. */
static void attend_run(const attention_head *head, int64_t first, int64_t end, const forward_scratch *s, void *y,
                       float *log_sums)
{
    const bgi_attention *a = head->plan;
    const int64_t keys = head->attributes->causal ? end : a->length;

    gather_tokens(head, 0, first, end - first, s->queries);
    for (int64_t k0 = 0; k0 < keys; k0 += BGI_ATTENTION_KEYS) {
        const int64_t k_count = clip(keys - k0, BGI_ATTENTION_KEYS);

        gather_tokens(head, 1, k0, k_count, s->values);
        transpose_rows(a, s->values, k_count, s->keys);
        gather_tokens(head, 2, k0, k_count, s->values);
        for (int64_t q0 = first; q0 < end; q0 += BGI_ATTENTION_QUERIES) {
            const score_block block = cut_block(head, q0, end, k0);

            if (block.k_count > 0)
                attend_block(head, &block, first, s);
        }
    }
    for (int64_t i = 0; i < end - first; i++) {
        float *row = s->y + i * a->padded;

        for (int64_t d = 0; d < a->padded; d += LANES)
            vstore(row + d, vload(row + d) / vset(s->sums[i]));
        write_floats(a->dtype, y, find_row(head, first + i), a->depth, row);
        if (log_sums != NULL)
            log_sums[first + i] = (float)((double)s->maxima[i] + log((double)s->sums[i]));
    }
}

static void run_attention(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_plan(&call->types[0], call->attributes);
    const forward_scratch s = cut_forward_scratch(&a, (float *)call->scratch + part * a.part_floats);

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        const int64_t number = piece / a.runs, first = piece % a.runs * BGI_ATTENTION_RUN;
        const attention_head head = find_head(call, &a, call->operands[0], number);

        attend_run(&head, first, first + clip(a.length - first, BGI_ATTENTION_RUN), &s, call->operands[1],
                   (float *)call->operands[2] + number * a.length);
    }
}

/* Copies the head's keys and values of the new tokens to their rows of the cache. */
static void fill_cache(const attention_head *head, void *cache)
{
    const bgi_attention *a = head->plan;
    const size_t element_bytes = bg_dtype_size_bytes(a->dtype);

    for (int64_t token = head->before; token < head->before + a->length; token++)
        for (int64_t which = 1; which < 3; which++) {
            const int64_t to = (2 * token + which - 1) * a->width + head->index * a->depth;

            memcpy((char *)cache + (size_t)to * element_bytes,
                   (const char *)head->qkv + (size_t)find_token(head, which, token) * element_bytes,
                   (size_t)a->depth * element_bytes);
        }
}

static void run_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_cached_plan(call->types, call->attributes);
    const forward_scratch s = cut_forward_scratch(&a, (float *)call->scratch + part * a.part_floats);
    const int64_t before = bgi_attention_position(call);

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        attention_head head = find_head(call, &a, call->operands[0], piece);

        head.cache = call->operands[1];
        head.before = before;
        fill_cache(&head, call->operands[1]);
        for (int64_t first = before; first < before + a.length; first += BGI_ATTENTION_RUN)
            attend_run(&head, first, first + clip(before + a.length - first, BGI_ATTENTION_RUN), &s, call->operands[3],
                       NULL);
    }
}

/* ---- backward: dy, qkv, y, log_sum_exp -> dqkv ---- */

typedef struct backward_scratch {
    float *keys, *keys_across, *values_across; /* across: transposed */
    float *dk, *dv;
    float *queries, *dy;
    float *shares, *gradients; /* m_ij p_ij; scale ds_ij */
    float *along;              /* dy . y */
    float *dq;                 /* rows dq_row apart: in the result itself where that is float32 */
    int64_t dq_row;
} backward_scratch;

static backward_scratch cut_backward_scratch(const attention_head *head, float *scratch, void *dqkv)
{
    const bgi_attention *a = head->plan;
    backward_scratch s;

    s.keys = scratch;
    s.keys_across = s.keys + BGI_ATTENTION_KEYS * a->padded;
    s.values_across = s.keys_across + BGI_ATTENTION_KEYS * a->padded;
    s.dk = s.values_across + BGI_ATTENTION_KEYS * a->padded;
    s.dv = s.dk + BGI_ATTENTION_KEYS * a->padded;
    s.queries = s.dv + BGI_ATTENTION_KEYS * a->padded;
    s.dy = s.queries + BGI_ATTENTION_QUERIES * a->padded;
    s.shares = s.dy + BGI_ATTENTION_QUERIES * a->padded;
    s.gradients = s.shares + BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS;
    s.along = s.gradients + BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS;
    s.dq = s.along + bgi_cpu_round_up(a->length, 16);
    s.dq_row = a->padded;
    if (a->dtype == BG_FLOAT32) {
        s.dq = (float *)dqkv + find_token(head, 0, 0);
        s.dq_row = 3 * a->width;
    }
    return s;
}

/* dy . y of every query, block by block through the scratch of queries and dy. */
static void measure_along(const attention_head *head, const void *dy, const void *y, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;

    for (int64_t q0 = 0; q0 < a->length; q0 += BGI_ATTENTION_QUERIES) {
        const int64_t count = clip(a->length - q0, BGI_ATTENTION_QUERIES);

        gather_rows(a, dy, find_row(head, q0), a->width, count, s->dy);
        gather_rows(a, y, find_row(head, q0), a->width, count, s->queries);
        for (int64_t i = 0; i < count; i++) {
            vf sum = vset(0.0f);

            for (int64_t d = i * a->padded; d < (i + 1) * a->padded; d += LANES)
                sum = vfma(vload(s->dy + d), vload(s->queries + d), sum);
            s->along[q0 + i] = vsum(sum);
        }
    }
}

/* One row: scores become shares m p, and the gradients along the values scale ds; both zero where nothing is seen. */
static void differentiate_scores(float *shares, float *gradients, const float *factors, float scale, float log_sum,
                                 float along, int64_t seen, int64_t k_count)
{
    const int64_t end = bgi_cpu_round_up(seen, LANES), width = bgi_cpu_round_up(k_count, LANES);

    for (int64_t j = 0; j < end; j += LANES) {
        const vf p = vexp(vfma(vset(scale), vload(shares + j), vset(-log_sum)));
        const vf factor = factors ? vload(factors + j) : vset(1.0f);

        vstore(shares + j, factor * p);
        vstore(gradients + j, vset(scale) * p * (factor * vload(gradients + j) - vset(along)));
    }
    memset(shares + seen, 0, (size_t)(width - seen) * sizeof(float));
    memset(gradients + seen, 0, (size_t)(width - seen) * sizeof(float));
}

/* shares = q k^T and gradients = dy v^T, then both as above. */
static void differentiate_block(const attention_head *head, const score_block *block, const float *log_sums,
                                const backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    gemm_block product = {.a = s->queries,
                          .a_row = a->padded,
                          .a_column = 1,
                          .b = s->keys_across,
                          .b_row = BGI_ATTENTION_KEYS,
                          .c = s->shares,
                          .c_row = BGI_ATTENTION_KEYS,
                          .m = block->q_count,
                          .n = bgi_cpu_round_up(block->k_count, LANES),
                          .k = a->depth};
    float factors[BGI_ATTENTION_KEYS];

    multiply_block(&product);
    product.a = s->dy;
    product.b = s->values_across;
    product.c = s->gradients;
    multiply_block(&product);
    for (int64_t i = 0; i < block->q_count; i++) {
        if (head->drops)
            make_row_factors(head, block, i, factors);
        differentiate_scores(s->shares + i * BGI_ATTENTION_KEYS, s->gradients + i * BGI_ATTENTION_KEYS,
                             head->drops ? factors : NULL, (float)head->attributes->scale, log_sums[block->q0 + i],
                             s->along[block->q0 + i], count_seen(head, block, i), block->k_count);
    }
}

/* dq += ds k, which the first block of keys begins; dk += ds^T q; dv += (m p)^T dy. */
static void sum_block(const attention_head *head, const score_block *block, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    gemm_block across = {.a = s->gradients,
                         .a_row = 1,
                         .a_column = BGI_ATTENTION_KEYS,
                         .b = s->queries,
                         .b_row = a->padded,
                         .c = s->dk,
                         .c_row = a->padded,
                         .m = block->k_count,
                         .n = a->padded,
                         .k = block->q_count,
                         .add = true};

    multiply_block(&(gemm_block){.a = s->gradients,
                                 .a_row = BGI_ATTENTION_KEYS,
                                 .a_column = 1,
                                 .b = s->keys,
                                 .b_row = a->padded,
                                 .c = s->dq + block->q0 * s->dq_row,
                                 .c_row = s->dq_row,
                                 .m = block->q_count,
                                 .n = a->depth,
                                 .k = block->k_count,
                                 .add = block->k0 > 0});
    multiply_block(&across);
    across.a = s->shares;
    across.b = s->dy;
    across.c = s->dv;
    multiply_block(&across);
}

static void scatter_gradients(const attention_head *head, int64_t which, int64_t first, int64_t count,
                              const float *from, void *dqkv)
{
    for (int64_t i = 0; i < count; i++)
        write_floats(head->plan->dtype, dqkv, find_token(head, which, first + i), head->plan->depth,
                     from + i * head->plan->padded);
}

static void differentiate_head(const attention_head *head, const void *dy, const float *log_sums,
                               const backward_scratch *s, void *dqkv)
{
    const bgi_attention *a = head->plan;

    for (int64_t k0 = 0; k0 < a->length; k0 += BGI_ATTENTION_KEYS) {
        const int64_t k_count = clip(a->length - k0, BGI_ATTENTION_KEYS), q_first = head->attributes->causal ? k0 : 0;

        gather_tokens(head, 2, k0, k_count, s->keys);
        transpose_rows(a, s->keys, k_count, s->values_across);
        gather_tokens(head, 1, k0, k_count, s->keys);
        transpose_rows(a, s->keys, k_count, s->keys_across);
        /* the first block of queries may see fewer keys than there are */
        memset(s->dk, 0, (size_t)(2 * BGI_ATTENTION_KEYS * a->padded) * sizeof(float));
        for (int64_t q0 = q_first; q0 < a->length; q0 += BGI_ATTENTION_QUERIES) {
            const score_block block = cut_block(head, q0, a->length, k0);

            gather_tokens(head, 0, q0, block.q_count, s->queries);
            gather_rows(a, dy, find_row(head, q0), a->width, block.q_count, s->dy);
            differentiate_block(head, &block, log_sums, s);
            sum_block(head, &block, s);
        }
        scatter_gradients(head, 1, k0, k_count, s->dk, dqkv);
        scatter_gradients(head, 2, k0, k_count, s->dv, dqkv);
    }
    if (a->dtype != BG_FLOAT32)
        scatter_gradients(head, 0, 0, a->length, s->dq, dqkv);
}

static void run_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_backward_plan(&call->types[1], call->attributes);

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        const attention_head head = find_head(call, &a, call->operands[1], piece);
        const backward_scratch s =
            cut_backward_scratch(&head, (float *)call->scratch + part * a.part_floats, call->operands[4]);

        measure_along(&head, call->operands[0], call->operands[2], &s);
        differentiate_head(&head, call->operands[0], (const float *)call->operands[3] + piece * a.length, &s,
                           call->operands[4]);
    }
}

#endif
