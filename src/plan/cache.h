/*
 * cache.h: compiled plans in a folder (options.files.cache_dir). The same request finds its plan again; whatever is
 * wrong with a file, or with the folder, is a note for the log, and the plan is made as ever.
 *
 *     begin --> load --+-- true: the plan is complete
 *                      +-- false: record the log, compile, store --> end
 */
#ifndef BGI_PLAN_CACHE_H
#define BGI_PLAN_CACHE_H

#include "core/archive.h"
#include "plan/request.h"

/* A log message of the compilation, logged again when the plan is loaded. */
typedef struct bgi_cache_note {
    bg_log_level level;
    const char *text;
} bgi_cache_note;

typedef struct bgi_cache {
    const bgi_request *request;
    bgi_archive key; /* written: all that shapes the plan */
    char *path;      /* malloc'ed; NULL: this plan is not kept */
    bgi_arena arena; /* texts of notes */
    bgi_cache_note *notes;
    size_t note_count, note_capacity;
} bgi_cache;

/* Without a folder, or for a plan that cannot be kept, the cache is off: load and store do nothing. The request must
 * last as long. */
bg_status bgi_cache_begin(bgi_cache *cache, const bgi_request *request, bg_error *error);
/* Into a plan that was begun for the request. After false the plan may be good for nothing but bg_plan_destroy. */
bool bgi_cache_load(bgi_cache *cache, bg_plan *plan);
/* From now on messages that the plan's options log are kept too. */
void bgi_cache_record_log(bgi_cache *cache, bg_plan *plan);
/* Stops keeping messages and writes a plan that is complete. */
void bgi_cache_store(bgi_cache *cache, bg_plan *plan);
void bgi_cache_end(bgi_cache *cache);

/* What load and store do with the content of a file: BG_ERROR_PARSE for anything but a whole file of this version with
 * this key. `out` is malloc'ed. */
bg_status bgi_cache_read(bgi_cache *cache, const void *data, size_t size_bytes, bg_plan *plan, bg_error *error);
bg_status bgi_cache_write(bgi_cache *cache, bg_plan *plan, void **out, size_t *out_bytes, bg_error *error);

/* cache_key.c: everything that shapes the plan; BG_ERROR_UNSUPPORTED when something does that cannot be written down.
 */
bg_status bgi_cache_write_key(const bgi_request *request, bgi_archive *key, bg_error *error);

#endif
