/*
 * memmap.h: stores the remote memory of a plan in files of options.files.memmap_dir. The engine uses the files as
 * memory; the session calls bgi_memmap_finish when their content is complete.
 */
#ifndef BGI_RUNTIME_MEMMAP_H
#define BGI_RUNTIME_MEMMAP_H

#include "core/arena.h"
#include "core/input.h"
#include "device/mapped_store.h"
#include "runtime/session.h"

#define BGI_MEMMAP_INDEX "index"
#define BGI_MEMMAP_OLD   "index.safetensors" /* the file name of the index in Brigade 0.1 */
#define BGI_MEMMAP_LOCK  "lock"

/* ---- memmap.c ---- */

/* Opens or makes the files. *out is NULL when remote stores are in memory, because the plan has no memmap_dir or
 * because a read-only directory has no files. The directory stays locked until bgi_memmap_close. The plan may be
 * destroyed afterward. `transport` connects the ranks, each of which opens the stores of its own devices; NULL: one
 * process. All ranks call this function, bgi_memmap_begin and bgi_memmap_finish. `progress` advances by the bytes of
 * all ranks' stores, and is called before each store is made. */
bg_status bgi_memmap_open(const bg_plan *plan, bgi_transport *transport, bgi_progress *progress, bgi_memmap **out,
                          bg_error *error);
/* Sets the transport between ranks. */
void bgi_memmap_follow(bgi_memmap *memmap, bgi_transport *transport);
/* Closes the files and unlocks the directory; removes files that this session made and never used. `memmap` may be
 * NULL. */
void bgi_memmap_close(bgi_memmap *memmap);
/* Returns the memory of the store of device `index` among all replicas' devices; NULL when the device has no store or
 * belongs to another rank, and when `memmap` is NULL. */
void *bgi_memmap_address(const bgi_memmap *memmap, uint32_t index);

bool bgi_memmap_is_continued(const bgi_memmap *memmap); /* the files have an earlier session's values */
bool bgi_memmap_is_new(const bgi_memmap *memmap);       /* this session has made the files; they begin as zeros */
bool bgi_memmap_is_private(const bgi_memmap *memmap);   /* changes do not reach the files */
/* Called before the session's first run: from then on the files are not removed, even after errors. */
void bgi_memmap_keep(bgi_memmap *memmap);
/* Called before the stores change: removes the index, so that no session can resume from them until the next
 * bgi_memmap_finish. Repeated calls are cheap. */
bg_status bgi_memmap_begin(bgi_memmap *memmap, bg_error *error);
/* Flushes the stores and writes the index for all weights of the session. */
bg_status bgi_memmap_finish(bgi_memmap *memmap, bg_session *session, const char *note, bg_error *error);

/* Returns the index with which the session resumed; NULL: none. Borrowed until bgi_memmap_forget, which frees it. */
typedef struct bgi_memmap_index bgi_memmap_index;
const bgi_memmap_index *bgi_memmap_found(const bgi_memmap *memmap);
void bgi_memmap_forget(bgi_memmap *memmap);

/* ---- memmap_index.c ---- */

/* The index has the identity of the plan that made the stores, the progress of training, and the values of the weights
 * that are not in the stores. */
typedef struct bgi_memmap_record bgi_memmap_record;
struct bgi_memmap_index {
    bgi_input input; /* the file, from which values are read on demand; with several ranks, rank 0's */
    bgi_arena arena; /* holds strings and records */
    uint64_t id;
    uint64_t step, seed;
    const char *note; /* NULL: no index */
    const char
        *optimizer; /* the optimizer to which all state belongs; NULL: no state, or state of several optimizers */
    bgi_memmap_record *records;
    uint32_t record_count;
    uint64_t values_begin; /* offset of the values in the file */
};

/* Reads an index. Stores and an index that belong together have equal identities (from the plan's layout) and ids
 * (drawn when the files were made). `optimizer` is the optimizer to which the plan's state belongs ("": no state);
 * files with the state of another optimizer are rejected. */
bg_status bgi_memmap_index_read(const char *path, uint64_t identity, const char *optimizer, bgi_memmap_index *out,
                                bg_error *error);
/* Does the same for content in memory, which must outlive *out. */
bg_status bgi_memmap_index_parse(const char *name, const void *content, size_t size_bytes, uint64_t identity,
                                 const char *optimizer, bgi_memmap_index *out, bg_error *error);
void bgi_memmap_index_clear(bgi_memmap_index *index);
/* Sends the index that rank 0 has read, without the values, to all ranks. */
bg_status bgi_memmap_index_share(bgi_memmap_index *index, bgi_transport *transport, bg_error *error);
/* Sets a weight's properties (`is_given`, `updates`) from the index, but not its value. Fails if the index has no such
 * weight, or if the value is neither in the stores nor, with the weight's type, in the index. */
bg_status bgi_memmap_index_take(const bgi_memmap_index *index, bg_weights *weights, uint32_t weight, bool is_in_stores,
                                bg_error *error);
/* Reads bytes of a weight's value in the index; called on the rank that has the file open. */
bg_status bgi_memmap_index_value(const bgi_memmap_index *index, const bg_weights *weights, uint32_t weight,
                                 size_t offset, void *data, size_t size_bytes, bg_error *error);
/* Fills an index with all weights of `session`. Moves the weights' newest values to their homes. */
bg_status bgi_memmap_index_list(bgi_memmap_index *index, const bg_session *session, bg_error *error);
/* Writes the index, with the values that are in no store, after the stores are on the disk. */
bg_status bgi_memmap_index_write(const char *path, uint64_t identity, bgi_memmap_index *index, bg_weights *weights,
                                 bg_error *error);

#endif
