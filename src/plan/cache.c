/*
 * cache.c: reads and writes files of compiled plans.
 *
 *     magic 8 bytes | version 4 | bytes that follow 8 | their CRC-64 8 || key | notes | plan
 *
 * All numbers of the header are little-endian. A file is named by the checksum of its key and contains the whole key.
 * Two requests whose keys have the same checksum overwrite each other's file, but neither gets the other's plan. Files
 * appear complete under their names (core/file.h), so processes may share the folder; if two write one file, their
 * plans are equal. The library never deletes files; users may delete them at any time.
 */
#include "plan/cache.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "core/error.h"
#include "plan/log.h"
#include "core/file.h"
#include "core/text.h"
#include "plan/store.h"

enum { MAGIC_BYTES = 8, HEAD_BYTES = 28, VERSION = 6 };
static const unsigned char magic[MAGIC_BYTES] = {'B', 'R', 'G', 'P', 'L', 'A', 'N', '\n'};
static const size_t limit_bytes = (size_t)1 << 30;

/* ---- notes ---- */

static void log_format(const bgi_cache *cache, bg_log_level level, const char *format, ...) BG_PRINTF(3, 4);

static void log_format(const bgi_cache *cache, bg_log_level level, const char *format, ...)
{
    const bg_options *options = cache->request->options;
    char text[BG_ERROR_MESSAGE_BYTES];
    va_list arguments;

    if (!bgi_log_is_enabled(options))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bgi_log(options, level, text);
}

/* Logs a message and keeps it for the cache. If the plan has a log file, that file already has the message. */
static void keep_message(void *user, bg_log_level level, const char *text)
{
    bgi_cache *cache = user;
    const bg_options *options = cache->request->options;

    if (options->reporting.log != NULL)
        options->reporting.log(options->reporting.log_user, level, text);
    if (bgi_array_reserve((void **)&cache->notes, &cache->note_capacity, cache->note_count + 1, sizeof *cache->notes))
        cache->notes[cache->note_count++] = (bgi_cache_note){level, bgi_arena_string(&cache->arena, text)};
}

void bgi_cache_record_log(bgi_cache *cache, bg_plan *plan)
{
    if (cache->path == NULL)
        return;
    plan->options.reporting.log = keep_message;
    plan->options.reporting.log_user = cache;
}

static void visit_notes(bgi_archive *a, bgi_cache_note **notes, uint32_t *count)
{
    bgi_cache_note *visited = *notes = bgi_archive_list(a, *notes, count, sizeof *visited);

    for (uint32_t i = 0; i < *count; i++) {
        BGI_ARCHIVE_ENUM(a, visited[i].level, BG_LOG_DEBUG + 1);
        bgi_archive_text(a, &visited[i].text);
    }
}

/* ---- the key ---- */

static uint64_t checksum(const void *data, size_t size_bytes)
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, data, size_bytes);
    return bgi_crc64_value(&crc);
}

bg_status bgi_cache_begin(bgi_cache *cache, const bgi_request *request, bg_error *error)
{
    const char *folder = request->options->files.cache_dir;
    bg_error reason = {0};
    bg_status status;
    char name[40];

    memset(cache, 0, sizeof *cache);
    cache->request = request;
    if (folder == NULL || folder[0] == '\0' || request->options->reporting.dump_after != NULL)
        return BG_OK;
    bgi_archive_begin_writing(&cache->key);
    status = bgi_cache_write_key(request, &cache->key, &reason);
    if (status == BG_ERROR_UNSUPPORTED)
        log_format(cache, BG_LOG_WARNING, "cache: the plan is not stored: %s", reason.message);
    if (status == BG_OK) {
        snprintf(name, sizeof name, "%016" PRIx64 ".plan", checksum(cache->key.data, cache->key.size_bytes));
        cache->path = bgi_path_join(folder, name);
    }
    if (status == BG_ERROR_MEMORY || (status == BG_OK && cache->path == NULL)) {
        bgi_cache_end(cache);
        return bgi_error_memory(error, "the key of a plan", cache->key.size_bytes);
    }
    return BG_OK;
}

void bgi_cache_end(bgi_cache *cache)
{
    bgi_archive_end(&cache->key);
    free(cache->path);
    free(cache->notes);
    bgi_arena_clear(&cache->arena);
    cache->path = NULL;
    cache->notes = NULL;
    cache->note_count = 0;
}

/* ---- files ---- */

static void put_number(unsigned char *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * i);
}

static uint64_t get_number(const unsigned char *at, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << 8 * i;
    return number;
}

static bg_status check_head(const unsigned char *data, size_t size_bytes, bg_error *error)
{
    if (size_bytes < HEAD_BYTES || memcmp(data, magic, MAGIC_BYTES) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "it is not a plan file");
    if (get_number(data + 8, 4) != VERSION)
        return bg_error_set(error, BG_ERROR_PARSE, "it has version %" PRIu64 "; this library reads %d",
                            get_number(data + 8, 4), VERSION);
    if (get_number(data + 12, 8) != size_bytes - HEAD_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE, "it has %zu bytes after its header, but the header says %" PRIu64,
                            size_bytes - HEAD_BYTES, get_number(data + 12, 8));
    if (get_number(data + 20, 8) != checksum(data + HEAD_BYTES, size_bytes - HEAD_BYTES))
        return bg_error_set(error, BG_ERROR_PARSE, "its checksum is wrong");
    return BG_OK;
}

