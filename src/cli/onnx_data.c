/*
 * onnx_data.c: reads the data of `brigade train` and `brigade infer`, and converts them to the model's types. There is
 * a file for each input of the model, and one for the target. Symbolic dimensions get the sizes of the data.
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/readers.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/source.h"

static const char *const target_word = "target";

static const bg_onnx_contents *contents_of(const onnx_settings *settings)
{
    return bg_onnx_contents_of(settings->onnx);
}

/* ---- names ---- */

static const bg_onnx_port *find_port(const onnx_settings *settings, const char *name, size_t length)
{
    const bg_onnx_contents *contents = contents_of(settings);

    for (uint32_t i = 0; i < contents->input_count; i++)
        if (strlen(contents->inputs[i].name) == length && strncmp(contents->inputs[i].name, name, length) == 0)
            return &contents->inputs[i];
    return NULL;
}

static bg_status fail_input(const onnx_settings *settings, const char *option, const char *text, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    bgi_string list = {0};

    for (uint32_t i = 0; i < contents->input_count; i++)
        bgi_string_add(&list, "%s`%s`", i > 0 ? ", " : "", contents->inputs[i].name);
    bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; it must be NAME=FILE with an input of the model: %s", option,
                 text, list.data != NULL ? list.data : "it has none");
    bgi_string_clear(&list);
    return BG_ERROR_INVALID;
}

static bg_status find_input(const onnx_settings *settings, const char *option, const char *text, bool with_target,
                            const bg_onnx_port **out_port, const char **out_file, bg_error *error)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;

    *out_port = NULL;
    *out_file = equals != NULL ? equals + 1 : text;
    if (equals == NULL && contents_of(settings)->input_count == 1 && !with_target)
        *out_port = &contents_of(settings)->inputs[0];
    else if (equals != NULL)
        *out_port = find_port(settings, text, length);
    if (*out_port != NULL && (*out_file)[0] != '\0')
        return BG_OK;
    if (with_target && equals != NULL && length == strlen(target_word) && strncmp(text, target_word, length) == 0 &&
        equals[1] != '\0')
        return BG_OK;
    return fail_input(settings, option, text, error);
}

/* ---- one file ---- */

/* Returns the option that gives the target of the data of `option`. */
static const char *target_option(const char *option)
{
    return strcmp(option, "input") == 0 ? "target" : option;
}

static bg_status open_source(const char *option, const char *file, bg_dataset **out, bg_error *error)
{
    const bg_status status = bg_dataset_open(file, out, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--%s", option);
}

/* Removes dimensions of size 1. */
static uint32_t squeeze(const bg_type *type, int64_t dims[BG_MAX_RANK])
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i] != 1)
            dims[rank++] = type->dims[i];
    return rank;
}

static bool are_alike(const bg_type *a, const bg_type *b)
{
    int64_t x[BG_MAX_RANK] = {0}, y[BG_MAX_RANK] = {0};

    return squeeze(a, x) == squeeze(b, y) && memcmp(x, y, sizeof x) == 0;
}

/* Converts data of bools, which name their option, input and file in errors. */
static bg_status convert_bools(const char *option, const char *name, const char *file, const bg_type *type,
                               bg_dataset *source, bg_dataset **out, bg_error *error)
{
    bgi_string text = {0};
    char *where;
    bg_status status;

    bgi_string_add(&text, "--%s %s=%s", option, name, file);
    BGI_TRY(bgi_string_finish(&text, &where, error));
    status = bgi_dataset_convert_bools(source, type, where, out, error);
    free(where);
    return status;
}

/* Converts data of an input, or of the target (`port` NULL), to the type of a sample. */
static bg_status convert_source(onnx_settings *settings, const char *option, const char *file, const bg_onnx_port *port,
                                const bg_type *type, bg_dataset *source, bg_dataset **out, bg_error *error)
{
    bg_convert_options options = {.type = *type};

    if (port != NULL && strcmp(port->element, "bool") == 0)
        return convert_bools(option, port->name, file, type, source, out, error);
    if (port != NULL)
        BGI_TRY(onnx_find_normalization(settings, port, source, &options, error));
    return bg_dataset_convert(source, &options, out, error);
}

