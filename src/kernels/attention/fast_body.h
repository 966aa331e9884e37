/*
 * fast_body.h: attention without a matrix of scores. Scores are computed in blocks, of some queries and some keys; the
 * tiles of gemm_body.h compute both products.
 *
 *              keys 0..95    96..191             Forward: a run of queries attends to one block of keys after another;
 *     q  0..31 [ \         ]                     each row keeps its largest score and the sum of exponentials so far,
 *       32..63 [    \      ]                     and its result so far is scaled down when a larger score occurs
 *       64..95 [       \   ]                     (Milakov, Gimelshein, "Online normalizer calculation for softmax",
 *       96..   [           ][ \         ]        2018; Dao et al., "FlashAttention", 2022).
 *
 * The backward pass (also from the FlashAttention paper) has blocks of keys in the outer loop, whose gradients stay in
 * scratch; scores are computed again from queries, keys and the saved log_sum_exp. With causal attention, blocks above
 * the diagonal are skipped. In a block, elements above the diagonal have weights of zero, and zero times NaN is NaN, so
 * a NaN in their operands spreads over the block. reference.c defines names and formulas.
 */
#ifndef BGI_KERNELS_ATTENTION_FAST_BODY_H
#define BGI_KERNELS_ATTENTION_FAST_BODY_H

#include "kernels/attention/attributes.h"
#include "kernels/attention/fast.h"
#include "kernels/dropout/fast_body.h"
#include "kernels/linear/gemm_body.h"
#include "kernels/loss/fast_body.h"

/* The operands of a call, in packed or separate form. In the packed form, qkv holds queries, keys and values. */
typedef struct attention_operands {
    const void *inputs[3];
    const void *bias; /* or NULL */
    const bg_type *bias_type;
    const void *dy, *y;
    const float *log_sums;
    void *gradients[3];
} attention_operands;

/* The rows of a head in one tensor: row `token` begins at element start + token x stride. */
typedef struct attention_rows {
    const void *data;
    int64_t start, stride;
} attention_rows;

/* One head of one sample. */
typedef struct attention_head {
    const bgi_attention *plan;
    const bgi_attention_attributes *attributes;
    attention_rows inputs[3]; /* queries, keys, values */
    attention_rows y;         /* rows of y and dy, without data */
    attention_rows bias;
    bg_dtype bias_dtype;
    float slope;
    bool is_biased;
    int64_t sample, index;
    int64_t number; /* the head's number in the whole model, for random numbers */
    dropout_mask mask;
    bool drops;
} attention_head;

static attention_rows find_rows(const attention_head *head, const attention_operands *operands, int which)
{
    const bgi_attention *a = head->plan;
    const int64_t heads = which == 0 ? a->heads : a->heads / a->group,
                  index = which == 0 ? head->index : head->index / a->group;
    const int64_t tokens = which == 0 ? a->length : a->keys;

    if (a->is_packed)
        return (attention_rows){operands->inputs[which],
                                (head->sample * a->length * 3 + which) * a->width + head->index * a->depth,
                                3 * a->width};
    return (attention_rows){operands->inputs[which], (head->sample * tokens * heads + index) * a->depth,
                            heads * a->depth};
}

/* Returns the head with this number, counted over all samples. */
static attention_head find_head(const bg_kernel_call *call, const bgi_attention *a, const attention_operands *operands,
                                int64_t number)
{
    const bgi_attention_attributes *attributes = call->attributes;
    attention_head head = {.plan = a,
                           .attributes = attributes,
                           .sample = number / a->heads,
                           .index = number % a->heads,
                           .drops = call->env->training && attributes->probability > 0.0};

    for (int which = 0; which < 3; which++)
        head.inputs[which] = find_rows(&head, operands, which);
    head.y = (attention_rows){NULL, head.sample * a->length * a->width + head.index * a->depth, a->width};
    if (operands->bias != NULL) {
        head.bias =
            (attention_rows){operands->bias, bgi_attention_bias_start(operands->bias_type, head.sample, head.index),
                             bgi_attention_bias_stride(operands->bias_type)};
        head.bias_dtype = operands->bias_type->dtype;
    }
    head.slope = (float)bgi_attention_slope(attributes, head.index);
    head.is_biased = operands->bias != NULL || head.slope != 0.0f;
    head.number = bgi_attention_head(call->env, attributes, head.index);
    head.mask = find_mask(call->env, attributes->probability, attributes->random_id,
                          call->env->micro_batch * (uint32_t)a->samples + (uint32_t)head.sample);
    return head;
}

/* Copies `count` rows of the head's depth from `first` on as float32 rows of whole cache lines, filled up with
 * zeros. */
static void gather_rows(const bgi_attention *a, const attention_rows *rows, int64_t first, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++, to += a->padded) {
        read_floats(a->dtype, rows->data, rows->start + (first + i) * rows->stride, a->depth, to);
        memset(to + a->depth, 0, (size_t)(a->padded - a->depth) * sizeof(float));
    }
}

