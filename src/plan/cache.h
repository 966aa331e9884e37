/*
 * cache.h: stores compiled plans in a folder (options.files.cache_dir). A repeated request finds its plan there. When a
 * file or the folder is damaged, a message is logged and the plan is compiled.
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
    bgi_archive key; /* written by bgi_cache_write_key: everything that shapes the plan */
    char *path;      /* malloc'ed; NULL: this plan is not cached */
    bgi_arena arena; /* holds the texts of `notes` */
    bgi_cache_note *notes;
    size_t note_count, note_capacity;
} bgi_cache;

/* Begins the cache of one request. Without a folder, or for a plan that cannot be stored, the cache is off, and
 * bgi_cache_load and bgi_cache_store do nothing. The request must outlive the cache. */
bg_status bgi_cache_begin(bgi_cache *cache, const bgi_request *request, bg_error *error);
/* Loads the stored plan into a plan that was begun for the request. When it returns false, the plan may only be
 * destroyed. */
bool bgi_cache_load(bgi_cache *cache, bg_plan *plan);
/* Begins to keep the messages that are logged through the plan's options. */
void bgi_cache_record_log(bgi_cache *cache, bg_plan *plan);
/* Stops keeping messages and writes a complete plan. */
void bgi_cache_store(bgi_cache *cache, bg_plan *plan);
void bgi_cache_end(bgi_cache *cache);

/* bgi_cache_read reads the content of a file; anything except a complete file of this version with this key is
 * BG_ERROR_PARSE. bgi_cache_write makes such content, and *out is malloc'ed. */
bg_status bgi_cache_read(bgi_cache *cache, const void *data, size_t size_bytes, bg_plan *plan, bg_error *error);
bg_status bgi_cache_write(bgi_cache *cache, bg_plan *plan, void **out, size_t *out_bytes, bg_error *error);

/* cache_key.c: writes everything that shapes the plan; returns BG_ERROR_UNSUPPORTED when some of it cannot be
 * written. */
bg_status bgi_cache_write_key(const bgi_request *request, bgi_archive *key, bg_error *error);

#endif
