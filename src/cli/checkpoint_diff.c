/*
 * checkpoint_diff.c: `brigade checkpoint diff`: compares two checkpoints or files of tensors. It compares metadata, the
 * names of tensors, their types, and their values bit by bit.
 */
#include "cli/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/narrow.h"
#include "core/text.h"
#include "formats/json_write.h"

enum { PART_BYTES = 1 << 18 };

typedef struct difference {
    uint64_t elements, differing, first; /* the first element that differs */
    double most;                         /* the largest |a - b|; NAN if one difference is NAN */
    double a, b;                         /* the first values that differ */
} difference;

typedef struct comparison {
    bgi_stored *sources[2];
    const checkpoint_settings *settings;
    bgi_json_writer json;
    unsigned char *parts[2];
    uint64_t same, different; /* tensors */
    bool texts_differ;
    bg_error *error;
} comparison;

/* ---- values ---- */

static double element_at(bg_dtype dtype, const void *values, size_t i)
{
    switch (dtype) {
    case BG_FLOAT32:
        return (double)((const float *)values)[i];
    case BG_FLOAT64:
        return ((const double *)values)[i];
    case BG_FLOAT16:
    case BG_BFLOAT16:
        return (double)bgi_narrow_to_float(dtype, ((const uint16_t *)values)[i]);
    case BG_INT32:
        return (double)((const int32_t *)values)[i];
    case BG_INT64:
        return (double)((const int64_t *)values)[i];
    case BG_UINT8:
        return (double)((const uint8_t *)values)[i];
    default:
        return (double)NAN;
    }
}

static void compare_part(const comparison *c, bg_dtype dtype, size_t width, size_t begin, size_t count, difference *out)
{
    for (size_t i = 0; i < count; i++) {
        double a, b;
        if (memcmp(c->parts[0] + i * width, c->parts[1] + i * width, width) == 0)
            continue;
        a = element_at(dtype, c->parts[0], i);
        b = element_at(dtype, c->parts[1], i);
        if (out->differing++ == 0) {
            out->first = begin + i;
            out->a = a;
            out->b = b;
        }
        if (!isnan(out->most) && !(fabs(a - b) <= out->most))
            out->most = fabs(a - b);
    }
}

/* Compares the values of two tensors of the same type and shape. */
static bg_status compare_values(const comparison *c, const bgi_stored_tensor *a, const bgi_stored_tensor *b,
                                difference *out)
{
    size_t width;

    *out = (difference){.elements = 1};
    for (uint32_t k = 0; k < a->type.rank; k++)
        out->elements *= (uint64_t)a->type.dims[k];
    width = out->elements > 0 ? a->size_bytes / out->elements : 1;
    for (size_t at = 0, some; at < a->size_bytes; at += some) {
        some = a->size_bytes - at < PART_BYTES ? a->size_bytes - at : PART_BYTES;
        BGI_TRY(bgi_stored_read(c->sources[0], a, at, some, c->parts[0], c->error));
        BGI_TRY(bgi_stored_read(c->sources[1], b, at, some, c->parts[1], c->error));
        if (memcmp(c->parts[0], c->parts[1], some) != 0)
            compare_part(c, a->type.dtype, width, at / width, some / width, out);
    }
    return BG_OK;
}

/* ---- output ---- */

static void print_escaped(const char *text)
{
    char shown[1024];

    snprintf(shown, sizeof shown / 2, "%s", text);
    bgi_string_escape(shown, sizeof shown, false);
    fputs(shown, stdout);
}

static void say_text(comparison *c, const char *key, const char *a, const char *b)
{
    c->texts_differ = true;
    if (c->settings->json) {
        bgi_json_open(&c->json, NULL, '{');
        bgi_json_text(&c->json, "key", key);
        bgi_json_text(&c->json, "first", a);
        bgi_json_text(&c->json, "second", b);
        bgi_json_close(&c->json, '}');
        return;
    }
    printf("%s: ", key);
    print_escaped(a != NULL ? a : "(none)");
    printf(" and ");
    print_escaped(b != NULL ? b : "(none)");
    printf("\n");
}