/* Does the same as gather_rows for rows of y or dy. */
static void gather_results(const attention_head *head, const void *data, int64_t first, int64_t count, float *to)
{
    gather_rows(head->plan, &(attention_rows){data, head->y.start, head->y.stride}, first, count, to);
}

/* Transposes rows [count][padded] to `to` [depth][KEYS]; zeros follow the `count` columns up to a whole vector. */
static void transpose_rows(const bgi_attention *a, const float *rows, int64_t count, float *to)
{
    transpose_matrix(rows, a->padded, count, a->depth, to, BGI_ATTENTION_KEYS, bgi_cpu_round_up(count, LANES));
}

/* A block of scores: queries q0.. by keys k0... */
typedef struct score_block {
    int64_t q0, q_count, k0, k_count;
} score_block;

/* Returns the block that begins at query q0 and key k0, with at most QUERIES queries and KEYS keys. It has no keys
 * after the last one that its last query sees, and 0 keys if none of its queries sees one of them. */
static score_block cut_block(const attention_head *head, int64_t q0, int64_t q_end, int64_t k0)
{
    const int64_t q_count = clip(q_end - q0, BGI_ATTENTION_QUERIES);
    const int64_t seen = bgi_attention_end_key(head->attributes, q0 + q_count - 1, head->plan->keys);
    int64_t k_count = seen <= k0 ? 0 : clip(seen - k0, BGI_ATTENTION_KEYS);

    if (bgi_attention_first_key(head->attributes, q0) >= k0 + k_count)
        k_count = 0;
    return (score_block){q0, q_count, k0, k_count};
}

/* Finds the keys of the block that its query `i` sees: key *from and all keys after it, up to but not including the
 * returned one. Both are counted from k0. */
static int64_t count_seen(const attention_head *head, const score_block *block, int64_t i, int64_t *from)
{
    const int64_t first = bgi_attention_first_key(head->attributes, block->q0 + i) - block->k0;
    const int64_t end = bgi_attention_end_key(head->attributes, block->q0 + i, head->plan->keys) - block->k0;
    const int64_t seen = end < 0 ? 0 : clip(end, block->k_count);

    *from = first < 0 ? 0 : clip(first, seen);
    return seen;
}

/* Computes the values that are added to the scores of the block's query `i`, in whole vectors; returns NULL if there is
 * no bias. */
static const float *make_row_bias(const attention_head *head, const score_block *block, int64_t i, float *bias)
{
    const int64_t at = head->bias.start + (block->q0 + i) * head->bias.stride + block->k0;
    const int64_t away = block->q0 + i + head->attributes->offset - block->k0;

    if (!head->is_biased)
        return NULL;
    memset(bias, 0, BGI_ATTENTION_KEYS * sizeof *bias);
    if (head->bias.data != NULL && head->bias_dtype == BG_UINT8)
        for (int64_t j = 0; j < block->k_count; j++)
            bias[j] = ((const uint8_t *)head->bias.data)[at + j] ? 0.0f : -INFINITY;
    else if (head->bias.data != NULL)
        read_floats(head->bias_dtype, head->bias.data, at, block->k_count, bias);
    if (head->slope != 0.0f)
        for (int64_t j = 0; j < block->k_count; j++)
            bias[j] -= head->slope * fabsf((float)(away - j));
    return bias;
}

/* Computes the dropout factors of the block's query `i`. */
static void make_row_factors(const attention_head *head, const score_block *block, int64_t i, float *factors)
{
    const int64_t row = head->number * head->plan->length + block->q0 + i;

    make_factors(&head->mask, (uint32_t)(row * ((head->plan->keys + 3) / 4) + block->k0 / 4), block->k_count, factors);
}

#if LANES == 16
#include "kernels/attention/pairs_body.h"
#endif

