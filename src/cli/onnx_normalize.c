/*
 * onnx_normalize.c: the normalization of a model's inputs of floats. It comes from --normalize, or is measured over the
 * training data, or is that of the model file, whose metadata name it:
 *
 *     brigade.normalize.x = 0.485,0.456,0.406,0.229,0.224,0.225    the means of all channels, then their deviations
 *
 * Channels of samples with one dimension, or with three or more, are the elements of the first dimension: the columns
 * of a table, the planes of an image. All other samples have one channel. Dimensions of size 1 at the end do not count.
 *
 * Deviations are those of all values (divided by their number), as torchvision's. Each sample is read once, in the
 * order of the files. Its values have a mean and a sum of squared differences from that mean, in float64, which are
 * added to those of the samples before (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances"). So no large sums cancel, and the result is always the same.
 */
#include "cli/onnx_model.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/text.h"
#include "data/dataset.h"
#include "formats/json_write.h"

enum { MOST_CHANNELS = 16384, SHOWN_BYTES = 200, ADVISED_BYTES = 400, RECORDED_BYTES = 1 << 19 };

static const char key_prefix[] = "brigade.normalize.";

static const bg_onnx_contents *contents_of(const onnx_settings *settings)
{
    return bg_onnx_contents_of(settings->onnx);
}

/* ---- lists of numbers ---- */

static bool read_numbers(const char *text, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;

        values[i] = strtof(text, &end);
        if (end == text || *end != (i + 1 < count ? ',' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

/* Reads "MEAN,DEVIATION", or the means of all channels followed by all deviations. Sets *is_list to whether the text
 * has this form. */
static bg_status read_list(const char *text, onnx_normalization *out, bool *is_list, bg_error *error)
{
    size_t count = 1;
    float *values;

    *is_list = false;
    for (const char *at = text; *at != '\0'; at++)
        count += *at == ',';
    if (count % 2 != 0 || count / 2 > MOST_CHANNELS)
        return BG_OK;
    values = malloc(count * sizeof *values);
    if (values == NULL)
        return bgi_error_memory(error, "a normalization", count * sizeof *values);
    *is_list = read_numbers(text, values, count);
    if (*is_list)
        *out = (onnx_normalization){.count = (uint32_t)(count / 2), .values = values};
    else
        free(values);
    return BG_OK;
}

/* Adds the number with the fewest digits, at least six, that read_numbers reads as the same float. */
static void add_number(bgi_string *text, float value)
{
    char number[32];

    for (int digits = 6; digits <= 9; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, (double)value);
        if (strtof(number, NULL) == value)
            break;
    }
    bgi_string_add(text, "%s", number);
}

static void add_list(bgi_string *text, const onnx_normalization *n)
{
    for (uint32_t i = 0; i < 2 * n->count; i++) {
        if (i > 0)
            bgi_string_add(text, ",");
        add_number(text, n->values[i]);
    }
}

/* ---- the option, and the metadata of the model ---- */

static bg_status read_option(onnx_settings *settings, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);

    for (uint32_t i = 0; i < contents->input_count; i++) {
        bool is_list;

        BGI_TRY(read_list(settings->normalize, &settings->normalizations[i], &is_list, error));
        if (!is_list)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--normalize is `%s`; it must be MEAN,DEVIATION, or the means of all channels and then "
                                "their deviations (0.485,0.456,0.406,0.229,0.224,0.225), or %snone",
                                settings->normalize, strcmp(settings->recipe.command, "infer") == 0 ? "" : "auto, or ");
        if (!bg_dtype_is_float(contents->inputs[i].dtype))
            settings->normalizations[i].count = 0;
    }
    return BG_OK;
}

/* Makes the key of an input; returns NULL if memory is exhausted. The caller frees it. */
static char *make_key(const bg_onnx_port *port, bg_error *error)
{
    bgi_string text = {0};
    char *key = NULL;

    bgi_string_add(&text, "%s%s", key_prefix, port->name);
    bgi_string_finish(&text, &key, error);
    return key;
}

