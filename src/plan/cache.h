/*
 * cache.h: compiled plans in a folder (options.files.cache_dir). The same request finds its plan again. A damaged file
 * or folder gives a log message, and the plan is compiled as without a cache.
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
    char *path;      /* malloc'ed; NULL: this plan is not cached */
    bgi_arena arena; /* texts of notes */
    bgi_cache_note *notes;
    size_t note_count, note_capacity;
} bgi_cache;

/* Without a folder, or for a plan that cannot be kept, the cache is off: load and store do nothing. The request must
 * outlive the cache. */
bg_status bgi_cache_begin(bgi_cache *cache, const bgi_request *request, bg_error *error);
/* Loads into a plan that was begun for the request. After false the plan may only be destroyed. */
bool bgi_cache_load(bgi_cache *cache, bg_plan *plan);
/* From now on the cache keeps messages that the plan's options log. */
void bgi_cache_record_log(bgi_cache *cache, bg_plan *plan);
/* Stops keeping messages and writes a complete plan. */
void bgi_cache_store(bgi_cache *cache, bg_plan *plan);
void bgi_cache_end(bgi_cache *cache);

/* Reads the content of a file: anything but a complete file of this version with this key is BG_ERROR_PARSE. `out` is
 * malloc'ed. */
bg_status bgi_cache_read(bgi_cache *cache, const void *data, size_t size_bytes, bg_plan *plan, bg_error *error);
bg_status bgi_cache_write(bgi_cache *cache, bg_plan *plan, void **out, size_t *out_bytes, bg_error *error);

/* cache_key.c: writes everything that shapes the plan; BG_ERROR_UNSUPPORTED when some of it cannot be written. */
bg_status bgi_cache_write_key(const bgi_request *request, bgi_archive *key, bg_error *error);

#endif