/* Computes scores [.., KEYS] of the block = rows [..][padded] x across [depth][KEYS]; rows begin with row `at`. */
static void multiply_across(const bgi_attention *a, const float *rows, int64_t at, const float *across,
                            const score_block *block, float *scores)
{
#if LANES == 16
    if (a->by_pairs) {
        multiply_pairs_across(a, (const uint16_t *)rows + at * a->padded, (const uint16_t *)across, block, scores);
        return;
    }
#endif
    multiply_block(&(gemm_block){.a = rows + at * a->padded,
                                 .a_row = a->padded,
                                 .a_column = 1,
                                 .b = across,
                                 .b_row = BGI_ATTENTION_KEYS,
                                 .c = scores,
                                 .c_row = BGI_ATTENTION_KEYS,
                                 .m = block->q_count,
                                 .n = bgi_cpu_round_up(block->k_count, LANES),
                                 .k = a->depth});
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

/* Scales one row of scores and adds its bias, up to whole vectors; scores of keys that are not seen become minus
 * infinity. Returns the largest score, or NaN if a score is NaN. */
static float scale_scores(float *scores, float scale, const float *bias, int64_t from, int64_t seen)
{
    const int64_t end = bgi_cpu_round_up(seen, LANES);

    for (int64_t j = 0; j < end; j += LANES)
        vstore(scores + j, vload(scores + j) * vset(scale));
    for (int64_t j = 0; bias != NULL && j < end; j += LANES)
        vstore(scores + j, vload(scores + j) + vload(bias + j));
    for (int64_t j = 0; j < from; j++)
        scores[j] = -INFINITY;
    for (int64_t j = seen; j < end; j++)
        scores[j] = -INFINITY;
    return find_row_maximum(scores, end);
}

/* Turns scores into shares e^(score - maximum), and adds them to the sum. In blocks after the first, the sum so far and
 * y are scaled to the new maximum. Shares after the last visible key are zero. */
static void absorb_scores(const bgi_attention *a, float *scores, float largest, int64_t seen, int64_t k_count,
                          bool is_first, float *maximum, float *sum, float *y)
{
    const float before = is_first ? -INFINITY : *maximum;
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

/* Attends from the block's queries, in a run that begins at query `first`, to the block of keys in scratch. */
static void attend_block(const attention_head *head, const score_block *block, int64_t first, const forward_scratch *s)
{
    const bgi_attention *a = head->plan;
    const int64_t at = block->q0 - first;
    const bool is_first = a->is_packed && block->k0 == 0;
    float factors[BGI_ATTENTION_KEYS], bias[BGI_ATTENTION_KEYS];

    multiply_across(a, s->queries, at, s->keys, block, s->scores);
    for (int64_t i = 0; i < block->q_count; i++) {
        float *scores = s->scores + i * BGI_ATTENTION_KEYS;
        int64_t from, seen = count_seen(head, block, i, &from);

        absorb_scores(
            a, scores,
            scale_scores(scores, (float)head->attributes->scale, make_row_bias(head, block, i, bias), from, seen), seen,
            block->k_count, is_first, &s->maxima[at + i], &s->sums[at + i], s->y + (at + i) * a->padded);
        if (head->drops) {
            make_row_factors(head, block, i, factors);
            multiply_factors(scores, factors, block->k_count);
        }
    }
#if LANES == 16
    if (a->by_pairs) {
        multiply_pairs_by_keys(a, s->scores, (uint16_t *)s->scores, 2 * BGI_ATTENTION_KEYS, (const uint16_t *)s->values,
                               block, s->y + at * a->padded, a->padded, !is_first);
        return;
    }
#endif
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
                                 .add = !is_first});
}

/* Clears the maxima, sums and results of `count` queries. Only the separate form needs this: in the packed form, the
 * first block of each row is the one with key 0, which sets them. */
static void begin_rows(const bgi_attention *a, const forward_scratch *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        s->maxima[i] = -INFINITY;
        s->sums[i] = 0.0f;
    }
    memset(s->y, 0, (size_t)(count * a->padded) * sizeof(float));
}

/* Copies the run's queries to scratch. */
static void gather_run(const attention_head *head, int64_t first, int64_t count, const forward_scratch *s)
{
#if LANES == 16
    if (head->plan->by_pairs) {
        copy_pair_rows(head->plan, &head->inputs[0], first, count, (uint16_t *)s->queries);
        return;
    }
#endif
    gather_rows(head->plan, &head->inputs[0], first, count, s->queries);
}

/* Copies a block's keys and values to scratch; keys are transposed. */
static void gather_seen(const attention_head *head, int64_t k0, int64_t k_count, const forward_scratch *s)
{
    const bgi_attention *a = head->plan;

#if LANES == 16
    if (a->by_pairs) {
        lay_rows_across(a, &head->inputs[1], k0, k_count, (uint16_t *)s->keys);
        lay_rows_in_pairs(a, &head->inputs[2], k0, k_count, (uint16_t *)s->values);
        return;
    }
#endif
    gather_rows(a, &head->inputs[1], k0, k_count, s->values);
    transpose_rows(a, s->values, k_count, s->keys);
    gather_rows(a, &head->inputs[2], k0, k_count, s->values);
}