static bg_status fit_source(onnx_settings *settings, const char *option, const char *file, const bg_onnx_port *port,
                            const bg_type *type, bg_dataset **source, bg_error *error)
{
    const bg_type *have = bg_dataset_sample_type(*source, 0);
    char text[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];
    bg_dataset *fitted = NULL;
    bg_status status;

    if (!are_alike(have, type))
        status = bg_error_set(error, BG_ERROR_SHAPE, "a sample is %s, but the model needs %s%s",
                              bg_type_text(have, text), bg_type_text(type, wanted),
                              port == NULL && have->rank == 0 && type->rank == 1
                                  ? "; for a class number in each sample give --loss cross-entropy"
                                  : "");
    else
        status = convert_source(settings, option, file, port, type, *source, &fitted, error);
    bg_dataset_destroy(*source);
    *source = NULL;
    if (status != BG_OK && port == NULL && target_option(option) != option)
        return bg_error_context(error, status, "--%s", target_option(option));
    if (status != BG_OK)
        return bg_error_context(error, status, "--%s %s", option, port != NULL ? port->name : target_word);
    *source = fitted;
    return BG_OK;
}

/* ---- all files ---- */

/* The sources of one data set, before they are joined: first only their files, then the opened data. */
typedef struct sources {
    const char *option;
    uint32_t count; /* of inputs */
    const bg_onnx_port *ports[BG_DATASET_MAX_TENSORS];
    char *files[BG_DATASET_MAX_TENSORS], *target_file; /* NULL: no target */
    bg_dataset *sets[BG_DATASET_MAX_TENSORS], *target; /* NULL before they are opened */
} sources;

static void close_sources(sources *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        bg_dataset_destroy(s->sets[i]);
        free(s->files[i]);
    }
    bg_dataset_destroy(s->target);
    free(s->target_file);
    *s = (sources){.option = s->option};
}

static bg_status add_file(const char *file, char **out, bg_error *error)
{
    *out = strdup(file);
    return *out != NULL ? BG_OK : bgi_error_memory(error, "a name", strlen(file) + 1);
}

/* Opens the files, leaves out rows with missing values, and sets *out_skipped to their number. */
static bg_status open_complete(sources *s, uint64_t *out_skipped, bg_error *error)
{
    const char *files[BG_DATASET_MAX_TENSORS]; /* add_source leaves a place for the target */
    bg_dataset *sets[BG_DATASET_MAX_TENSORS] = {NULL};
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->count; i++)
        files[count++] = s->files[i];
    if (s->target_file != NULL)
        files[count++] = s->target_file;
    if (count == 0)
        return BG_OK;
    if (bgi_sources_open_complete(files, count, sets, out_skipped, error) != BG_OK)
        return bg_error_context(error, error->status, "--%s%s with --skip-incomplete", s->option,
                                s->target_file != NULL && target_option(s->option) != s->option ? " or --target" : "");
    memcpy(s->sets, sets, s->count * sizeof *sets);
    s->target = sets[s->count];
    return BG_OK;
}

static bg_status open_sources(const onnx_settings *settings, sources *s, uint64_t *out_skipped, bg_error *error)
{
    if (settings->skip_incomplete)
        return open_complete(s, out_skipped, error);
    for (uint32_t i = 0; i < s->count; i++)
        BGI_TRY(open_source(s->option, s->files[i], &s->sets[i], error));
    return s->target_file != NULL ? open_source(target_option(s->option), s->target_file, &s->target, error) : BG_OK;
}

/* Returns the length of the first "NAME=FILE" in a comma-separated list. File names may contain commas, so the entry
 * ends at the comma before the next name. */
static size_t measure_entry(const onnx_settings *settings, const char *text)
{
    for (const char *comma = strchr(text, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        const size_t length = strcspn(comma + 1, "=,");

        if (comma[1 + length] == '=' &&
            (find_port(settings, comma + 1, length) != NULL ||
             (length == strlen(target_word) && strncmp(comma + 1, target_word, length) == 0)))
            return (size_t)(comma - text);
    }
    return strlen(text);
}

static bg_status add_source(const onnx_settings *settings, const char *text, bool with_target, sources *s,
                            bg_error *error)
{
    const bg_onnx_port *port;
    const char *file;

    BGI_TRY(find_input(settings, s->option, text, with_target, &port, &file, error));
    if (with_target && strstr(file, ";target=") != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; separate the files by a comma: x=FILE,target=FILE",
                            s->option, text);
    if (!with_target && measure_entry(settings, text) < strlen(text) && !bgi_file_exists(file))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; repeat --%s for each input", s->option, text,
                            s->option);
    if (port == NULL) {
        if (s->target_file != NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "--%s gives target=FILE twice", s->option);
        return add_file(file, &s->target_file, error);
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ports[i] == port)
            return bg_error_set(error, BG_ERROR_INVALID, "--%s has input `%s` twice", s->option, port->name);
    if (s->count == BG_DATASET_MAX_TENSORS - 1)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "--%s has data for more than %d inputs, which is the most",
                            s->option, BG_DATASET_MAX_TENSORS - 1);
    BGI_TRY(add_file(file, &s->files[s->count], error));
    s->ports[s->count++] = port;
    return BG_OK;
}