static bg_status read_content(bgi_cache *cache, bgi_archive *a, bg_plan *plan, bg_error *error)
{
    const void *key = NULL;
    bgi_cache_note *notes = NULL;
    uint32_t note_count = 0;
    size_t key_bytes = 0;

    bgi_archive_size(a, &key_bytes);
    if (key_bytes != cache->key.size_bytes)
        return bg_error_set(error, BG_ERROR_PARSE, "it belongs to another plan");
    bgi_archive_bytes(a, &key, key_bytes);
    if (key == NULL || memcmp(key, cache->key.data, key_bytes) != 0)
        return a->out_of_memory ? bgi_error_memory(error, "a cached plan", key_bytes)
                                : bg_error_set(error, BG_ERROR_PARSE, "it belongs to another plan");
    visit_notes(a, &notes, &note_count);
    BGI_TRY(bgi_plan_visit(a, plan, cache->request->graph, error));
    for (uint32_t i = 0; i < note_count; i++)
        if (notes[i].text != NULL)
            log_format(cache, notes[i].level, "%s", notes[i].text);
    return BG_OK;
}

bg_status bgi_cache_read(bgi_cache *cache, const void *data, size_t size_bytes, bg_plan *plan, bg_error *error)
{
    bgi_archive a;
    bg_status status;

    BGI_TRY(check_head(data, size_bytes, error));
    bgi_archive_begin_reading(&a, (const unsigned char *)data + HEAD_BYTES, size_bytes - HEAD_BYTES, &plan->arena);
    status = read_content(cache, &a, plan, error);
    bgi_archive_end(&a);
    return status;
}

bg_status bgi_cache_write(bgi_cache *cache, bg_plan *plan, void **out, size_t *out_bytes, bg_error *error)
{
    unsigned char head[HEAD_BYTES] = {0};
    const void *bytes = head, *key = cache->key.data;
    uint32_t note_count = (uint32_t)cache->note_count;
    bgi_archive a;
    bg_status status;

    bgi_archive_begin_writing(&a);
    bgi_archive_bytes(&a, &bytes, HEAD_BYTES);
    bgi_archive_size(&a, &cache->key.size_bytes);
    bgi_archive_bytes(&a, &key, cache->key.size_bytes);
    visit_notes(&a, &cache->notes, &note_count);
    status = bgi_plan_visit(&a, plan, cache->request->graph, error);
    if (status == BG_OK) {
        memcpy(a.data, magic, MAGIC_BYTES);
        put_number(a.data + 8, VERSION, 4);
        put_number(a.data + 12, a.size_bytes - HEAD_BYTES, 8);
        put_number(a.data + 20, checksum(a.data + HEAD_BYTES, a.size_bytes - HEAD_BYTES), 8);
        *out = a.data;
        *out_bytes = a.size_bytes;
        a.data = NULL;
    }
    bgi_archive_end(&a);
    return status;
}

bool bgi_cache_load(bgi_cache *cache, bg_plan *plan)
{
    bg_error reason = {0};
    char *data = NULL;
    size_t size_bytes = 0;
    bg_status status;

    if (cache->path == NULL)
        return false;
    status = bgi_file_load(cache->path, limit_bytes, &data, &size_bytes, &reason);
    if (status == BG_OK)
        status = bgi_cache_read(cache, data, size_bytes, plan, &reason);
    free(data);
    if (status != BG_OK && status != BG_ERROR_NOT_FOUND) /* another process may have deleted the file in the meantime */
        log_format(cache, BG_LOG_WARNING, "cache: %s is not used, so the plan is compiled again: %s", cache->path,
                   reason.message);
    return status == BG_OK;
}

void bgi_cache_store(bgi_cache *cache, bg_plan *plan)
{
    const bg_options *options = cache->request->options;
    bg_error reason = {0};
    void *data = NULL;
    size_t size_bytes = 0;
    bg_status status;

    if (cache->path == NULL)
        return;
    plan->options.reporting.log = options->reporting.log;
    plan->options.reporting.log_user = options->reporting.log_user;
    status = bgi_cache_write(cache, plan, &data, &size_bytes, &reason);
    if (status == BG_OK)
        status = bgi_folder_create(options->files.cache_dir, &reason);
    if (status == BG_OK)
        status = bgi_file_save(cache->path, data, size_bytes, &reason);
    free(data);
    if (status == BG_OK)
        log_format(cache, BG_LOG_INFO, "cache: the plan is stored in %s, %zu bytes", cache->path, size_bytes);
    else
        log_format(cache, BG_LOG_WARNING, "cache: the plan is not stored: %s", reason.message);
}
