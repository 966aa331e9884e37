/*
 * checkpoint_inspect.c: `brigade checkpoint inspect`: prints the content of a checkpoint or another file of tensors, as
 * text or as JSON. Values are not read.
 */
#include "cli/checkpoint.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/text.h"
#include "formats/json_write.h"

enum { ROLE_COUNT = BG_ROLE_TRAINING + 1, PRINTED_BYTES = 120 };

/* Sums over the tensors of one role. */
typedef struct role_sum {
    uint64_t tensors, elements, bytes;
} role_sum;

typedef struct report {
    const bgi_stored *source;
    bg_checkpoint head; /* all zero if the source is not a checkpoint */
    role_sum roles[ROLE_COUNT], all;
} report;

bg_status checkpoint_record(const bgi_stored *source, const char *name, bgi_checkpoint_record *out, bg_error *error)
{
    *out = (bgi_checkpoint_record){.role = BG_ROLE_PARAMETER, .is_given = true};
    if (!source->is_checkpoint)
        return BG_OK;
    return bgi_checkpoint_find_record(source->file, name, out, error);
}

static void add_to(role_sum *sum, const bgi_stored_tensor *tensor)
{
    uint64_t elements = 1;

    for (uint32_t k = 0; k < tensor->type.rank; k++)
        elements *= (uint64_t)tensor->type.dims[k];
    sum->tensors++;
    sum->elements += elements;
    sum->bytes += tensor->size_bytes;
}

static bg_status count_roles(report *r, bg_error *error)
{
    for (size_t i = 0; i < r->source->count; i++) {
        bgi_checkpoint_record about;
        BGI_TRY(checkpoint_record(r->source, r->source->tensors[i].name, &about, error));
        add_to(&r->roles[about.role], &r->source->tensors[i]);
        add_to(&r->all, &r->source->tensors[i]);
    }
    return BG_OK;
}

/* Writes a type such as "float32[2,3]", also for element types that Brigade does not support. */
static const char *type_text(const bgi_stored_tensor *tensor, char text[BG_TYPE_TEXT_BYTES])
{
    char printed[BG_TYPE_TEXT_BYTES];

    bg_type_text(&tensor->type, printed);
    if (tensor->type.dtype == BG_DTYPE_NONE)
        snprintf(text, BG_TYPE_TEXT_BYTES, "%s%s", tensor->storage, strchr(printed, '['));
    else
        memcpy(text, printed, sizeof printed);
    return text;
}

/* ---- text ---- */

static void print_line(const char *label, const char *format, ...) BG_PRINTF(2, 3);
static void print_line(const char *label, const char *format, ...)
{
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text / 2, format, arguments);
    va_end(arguments);
    bgi_string_escape(text, sizeof text, false);
    printf("  %-10s %s\n", label, text);
}

static void print_size(char text[32], uint64_t bytes)
{
    if (bytes < 1000)
        snprintf(text, 32, "%" PRIu64 " B", bytes);
    else if (bytes < 1000000)
        snprintf(text, 32, "%.3g kB", 1e-3 * (double)bytes);
    else if (bytes < 1000000000)
        snprintf(text, 32, "%.3g MB", 1e-6 * (double)bytes);
    else
        snprintf(text, 32, "%.4g GB", 1e-9 * (double)bytes);
}