static bg_status refuse_metadata(const onnx_settings *settings, const char *key, const char *value, const char *why,
                                 bg_error *error)
{
    return bg_error_set(error, BG_ERROR_PARSE,
                        "%s: the metadata `%.*s` is `%.*s`%s, but %s; it must be the means of all channels and then "
                        "their deviations, finite numbers, none of the deviations 0: correct the file, or give "
                        "--normalize with a list or `none`",
                        settings->path, SHOWN_BYTES, key, SHOWN_BYTES, value,
                        strlen(value) > SHOWN_BYTES ? " (shortened)" : "", why);
}

/* Whether the number of channels is 1 or the size of a dimension of a sample, as far as the file says. */
static bool fits_port(const bg_onnx_port *port, uint32_t count)
{
    bool fits = count == 1 || !port->has_shape;

    for (uint32_t i = 1; i < port->rank; i++)
        fits = fits || port->dims[i].size < 0 || port->dims[i].size == (int64_t)count;
    return fits;
}

/* Returns why the values of the metadata are wrong, in `why`; NULL: they are right. */
static const char *find_fault(const bg_onnx_port *port, const onnx_normalization *n, char why[128])
{
    for (uint32_t i = 0; i < n->count; i++) {
        const double mean = (double)n->values[i], deviation = (double)n->values[n->count + i];

        if (isfinite(mean) && isfinite(deviation) && deviation != 0.0)
            continue;
        snprintf(why, 128, "the mean is %g and the deviation is %g for channel %" PRIu32, mean, deviation, i);
        return why;
    }
    if (fits_port(port, n->count))
        return NULL;
    snprintf(why, 128, "no dimension of the input's samples has the size %" PRIu32, n->count);
    return why;
}

static bg_status read_value(onnx_settings *settings, uint32_t input, const char *key, bg_error *error)
{
    const bg_onnx_port *port = &contents_of(settings)->inputs[input];
    const char *value = bg_onnx_metadata_find(settings->onnx, key), *fault;
    onnx_normalization *n = &settings->normalizations[input];
    char why[128];
    bool is_list;

    if (value == NULL)
        return BG_OK;
    if (!bg_dtype_is_float(port->dtype))
        return refuse_metadata(settings, key, value, "only inputs of floats can be normalized", error);
    BGI_TRY(read_list(value, n, &is_list, error));
    if (!is_list)
        return refuse_metadata(settings, key, value, "that is no list of numbers in pairs", error);
    fault = find_fault(port, n, why);
    return fault == NULL ? BG_OK : refuse_metadata(settings, key, value, fault, error);
}

static bg_status read_metadata(onnx_settings *settings, bg_error *error)
{
    for (uint32_t i = 0; i < contents_of(settings)->input_count; i++) {
        char *key = make_key(&contents_of(settings)->inputs[i], error);
        const bg_status status = key != NULL ? read_value(settings, i, key, error) : BG_ERROR_MEMORY;

        free(key);
        BGI_TRY(status);
    }
    return BG_OK;
}

static bg_status choose_automatic(onnx_settings *settings, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    bool has_floats = false;

    if (strcmp(settings->recipe.command, "infer") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--normalize auto measures the data of a training; give `brigade infer` the list of the "
                            "training. A model that `brigade train --normalize` has saved names its list");
    for (uint32_t i = 0; i < contents->input_count; i++)
        has_floats = has_floats || bg_dtype_is_float(contents->inputs[i].dtype);
    settings->normalized_by = ONNX_BY_DATA;
    if (has_floats)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "--normalize auto: %s has no input of floats, and others are not normalized; leave it out",
                        settings->path);
}

bg_status onnx_read_normalizations(onnx_settings *settings, bg_error *error)
{
    const uint32_t count = contents_of(settings)->input_count;

    settings->normalizations = calloc((size_t)count + 1, sizeof *settings->normalizations);
    if (settings->normalizations == NULL)
        return bgi_error_memory(error, "normalizations", count * sizeof *settings->normalizations);
    settings->normalized_by = settings->normalize == NULL ? ONNX_BY_MODEL : ONNX_BY_OPTION;
    if (settings->normalize == NULL)
        return read_metadata(settings, error);
    if (strcmp(settings->normalize, "none") == 0)
        return BG_OK;
    if (strcmp(settings->normalize, "auto") == 0)
        return choose_automatic(settings, error);
    return read_option(settings, error);
}

