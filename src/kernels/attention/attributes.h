/*
 * attributes.h: the operands and attributes of attention. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_ATTENTION_ATTRIBUTES_H
#define BGI_KERNELS_ATTENTION_ATTRIBUTES_H

#include <brigade/ops.h>

#include <math.h>

#include "kernels/mesh.h"

/*
 *     ATTENTION           qkv [N,S,3HD] or [NS,3HD] -> y [.., HD], log_sum_exp [N,H,S]    (H heads of width D)
 *     ATTENTION_BACKWARD  dy, qkv, y, log_sum_exp -> dqkv
 *     ATTENTION_CACHED    qkv [S,3HD], cache [L,2HD], positions int32 [..] -> y [S,HD]
 *
 * A row of qkv has the queries of all heads, then their keys, then their values. log_sum_exp is float32, or float64 for
 * float64 operands. In training, the weight of query i of head h for key j is kept when word j % 4 of
 *
 *     Philox4x32-10(counter {(h S + i) ceil(S / 4) + j / 4, global sample, random_id, step low}, key as DROPOUT's)
 *
 * is at least probability x 2^32, and then divided by 1 - probability; if heads are sharded over an axis, h counts from
 * the first head of the whole model. CACHED works on one sequence, whose next S tokens have positions p, p + 1, ...; p
 * is the first element of `positions`, clamped to 0..L - S. Their keys and values become rows p, p + 1, ... of the
 * cache, and the token at p + i sees rows 0..p + i. CACHED is causal and has no dropout. A kernel may divide its work
 * by `serialization`; results do not depend on it.
 *
 *     DOT_PRODUCT_ATTENTION                q [N,S,HD], k [N,T,GD], v [N,T,GD], bias [N|1,H|1,S|1,T]? -> y [N,S,HD],
 *                                          log_sum_exp [N,H,S]
 *     DOT_PRODUCT_ATTENTION_BACKWARD       dy, q, k, v, y, log_sum_exp, bias? -> dq, dk, dv
 *     DOT_PRODUCT_ATTENTION_BIAS_BACKWARD  dy, q, k, v, y, log_sum_exp, bias -> dbias
 *     DOT_PRODUCT_ATTENTION_CACHED         q [N,S,HD], k and v [N,S,GD], key cache and value cache [N,L,GD],
 *                                          positions int32 [N] -> y [N,S,HD]
 *
 * Head h of the queries uses head h / (H / G) of the keys and values. Query i is at position i + offset, key j at
 * position j. A bias of uint8 marks the visible keys (not 0); a bias of floats, of q's type or float32, is added to the
 * scaled scores. A query that sees no key gives zeros, and its log_sum_exp is 0. For dropout, the counter begins with
 * (h S + i) ceil(T / 4) + j / 4. For CACHED, the tokens of sample n are at positions p, p + 1, ..., where p is
 * positions[n] clamped to 0..L - S; their keys and values become these rows of the caches. CACHED is causal, with
 * offset 0 and without dropout. These kernels read neither sequence_length nor serialization.
 */
typedef struct bgi_attention_attributes {
    int64_t heads, sequence_length;
    uint8_t causal;
    double scale;
    double probability;
    uint32_t random_id;
    int64_t serialization; /* the number of pieces into which queries are cut */
    bg_mesh_axis axis;     /* heads are sharded over this axis; `heads` is the number on one replica */
    /* Used only by the DOT_PRODUCT_ATTENTION kernels; 0 for the others: */
    int64_t key_heads;
    int64_t window; /* a query sees keys at a distance below this; 0: all */
    int64_t offset; /* the position of query 0 */
    double alibi; /* the exponent of the smallest slope: 8 in the paper; 0: no slopes, as the ops require with an axis,
                     because `heads` is then not the number of all heads */
} bgi_attention_attributes;

/* These two functions return the range of keys that a query sees: the first key, and the end, which is not included.
 * The range may be empty. */
static inline int64_t bgi_attention_first_key(const bgi_attention_attributes *attributes, int64_t query)
{
    const int64_t first = query + attributes->offset - attributes->window + 1;

    return attributes->window == 0 || first < 0 ? 0 : first;
}

static inline int64_t bgi_attention_end_key(const bgi_attention_attributes *attributes, int64_t query, int64_t keys)
{
    const int64_t at = query + attributes->offset;
    const int64_t end = attributes->causal ? at + 1 : attributes->window > 0 ? at + attributes->window : keys;

    return end < 0 ? 0 : end < keys ? end : keys;
}

/* Returns how much a key's bias decreases with each position of distance from the query (Press, Smith, Lewis, "Train
 * Short, Test Long", 2022). The slopes are powers of 2^(-alibi / heads). If the number of heads is not a power of two,
 * the slopes are those for the next lower power of two, then every second slope for the next higher power. */
static inline double bgi_attention_slope(const bgi_attention_attributes *attributes, int64_t head)
{
    int64_t power = 1;

    if (attributes->alibi == 0.0)
        return 0.0;
    while (2 * power <= attributes->heads)
        power *= 2;
    return head < power ? exp2(-attributes->alibi * (double)(head + 1) / (double)power)
                        : exp2(-attributes->alibi * (double)(2 * (head - power) + 1) / (2.0 * (double)power));
}

/* These two functions return the index of the first element of a bias [N|1,H|1,S|1,T] for a sample and a head, and the
 * stride of its rows, which is 0 when all queries share one row. */
static inline int64_t bgi_attention_bias_start(const bg_type *bias, int64_t sample, int64_t head)
{
    return ((bias->dims[0] == 1 ? 0 : sample) * bias->dims[1] + (bias->dims[1] == 1 ? 0 : head)) * bias->dims[2] *
           bias->dims[3];
}

static inline int64_t bgi_attention_bias_stride(const bg_type *bias)
{
    return bias->dims[2] == 1 ? 0 : bias->dims[3];
}

/* Returns the position of the first new token of ATTENTION_CACHED. */
static inline int64_t bgi_attention_position(const bg_kernel_call *call)
{
    const int64_t most = call->types[1].dims[0] - call->types[0].dims[0], given = *(const int32_t *)call->operands[2];

    return given < 0 ? 0 : given < most ? given : most;
}

/* Returns the position of a sample's first new token in DOT_PRODUCT_ATTENTION_CACHED. */
static inline int64_t bgi_attention_sample_position(const bg_kernel_call *call, int64_t sample)
{
    const int64_t most = call->types[3].dims[1] - call->types[0].dims[1];
    const int64_t given = ((const int32_t *)call->operands[5])[sample];

    return given < 0 ? 0 : given < most ? given : most;
}

/* Returns the number, in the whole model, of the replica's head `index`. */
static inline int64_t bgi_attention_head(const bg_kernel_env *env, const bgi_attention_attributes *attributes,
                                         int64_t index)
{
    return bgi_mesh_place(env, attributes->axis) * attributes->heads + index;
}

#endif
