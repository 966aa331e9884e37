/*
 * map_ml.c: maps ops of the domain ai.onnx.ml, which exported scikit-learn models have: scalers, linear models, and the
 * choice of a label. Numbers in attributes are not trained; numbers in initializers (of multilayer perceptrons) are
 * trained.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>

/* Adds a float vector or matrix from an attribute that must have one number for each element; returns null after a
 * refusal. */
static bg_value floats(bgi_mapper *m, const char *name, uint32_t rank, const int64_t *dims)
{
    const BgiOnnx__Attribute *attribute = bgi_map_attribute(m, name);
    const int64_t count = dims[0] * (rank > 1 ? dims[1] : 1);
    bg_value value = {0};
    double *reals;

    if (attribute == NULL || (int64_t)attribute->n_floats != count) {
        bgi_map_refuse(m, "attribute `%s` has %zu numbers but must have %" PRId64, name,
                       attribute != NULL ? attribute->n_floats : 0, count);
        return value;
    }
    reals = calloc(attribute->n_floats + 1, sizeof *reals);
    m->is_out_of_memory = m->is_out_of_memory || reals == NULL;
    for (int64_t i = 0; reals != NULL && i < count; i++)
        reals[i] = (double)attribute->floats[i];
    if (reals != NULL)
        value = bgi_map_reals(m, BG_FLOAT32, rank, dims, reals);
    free(reals);
    return value;
}

/* Returns the operand as floats [N, C], and sets *columns to C. A vector [C] becomes one row. */
static bg_value rows(bgi_mapper *m, int64_t *columns)
{
    const bg_value x = bgi_map_cast(m, bgi_map_in(m, 0), BG_FLOAT32);
    const bg_type type = bgi_map_type(m, x);

    if (bg_value_is_null(x) || type.rank < 1 || type.rank > 2) {
        bgi_map_refuse(m, "an operand has %u dimensions but must be [N, C]", type.rank);
        return (bg_value){0};
    }
    *columns = type.dims[type.rank - 1];
    return type.rank == 2 ? x : bgi_map_reshape(m, x, 2, (const int64_t[]){1, *columns});
}

static bool map_scaler(bgi_mapper *m)
{
    int64_t columns;
    bg_value x = rows(m, &columns), offset, scale;
    const BgiOnnx__Attribute *offsets = bgi_map_attribute(m, "offset"), *scales = bgi_map_attribute(m, "scale");
    const int64_t one = 1;

    if (bg_value_is_null(x))
        return false;
    offset = floats(m, "offset", 1, offsets != NULL && offsets->n_floats == 1 ? &one : &columns);
    scale = floats(m, "scale", 1, scales != NULL && scales->n_floats == 1 ? &one : &columns);
    if (bg_value_is_null(offset) || bg_value_is_null(scale))
        return false;
    return bgi_map_out_as(m, 0, bg_multiply(m->graph, bg_subtract(m->graph, x, offset), scale), BGI_ONNX_FLOAT);
}

/* Computes x W^T + b for `outputs` rows of coefficients. */
static bg_value linear(bgi_mapper *m, const char *coefficients, int64_t outputs)
{
    int64_t dims[2] = {outputs, 0};
    const bg_value x = rows(m, &dims[1]);
    bg_value weight, bias = {0};

    if (bg_value_is_null(x))
        return x;
    weight = floats(m, coefficients, 2, dims);
    if (bgi_map_has(m, "intercepts"))
        bias = floats(m, "intercepts", 1, dims);
    return bg_value_is_null(weight) || !bgi_map_is_well(m) ? (bg_value){0}
                                                           : bg_linear(m->graph, m->name, x, weight, bias);
}

static bool transform(bgi_mapper *m, bg_value *y)
{
    if (bgi_map_text_is(m, "post_transform", "NONE", true))
        return true;
    if (bgi_map_text_is(m, "post_transform", "LOGISTIC", false))
        *y = bg_sigmoid(m->graph, *y);
    else if (bgi_map_text_is(m, "post_transform", "SOFTMAX", false))
        *y = bg_softmax(m->graph, NULL, *y, 1);
    else
        return bgi_map_refuse(m, "attribute `post_transform` must be NONE, LOGISTIC or SOFTMAX");
    return true;
}

static bool map_linear_regressor(bgi_mapper *m)
{
    const int64_t targets = bgi_map_int(m, "targets", 1);
    bg_value y;

    if (targets < 1 || targets > INT32_MAX)
        return bgi_map_refuse(m, "attribute `targets` is %" PRId64 " but must be at least 1", targets);
    y = linear(m, "coefficients", targets);
    return !bg_value_is_null(y) && transform(m, &y) && bgi_map_out_as(m, 0, y, BGI_ONNX_FLOAT);
}