/* Adds the sources of an argument: one pair NAME=FILE, or several with commas between them ("x=FILE,target=FILE"). */
static bg_status add_list(const onnx_settings *settings, const char *text, sources *s, bg_error *error)
{
    char *copy = strdup(text);
    bg_status status = copy != NULL ? BG_OK : bgi_error_memory(error, "a list", strlen(text) + 1);

    for (char *at = copy; status == BG_OK && at != NULL;) {
        const size_t length = measure_entry(settings, at);
        const bool is_last = at[length] == '\0';

        at[length] = '\0';
        status = add_source(settings, at, true, s, error);
        at = is_last ? NULL : at + length + 1;
    }
    free(copy);
    return status;
}

static bg_status check_counts(const onnx_settings *settings, const sources *s, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    const uint64_t count = s->count > 0 ? bg_dataset_sample_count(s->sets[0]) : 0;
    bgi_string list = {0};

    for (uint32_t i = 0; i < contents->input_count; i++) {
        bool is_given = false;

        for (uint32_t k = 0; k < s->count; k++)
            is_given = is_given || s->ports[k] == &contents->inputs[i];
        if (!is_given)
            bgi_string_add(&list, "%s`%s`", list.length > 0 ? ", " : "", contents->inputs[i].name);
    }
    if (list.length > 0) {
        bg_error_set(error, BG_ERROR_INVALID, "--%s: there are no data for %s; give NAME=FILE for each input",
                     s->option, list.data);
        bgi_string_clear(&list);
        return BG_ERROR_INVALID;
    }
    for (uint32_t i = 1; i < s->count; i++)
        if (bg_dataset_sample_count(s->sets[i]) != count)
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "--%s: `%s` has %" PRIu64 " samples, but `%s` has %" PRIu64 "; both need the same number of samples",
                s->option, s->ports[0]->name, count, s->ports[i]->name, bg_dataset_sample_count(s->sets[i]));
    if (s->target != NULL && bg_dataset_sample_count(s->target) != count)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "--%s: `%s` has %" PRIu64 " samples, but the target has %" PRIu64
                            "; both need the same number of samples",
                            s->option, s->ports[0]->name, count, bg_dataset_sample_count(s->target));
    return BG_OK;
}

/* Binds symbolic dimensions to the sizes of the data. An input whose rank differs from that of its data is skipped: it
 * may have additional dimensions of size 1. */
static bg_status bind_sizes(onnx_settings *settings, const sources *s, bg_error *error)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const bg_onnx_port *port = s->ports[i];
        const bg_type *type = bg_dataset_sample_type(s->sets[i], 0);

        for (uint32_t dim = 1; dim < port->rank; dim++)
            if (port->dims[dim].size < 0 && port->rank == type->rank + 1)
                BGI_TRY(onnx_bind(settings, port, dim, type->dims[dim - 1], error));
    }
    return BG_OK;
}

static bg_type sample_of(const bg_type *type)
{
    return type->rank > 0 ? bg_type_make(type->dtype, type->rank - 1, type->dims + 1) : *type;
}

/* ---- loss and target ---- */

static bool is_integer(bg_dtype dtype)
{
    return dtype == BG_INT32 || dtype == BG_INT64 || dtype == BG_UINT8;
}

/* Whether the output is one float for any batch size. */
static bool is_scalar_output(const bg_onnx_port *port)
{
    if (!bg_dtype_is_float(port->type.dtype))
        return false;
    return port->type.rank == 0 || (port->type.rank == 1 && port->rank == 1 && port->dims[0].size == 1);
}

/* Whether each sample of the output is one float, so that it has no classes. */
static bool is_one_number(const bg_onnx_port *port)
{
    for (uint32_t i = 1; i < port->type.rank; i++)
        if (port->type.dims[i] != 1)
            return false;
    return bg_dtype_is_float(port->type.dtype);
}

