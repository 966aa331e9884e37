/*
 * memmap.h: the remote stores of a plan as files in options.memmap_dir. The engine uses them as memory; the session
 * says when what they hold is whole.
 */
#ifndef BGI_RUNTIME_MEMMAP_H
#define BGI_RUNTIME_MEMMAP_H

#include <brigade/safetensors.h>

#include "runtime/engine.h"
#include "runtime/memmap_store.h"

#define BGI_MEMMAP_INDEX "index.safetensors"
#define BGI_MEMMAP_LOCK  "lock"

/* ---- memmap.c ---- */

/* *out is NULL when remote stores are in memory: without memmap_dir, and when there are no files that could be read
 * only. Locks the directory until it is closed. Keeps nothing of the plan. */
bg_status bgi_memmap_open(const bg_plan *plan, bgi_memmap **out, bg_error *error);
/* Files that were made and never used are removed. NULL is fine. */
void bgi_memmap_close(bgi_memmap *memmap);
/* Memory of the store of device `index` of all replicas' devices; NULL when it has none (or `memmap` is NULL). */
void *bgi_memmap_address(const bgi_memmap *memmap, uint32_t index);

bool bgi_memmap_is_continued(const bgi_memmap *memmap); /* the files hold an earlier session's values */
bool bgi_memmap_is_new(const bgi_memmap *memmap);       /* this session has made the files; they begin as zeros */
bool bgi_memmap_is_private(const bgi_memmap *memmap);   /* what is written does not reach the files */
/* The session is about to run: from now on the files stay, whatever comes. */
void bgi_memmap_keep(bgi_memmap *memmap);
/* Before the stores change: until the next bgi_memmap_finish nobody goes on from them. Cheap when it is so already. */
bg_status bgi_memmap_begin(bgi_memmap *memmap, bg_error *error);
/* Before the index is written: all that the stores hold is on the disk. */
bg_status bgi_memmap_flush(bgi_memmap *memmap, bg_error *error);

/* What the session found when it went on; NULL: nothing. Lent until bgi_memmap_forget, which frees it. */
typedef struct bgi_memmap_index bgi_memmap_index;
const bgi_memmap_index *bgi_memmap_found(const bgi_memmap *memmap);
void bgi_memmap_forget(bgi_memmap *memmap);

/* ---- memmap_index.c ---- */

/* What the stores hold, beside the stores: which plan made them, how far the training is, and the values of the
 * weights that are not in them. */
struct bgi_memmap_index {
    bg_safetensors *file; /* values of weights; metadata `weight:<name>` of all */
    uint64_t identity, id;
    uint64_t step, seed;
    const char *note;
};

/* What belongs together has the same identity (of the plan: what lies where) and id (drawn when the files were made).
 */
bg_status bgi_memmap_index_read(const char *path, uint64_t identity, bgi_memmap_index *out, bg_error *error);
void bgi_memmap_index_clear(bgi_memmap_index *index);
/* Takes over what the index says of a weight: role, count of updates and, unless it is at home, its value. */
bg_status bgi_memmap_index_take(const bgi_memmap_index *index, bg_weights *weights, uint32_t weight, bg_error *error);
/* Flushes the stores and writes the index: all of `weights` that the session has. */
bg_status bgi_memmap_finish(bgi_memmap *memmap, bg_session *session, const char *note, bg_error *error);

/* memmap.c, for memmap_index.c */
const char *bgi_memmap_index_path(const bgi_memmap *memmap);
uint64_t bgi_memmap_identity(const bgi_memmap *memmap);
uint64_t bgi_memmap_id(const bgi_memmap *memmap);
void bgi_memmap_set_complete(bgi_memmap *memmap);

#endif