/* Computes the results of queries first..end - 1 of a head. log_sums may be NULL. */
static void attend_run(const attention_head *head, int64_t first, int64_t end, const forward_scratch *s, void *y,
                       float *log_sums)
{
    const bgi_attention *a = head->plan;
    const int64_t keys = bgi_attention_end_key(head->attributes, end - 1, a->keys);
    const int64_t skipped = bgi_attention_first_key(head->attributes, first) / BGI_ATTENTION_KEYS * BGI_ATTENTION_KEYS;

    gather_run(head, first, end - first, s);
    if (!a->is_packed)
        begin_rows(a, s, end - first);
    for (int64_t k0 = skipped; k0 < keys; k0 += BGI_ATTENTION_KEYS) {
        const int64_t k_count = clip(keys - k0, BGI_ATTENTION_KEYS);

        gather_seen(head, k0, k_count, s);
        for (int64_t q0 = first; q0 < end; q0 += BGI_ATTENTION_QUERIES) {
            const score_block block = cut_block(head, q0, end, k0);

            if (block.k_count > 0)
                attend_block(head, &block, first, s);
        }
    }
    for (int64_t i = 0; i < end - first; i++) {
        float *row = s->y + i * a->padded;
        const bool sees_nothing = !a->is_packed && s->sums[i] == 0.0f;

        for (int64_t d = 0; !sees_nothing && d < a->padded; d += LANES)
            vstore(row + d, vload(row + d) / vset(s->sums[i]) + vset(0.0f)); /* never -0, for any blocks seen */
        write_floats(a->dtype, y, head->y.start + (first + i) * head->y.stride, a->depth, row);
        if (log_sums != NULL)
            log_sums[first + i] = sees_nothing ? 0.0f : (float)((double)s->maxima[i] + log((double)s->sums[i]));
    }
}

/* Runs a part of the packed or the separate forward pass. */
static void attend_part(const bg_kernel_call *call, const bgi_attention *a, const attention_operands *operands,
                        uint32_t part, void *y, float *log_sums)
{
    const forward_scratch s = cut_forward_scratch(a, (float *)call->scratch + part * a->part_floats);

    for (int64_t piece = bgi_cpu_part_start(a->pieces, part, a->parts);
         piece < bgi_cpu_part_start(a->pieces, part + 1, a->parts); piece++) {
        const int64_t number = piece / a->runs, first = piece % a->runs * BGI_ATTENTION_RUN;
        const attention_head head = find_head(call, a, operands, number);

        attend_run(&head, first, first + clip(a->length - first, BGI_ATTENTION_RUN), &s, y,
                   log_sums + number * a->length);
    }
}

static void run_attention(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_plan(&call->types[0], call->attributes, call->state);
    const void *qkv = call->operands[0];

    attend_part(call, &a, &(attention_operands){.inputs = {qkv, qkv, qkv}}, part, call->operands[1], call->operands[2]);
}

/* Returns the operands of a call with separate inputs: queries are input `q`, keys and values follow; the bias, if any,
 * is input `bias`. */
static attention_operands find_operands_apart(const bg_kernel_call *call, uint32_t q, uint32_t bias)
{
    attention_operands operands = {.inputs = {call->operands[q], call->operands[q + 1], call->operands[q + 2]}};

    if (bgi_cpu_has_input(call, bias)) {
        operands.bias = call->operands[bias];
        operands.bias_type = &call->types[bias];
    }
    return operands;
}

static void run_dot_product_attention(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_apart_plan(&call->types[0], &call->types[1], call->attributes, call->state);
    const attention_operands operands = find_operands_apart(call, 0, 3);

    attend_part(call, &a, &operands, part, call->operands[call->input_count], call->operands[call->input_count + 1]);
}

/* Copies the new tokens' keys and values of the head to their rows of the cache, from which the head then reads
 * them. */
static void fill_cache(attention_head *head, void *cache, int64_t before)
{
    const bgi_attention *a = head->plan;
    const size_t element_bytes = bg_dtype_size_bytes(a->dtype);

    for (int which = 1; which < 3; which++) {
        const attention_rows from = head->inputs[which];
        const attention_rows to = {cache, (which - 1) * a->width + head->index * a->depth, 2 * a->width};

        for (int64_t i = 0; i < a->length; i++)
            memcpy((char *)cache + (size_t)(to.start + (before + i) * to.stride) * element_bytes,
                   (const char *)from.data + (size_t)(from.start + i * from.stride) * element_bytes,
                   (size_t)a->depth * element_bytes);
        head->inputs[which] = to;
    }
    head->inputs[0].start -= before * head->inputs[0].stride;
    head->y.start -= before * head->y.stride;
}

static void run_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_cached_plan(call->types, call->attributes, call->state);
    const forward_scratch s = cut_forward_scratch(&a, (float *)call->scratch + part * a.part_floats);
    const void *qkv = call->operands[0];
    const int64_t before = bgi_attention_position(call);

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        attention_head head = find_head(call, &a, &(attention_operands){.inputs = {qkv, qkv, qkv}}, piece);

        fill_cache(&head, call->operands[1], before);
        for (int64_t first = before; first < before + a.length; first += BGI_ATTENTION_RUN)
            attend_run(&head, first, first + clip(before + a.length - first, BGI_ATTENTION_RUN), &s, call->operands[3],
                       NULL);
    }
}

