/*
 * convert.c: converts one tensor of each sample to the element type that a model needs. On request it normalizes the
 * tensor, and gives it other dimensions with the same number of elements. The other tensors are copied.
 *
 * A value that cannot become an integer exactly is refused, and so are bools other than 0 and 1. Conversions to floats
 * go through double, and then through float32 if the result is float16 or bfloat16. Normalization rounds each operation
 * to float32, as torchvision does.
 */
#include "data/dataset.h"

#include "core/error.h"
#include "core/narrow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_ALIGNMENT = 64 };

typedef struct conversion {
    uint32_t tensor_index;
    bg_dtype from, to;
    size_t elements, channel_elements; /* numbers of elements in a sample and in a channel */
    uint32_t channel_count;            /* 0: not normalized */
    float *means, *deviations;         /* in one allocation */
    char *bools; /* the elements must be 0 or 1, and this is the name of their file in errors; NULL: any numbers */
} conversion;

static void release_conversion(void *state)
{
    conversion *c = state;

    free(c->means);
    free(c->bools);
    free(c);
}

static size_t round_up(size_t size_bytes)
{
    return (size_bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

/* ---- one element ---- */

static bool is_integer(bg_dtype dtype)
{
    return dtype == BG_UINT8 || dtype == BG_INT32 || dtype == BG_INT64;
}

static int64_t read_integer(bg_dtype dtype, const void *data, size_t i)
{
    return dtype == BG_UINT8   ? ((const uint8_t *)data)[i]
           : dtype == BG_INT32 ? ((const int32_t *)data)[i]
                               : ((const int64_t *)data)[i];
}

static double read_real(bg_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case BG_FLOAT32:
        return (double)((const float *)data)[i];
    case BG_FLOAT64:
        return ((const double *)data)[i];
    case BG_FLOAT16:
        return (double)bgi_float16_to_float(((const uint16_t *)data)[i]);
    case BG_BFLOAT16:
        return (double)bgi_bfloat16_to_float(((const uint16_t *)data)[i]);
    default:
        return (double)read_integer(dtype, data, i);
    }
}

/* Writes an integer as element `i`; returns false if the type cannot represent it. */
static bool write_integer(bg_dtype dtype, void *data, size_t i, int64_t value)
{
    if (dtype == BG_UINT8) {
        ((uint8_t *)data)[i] = (uint8_t)value;
        return value >= 0 && value <= UINT8_MAX;
    }
    if (dtype == BG_INT32) {
        ((int32_t *)data)[i] = (int32_t)value;
        return value >= INT32_MIN && value <= INT32_MAX;
    }
    ((int64_t *)data)[i] = value;
    return true;
}

static void write_real(bg_dtype dtype, void *data, size_t i, double value)
{
    if (dtype == BG_FLOAT32)
        ((float *)data)[i] = (float)value;
    else if (dtype == BG_FLOAT64)
        ((double *)data)[i] = value;
    else if (dtype == BG_FLOAT16)
        ((uint16_t *)data)[i] = bgi_float16_from_float((float)value);
    else
        ((uint16_t *)data)[i] = bgi_bfloat16_from_float((float)value);
}

/* ---- a sample ---- */

static bg_status fail_element(const conversion *c, const void *data, size_t i, bg_error *error)
{
    char number[32];

    if (is_integer(c->from))
        snprintf(number, sizeof number, "%" PRId64, read_integer(c->from, data, i));
    else
        snprintf(number, sizeof number, "%.9g", read_real(c->from, data, i));
    if (c->bools != NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "element %zu is %s, but the input is bool; it must be 0 or 1", i,
                            number);
    return bg_error_set(error, BG_ERROR_PARSE,
                        "element %zu of tensor %" PRIu32 " is %s, which does not fit %s; it must be a whole number %s",
                        i, c->tensor_index, number, bg_dtype_name(c->to),
                        c->to == BG_UINT8   ? "from 0 to 255"
                        : c->to == BG_INT32 ? "from -2147483648 to 2147483647"
                                            : "of 64 bits");
}

static bg_status convert_to_integers(const conversion *c, const void *in, void *out, bg_error *error)
{
    for (size_t i = 0; i < c->elements; i++) {
        int64_t value;

        if (is_integer(c->from)) {
            value = read_integer(c->from, in, i);
        } else {
            const double real = read_real(c->from, in, i);
            if (!(real >= -0x1p63 && real < 0x1p63) || real != floor(real))
                return fail_element(c, in, i, error);
            value = (int64_t)real;
        }
        if (!write_integer(c->to, out, i, value) || (c->bools != NULL && value != 0 && value != 1))
            return fail_element(c, in, i, error);
    }
    return BG_OK;
}

static void normalize(const conversion *c, const void *in, void *out)
{
    for (size_t i = 0; i < c->elements; i++) {
        const size_t channel = i / c->channel_elements;
        float value = (float)read_real(c->from, in, i);

        if (c->from == BG_UINT8)
            value /= 255.0f;
        write_real(c->to, out, i, (double)((value - c->means[channel]) / c->deviations[channel]));
    }
}

/* Converts one sample. The most frequent conversions have separate loops. */
static bg_status convert_sample(const conversion *c, const void *in, void *out, bg_error *error)
{
    if (c->channel_count > 0) {
        normalize(c, in, out);
    } else if (c->from == c->to && c->bools == NULL) {
        memcpy(out, in, c->elements * bg_dtype_size_bytes(c->to));
    } else if (is_integer(c->to)) {
        return convert_to_integers(c, in, out, error);
    } else if (c->from == BG_UINT8 && c->to == BG_FLOAT32) {
        for (size_t i = 0; i < c->elements; i++)
            ((float *)out)[i] = (float)((const uint8_t *)in)[i];
    } else {
        for (size_t i = 0; i < c->elements; i++)
            write_real(c->to, out, i, read_real(c->from, in, i));
    }
    return BG_OK;
}

/* ---- the data set ---- */

/* Finds the tensors of one sample of the source: in the source's memory, or copied to the scratch. */
static bg_status read_source(const bg_dataset *source, uint64_t epoch, uint32_t index, unsigned char *scratch,
                             const unsigned char *inputs[BG_DATASET_MAX_TENSORS], bg_error *error)
{
    unsigned char *places[BG_DATASET_MAX_TENSORS];
    size_t at = 0, failed = 0;

    for (uint32_t t = 0; t < source->tensor_count; t++) {
        inputs[t] = source->rows[0] != NULL ? source->rows[t] + index * source->sample_bytes[t] : scratch + at;
        places[t] = scratch + at;
        at += round_up(source->sample_bytes[t]);
    }
    if (source->rows[0] != NULL)
        return BG_OK;
    return bgi_dataset_gather(source, epoch, &index, 1, places, scratch + at, &failed, error);
}

static bg_status gather_converted(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                  unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const conversion *c = dataset->state;
    const unsigned char *inputs[BG_DATASET_MAX_TENSORS];

    for (size_t i = 0; i < count; i++) {
        *out_failed = i;
        BGI_TRY(read_source(dataset->source, epoch, indices[i], scratch, inputs, error));
        for (uint32_t t = 0; t < dataset->tensor_count; t++) {
            unsigned char *out = tensors[t] != NULL ? tensors[t] + i * dataset->sample_bytes[t] : NULL;

            if (out != NULL && t != c->tensor_index)
                memcpy(out, inputs[t], dataset->sample_bytes[t]);
            else if (out != NULL && convert_sample(c, inputs[t], out, error) != BG_OK)
                return bg_error_context(error, error->status, "%s%ssample %" PRIu32, c->bools != NULL ? c->bools : "",
                                        c->bools != NULL ? ": " : "", indices[i]);
        }
    }
    return BG_OK;
}

static bg_status check_channels(const bg_type *from, const bg_convert_options *options, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (options->channel_count == 0)
        return BG_OK;
    if (!bg_dtype_is_float(options->type.dtype))
        return bg_error_set(error, BG_ERROR_INVALID, "normalization makes floats, but %s was requested",
                            bg_dtype_name(options->type.dtype));
    if (options->channel_count > 1 && (from->rank == 0 || from->dims[0] != options->channel_count))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%" PRIu32
            " channels are given for samples of %s; give 1, or one for each element of their first dimension",
            options->channel_count, bg_type_text(from, text));
    for (uint32_t i = 0; i < options->channel_count; i++)
        if (!isfinite(options->means[i]) || !isfinite(options->deviations[i]) || options->deviations[i] == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "the mean is %g and the deviation is %g for channel %" PRIu32
                                ": both must be finite, and the deviation must not be 0",
                                (double)options->means[i], (double)options->deviations[i], i);
    return BG_OK;
}

