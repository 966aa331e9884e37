/*
 * runs.h: the elements of a tensor that each part of a checkpoint holds, and their text form.
 */
#ifndef BGI_CHECKPOINT_RUNS_H
#define BGI_CHECKPOINT_RUNS_H

#include <brigade/base.h>

#include "core/text.h"

/* `count` stretches of `length` elements, the first at `first`, the next one `stride` behind it. */
typedef struct bgi_run {
    uint32_t part;
    int64_t first, length, count, stride;
} bgi_run;

/* A zeroed struct is empty. The runs of one part, in this order, are its file's elements of the tensor. */
typedef struct bgi_runs {
    bgi_run *items;
    size_t count, capacity;
    bool failed; /* memory was out */
} bgi_runs;

void bgi_runs_add(bgi_runs *runs, uint32_t part, int64_t first, int64_t length);
void bgi_runs_clear(bgi_runs *runs);
/* The number of elements of a part. */
int64_t bgi_runs_elements(const bgi_runs *runs, uint32_t part);

/* "float32[4,6] 0:0+3*4/6 1:3+3*4/6": the type, then for each run its part, first element, length and, when it has
 * several ranges, count and stride. */
void bgi_runs_print(const bg_type *type, const bgi_runs *runs, bgi_string *out);
/* Checks everything: runs are inside the tensor, parts are below `part_count`, and each element is in exactly one run.
 * Errors: BG_ERROR_PARSE, BG_ERROR_MEMORY; `out` must be cleared also after an error. */
bg_status bgi_runs_parse(const char *text, uint32_t part_count, bg_type *out_type, bgi_runs *out, bg_error *error);

#endif