/* Begins the report on a tensor: `how` is "only in the first", "only in the second", "type", "record" or "values". */
static void begin_tensor(comparison *c, const char *name, const char *how)
{
    if (c->settings->json) {
        bgi_json_open(&c->json, NULL, '{');
        bgi_json_text(&c->json, "name", name);
        bgi_json_text(&c->json, "differs", how);
        return;
    }
    printf("tensor `");
    print_escaped(name);
    printf("`: ");
}

static void end_tensor(comparison *c)
{
    if (c->settings->json)
        bgi_json_close(&c->json, '}');
}

static void say_two(comparison *c, const char *name, const char *how, const char *a, const char *b)
{
    begin_tensor(c, name, how);
    if (c->settings->json) {
        bgi_json_text(&c->json, "first", a);
        bgi_json_text(&c->json, "second", b);
    } else {
        printf("%s and %s\n", a, b);
    }
    end_tensor(c);
}

static void say_missing(comparison *c, const char *name, int has)
{
    c->different++;
    begin_tensor(c, name, has == 0 ? "only in the first" : "only in the second");
    if (!c->settings->json)
        printf("only in %s\n", c->sources[has]->path);
    end_tensor(c);
}

static void say_values(comparison *c, const bgi_stored_tensor *tensor, const difference *d)
{
    begin_tensor(c, tensor->name, "values");
    if (c->settings->json) {
        bgi_json_count(&c->json, "elements", d->elements);
        bgi_json_count(&c->json, "differing", d->differing);
        bgi_json_real(&c->json, "most", d->most, 17);
        bgi_json_count(&c->json, "at", d->first);
        bgi_json_real(&c->json, "first", d->a, 17);
        bgi_json_real(&c->json, "second", d->b, 17);
    } else {
        printf("%" PRIu64 " of %" PRIu64 " elements differ, by at most %.3g; element %" PRIu64 " is %.9g and %.9g\n",
               d->differing, d->elements, d->most, d->first, d->a, d->b);
    }
    end_tensor(c);
}

/* ---- two sources ---- */

static void record_text(const bgi_checkpoint_record *about, char text[64])
{
    if (about->is_given)
        snprintf(text, 64, "%s, given", bgi_checkpoint_role(about->role));
    else
        snprintf(text, 64, "%s, %" PRIu64 " updates", bgi_checkpoint_role(about->role), about->updates);
}

static const char *type_text(const bgi_stored_tensor *tensor, char text[BG_TYPE_TEXT_BYTES])
{
    char printed[BG_TYPE_TEXT_BYTES];

    bg_type_text(&tensor->type, printed);
    snprintf(text, BG_TYPE_TEXT_BYTES, "%s%s",
             tensor->type.dtype != BG_DTYPE_NONE ? bg_dtype_name(tensor->type.dtype) : tensor->storage,
             strchr(printed, '['));
    return text;
}

static bg_status compare_tensor(comparison *c, const bgi_stored_tensor *a, const bgi_stored_tensor *b)
{
    const bool has_records = c->sources[0]->is_checkpoint && c->sources[1]->is_checkpoint && !c->settings->weights;
    bgi_checkpoint_record first, second;
    char texts[2][64], types[2][BG_TYPE_TEXT_BYTES];
    bool is_same = true;
    difference d;

    BGI_TRY(checkpoint_record(c->sources[0], a->name, &first, c->error));
    BGI_TRY(checkpoint_record(c->sources[1], b->name, &second, c->error));
    record_text(&first, texts[0]);
    record_text(&second, texts[1]);
    if (has_records && strcmp(texts[0], texts[1]) != 0) {
        say_two(c, a->name, "record", texts[0], texts[1]);
        is_same = false;
    }
    if (strcmp(type_text(a, types[0]), type_text(b, types[1])) != 0) {
        say_two(c, a->name, "type", types[0], types[1]);
        c->different++;
        return BG_OK;
    }
    BGI_TRY(compare_values(c, a, b, &d));
    if (d.differing > 0)
        say_values(c, a, &d);
    is_same = is_same && d.differing == 0;
    c->same += is_same;
    c->different += !is_same;
    return BG_OK;
}

/* Sets *out to whether the command line selects tensor `name`. */
static bg_status is_wanted(const comparison *c, int which, const char *name, bool *out)
{
    bgi_checkpoint_record about;

    BGI_TRY(checkpoint_record(c->sources[which], name, &about, c->error));
    *out = !c->settings->weights || about.role == BG_ROLE_PARAMETER || about.role == BG_ROLE_BUFFER;
    return BG_OK;
}