/* Copies the new tokens' keys or values of piece `piece`, a head of keys, to rows `before`, ... of its cache. */
static void fill_cache_apart(const bgi_attention *a, int64_t key_heads, int64_t piece, const void *from, void *cache,
                             int64_t before)
{
    const size_t bytes = (size_t)a->depth * bg_dtype_size_bytes(a->dtype);
    const int64_t sample = piece / key_heads, index = piece % key_heads;

    for (int64_t i = 0; i < a->length; i++)
        memcpy((char *)cache + (size_t)((sample * a->keys + before + i) * key_heads + index) * bytes,
               (const char *)from + (size_t)((sample * a->length + i) * key_heads + index) * bytes, bytes);
}

static void run_dot_product_attention_cached(const bg_kernel_call *call, uint32_t part)
{
    const int64_t key_heads = ((const bgi_attention_attributes *)call->attributes)->key_heads;
    const bgi_attention a = bgi_attention_apart_cached_plan(call->types, call->attributes, call->state);
    const forward_scratch s = cut_forward_scratch(&a, (float *)call->scratch + part * a.part_floats);
    const attention_operands operands = {.inputs = {call->operands[0], call->operands[3], call->operands[4]}};

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        const int64_t before = bgi_attention_sample_position(call, piece / key_heads), end = before + a.length;

        for (uint32_t which = 0; which < 2; which++)
            fill_cache_apart(&a, key_heads, piece, call->operands[1 + which], call->operands[3 + which], before);
        for (int64_t h = 0; h < a.group; h++) {
            attention_head head = find_head(call, &a, &operands, piece * a.group + h);

            head.inputs[0].start -= before * head.inputs[0].stride;
            head.y.start -= before * head.y.stride;
            for (int64_t first = before; first < end; first += BGI_ATTENTION_RUN)
                attend_run(&head, first, first + clip(end - first, BGI_ATTENTION_RUN), &s, call->operands[6], NULL);
        }
    }
}

/* ---- backward: dy, queries, keys, values, y, log_sum_exp -> gradients of queries, keys and values ---- */

typedef struct backward_scratch {
    float *keys, *keys_across, *values_across; /* across: transposed */
    float *dk, *dv;
    float *queries, *dy;
    float *shares, *gradients; /* m_ij p_ij, and scale ds_ij */
    float *rounded;            /* the gradients in bfloat16, if they are needed */
    float *along;              /* dy . y of the head's queries, or of a block of queries for a bias's gradient */
    float *sums;               /* sums of a bias's gradient */
    float *dq; /* the head's rows of dq with stride dq_row: in the result itself if the result is float32 */
    int64_t dq_row;
} backward_scratch;

static backward_scratch cut_backward_scratch(const bgi_attention *a, float *scratch)
{
    backward_scratch s = {.keys = scratch};

    s.keys_across = s.keys + BGI_ATTENTION_KEYS * a->padded;
    s.values_across = s.keys_across + BGI_ATTENTION_KEYS * a->padded;
    s.dk = s.values_across + BGI_ATTENTION_KEYS * a->padded;
    s.dv = s.dk + BGI_ATTENTION_KEYS * a->padded;
    s.queries = s.dv + BGI_ATTENTION_KEYS * a->padded;
    s.dy = s.queries + BGI_ATTENTION_QUERIES * a->padded;
    s.shares = s.dy + BGI_ATTENTION_QUERIES * a->padded;
    s.gradients = s.shares + BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS;
    s.rounded = s.gradients + BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS;
    s.along = s.rounded + bgi_attention_rounded_floats(a);
    s.sums = s.along + BGI_ATTENTION_QUERIES;
    return s;
}

/* Sets the fields along, dq and dq_row for head `g` of those that share keys. */
static void enter_head(const attention_head *head, int64_t g, const attention_operands *operands, float *scratch,
                       backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    const int64_t length = bgi_cpu_round_up(a->length, 16);

    s->along = cut_backward_scratch(a, scratch).along + g * length;
    s->dq = cut_backward_scratch(a, scratch).along + a->group * length + g * a->length * a->padded;
    s->dq_row = a->padded;
    if (a->dtype == BG_FLOAT32) {
        s->dq = (float *)operands->gradients[0] + head->inputs[0].start;
        s->dq_row = head->inputs[0].stride;
    }
}

/* Computes dy . y of up to QUERIES queries from q0 on, in the scratch of queries and dy. */
static void measure_block(const attention_head *head, const attention_operands *operands, int64_t q0, int64_t count,
                          const backward_scratch *s, float *along)
{
    const bgi_attention *a = head->plan;

    gather_results(head, operands->dy, q0, count, s->dy);
    gather_results(head, operands->y, q0, count, s->queries);
    for (int64_t i = 0; i < count; i++) {
        vf sum = vset(0.0f);

        for (int64_t d = i * a->padded; d < (i + 1) * a->padded; d += LANES)
            sum = vfma(vload(s->dy + d), vload(s->queries + d), sum);
        along[i] = vsum(sum);
    }
}