static const onnx_loss loss_of_output = {"the model's own", ONNX_LOSS_OUTPUT, 0, 0.0};

/* Uses the model's output `name`, which --loss names, as the loss. */
static bg_status take_output(onnx_settings *settings, const char *name, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    char text[BG_TYPE_TEXT_BYTES];

    for (uint32_t i = 0; i < contents->output_count; i++) {
        if (strcmp(contents->outputs[i].name, name) != 0)
            continue;
        settings->output_index = i;
        settings->loss = &loss_of_output;
        if (is_scalar_output(&contents->outputs[i]))
            return BG_OK;
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--loss %s: that output is %s, but a loss is one float for a micro-batch; end the model with a mean", name,
            bg_type_text(&contents->outputs[i].type, text));
    }
    return bg_error_set(error, BG_ERROR_INVALID, "--loss is `%s`; it must be %s, or the name of an output of the model",
                        name, onnx_loss_names());
}

/* Chooses the loss that --loss names, or the one that fits the target (NULL: none) and the output. */
static bg_status choose_loss(onnx_settings *settings, const bg_type *target, bg_error *error)
{
    const bg_onnx_port *output = &contents_of(settings)->outputs[settings->output_index];
    const char *guessed =
        target == NULL || (is_integer(target->dtype) && output->type.rank >= 2) ? "cross-entropy" : "mse";

    if (settings->loss_name != NULL)
        settings->loss = onnx_loss_find(settings->loss_name);
    else if (target == NULL && is_scalar_output(output))
        settings->loss = &loss_of_output;
    else
        settings->loss = onnx_loss_find(target == NULL && is_one_number(output) ? "mse" : guessed);
    return settings->loss != NULL ? BG_OK : take_output(settings, settings->loss_name, error);
}

/* Finds the dimension of the classes: the second one, as in PyTorch, or the last one if the target's shape requires
 * it. */
static bg_status place_classes(onnx_settings *settings, const bg_type *output, const bg_type *target, bg_error *error)
{
    bg_type second = *output, last = *output;
    char text[BG_TYPE_TEXT_BYTES], have[BG_TYPE_TEXT_BYTES];

    if (output->rank < 2)
        return bg_error_set(
            error, BG_ERROR_SHAPE,
            "--loss %s needs scores of classes, [N, C], but the output is %s; --output names another output",
            settings->loss->name, bg_type_text(output, text));
    second.dtype = last.dtype = BG_INT32;
    second.rank = last.rank = output->rank - 2;
    for (uint32_t i = 2; i < output->rank; i++)
        second.dims[i - 2] = output->dims[i];
    for (uint32_t i = 1; i + 1 < output->rank; i++)
        last.dims[i - 1] = output->dims[i];
    for (uint32_t i = second.rank; i < BG_MAX_RANK; i++)
        second.dims[i] = last.dims[i] = 0;
    settings->class_axis = 1;
    settings->target_type = second;
    if (target == NULL || are_alike(target, &second))
        return BG_OK;
    settings->class_axis = (int32_t)output->rank - 1;
    settings->target_type = last;
    if (are_alike(target, &last))
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_SHAPE,
        "--target: the label of a sample is %s, but the output has the shape %s; give a class for each position",
        bg_type_text(target, have), bg_type_text(output, text));
}

static bg_status check_metric(onnx_settings *settings, bg_error *error)
{
    const onnx_metric *metric = onnx_metric_of(settings);
    const bg_type *output = &contents_of(settings)->outputs[settings->output_index].type;
    const bool has_labels = onnx_loss_has_labels(settings->loss), has_sides = onnx_loss_is_binary(settings->loss);

    if (metric == NULL)
        return BG_OK;
    if (settings->target_name == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--metric %s needs a target, but the loss is inside the model; leave --metric out",
                            metric->name);
    if (has_labels ? metric->targets == ONNX_OF_NUMBERS
                   : metric->targets == ONNX_OF_LABELS || (metric->targets == ONNX_OF_SIDES && !has_sides))
        return bg_error_set(error, BG_ERROR_INVALID, "--metric %s does not fit --loss %s, whose targets are %s",
                            metric->name, settings->loss->name,
                            has_labels  ? "labels of classes: use accuracy, top5, f1 or perplexity"
                            : has_sides ? "yes and no: use accuracy, f1, mae or mse"
                                        : "numbers: use mae or mse");
    if (strcmp(metric->name, "top5") == 0 && output->dims[settings->class_axis] < 5)
        return bg_error_set(error, BG_ERROR_INVALID, "--metric top5: the output has only %" PRId64 " classes",
                            output->dims[settings->class_axis]);
    if (metric->average == BG_SCORE_BINARY && has_labels && output->dims[settings->class_axis] != 2)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--metric %s needs two classes, but the output has %" PRId64
                            "; use f1, f1-micro or f1-weighted",
                            metric->name, output->dims[settings->class_axis]);
    settings->score = (bg_score){.name = metric->name,
                                 .output = metric->name,
                                 .kind = metric->score,
                                 .average = metric->average,
                                 .class_index = 1};
    return BG_OK;
}

