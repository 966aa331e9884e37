/*
 * fast.h: how attention divides its work. A piece of the forward pass is a run of queries of one head, and a piece of
 * the backward pass is all heads of a sample that share keys. Each sum over keys or queries is therefore computed by
 * one part, in order.
 */
#ifndef BGI_KERNELS_ATTENTION_FAST_H
#define BGI_KERNELS_ATTENTION_FAST_H

#include "kernels/attention/attributes.h"
#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"

enum {
    BGI_ATTENTION_KEYS = 96,    /* keys in a block of scores: whole panels in every instruction set */
    BGI_ATTENTION_QUERIES = 32, /* queries in a block; divides KEYS: the diagonal is in one block if offset is 0 */
    BGI_ATTENTION_RUN = 128     /* queries that use a packed block of keys in the forward pass */
};
#define BGI_ATTENTION_PART_FLOPS 1.3e6

typedef struct bgi_attention {
    bg_dtype dtype;
    bool is_packed; /* queries, keys and values in one tensor */
    bool by_pairs;  /* products of pairs (pairs_body.h) */
    int64_t samples, heads, length, depth;
    int64_t keys, group; /* the number of keys; heads of queries that share keys */
    int64_t width;       /* heads x depth */
    int64_t padded;      /* depth, rounded up to whole cache lines */
    int64_t runs;        /* pieces of a head in the forward pass */
    int64_t pieces;      /* pieces of all heads */
    uint32_t parts;
    int64_t part_floats; /* scratch of a part */
} bgi_attention;

/* Returns the sizes of packed attention; `state` is the state of the kernel. */
static inline bgi_attention bgi_attention_read(const bg_type *qkv, const bgi_attention_attributes *attributes,
                                               const void *state)
{
    const int64_t width = qkv->dims[qkv->rank - 1] / 3, length = attributes->sequence_length;

    return (bgi_attention){.dtype = qkv->dtype,
                           .is_packed = true,
                           .by_pairs = bgi_product_pairs(state) != BGI_ISA_PORTABLE,
                           .samples = bg_type_element_count(qkv) / (3 * width * length),
                           .heads = attributes->heads,
                           .length = length,
                           .depth = width / attributes->heads,
                           .keys = length,
                           .group = 1,
                           .width = width,
                           .padded = bgi_cpu_round_up(width / attributes->heads, 16)};
}

static inline bgi_attention bgi_attention_read_apart(const bg_type *q, const bg_type *k,
                                                     const bgi_attention_attributes *attributes, const void *state)
{
    return (bgi_attention){.dtype = q->dtype,
                           .by_pairs = bgi_product_pairs(state) != BGI_ISA_PORTABLE,
                           .samples = q->dims[0],
                           .heads = attributes->heads,
                           .length = q->dims[1],
                           .depth = q->dims[2] / attributes->heads,
                           .keys = k->dims[1],
                           .group = attributes->heads / attributes->key_heads,
                           .width = q->dims[2],
                           .padded = bgi_cpu_round_up(q->dims[2] / attributes->heads, 16)};
}

static inline double bgi_attention_flops(const bgi_attention *a, bool is_causal, double products)
{
    return 2.0 * products * (double)a->samples * (double)a->width * (double)a->length * (double)a->keys *
           (is_causal ? 0.5 : 1.0);
}

/* Returns the floats of scratch of one part. */
static inline int64_t bgi_attention_forward_floats(const bgi_attention *a)
{
    return 2 * BGI_ATTENTION_KEYS * a->padded + 2 * BGI_ATTENTION_RUN * (a->padded + 1) +
           BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS;
}

/* Divides the forward pass. Scratch: a block's keys, transposed, and its values; queries, results, maxima and sums of a
 * run; scores. */
static inline bgi_attention bgi_attention_cut_forward(bgi_attention a, const bgi_attention_attributes *attributes)
{
    a.runs = (a.length + BGI_ATTENTION_RUN - 1) / BGI_ATTENTION_RUN;
    a.pieces = a.samples * a.heads * a.runs;
    a.parts = bgi_cpu_part_count(a.pieces, bgi_attention_flops(&a, attributes->causal, 2.0), BGI_ATTENTION_PART_FLOPS);
    a.part_floats = bgi_attention_forward_floats(&a);
    return a;
}

static inline bgi_attention bgi_attention_plan(const bg_type *qkv, const bgi_attention_attributes *attributes,
                                               const void *state)
{
    return bgi_attention_cut_forward(bgi_attention_read(qkv, attributes, state), attributes);
}

static inline bgi_attention bgi_attention_apart_plan(const bg_type *q, const bg_type *k,
                                                     const bgi_attention_attributes *attributes, const void *state)
{
    return bgi_attention_cut_forward(bgi_attention_read_apart(q, k, attributes, state), attributes);
}