/* Turns one row of scores into shares m p, and gradients along the values into scale ds; both are zero for keys that
 * are not seen. */
static void differentiate_scores(float *shares, float *gradients, const float *factors, const float *bias, float scale,
                                 float gradient_scale, float log_sum, float along, int64_t from, int64_t seen,
                                 int64_t k_count)
{
    const int64_t end = bgi_cpu_round_up(seen, LANES), width = bgi_cpu_round_up(k_count, LANES);

    for (int64_t j = 0; j < end; j += LANES) {
        const vf p = bias ? vexp(vfma(vset(scale), vload(shares + j), vload(bias + j)) - vset(log_sum))
                          : vexp(vfma(vset(scale), vload(shares + j), vset(-log_sum)));
        const vf factor = factors ? vload(factors + j) : vset(1.0f);

        vstore(shares + j, factor * p);
        vstore(gradients + j, vset(gradient_scale) * p * (factor * vload(gradients + j) - vset(along)));
    }
    memset(shares, 0, (size_t)from * sizeof(float));
    memset(gradients, 0, (size_t)from * sizeof(float));
    memset(shares + seen, 0, (size_t)(width - seen) * sizeof(float));
    memset(gradients + seen, 0, (size_t)(width - seen) * sizeof(float));
}

/* Computes shares = q k^T and gradients = dy v^T, then finishes both with differentiate_scores. `along` begins at the
 * block's first query. */
static void differentiate_block(const attention_head *head, const score_block *block, const float *log_sums,
                                const float *along, float gradient_scale, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    float factors[BGI_ATTENTION_KEYS], bias[BGI_ATTENTION_KEYS];

    multiply_across(a, s->queries, 0, s->keys_across, block, s->shares);
    multiply_across(a, s->dy, 0, s->values_across, block, s->gradients);
    for (int64_t i = 0; i < block->q_count; i++) {
        int64_t from, seen = count_seen(head, block, i, &from);

        if (head->drops)
            make_row_factors(head, block, i, factors);
        differentiate_scores(s->shares + i * BGI_ATTENTION_KEYS, s->gradients + i * BGI_ATTENTION_KEYS,
                             head->drops ? factors : NULL, make_row_bias(head, block, i, bias),
                             (float)head->attributes->scale, gradient_scale, log_sums[block->q0 + i], along[i], from,
                             seen, block->k_count);
    }
}

/* Adds the block's contributions: dq += ds k (in the packed form, the first block of keys sets dq); dk += ds^T q; dv +=
 * (m p)^T dy. */
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

#if LANES == 16
    if (a->by_pairs) {
        multiply_pairs_by_keys(a, s->gradients, (uint16_t *)s->rounded, BGI_ATTENTION_KEYS, (const uint16_t *)s->keys,
                               block, s->dq + block->q0 * s->dq_row, s->dq_row, !a->is_packed || block->k0 > 0);
        add_pairs_by_queries(a, s->gradients, (const uint16_t *)s->queries + BGI_ATTENTION_QUERIES * a->padded, block,
                             s->dk);
        add_pairs_by_queries(a, s->shares, (const uint16_t *)s->dy + BGI_ATTENTION_QUERIES * a->padded, block, s->dv);
        return;
    }
#endif
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
                                 .add = !a->is_packed || block->k0 > 0});
    multiply_block(&across);
    across.a = s->shares;
    across.b = s->dy;
    across.c = s->dv;
    multiply_block(&across);
}

static void scatter_gradients(const attention_head *head, int which, int64_t first, int64_t count, const float *from,
                              void *gradients)
{
    const attention_rows *rows = &head->inputs[which];

    for (int64_t i = 0; i < count; i++)
        write_floats(head->plan->dtype, gradients, rows->start + (first + i) * rows->stride, head->plan->depth,
                     from + i * head->plan->padded);
}

/* Copies a block's keys to scratch, and its keys and values transposed. */
static void gather_keys(const attention_head *head, int64_t k0, int64_t k_count, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;

#if LANES == 16
    if (a->by_pairs) {
        lay_rows_across(a, &head->inputs[2], k0, k_count, (uint16_t *)s->values_across);
        lay_rows_across(a, &head->inputs[1], k0, k_count, (uint16_t *)s->keys_across);
        lay_rows_in_pairs(a, &head->inputs[1], k0, k_count, (uint16_t *)s->keys);
        return;
    }
#endif
    gather_rows(a, &head->inputs[2], k0, k_count, s->keys);
    transpose_rows(a, s->keys, k_count, s->values_across);
    gather_rows(a, &head->inputs[1], k0, k_count, s->keys);
    transpose_rows(a, s->keys, k_count, s->keys_across);
}