void onnx_clear_normalizations(onnx_settings *settings)
{
    const uint32_t count = settings->onnx != NULL ? contents_of(settings)->input_count : 0;

    for (uint32_t i = 0; settings->normalizations != NULL && i < count; i++)
        free(settings->normalizations[i].values);
    free(settings->normalizations);
    free(settings->normalization_text);
    settings->normalizations = NULL;
    settings->normalization_text = NULL;
}

/* ---- measured ---- */

/* Values of a channel: their number, their mean, and the sum of their squared differences from the mean. */
typedef struct channel_sum {
    double count, mean, squares;
} channel_sum;

static void add_values(channel_sum *sum, const double *values, size_t count)
{
    const double added = (double)count, all = sum->count + added;
    double mean = 0.0, squares = 0.0, difference;

    for (size_t i = 0; i < count; i++)
        mean += values[i];
    mean /= added;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    difference = mean - sum->mean;
    sum->mean += difference * (added / all);
    sum->squares += squares + difference * difference * (sum->count * added / all);
    sum->count = all;
}

static uint32_t count_channels(const bg_type *sample)
{
    uint32_t rank = sample->rank;

    while (rank > 1 && sample->dims[rank - 1] == 1)
        rank--;
    return rank == 0 || rank == 2 ? 1 : (uint32_t)(sample->dims[0] <= MOST_CHANNELS ? sample->dims[0] : 0);
}

/* Adds the values of all samples to the sums. `set` has samples of float64. */
static bg_status add_samples(const bg_dataset *set, uint32_t channels, channel_sum *sums, double *values, void *scratch,
                             bg_error *error)
{
    const size_t elements = (size_t)bg_type_element_count(bg_dataset_sample_type(set, 0));
    unsigned char *const tensors[] = {(unsigned char *)values};
    size_t failed = 0;

    for (uint64_t i = 0; i < bg_dataset_sample_count(set); i++) {
        const uint32_t index = (uint32_t)i;

        BGI_TRY(bgi_dataset_gather(set, 0, &index, 1, tensors, scratch, &failed, error));
        for (size_t k = 0; k < elements; k++)
            if (!(fabs(values[k]) <= (double)FLT_MAX))
                return bg_error_set(error, BG_ERROR_PARSE,
                                    "--normalize auto: sample %" PRIu32
                                    ": element %zu is %g; it must be a finite number of float32",
                                    index, k, values[k]);
        for (uint32_t c = 0; c < channels; c++)
            add_values(&sums[c], values + c * (elements / channels), elements / channels);
    }
    return BG_OK;
}

/* Refuses a channel with equal values, and advises a list with the deviation 1, if that is short. */
static bg_status refuse_constant(const onnx_normalization *n, uint32_t channel, double value, uint64_t samples,
                                 bg_error *error)
{
    onnx_normalization other = {.count = n->count, .values = malloc(2 * (size_t)n->count * sizeof *n->values)};
    bgi_string list = {0};

    for (uint32_t i = 0; other.values != NULL && i < 2 * n->count; i++)
        other.values[i] = i >= n->count && n->values[i] == 0.0f ? 1.0f : n->values[i];
    if (other.values != NULL)
        add_list(&list, &other);
    free(other.values);
    bg_error_set(error, BG_ERROR_INVALID,
                 "--normalize auto: the deviation of channel %" PRIu32 " is 0, because its value is %g in all %" PRIu64
                 " samples; leave this channel out of the data, or give a list with another deviation: --normalize %s",
                 channel, value, samples,
                 list.data != NULL && !list.failed && list.length <= ADVISED_BYTES ? list.data : "MEAN,DEVIATION");
    bgi_string_clear(&list);
    return BG_ERROR_INVALID;
}

