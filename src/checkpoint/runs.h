/*
 * runs.h: describes which elements of a tensor are in each part of a checkpoint, as structs and as text.
 */
#ifndef BGI_CHECKPOINT_RUNS_H
#define BGI_CHECKPOINT_RUNS_H

#include <brigade/base.h>

#include "core/text.h"

/* `count` ranges of `length` elements each. The first range begins at element `first`, and each further one `stride`
 * elements after the previous one. */
typedef struct bgi_run {
    uint32_t part;
    int64_t first, length, count, stride;
} bgi_run;

/* A zeroed struct is empty. The runs of a part are in the order in which its file stores the elements. */
typedef struct bgi_runs {
    bgi_run *items;
    size_t count, capacity;
    bool failed; /* memory was exhausted */
} bgi_runs;

void bgi_runs_add(bgi_runs *runs, uint32_t part, int64_t first, int64_t length);
void bgi_runs_clear(bgi_runs *runs);
/* Returns the number of elements in a part. */
int64_t bgi_runs_elements(const bgi_runs *runs, uint32_t part);

/* Prints "float32[4,6] 0:0+3*4/6 1:3+3*4/6": the type, then the part, the first element and the length of each run. If
 * a run has several ranges, count and stride follow. */
void bgi_runs_print(const bg_type *type, const bgi_runs *runs, bgi_string *out);
/* Parses the text of bgi_runs_print. Checks that runs are inside the tensor, that parts are below `part_count`, and
 * that each element is in exactly one run. Errors: BG_ERROR_PARSE, BG_ERROR_MEMORY; `out` must be cleared also after an
 * error. */
bg_status bgi_runs_parse(const char *text, uint32_t part_count, bg_type *out_type, bgi_runs *out, bg_error *error);

#endif
