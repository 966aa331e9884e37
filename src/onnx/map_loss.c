/*
 * map_loss.c: maps losses inside files, computed from logits or from log probabilities of classes. Labels are [N, d...]
 * for scores [N, C, d...].
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>

/* Computes -(weight of the label) x (score of the label) for each element; `*weights` gets the weights. */
static bg_value pick(bgi_mapper *m, bg_value scores, bg_value labels, bg_value class_weights, bg_value *weights)
{
    const bg_type type = bgi_map_type(m, scores), label_type = bgi_map_type(m, labels);
    const int64_t places = bg_type_element_count(&label_type) / type.dims[0];
    const int64_t ignored = bgi_map_int(m, "ignore_index", 0);
    bg_value picked, ids;

    scores = bgi_map_reshape(m, scores, 3, (const int64_t[]){type.dims[0], type.dims[1], places});
    ids = bgi_map_reshape(m, labels, 3, (const int64_t[]){type.dims[0], 1, places});
    picked = bg_gather_elements(m->graph, m->name, scores, 1, ids);
    picked = bgi_map_reshape(m, picked, label_type.rank, label_type.dims);
    *weights = bg_value_is_null(class_weights)
                   ? bg_broadcast(m->graph, NULL, bgi_map_number(m, type.dtype, 1.0), label_type.rank, label_type.dims)
                   : bg_gather(m->graph, NULL, class_weights, 0, labels);
    if (bgi_map_has(m, "ignore_index")) {
        const bg_value is_ignored =
            bg_compare(m->graph, NULL, BG_EQUAL, labels, bgi_map_number(m, label_type.dtype, (double)ignored));

        *weights = bg_where(m->graph, NULL, is_ignored, bgi_map_number(m, type.dtype, 0.0), *weights);
        picked = bg_where(m->graph, NULL, is_ignored, bgi_map_number(m, type.dtype, 0.0), picked);
    }
    return bg_scale(m->graph, NULL, bg_multiply(m->graph, picked, *weights), -1.0, 0.0);
}

static bool out_loss(bgi_mapper *m, bg_value scores, bg_value labels, bg_value class_weights)
{
    const bool is_mean = bgi_map_text_is(m, "reduction", "mean", true);
    bg_value weights, loss;

    loss = pick(m, scores, labels, class_weights, &weights);
    if (!is_mean && bgi_map_text_is(m, "reduction", "none", false))
        return bgi_map_out(m, 0, loss);
    if (!is_mean && !bgi_map_text_is(m, "reduction", "sum", false))
        return bgi_map_refuse(m, "attribute `reduction` must be mean, sum or none");
    loss = bg_reduce(m->graph, NULL, BG_REDUCE_SUM, loss, NULL, 0, false);
    if (is_mean)
        loss = bg_divide(m->graph, loss, bg_reduce(m->graph, NULL, BG_REDUCE_SUM, weights, NULL, 0, false));
    return bgi_map_out(m, 0, loss);
}

static bool check_operands(bgi_mapper *m, bg_value scores, bg_value labels)
{
    const bg_type type = bgi_map_type(m, scores), label_type = bgi_map_type(m, labels);

    if (bg_value_is_null(scores) || bg_value_is_null(labels))
        return bgi_map_refuse(m, "it takes at least two operands");
    if (type.rank < 2 || label_type.rank + 1 != type.rank || label_type.dims[0] != type.dims[0])
        return bgi_map_refuse(m, "labels have %u dimensions and scores have %u; labels must have one less",
                              label_type.rank, type.rank);
    for (uint32_t i = 2; i < type.rank; i++)
        if (type.dims[i] != label_type.dims[i - 1])
            return bgi_map_refuse(m, "dimension %u of the scores is %" PRId64 ", of the labels %" PRId64, i,
                                  type.dims[i], label_type.dims[i - 1]);
    return bg_dtype_is_float(type.dtype) || bgi_map_refuse(m, "scores must be floats");
}

static bool map_negative_log_likelihood(bgi_mapper *m)
{
    const bg_value scores = bgi_map_in(m, 0), labels = bgi_map_in(m, 1), weights = bgi_map_in(m, 2);

    return check_operands(m, scores, labels) && out_loss(m, scores, labels, weights);
}

static bool map_softmax_cross_entropy(bgi_mapper *m)
{
    const bg_value scores = bgi_map_in(m, 0), labels = bgi_map_in(m, 1), weights = bgi_map_in(m, 2);
    bg_value logarithms;

    if (!check_operands(m, scores, labels))
        return false;
    logarithms = bg_log_softmax(m->graph, NULL, scores, 1);
    if (bgi_map_wants(m, 1) && !bgi_map_out(m, 1, logarithms))
        return false;
    return out_loss(m, logarithms, labels, weights);
}

const bgi_mapping bgi_onnx_loss[] = {
    {"NegativeLogLikelihoodLoss", map_negative_log_likelihood, 0},
    {"SoftmaxCrossEntropyLoss", map_softmax_cross_entropy, 0},
    {0},
};