static void print_head(const report *r)
{
    const bgi_stored *source = r->source;
    const char *optimizer = bgi_stored_text(source, BGI_CHECKPOINT_OPTIMIZER);
    const char *kinds = bgi_stored_text(source, BGI_CHECKPOINT_KINDS);
    const char *run = bgi_stored_text(source, BGI_CHECKPOINT_RUN);
    const char *sum = bgi_stored_text(source, BGI_CHECKPOINT_SUM);
    bgi_checkpoint_metric metric;

    print_line("step", "%" PRIu64 " weight update%s", r->head.step, cli_s(r->head.step));
    print_line("seed", "%" PRIu64, r->head.seed);
    print_line("optimizer", "%s%s%s%s", optimizer != NULL ? optimizer : "not said",
               kinds != NULL && kinds[0] != '\0' ? " (" : "", kinds != NULL ? kinds : "",
               kinds != NULL && kinds[0] != '\0' ? ")" : "");
    if (run != NULL)
        print_line("run", "%.500s", run);
    if (r->head.info[0] != '\0')
        print_line("made by", "%.500s", r->head.info);
    if (bgi_checkpoint_parse_metric(bgi_stored_text(source, BGI_CHECKPOINT_METRIC), &metric))
        print_line("metric", "%.200s %g, %s is better", metric.name, metric.value, metric.rises ? "higher" : "lower");
    if (r->head.blob_bytes > 0)
        print_line("caller's", "%zu bytes: %.*s", r->head.blob_bytes,
                   (int)(r->head.blob_bytes < PRINTED_BYTES ? r->head.blob_bytes : PRINTED_BYTES),
                   (const char *)r->head.blob);
    for (uint32_t i = 0; i < source->part_count; i++)
        print_line("part", "%u on %.100s: %s%s", i, source->parts[i].host, source->parts[i].name,
                   source->parts[i].file != NULL ? "" : ", which is not in this folder");
    print_line("checksum", "%s, which `brigade checkpoint verify` compares", sum != NULL ? sum : "none");
}

static bg_status print_tensors(const report *r, bg_error *error)
{
    for (size_t i = 0; i < r->source->count; i++) {
        const bgi_stored_tensor *tensor = &r->source->tensors[i];
        char type[BG_TYPE_TEXT_BYTES], name[1024], age[48];
        bgi_checkpoint_record about;

        BGI_TRY(checkpoint_record(r->source, tensor->name, &about, error));
        snprintf(name, sizeof name / 2, "%s", tensor->name);
        bgi_string_escape(name, sizeof name, false);
        snprintf(age, sizeof age, ", %" PRIu64 " updates", about.updates);
        printf("  %-40s %-24s %s%s\n", name, type_text(tensor, type), bgi_checkpoint_role(about.role),
               about.role == BG_ROLE_STATE && !about.is_given ? age : "");
    }
    return BG_OK;
}

static bg_status print_text(const report *r, bool lists, bg_error *error)
{
    char size[32];

    printf("%s\n", r->source->path);
    if (r->source->is_checkpoint)
        print_head(r);
    else if (r->source->folder != NULL)
        print_line("kind", "weights in %u file%s, no checkpoint", r->source->folder->file_count,
                   cli_s(r->source->folder->file_count));
    else
        print_line("kind", "weights, no checkpoint");
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (r->roles[role].tensors == 0)
            continue;
        print_size(size, r->roles[role].bytes);
        print_line(bgi_checkpoint_role((bg_variable_role)role), "%" PRIu64 " in %" PRIu64 " tensor%s, %s",
                   r->roles[role].elements, r->roles[role].tensors, cli_s(r->roles[role].tensors), size);
    }
    print_size(size, r->all.bytes);
    print_line("all", "%" PRIu64 " in %" PRIu64 " tensor%s, %s", r->all.elements, r->all.tensors, cli_s(r->all.tensors),
               size);
    return lists ? print_tensors(r, error) : BG_OK;
}

/* ---- JSON ---- */

static void add_tensor(bgi_json_writer *w, const bgi_stored_tensor *tensor, const bgi_checkpoint_record *about)
{
    bgi_json_open(w, NULL, '{');
    bgi_json_text(w, "name", tensor->name);
    bgi_json_text(w, "dtype",
                  tensor->type.dtype != BG_DTYPE_NONE ? bg_dtype_name(tensor->type.dtype) : tensor->storage);
    bgi_json_open(w, "shape", '[');
    for (uint32_t k = 0; k < tensor->type.rank; k++)
        bgi_json_integer(w, NULL, tensor->type.dims[k]);
    bgi_json_close(w, ']');
    bgi_json_count(w, "bytes", tensor->size_bytes);
    bgi_json_text(w, "role", bgi_checkpoint_role(about->role));
    if (about->is_given)
        bgi_json_null(w, "updates");
    else
        bgi_json_count(w, "updates", about->updates);
    bgi_json_close(w, '}');
}