/* Compares the tensors of the two sources, whose lists are sorted by name. */
static bg_status compare_tensors(comparison *c)
{
    size_t at[2] = {0, 0};

    while (at[0] < c->sources[0]->count || at[1] < c->sources[1]->count) {
        const bgi_stored_tensor *a = at[0] < c->sources[0]->count ? &c->sources[0]->tensors[at[0]] : NULL;
        const bgi_stored_tensor *b = at[1] < c->sources[1]->count ? &c->sources[1]->tensors[at[1]] : NULL;
        const int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->name, b->name);
        bool wanted = false;

        BGI_TRY(is_wanted(c, order <= 0 ? 0 : 1, order <= 0 ? a->name : b->name, &wanted));
        if (wanted && order != 0)
            say_missing(c, order < 0 ? a->name : b->name, order < 0 ? 0 : 1);
        else if (wanted)
            BGI_TRY(compare_tensor(c, a, b));
        at[0] += order <= 0;
        at[1] += order >= 0;
    }
    return BG_OK;
}

/* Compares the metadata if both sources are checkpoints. */
static void compare_texts(comparison *c)
{
    static const char *const keys[] = {BGI_CHECKPOINT_STEP,      BGI_CHECKPOINT_SEED,  BGI_CHECKPOINT_INFO,
                                       BGI_CHECKPOINT_OPTIMIZER, BGI_CHECKPOINT_KINDS, BGI_CHECKPOINT_RUN,
                                       BGI_CHECKPOINT_BLOB};

    if (!c->sources[0]->is_checkpoint || !c->sources[1]->is_checkpoint || c->settings->weights)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *a = bgi_stored_text(c->sources[0], keys[i]), *b = bgi_stored_text(c->sources[1], keys[i]);
        if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0))
            say_text(c, keys[i], a, b);
    }
}

static bg_status compare(comparison *c, bool *out_same)
{
    char *text = NULL;
    size_t text_bytes = 0;

    c->parts[0] = malloc(PART_BYTES);
    c->parts[1] = malloc(PART_BYTES);
    if (c->parts[0] == NULL || c->parts[1] == NULL)
        return bgi_error_memory(c->error, "parts of tensors", 2 * PART_BYTES);
    bgi_json_open(&c->json, NULL, '{');
    bgi_json_text(&c->json, "first", c->sources[0]->path);
    bgi_json_text(&c->json, "second", c->sources[1]->path);
    bgi_json_open(&c->json, "texts", '[');
    compare_texts(c);
    bgi_json_close(&c->json, ']');
    bgi_json_open(&c->json, "tensors", '[');
    BGI_TRY(compare_tensors(c));
    bgi_json_close(&c->json, ']');
    *out_same = c->different == 0 && !c->texts_differ;
    bgi_json_bool(&c->json, "is_same", *out_same);
    bgi_json_count(&c->json, "same_tensors", c->same);
    bgi_json_close(&c->json, '}');
    if (!c->settings->json) {
        printf("%" PRIu64 " tensor%s the same, %" PRIu64 " different\n", c->same, c->same == 1 ? " is" : "s are",
               c->different);
        return BG_OK;
    }
    BGI_TRY(bgi_json_finish(&c->json, &text, &text_bytes, c->error));
    printf("%s\n", text);
    free(text);
    return BG_OK;
}

bg_status checkpoint_diff(const char *first, const char *second, const checkpoint_settings *settings, bool *out_same,
                          bg_error *error)
{
    bgi_stored *sources[2] = {NULL, NULL};
    comparison c = {.settings = settings, .error = error};
    bg_status status = bgi_stored_open(first, &sources[0], error);

    if (status == BG_OK)
        status = bgi_stored_open(second, &sources[1], error);
    c.sources[0] = sources[0];
    c.sources[1] = sources[1];
    if (status == BG_OK)
        status = compare(&c, out_same);
    bgi_json_clear(&c.json);
    free(c.parts[0]);
    free(c.parts[1]);
    bgi_stored_close(sources[0]);
    bgi_stored_close(sources[1]);
    return status;
}