/* Converts the sums to float32. Bytes are divided by 255, as when they are normalized. */
static bg_status finish_sums(const channel_sum *sums, uint32_t channels, double scale, uint64_t samples,
                             onnx_normalization *out, bg_error *error)
{
    *out = (onnx_normalization){.count = channels, .values = malloc(2 * (size_t)channels * sizeof *out->values)};
    if (out->values == NULL)
        return bgi_error_memory(error, "a normalization", 2 * (size_t)channels * sizeof *out->values);
    for (uint32_t c = 0; c < channels; c++) {
        out->values[c] = (float)(sums[c].mean / scale);
        out->values[channels + c] = (float)(sqrt(sums[c].squares / sums[c].count) / scale);
    }
    for (uint32_t c = 0; c < channels; c++)
        if (out->values[channels + c] == 0.0f)
            return refuse_constant(out, c, sums[c].mean, samples, error);
    return BG_OK;
}

static bg_status measure(bg_dataset *source, onnx_normalization *out, bg_error *error)
{
    const bg_type *type = bg_dataset_sample_type(source, 0);
    const uint32_t channels = count_channels(type);
    const uint64_t samples = bg_dataset_sample_count(source);
    bg_convert_options options = {.type = *type};
    char text[BG_TYPE_TEXT_BYTES];
    bg_dataset *set = NULL;
    channel_sum *sums;
    double *values;
    void *scratch;
    bg_status status;

    if (channels == 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "--normalize auto: a sample is %s, but at most %d channels are measured; give "
                            "MEAN,DEVIATION",
                            bg_type_text(type, text), MOST_CHANNELS);
    options.type.dtype = BG_FLOAT64;
    BGI_TRY(bg_dataset_convert(source, &options, &set, error));
    sums = calloc(channels, sizeof *sums);
    values = malloc(bg_type_size_bytes(&options.type));
    scratch = bgi_dataset_scratch(set);
    if (sums == NULL || values == NULL || scratch == NULL)
        status = bgi_error_memory(error, "means and deviations", bg_type_size_bytes(&options.type));
    else
        status = add_samples(set, channels, sums, values, scratch, error);
    if (status == BG_OK)
        status = finish_sums(sums, channels, type->dtype == BG_UINT8 ? 255.0 : 1.0, samples, out, error);
    free(scratch);
    free(values);
    free(sums);
    bg_dataset_destroy(set);
    return status;
}

/* Checks the channels of the model's metadata against the samples. */
static bg_status check_channels(const onnx_settings *settings, const bg_onnx_port *port, uint32_t count,
                                const bg_type *sample, bg_error *error)
{
    char why[128 + BG_TYPE_TEXT_BYTES], text[BG_TYPE_TEXT_BYTES], *key;
    const char *value;

    if (count == 1 || (sample->rank > 0 && sample->dims[0] == (int64_t)count))
        return BG_OK;
    key = make_key(port, error);
    if (key == NULL)
        return BG_ERROR_MEMORY;
    snprintf(why, sizeof why, "there are %" PRIu32 " channels in it and a sample is %s", count,
             bg_type_text(sample, text));
    value = bg_onnx_metadata_find(settings->onnx, key);
    refuse_metadata(settings, key, value != NULL ? value : "", why, error);
    free(key);
    return BG_ERROR_PARSE;
}

bg_status onnx_find_normalization(onnx_settings *settings, const bg_onnx_port *port, bg_dataset *source,
                                  bg_convert_options *options, bg_error *error)
{
    onnx_normalization *n = &settings->normalizations[port - contents_of(settings)->inputs];
    const bool is_plan = strcmp(settings->recipe.command, "plan") == 0; /* which reads no values */

    if (settings->normalized_by == ONNX_BY_DATA && n->count == 0 && !is_plan && bg_dtype_is_float(port->dtype)) {
        free(n->values); /* those of a measurement that failed */
        BGI_TRY(measure(source, n, error));
        settings->measured_samples = bg_dataset_sample_count(source);
    }
    if (settings->normalized_by == ONNX_BY_MODEL && n->count > 0)
        BGI_TRY(check_channels(settings, port, n->count, bg_dataset_sample_type(source, 0), error));
    options->channel_count = n->count;
    options->means = n->values;
    options->deviations = n->count > 0 ? n->values + n->count : NULL;
    return BG_OK;
}

