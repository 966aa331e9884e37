/*
 * best.c: reads the metrics of checkpoints, and finds the checkpoints of a folder with the best metrics. A checkpoint's
 * metadata contain the metric, so that a resumed run, which does not know the earlier runs, keeps the same files:
 *
 *     metric: "min 0.25 validation loss"      the mode, the value, the name
 */
#include "checkpoint/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool bgi_checkpoint_parse_metric(const char *text, bgi_checkpoint_metric *out)
{
    char *end;

    if (text == NULL || (strncmp(text, "min ", 4) != 0 && strncmp(text, "max ", 4) != 0))
        return false;
    out->rises = text[1] == 'a';
    out->value = bgi_text_real(text + 4, &end);
    if (end == text + 4 || *end != ' ' || end[1] == '\0' || !isfinite(out->value))
        return false;
    out->name = end + 1;
    return true;
}

/* ---- of a folder ---- */

/* A checkpoint and its metric. */
typedef struct scored {
    bg_safetensors *file; /* owns metric.name; NULL: the checkpoint has no metric */
    bgi_checkpoint_metric metric;
} scored;

static scored read_score(const char *path)
{
    scored s = {.file = NULL};

    if (bg_safetensors_open_header(path, &s.file, NULL) == BG_OK &&
        !bgi_checkpoint_parse_metric(bg_safetensors_metadata_find(s.file, BGI_CHECKPOINT_METRIC), &s.metric)) {
        bg_safetensors_destroy(s.file);
        s.file = NULL;
    }
    return s;
}

static bool is_comparable(const scored *a, const scored *b)
{
    return a->file != NULL && b->file != NULL && a->metric.rises == b->metric.rises &&
           strcmp(a->metric.name, b->metric.name) == 0;
}

/* Whether checkpoint `a` is better than `b`; all[0] is the newest checkpoint. If metrics are equal, the older one is
 * better. */
static bool is_better(const scored *all, size_t a, size_t b)
{
    const double x = all[a].metric.value, y = all[b].metric.value;

    return x == y ? a > b : all[a].metric.rises ? x > y : x < y;
}

static void mark_best(const scored *all, size_t count, uint32_t keep_best, bool *out)
{
    size_t newest = 0;

    while (newest < count && all[newest].file == NULL)
        newest++;
    for (size_t i = newest; i < count; i++) {
        uint32_t better = 0;
        for (size_t k = newest; k < count; k++)
            better += is_comparable(&all[newest], &all[k]) && is_better(all, k, i);
        out[i] = is_comparable(&all[newest], &all[i]) && better < keep_best;
    }
}

bool *bgi_checkpoint_find_best(char *const *paths, size_t count, uint32_t keep_best)
{
    scored *all = calloc(count + 1, sizeof *all);
    bool *best = calloc(count + 1, sizeof *best);

    if (all == NULL || best == NULL) {
        free(best);
        free(all);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        all[i] = read_score(paths[i]);
    mark_best(all, count, keep_best, best);
    for (size_t i = 0; i < count; i++)
        bg_safetensors_destroy(all[i].file);
    free(all);
    return best;
}