/* Plans ATTENTION_CACHED, with the scratch of the forward pass. A piece is a head: no other head reads or writes its
 * columns of the cache. */
static inline bgi_attention bgi_attention_cached_plan(const bg_type *types, const bgi_attention_attributes *attributes,
                                                      const void *state)
{
    bgi_attention a = bgi_attention_read(&types[0], attributes, state);

    a.keys = types[1].dims[0];
    a.pieces = a.heads;
    a.parts = bgi_cpu_part_count(a.pieces, 4.0 * (double)a.width * (double)a.length * (double)types[1].dims[0],
                                 BGI_ATTENTION_PART_FLOPS);
    a.part_floats = bgi_attention_forward_floats(&a);
    return a;
}

/* Plans DOT_PRODUCT_ATTENTION_CACHED, with the scratch of the forward pass. A piece is the heads of a sample that share
 * keys: no other head reads or writes their columns of the sample's caches. */
static inline bgi_attention
bgi_attention_apart_cached_plan(const bg_type *types, const bgi_attention_attributes *attributes, const void *state)
{
    bgi_attention a = bgi_attention_read_apart(&types[0], &types[3], attributes, state);

    a.pieces = a.samples * attributes->key_heads;
    a.parts = bgi_cpu_part_count(a.pieces, bgi_attention_flops(&a, false, 2.0), BGI_ATTENTION_PART_FLOPS);
    a.part_floats = bgi_attention_forward_floats(&a);
    return a;
}

/* Returns the size, in floats, of a block of scores in bfloat16, which only products of pairs need. */
static inline int64_t bgi_attention_rounded_floats(const bgi_attention *a)
{
    return a->by_pairs ? BGI_ATTENTION_QUERIES * BGI_ATTENTION_KEYS / 2 : 0;
}

/* Divides the backward pass. A piece is all heads of a sample that share keys. Scratch: a block's keys, keys
 * transposed, values transposed, and both gradients; a block's queries and dy; scores and their gradients; dy . y of
 * every query; for types other than float32 the heads' dq in float32; for products of pairs a block's gradients of
 * scores in bfloat16. */
static inline bgi_attention bgi_attention_cut_backward(bgi_attention a, const bgi_attention_attributes *attributes)
{
    a.pieces = a.samples * a.heads / a.group;
    a.parts = bgi_cpu_part_count(a.pieces, bgi_attention_flops(&a, attributes->causal, 5.0), BGI_ATTENTION_PART_FLOPS);
    a.part_floats = 5 * BGI_ATTENTION_KEYS * a.padded + 2 * BGI_ATTENTION_QUERIES * (a.padded + BGI_ATTENTION_KEYS) +
                    a.group * bgi_cpu_round_up(a.length, 16) +
                    (a.dtype == BG_FLOAT32 ? 0 : a.group * a.length * a.padded) + bgi_attention_rounded_floats(&a);
    return a;
}

static inline bgi_attention bgi_attention_backward_plan(const bg_type *qkv, const bgi_attention_attributes *attributes,
                                                        const void *state)
{
    return bgi_attention_cut_backward(bgi_attention_read(qkv, attributes, state), attributes);
}

static inline bgi_attention bgi_attention_apart_backward_plan(const bg_type *q, const bg_type *k,
                                                              const bgi_attention_attributes *attributes,
                                                              const void *state)
{
    return bgi_attention_cut_backward(bgi_attention_read_apart(q, k, attributes, state), attributes);
}

/* Returns the plan of the bias's gradient. A piece is a run of the bias's rows; for each row it sums over all samples,
 * heads and queries that share the row. Scratch: as in the backward pass, for one head and a block of queries; and the
 * piece's sums for a block of keys. */
static inline bgi_attention bgi_attention_bias_plan(const bg_type *q, const bg_type *k, const bg_type *bias,
                                                    const bgi_attention_attributes *attributes, const void *state)
{
    bgi_attention a = bgi_attention_read_apart(q, k, attributes, state);

    a.runs = (bias->dims[2] + BGI_ATTENTION_RUN - 1) / BGI_ATTENTION_RUN;
    a.pieces = bias->dims[0] * bias->dims[1] * a.runs;
    a.parts = bgi_cpu_part_count(a.pieces, bgi_attention_flops(&a, attributes->causal, 2.0), BGI_ATTENTION_PART_FLOPS);
    a.part_floats = 5 * BGI_ATTENTION_KEYS * a.padded + 2 * BGI_ATTENTION_QUERIES * (a.padded + BGI_ATTENTION_KEYS) +
                    BGI_ATTENTION_QUERIES + BGI_ATTENTION_RUN * BGI_ATTENTION_KEYS + bgi_attention_rounded_floats(&a);
    return a;
}

#endif
