/*
 * write.c: writes a file with a checksum, reading each value only once. The checksum of a value is computed while the
 * value is written. While the disk is busy the file is read back, and its checksum is compared before the file gets its
 * name.
 *
 *     value, value, ... --> checksum, file --> header, which has the checksum
 *                                      \--> read back --> checksum
 *
 * The checksum covers names, types and values in the order of names, but the file stores them in another order. So each
 * value has a separate checksum, and these are combined at the end.
 */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "core/error.h"
#include "formats/safetensors.h"

/* The checksums of all values, each computed from an initial value of 0; one thread computes them. */
typedef struct parts {
    bgi_crc64 crc; /* checksum of the current value */
    uint64_t *values;
    bgi_pace pace; /* pace of the thread */
} parts;

typedef struct writing {
    const bg_safetensors_entry *entries; /* by name */
    const bg_safetensors_metadata *metadata;
    size_t count, metadata_count;
    bg_safetensors_fetch fetch;
    void *user;
    parts written, read; /* `read` belongs to the thread that reads the file back */
    char *sum;
} writing;

static bool begin_parts(parts *p, size_t count, const bgi_pace *pace)
{
    if (pace != NULL)
        p->pace = *pace;
    bgi_crc64_init(&p->crc);
    p->values = calloc(count + 1, sizeof *p->values);
    return p->values != NULL;
}

static void add_part(parts *p, size_t entry, const void *data, size_t size_bytes)
{
    bgi_pace_wait(&p->pace);
    p->crc.value = p->values[entry];
    bgi_crc64_add(&p->crc, data, size_bytes);
    p->values[entry] = p->crc.value;
}

static void join(const writing *w, const parts *p, char text[BGI_CHECKPOINT_SUM_BYTES])
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    for (size_t i = 0; i < w->metadata_count; i++)
        bgi_checkpoint_sum_metadata(&crc, &w->metadata[i]);
    for (size_t i = 0; i < w->count; i++) {
        bgi_checkpoint_sum_name(&crc, &w->entries[i]);
        bgi_crc64_join(&crc, p->values[i], bg_type_size_bytes(&w->entries[i].type));
    }
    bgi_checkpoint_print_sum(&crc, text);
}

/* ---- callbacks of the file's writer ---- */

static bg_status fetch_value(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    const writing *w = user;

    return w->fetch(w->user, entry, out_data, error);
}

static void note_written(void *user, size_t entry, const void *data, size_t size_bytes)
{
    add_part(&((writing *)user)->written, entry, data, size_bytes);
}

static void note_read(void *user, size_t entry, const void *data, size_t size_bytes)
{
    add_part(&((writing *)user)->read, entry, data, size_bytes);
}

static void set_sum(void *user)
{
    const writing *w = user;

    join(w, &w->written, w->sum);
}

/* Compares the checksum of the file that was read back with that of the written values. Its header has been compared
 * already, so names, types and metadata are those of `w`. */
static bg_status compare_sums(void *user, const bg_safetensors *file, bg_error *error)
{
    const writing *w = user;
    char sum[BGI_CHECKPOINT_SUM_BYTES];

    (void)file;
    join(w, &w->read, sum);
    if (strcmp(sum, w->sum) == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_PARSE, "the checksum is %s, but the file records %s", sum, w->sum);
}

bg_status bgi_checkpoint_write_summed(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                      const bg_safetensors_metadata *metadata, size_t metadata_count,
                                      bg_safetensors_fetch fetch, void *user, const bgi_thread_source *threads,
                                      const bgi_pace *pace, char sum[BGI_CHECKPOINT_SUM_BYTES], bg_error *error)
{
    writing *w = calloc(1, sizeof *w);
    const bgi_safetensors_hooks hooks = {.fetch = fetch != NULL ? fetch_value : NULL,
                                         .written = note_written,
                                         .complete = set_sum,
                                         .read = note_read,
                                         .check = compare_sums,
                                         .threads = threads,
                                         .user = w};
    bg_status status;

    if (w == NULL)
        return bgi_error_memory(error, "a checksum", sizeof *w);
    w->entries = entries;
    w->count = entry_count;
    w->metadata = metadata;
    w->metadata_count = metadata_count;
    w->fetch = fetch;
    w->user = user;
    w->sum = sum;
    memset(sum, '0', BGI_CHECKPOINT_SUM_BYTES - 1);
    sum[BGI_CHECKPOINT_SUM_BYTES - 1] = '\0';
    status = begin_parts(&w->written, entry_count, pace) && begin_parts(&w->read, entry_count, pace)
                 ? bgi_safetensors_write_hooked(path, entries, entry_count, metadata, metadata_count, &hooks, error)
                 : bgi_error_memory(error, "checksums of values", entry_count * sizeof(uint64_t));
    free(w->written.values);
    free(w->read.values);
    free(w);
    return status;
}