/* Copies a block's queries and dy to scratch; products of pairs need them as rows and as pairs of rows, stored one
 * after the other. */
static void gather_queries(const attention_head *head, const attention_operands *operands, const score_block *block,
                           const backward_scratch *s)
{
    const bgi_attention *a = head->plan;

#if LANES == 16
    if (a->by_pairs) {
        const attention_rows dy = {operands->dy, head->y.start, head->y.stride};
        const int64_t elements = BGI_ATTENTION_QUERIES * a->padded;

        copy_pair_rows(a, &head->inputs[0], block->q0, block->q_count, (uint16_t *)s->queries);
        lay_rows_in_pairs(a, &head->inputs[0], block->q0, block->q_count, (uint16_t *)s->queries + elements);
        copy_pair_rows(a, &dy, block->q0, block->q_count, (uint16_t *)s->dy);
        lay_rows_in_pairs(a, &dy, block->q0, block->q_count, (uint16_t *)s->dy + elements);
        return;
    }
#endif
    gather_rows(a, &head->inputs[0], block->q0, block->q_count, s->queries);
    gather_results(head, operands->dy, block->q0, block->q_count, s->dy);
}

/* Adds the gradients between the queries of one head and a block of keys. */
static void differentiate_keys(const attention_head *head, const attention_operands *operands, int64_t k0,
                               const backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    const int64_t first = head->attributes->causal ? k0 - head->attributes->offset : 0;
    const float *log_sums = operands->log_sums + (head->sample * a->heads + head->index) * a->length;

    for (int64_t q0 = first < 0 ? 0 : first / BGI_ATTENTION_QUERIES * BGI_ATTENTION_QUERIES; q0 < a->length;
         q0 += BGI_ATTENTION_QUERIES) {
        const score_block block = cut_block(head, q0, a->length, k0);

        if (block.k_count == 0)
            continue;
        gather_queries(head, operands, &block, s);
        differentiate_block(head, &block, log_sums, s->along + q0, (float)head->attributes->scale, s);
        sum_block(head, &block, s);
    }
}

/* Computes dy . y of every query; clears dq if the first block does not set it. */
static void begin_head(const attention_head *head, const attention_operands *operands, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;

    for (int64_t q0 = 0; q0 < a->length; q0 += BGI_ATTENTION_QUERIES)
        measure_block(head, operands, q0, clip(a->length - q0, BGI_ATTENTION_QUERIES), s, s->along + q0);
    for (int64_t q = 0; !a->is_packed && q < a->length; q++)
        memset(s->dq + q * s->dq_row, 0, (size_t)a->depth * sizeof(float));
}

/* Differentiates a group of heads that share keys, of which `number` is the first. */
static void differentiate_group(const bg_kernel_call *call, const bgi_attention *a, const attention_operands *operands,
                                int64_t number, float *scratch)
{
    const attention_head first = find_head(call, a, operands, number);
    backward_scratch s = cut_backward_scratch(a, scratch);

    for (int64_t g = 0; g < a->group; g++) {
        const attention_head head = find_head(call, a, operands, number + g);

        enter_head(&head, g, operands, scratch, &s);
        begin_head(&head, operands, &s);
    }
    for (int64_t k0 = 0; k0 < a->keys; k0 += BGI_ATTENTION_KEYS) {
        const int64_t k_count = clip(a->keys - k0, BGI_ATTENTION_KEYS);

        gather_keys(&first, k0, k_count, &s);
        /* the first block of queries may see fewer keys than exist */
        memset(s.dk, 0, (size_t)(2 * BGI_ATTENTION_KEYS * a->padded) * sizeof(float));
        for (int64_t g = 0; g < a->group; g++) {
            const attention_head head = find_head(call, a, operands, number + g);

            enter_head(&head, g, operands, scratch, &s);
            differentiate_keys(&head, operands, k0, &s);
        }
        scatter_gradients(&first, 1, k0, k_count, s.dk, operands->gradients[1]);
        scatter_gradients(&first, 2, k0, k_count, s.dv, operands->gradients[2]);
    }
    for (int64_t g = 0; a->dtype != BG_FLOAT32 && g < a->group; g++) {
        const attention_head head = find_head(call, a, operands, number + g);

        enter_head(&head, g, operands, scratch, &s);
        scatter_gradients(&head, 0, 0, a->length, s.dq, operands->gradients[0]);
    }
}

static void differentiate_part(const bg_kernel_call *call, const bgi_attention *a, const attention_operands *operands,
                               uint32_t part)
{
    for (int64_t piece = bgi_cpu_part_start(a->pieces, part, a->parts);
         piece < bgi_cpu_part_start(a->pieces, part + 1, a->parts); piece++)
        differentiate_group(call, a, operands, piece * a->group, (float *)call->scratch + part * a->part_floats);
}