static void add_head(bgi_json_writer *w, const report *r)
{
    bgi_checkpoint_metric metric;

    bgi_json_count(w, "step", r->head.step);
    bgi_json_count(w, "seed", r->head.seed);
    bgi_json_text(w, "optimizer", bgi_stored_text(r->source, BGI_CHECKPOINT_OPTIMIZER));
    bgi_json_text(w, "optimizer_state", bgi_stored_text(r->source, BGI_CHECKPOINT_KINDS));
    bgi_json_text(w, "run", bgi_stored_text(r->source, BGI_CHECKPOINT_RUN));
    bgi_json_text(w, "info", r->head.info);
    if (bgi_checkpoint_parse_metric(bgi_stored_text(r->source, BGI_CHECKPOINT_METRIC), &metric)) {
        bgi_json_open(w, "metric", '{');
        bgi_json_text(w, "name", metric.name);
        bgi_json_real(w, "value", metric.value, 17);
        bgi_json_text(w, "better", metric.rises ? "higher" : "lower");
        bgi_json_close(w, '}');
    }
    bgi_json_text(w, "blob", bgi_stored_text(r->source, BGI_CHECKPOINT_BLOB));
    bgi_json_text(w, "checksum", bgi_stored_text(r->source, BGI_CHECKPOINT_SUM));
    bgi_json_open(w, "parts", '[');
    for (uint32_t i = 0; i < r->source->part_count; i++) {
        bgi_json_open(w, NULL, '{');
        bgi_json_text(w, "file", r->source->parts[i].name);
        bgi_json_text(w, "host", r->source->parts[i].host);
        bgi_json_bool(w, "is_here", r->source->parts[i].file != NULL);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

static bg_status print_json(const report *r, bg_error *error)
{
    bgi_json_writer w = {0};
    char *text = NULL;
    size_t text_bytes = 0;
    bg_status status = BG_OK;

    bgi_json_open(&w, NULL, '{');
    bgi_json_text(&w, "path", r->source->path);
    bgi_json_bool(&w, "is_checkpoint", r->source->is_checkpoint);
    if (r->source->is_checkpoint)
        add_head(&w, r);
    bgi_json_count(&w, "bytes", r->all.bytes);
    bgi_json_open(&w, "tensors", '[');
    for (size_t i = 0; status == BG_OK && i < r->source->count; i++) {
        bgi_checkpoint_record about;
        status = checkpoint_record(r->source, r->source->tensors[i].name, &about, error);
        if (status == BG_OK)
            add_tensor(&w, &r->source->tensors[i], &about);
    }
    bgi_json_close(&w, ']');
    bgi_json_close(&w, '}');
    if (status == BG_OK)
        status = bgi_json_finish(&w, &text, &text_bytes, error);
    if (status == BG_OK)
        printf("%s\n", text);
    bgi_json_clear(&w);
    free(text);
    return status;
}

bg_status checkpoint_inspect(const char *path, const checkpoint_settings *settings, bg_error *error)
{
    bgi_stored *source = NULL;
    report r = {0};
    bg_status status = bgi_stored_open(path, &source, error);

    r.source = source;
    if (status == BG_OK && source->is_checkpoint)
        status = bgi_stored_head(source, &r.head, error);
    if (status == BG_OK)
        status = count_roles(&r, error);
    if (status == BG_OK)
        status = settings->json ? print_json(&r, error) : print_text(&r, settings->tensors, error);
    bg_checkpoint_clear(&r.head);
    bgi_stored_close(source);
    return status;
}
