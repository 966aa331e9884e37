/*
 * memmap.h: the remote stores of a plan as files in options.files.memmap_dir. The engine uses them as memory; the
 * session says when what they hold is whole.
 */
#ifndef BGI_RUNTIME_MEMMAP_H
#define BGI_RUNTIME_MEMMAP_H

#include "core/arena.h"
#include "core/input.h"
#include "device/mapped_store.h"
#include "runtime/session.h"

#define BGI_MEMMAP_INDEX "index"
#define BGI_MEMMAP_OLD   "index.safetensors" /* what 0.1 wrote; only its name is known here */
#define BGI_MEMMAP_LOCK  "lock"

/* ---- memmap.c ---- */

/* *out is NULL when remote stores are in memory: without memmap_dir, and when there are no files that could be read
 * only. Locks the directory until it is closed. Keeps nothing of the plan. `transport`: between ranks, each of which
 * opens the stores of its own devices; NULL: one process. Of all ranks, as are begin and finish. */
bg_status bgi_memmap_open(const bg_plan *plan, bgi_transport *transport, bgi_memmap **out, bg_error *error);
/* By which the ranks reach each other from now on. */
void bgi_memmap_follow(bgi_memmap *memmap, bgi_transport *transport);
/* Files that were made and never used are removed. NULL is fine. */
void bgi_memmap_close(bgi_memmap *memmap);
/* Memory of the store of device `index` of all replicas' devices; NULL when it has none, on other ranks than the
 * device's, and when `memmap` is NULL. */
void *bgi_memmap_address(const bgi_memmap *memmap, uint32_t index);

bool bgi_memmap_is_continued(const bgi_memmap *memmap); /* the files hold an earlier session's values */
bool bgi_memmap_is_new(const bgi_memmap *memmap);       /* this session has made the files; they begin as zeros */
bool bgi_memmap_is_private(const bgi_memmap *memmap);   /* what is written does not reach the files */
/* The session is about to run: from now on the files stay, whatever comes. */
void bgi_memmap_keep(bgi_memmap *memmap);
/* Before the stores change: until the next bgi_memmap_finish nobody goes on from them. Cheap when it is so already. */
bg_status bgi_memmap_begin(bgi_memmap *memmap, bg_error *error);
/* Flushes the stores and writes the index: all of `weights` that the session has. */
bg_status bgi_memmap_finish(bgi_memmap *memmap, bg_session *session, const char *note, bg_error *error);

/* What the session found when it went on; NULL: nothing. Lent until bgi_memmap_forget, which frees it. */
typedef struct bgi_memmap_index bgi_memmap_index;
const bgi_memmap_index *bgi_memmap_found(const bgi_memmap *memmap);
void bgi_memmap_forget(bgi_memmap *memmap);

/* ---- memmap_index.c ---- */

/* What the stores hold, beside the stores: which plan made them, how far the training is, and the values of the
 * weights that are not in them. */
typedef struct bgi_memmap_record bgi_memmap_record;
struct bgi_memmap_index {
    bgi_input input; /* the file, of which values are read when they are wanted; of several ranks rank 0's */
    bgi_arena arena; /* of the texts and records */
    uint64_t id;
    uint64_t step, seed;
    const char *note;      /* NULL: no index */
    const char *optimizer; /* whose state it is; NULL: there is none, or no single one */
    bgi_memmap_record *records;
    uint32_t record_count;
    uint64_t values_begin; /* in the file */
};

/* What belongs together has the same identity (of the plan: what lies where) and id (drawn when the files were made).
 * `optimizer`: whose state the plan trains with; "": none. Files with the state of another one are refused. */
bg_status bgi_memmap_index_read(const char *path, uint64_t identity, const char *optimizer, bgi_memmap_index *out,
                                bg_error *error);
/* The same of content that stays where it is as long as *out is used. */
bg_status bgi_memmap_index_parse(const char *name, const void *content, size_t size_bytes, uint64_t identity,
                                 const char *optimizer, bgi_memmap_index *out, bg_error *error);
void bgi_memmap_index_clear(bgi_memmap_index *index);
/* Rank 0 has read it, and the others get all of it but the values. */
bg_status bgi_memmap_index_share(bgi_memmap_index *index, bgi_transport *transport, bg_error *error);
/* Takes over what the index says of a weight but its value: role, count of updates. Unless the value is in the stores
 * the index must have it. */
bg_status bgi_memmap_index_take(const bgi_memmap_index *index, bg_weights *weights, uint32_t weight, bool is_in_stores,
                                bg_error *error);
/* Bytes of the value of a weight for which that was so. Where the file is open. */
bg_status bgi_memmap_index_value(const bgi_memmap_index *index, const bg_weights *weights, uint32_t weight,
                                 size_t offset, void *data, size_t size_bytes, bg_error *error);
/* Fills an index with what `session` has: all of its weights. Their newest values go home. */
bg_status bgi_memmap_index_list(bgi_memmap_index *index, const bg_session *session, bg_error *error);
/* Writes it, with the values that are in no store, once the stores are on the disk. */
bg_status bgi_memmap_index_write(const char *path, uint64_t identity, bgi_memmap_index *index, bg_weights *weights,
                                 bg_error *error);

#endif