static void run_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a = bgi_attention_backward_plan(&call->types[1], call->attributes, call->state);
    const void *qkv = call->operands[1];
    void *dqkv = call->operands[4];

    differentiate_part(call, &a,
                       &(attention_operands){.inputs = {qkv, qkv, qkv},
                                             .dy = call->operands[0],
                                             .y = call->operands[2],
                                             .log_sums = call->operands[3],
                                             .gradients = {dqkv, dqkv, dqkv}},
                       part);
}

/* Returns the operands of a call whose inputs are dy, q, k, v, y, log_sum_exp and bias. */
static attention_operands find_backward_operands(const bg_kernel_call *call)
{
    attention_operands operands = find_operands_apart(call, 1, 6);

    operands.dy = call->operands[0];
    operands.y = call->operands[4];
    operands.log_sums = call->operands[5];
    return operands;
}

static void run_dot_product_attention_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a =
        bgi_attention_apart_backward_plan(&call->types[1], &call->types[2], call->attributes, call->state);
    attention_operands operands = find_backward_operands(call);

    for (uint32_t which = 0; which < 3; which++)
        operands.gradients[which] = call->operands[call->input_count + which];
    differentiate_part(call, &a, &operands, part);
}

/* ---- the bias's gradient: scores and their gradients are recomputed and summed in the bias's shape ---- */

/* Adds the gradients of one head's queries first..end - 1 to the sums for a block of keys. */
static void add_head_bias(const attention_head *head, const attention_operands *operands, int64_t first, int64_t end,
                          int64_t k0, const backward_scratch *s)
{
    const bgi_attention *a = head->plan;
    const float *log_sums = operands->log_sums + (head->sample * a->heads + head->index) * a->length;

    gather_keys(head, k0, clip(a->keys - k0, BGI_ATTENTION_KEYS), s);
    for (int64_t q0 = first; q0 < end; q0 += BGI_ATTENTION_QUERIES) {
        const score_block block = cut_block(head, q0, end, k0);

        if (block.k_count == 0)
            continue;
        measure_block(head, operands, q0, block.q_count, s, s->along);
        gather_queries(head, operands, &block, s);
        differentiate_block(head, &block, log_sums, s->along, 1.0f, s);
        for (int64_t i = 0; i < block.q_count; i++) {
            float *sums = s->sums + (head->bias.stride == 0 ? 0 : q0 + i - first) * BGI_ATTENTION_KEYS;

            for (int64_t j = 0; j < block.k_count; j += LANES)
                vstore(sums + j, vload(sums + j) + vload(s->gradients + i * BGI_ATTENTION_KEYS + j));
        }
    }
}

/* Computes the gradient of the bias of (n, h): of at most RUN rows, from row `first` on, or of its only row, which all
 * queries share. */
static void sum_bias(const bg_kernel_call *call, const bgi_attention *a, const attention_operands *operands, int64_t n,
                     int64_t h, int64_t first, const backward_scratch *s)
{
    const bg_type *type = operands->bias_type;
    const bool shares_rows = type->dims[2] == 1;
    const int64_t count = shares_rows ? 1 : clip(a->length - first, BGI_ATTENTION_RUN);
    const int64_t at = bgi_attention_bias_start(type, n, h) + first * a->keys;

    for (int64_t k0 = 0; k0 < a->keys; k0 += BGI_ATTENTION_KEYS) {
        memset(s->sums, 0, (size_t)(count * BGI_ATTENTION_KEYS) * sizeof(float));
        for (int64_t number = 0; number < a->samples * a->heads; number++) {
            const attention_head head = find_head(call, a, operands, number);

            if ((type->dims[0] == 1 || head.sample == n) && (type->dims[1] == 1 || head.index == h))
                add_head_bias(&head, operands, first, shares_rows ? a->length : first + count, k0, s);
        }
        for (int64_t i = 0; i < count; i++)
            write_floats(type->dtype, call->operands[call->input_count], at + i * a->keys + k0,
                         clip(a->keys - k0, BGI_ATTENTION_KEYS), s->sums + i * BGI_ATTENTION_KEYS);
    }
}

static void run_dot_product_attention_bias_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_attention a =
        bgi_attention_bias_plan(&call->types[1], &call->types[2], &call->types[6], call->attributes, call->state);
    const attention_operands operands = find_backward_operands(call);
    const backward_scratch s = cut_backward_scratch(&a, (float *)call->scratch + part * a.part_floats);

    for (int64_t piece = bgi_cpu_part_start(a.pieces, part, a.parts);
         piece < bgi_cpu_part_start(a.pieces, part + 1, a.parts); piece++) {
        const int64_t head = piece / a.runs, heads = operands.bias_type->dims[1];

        sum_bias(call, &a, &operands, head / heads, head % heads, piece % a.runs * BGI_ATTENTION_RUN, &s);
    }
}

#endif