/* ---- said and saved ---- */

bool onnx_is_normalized(const onnx_settings *settings)
{
    for (uint32_t i = 0; i < contents_of(settings)->input_count; i++)
        if (settings->normalizations[i].count > 0)
            return true;
    return false;
}

void onnx_print_normalizations(const onnx_settings *settings)
{
    for (uint32_t i = 0; i < contents_of(settings)->input_count; i++) {
        const onnx_normalization *n = &settings->normalizations[i];
        bgi_string line = {0};

        if (n->count == 0 || settings->normalized_by == ONNX_BY_OPTION)
            continue;
        bgi_string_add(&line, "Normalization of `%s`: --normalize ", contents_of(settings)->inputs[i].name);
        add_list(&line, n);
        if (settings->normalized_by == ONNX_BY_DATA)
            bgi_string_add(&line, " (measured over %" PRIu64 " samples)", settings->measured_samples);
        else
            bgi_string_add(&line, " (named by %s)", settings->path);
        if (!line.failed)
            printf("%s\n", line.data);
        bgi_string_clear(&line);
    }
}

void onnx_print_advice(const onnx_settings *settings, bool is_model)
{
    const bg_onnx_contents *contents = contents_of(settings);
    bgi_string list = {0};
    bool is_same = true;

    for (uint32_t i = 0; i < contents->input_count; i++) {
        bgi_string other = {0};

        if (settings->normalizations[i].count == 0)
            continue;
        add_list(&other, &settings->normalizations[i]);
        is_same = is_same && (list.data == NULL || (other.data != NULL && strcmp(list.data, other.data) == 0));
        if (list.data == NULL)
            list = other;
        else
            bgi_string_clear(&other);
    }
    if (list.data != NULL && is_model)
        printf("The saved model names the normalization of its inputs, which `brigade infer` applies\n");
    else if (list.data != NULL && is_same && !list.failed)
        printf("The saved weights expect normalized inputs: give `brigade infer` --normalize %s\n", list.data);
    else if (list.data != NULL)
        printf("The saved weights expect normalized inputs; --save OUT.onnx writes a model that names their "
               "normalization\n");
    bgi_string_clear(&list);
}

bg_status onnx_write_normalizations(onnx_settings *settings, bg_error *error)
{
    for (uint32_t i = 0; i < contents_of(settings)->input_count; i++) {
        const onnx_normalization *n = &settings->normalizations[i];
        char *key = make_key(&contents_of(settings)->inputs[i], error), *value = NULL;
        bgi_string list = {0};
        bg_status status = key != NULL ? BG_OK : BG_ERROR_MEMORY;

        if (status == BG_OK && n->count > 0) {
            add_list(&list, n);
            status = bgi_string_finish(&list, &value, error);
        }
        if (status == BG_OK)
            status = bg_onnx_metadata_set(settings->onnx, key, value, error);
        free(value);
        free(key);
        BGI_TRY(status);
    }
    return BG_OK;
}

bg_status onnx_describe_normalizations(onnx_settings *settings, bg_error *error)
{
    bgi_json_writer w = {0};
    size_t bytes;
    bg_status status;

    bgi_json_open(&w, NULL, '{');
    for (uint32_t i = 0; i < contents_of(settings)->input_count; i++) {
        bgi_string list = {0};

        if (settings->normalizations[i].count == 0)
            continue;
        add_list(&list, &settings->normalizations[i]);
        w.text.failed = w.text.failed || list.failed;
        bgi_json_text(&w, contents_of(settings)->inputs[i].name, list.data != NULL ? list.data : "");
        bgi_string_clear(&list);
    }
    bgi_json_close(&w, '}');
    free(settings->normalization_text);
    settings->normalization_text = NULL;
    status = bgi_json_finish(&w, &settings->normalization_text, &bytes, error);
    if (status == BG_ERROR_INVALID)
        bg_error_clear(error); /* a name is not UTF-8 */
    else if (status != BG_OK)
        return status;
    if (status == BG_OK && bytes > RECORDED_BYTES) {
        free(settings->normalization_text);
        settings->normalization_text = NULL;
    }
    return BG_OK;
}