/* Computes the labels of the largest scores, and the scores. */
static bool map_linear_classifier(bgi_mapper *m)
{
    const BgiOnnx__Attribute *labels = bgi_map_attribute(m, "classlabels_ints");
    const BgiOnnx__Attribute *coefficients = bgi_map_attribute(m, "coefficients");
    bg_value scores, best;
    int64_t columns;

    if (labels == NULL || labels->n_ints < 2)
        return bgi_map_refuse(m, "attribute `classlabels_ints` is missing: labels that are strings, or fewer than two "
                                 "classes, are not supported");
    if (bg_value_is_null(rows(m, &columns)))
        return false;
    if (coefficients == NULL || (int64_t)coefficients->n_floats != (int64_t)labels->n_ints * columns)
        return bgi_map_refuse(
            m, "attribute `coefficients` has %zu numbers but must have a row of %" PRId64 " for each of %zu classes",
            coefficients != NULL ? coefficients->n_floats : 0, columns, labels->n_ints);
    scores = linear(m, "coefficients", (int64_t)labels->n_ints);
    if (bg_value_is_null(scores))
        return false;
    best = bgi_map_cast(m, bg_argmax(m->graph, NULL, scores), BG_INT64);
    best = bg_gather(m->graph, NULL, bgi_map_ints_constant(m, labels->ints, (int64_t)labels->n_ints), 0, best);
    return transform(m, &scores) && bgi_map_out_as(m, 0, best, BGI_ONNX_INT64) &&
           (!bgi_map_wants(m, 1) || bgi_map_out_as(m, 1, scores, BGI_ONNX_FLOAT));
}

static bool map_normalizer(bgi_mapper *m)
{
    const int32_t last = 1;
    int64_t columns;
    bg_value x = rows(m, &columns), size, is_zero;

    if (bg_value_is_null(x))
        return false;
    if (bgi_map_text_is(m, "norm", "MAX", true))
        size = bg_reduce(m->graph, NULL, BG_REDUCE_MAX, x, &last, 1, true);
    else if (bgi_map_text_is(m, "norm", "L1", false))
        size =
            bg_reduce(m->graph, NULL, BG_REDUCE_SUM, bg_elementwise_unary(m->graph, NULL, BG_ABS, x), &last, 1, true);
    else if (bgi_map_text_is(m, "norm", "L2", false))
        size =
            bg_elementwise_unary(m->graph, NULL, BG_SQRT,
                                 bg_reduce(m->graph, NULL, BG_REDUCE_SUM, bg_multiply(m->graph, x, x), &last, 1, true));
    else
        return bgi_map_refuse(m, "attribute `norm` must be MAX, L1 or L2");
    is_zero = bg_compare(m->graph, NULL, BG_EQUAL, size, bgi_map_number(m, BG_FLOAT32, 0.0));
    size = bg_where(m->graph, NULL, is_zero, bgi_map_number(m, BG_FLOAT32, 1.0), size); /* zeros stay zeros */
    return bgi_map_out_as(m, 0, bg_divide(m->graph, x, size), BGI_ONNX_FLOAT);
}

/* Selects elements of the last dimension by number; a vector is treated as one row. */
static bool map_feature_extractor(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    bg_value ids = bgi_map_in(m, 1);
    const bg_type type = bgi_map_type(m, x), ids_type = bgi_map_type(m, ids);
    bg_value y;

    if (bg_value_is_null(x) || bg_value_is_null(ids) || type.rank < 1)
        return bgi_map_refuse(m, "it takes an array and indices of its elements");
    ids = bgi_map_reshape(m, ids, 1, (const int64_t[]){bg_type_element_count(&ids_type)});
    y = bg_gather(m->graph, m->name, x, (int32_t)type.rank - 1, ids);
    if (type.rank == 1)
        y = bgi_map_reshape(m, y, 2, (const int64_t[]){1, bg_type_element_count(&ids_type)});
    return bgi_map_out(m, 0, y);
}

/* Represents a map from classes to numbers as the row of its numbers. */
static bool map_zip(bgi_mapper *m)
{
    return bgi_map_given(m, 0) ? bgi_map_pass(m) : bgi_map_refuse(m, "it takes an operand");
}

const bgi_mapping bgi_onnx_ml[] = {
    {"ArrayFeatureExtractor", map_feature_extractor, 0},
    {"LinearClassifier", map_linear_classifier, 0},
    {"LinearRegressor", map_linear_regressor, 0},
    {"Normalizer", map_normalizer, 0},
    {"Scaler", map_scaler, 0},
    {"ZipMap", map_zip, 0},
    {0},
};