/* Chooses the target's type, and for its input in the graph a name that no input of the model has. */
static bg_status choose_target(onnx_settings *settings, const bg_type *target, bg_error *error)
{
    const bg_onnx_port *output = &contents_of(settings)->outputs[settings->output_index];

    if (settings->loss->kind == ONNX_LOSS_OUTPUT) {
        if (target != NULL)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "--target is given, but the loss is inside the model, which reads only inputs; give --input NAME=FILE");
        return check_metric(settings, error);
    }
    if (!bg_dtype_is_float(output->type.dtype))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "output `%s` is %s, but a loss needs floats; name another output with --output",
                            output->name, bg_dtype_name(output->type.dtype));
    settings->target_name = find_port(settings, target_word, strlen(target_word)) == NULL ? target_word : "loss.target";
    if (onnx_loss_has_labels(settings->loss)) {
        BGI_TRY(place_classes(settings, &output->type, target, error));
        settings->class_count = output->type.dims[settings->class_axis];
        if (settings->class_count == 1)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--loss %s: the output `%s` has one class, so the loss is always zero; give --loss "
                                "bce-logits for yes and no, or mse for numbers. Without --loss the data of --target "
                                "choose the loss",
                                settings->loss->name, output->name);
    } else {
        settings->target_type = sample_of(&output->type);
    }
    return check_metric(settings, error);
}

/* ---- labels ---- */

/* Checks labels, because an invalid one would make the loss NaN without an explanation. The loader's threads call this
 * function while another build may change the model, so it reads only values that no longer change. */
static bg_status check_labels(void *user, uint64_t epoch, uint64_t sample, const void *const inputs[],
                              void *const outputs[], bg_error *error)
{
    const onnx_settings *settings = user;
    const int64_t count = bg_type_element_count(&settings->target_type), classes = settings->class_count;
    const int32_t *labels = inputs[0];

    (void)epoch, (void)sample;
    for (int64_t i = 0; i < count; i++)
        if ((labels[i] < 0 || labels[i] >= classes) && labels[i] != ONNX_IGNORED_LABEL)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "label %" PRId32 ": the output has the classes 0 to %" PRId64 " (and %d is ignored)",
                                labels[i], classes - 1, ONNX_IGNORED_LABEL);
    memcpy(outputs[0], labels, (size_t)count * sizeof *labels);
    return BG_OK;
}

static bg_status fit_target(onnx_settings *settings, sources *s, bg_error *error)
{
    const bg_dataset_map_options options = {.map = check_labels, .user = settings};
    bg_dataset *checked = NULL;

    BGI_TRY(fit_source(settings, s->option, s->target_file, NULL, &settings->target_type, &s->target, error));
    if (!onnx_loss_has_labels(settings->loss))
        return BG_OK;
    BGI_TRY(bg_dataset_map(s->target, &options, &checked, error));
    bg_dataset_destroy(s->target);
    s->target = checked;
    return BG_OK;
}

/* ---- joined ---- */

/* Joins the inputs that the model uses, and the target if there is one. */
static bg_status join_inputs(onnx_settings *settings, sources *s, onnx_data *out, bg_error *error)
{
    uint32_t count = 0;
    bg_dataset *sets[BG_DATASET_MAX_TENSORS];

    for (uint32_t i = 0; i < s->count; i++) {
        const bg_type type = sample_of(&s->ports[i]->type);

        if (bg_value_is_null(s->ports[i]->value))
            continue;
        BGI_TRY(fit_source(settings, s->option, s->files[i], s->ports[i], &type, &s->sets[i], error));
        sets[count] = s->sets[i];
        out->names[count++] = s->ports[i]->name;
    }
    if (s->target != NULL) {
        BGI_TRY(fit_target(settings, s, error));
        sets[count] = s->target;
        out->names[count++] = settings->target_name;
    }
    if (count == 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: the model does not read any of its inputs",
                            settings->path);
    return bg_dataset_zip(sets, count, &out->set, error);
}