static bg_status check_conversion(const bg_dataset *source, const bg_convert_options *options, bg_error *error)
{
    const bg_type *from = &source->types[options->tensor_index];
    char have[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bg_type_validate(&options->type, error));
    if (bg_type_element_count(from) != bg_type_element_count(&options->type))
        return bg_error_set(error, BG_ERROR_SHAPE, "samples are %s, which does not have the number of elements of %s",
                            bg_type_text(from, have), bg_type_text(&options->type, wanted));
    if (!is_integer(options->type.dtype) && !bg_dtype_is_float(options->type.dtype))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "samples cannot become %s",
                            bg_dtype_name(options->type.dtype));
    return check_channels(from, options, error);
}

static bg_status fill(conversion *c, const bg_type *from, const bg_convert_options *options, bg_error *error)
{
    const uint32_t count = options->channel_count;

    c->tensor_index = options->tensor_index;
    c->from = from->dtype;
    c->to = options->type.dtype;
    c->elements = (size_t)bg_type_element_count(from);
    c->channel_count = count;
    if (count == 0)
        return BG_OK;
    c->channel_elements = c->elements / count;
    c->means = malloc(2 * count * sizeof *c->means);
    if (c->means == NULL)
        return bgi_error_memory(error, "a normalization", 2 * count * sizeof *c->means);
    c->deviations = c->means + count;
    memcpy(c->means, options->means, count * sizeof *c->means);
    memcpy(c->deviations, options->deviations, count * sizeof *c->means);
    return BG_OK;
}