static bg_status join(onnx_settings *settings, sources *s, onnx_data *out, bg_error *error)
{
    if (settings->target_name != NULL && s->target == NULL && settings->loss_name == NULL &&
        strcmp(s->option, "input") == 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "no --target is given; give --target FILE, or name an output of the model that is a loss with "
            "--loss");
    if (settings->target_name != NULL && s->target == NULL)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--%s: there is no target for --loss %s; %s, or name an output of the model that is a loss with "
            "--loss",
            s->option, settings->loss->name,
            strcmp(s->option, "input") == 0 ? "give --target FILE" : "add target=FILE");
    if (settings->target_name == NULL && s->target != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--%s gives a target, but the loss is inside the model; leave the target out", s->option);
    return join_inputs(settings, s, out, error);
}

static bg_status open_lists(onnx_settings *settings, sources *training, sources *test, bg_error *error)
{
    for (uint32_t i = 0; i < settings->inputs.count; i++)
        BGI_TRY(add_source(settings, settings->inputs.values[i], false, training, error));
    for (uint32_t i = 0; i < settings->validation.count; i++)
        BGI_TRY(add_list(settings, settings->validation.values[i], test, error));
    if (settings->target != NULL)
        BGI_TRY(add_file(settings->target, &training->target_file, error));
    BGI_TRY(open_sources(settings, training, &settings->data.skipped, error));
    BGI_TRY(open_sources(settings, test, &settings->test.skipped, error));
    if (training->count > 0)
        BGI_TRY(check_counts(settings, training, error));
    return test->count > 0 || test->target != NULL ? check_counts(settings, test, error) : BG_OK;
}

static bg_status open_all(onnx_settings *settings, sources *training, sources *test, bg_error *error)
{
    const bg_type *target;

    BGI_TRY(open_lists(settings, training, test, error));
    BGI_TRY(bind_sizes(settings, training, error));
    BGI_TRY(onnx_try(settings, error));
    BGI_TRY(onnx_check_trainable(settings, error));
    target = training->target != NULL ? bg_dataset_sample_type(training->target, 0) : NULL;
    BGI_TRY(choose_loss(settings, target, error));
    BGI_TRY(choose_target(settings, target, error));
    if (training->count > 0)
        BGI_TRY(join(settings, training, &settings->data, error));
    return test->count > 0 ? join(settings, test, &settings->test, error) : BG_OK;
}

bg_status onnx_open_data(onnx_settings *settings, bg_error *error)
{
    sources training = {.option = "input"}, test = {.option = "validation"};
    const bg_status status = open_all(settings, &training, &test, error);

    close_sources(&training);
    close_sources(&test);
    return status;
}

bg_status onnx_choose_loss(onnx_settings *settings, bg_error *error)
{
    BGI_TRY(choose_loss(settings, NULL, error));
    return choose_target(settings, NULL, error);
}

static bg_status open_inputs(onnx_settings *settings, sources *s, bg_error *error)
{
    for (uint32_t i = 0; i < settings->inputs.count; i++)
        BGI_TRY(add_source(settings, settings->inputs.values[i], false, s, error));
    BGI_TRY(open_sources(settings, s, &settings->data.skipped, error));
    BGI_TRY(check_counts(settings, s, error));
    BGI_TRY(bind_sizes(settings, s, error));
    BGI_TRY(onnx_try(settings, error));
    return join_inputs(settings, s, &settings->data, error);
}

bg_status onnx_open_inputs(onnx_settings *settings, bg_error *error)
{
    sources s = {.option = "input"};
    const bg_status status = open_inputs(settings, &s, error);

    close_sources(&s);
    return status;
}

void onnx_print_skipped(const onnx_settings *settings, const onnx_data *data)
{
    if (settings->skip_incomplete)
        printf(" (%" PRIu64 " row%s with missing values left out)", data->skipped, cli_s(data->skipped));
}

void onnx_close_data(onnx_data *data)
{
    bg_dataset_destroy(data->set);
    *data = (onnx_data){.set = NULL};
}