/* Makes the data set of checked options. `bools`: see conversion. */
static bg_status make_converted(bg_dataset *source, const bg_convert_options *options, const char *bools,
                                bg_dataset **out, bg_error *error)
{
    bg_dataset *dataset = NULL;
    conversion *c;
    bg_status status;

    BGI_TRY(bgi_dataset_derive(source, source->sample_count, &dataset, error));
    dataset->may_skip = source->rows[0] != NULL;
    dataset->types[options->tensor_index] = options->type;
    dataset->sample_bytes[options->tensor_index] = bg_type_size_bytes(&options->type);
    for (uint32_t t = 0; t < source->tensor_count; t++)
        dataset->scratch_bytes += round_up(source->sample_bytes[t]);
    dataset->state = c = calloc(1, sizeof *c);
    status = c != NULL ? BG_OK : bgi_error_memory(error, "a data set", sizeof *c);
    dataset->release = release_conversion;
    dataset->gather = gather_converted;
    if (status == BG_OK)
        status = fill(c, &source->types[options->tensor_index], options, error);
    if (status == BG_OK && bools != NULL) {
        c->bools = strdup(bools);
        status = c->bools != NULL ? BG_OK : bgi_error_memory(error, "a name", strlen(bools) + 1);
    }
    if (status != BG_OK) {
        bg_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return BG_OK;
}

bg_status bg_dataset_convert(bg_dataset *source, const bg_convert_options *options, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_convert_options", NULL, error));

    if (options->tensor_index >= source->tensor_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: tensor %" PRIu32 " of %" PRIu32
                            " tensors is to be converted; the index must be below the count",
                            options->tensor_index, source->tensor_count);
    BGI_TRY(check_conversion(source, options, error));
    return make_converted(source, options, NULL, out, error);
}

bg_status bgi_dataset_convert_bools(bg_dataset *source, const bg_type *type, const char *name, bg_dataset **out,
                                    bg_error *error)
{
    const bg_convert_options options = {.type = *type};

    BGI_TRY(check_conversion(source, &options, error));
    return make_converted(source, &options, name, out, error);
}
