/*
 * parts.h: a checkpoint that several ranks write, in steps, so that training can continue during the second step.
 *
 *     prepare (all ranks; the weights hold still) --> start (a thread of each) --> wait --> complete (all ranks)
 */
#ifndef BGI_CHECKPOINT_PARTS_H
#define BGI_CHECKPOINT_PARTS_H

#include <stdatomic.h>

#include "checkpoint/stored.h"
#include "core/threads.h"

enum { BGI_PART_HOST_BYTES = 64 };

/* What a rank reports of its part. */
typedef struct bgi_part_word {
    char sum[BGI_CHECKPOINT_SUM_BYTES], host[BGI_PART_HOST_BYTES];
} bgi_part_word;

/* Must be zeroed except for the caller's fields, and cleared in any case. */
typedef struct bgi_part_save {
    bg_session *session;   /* the caller's */
    const char *directory; /* owned by the caller, until it is cleared */
    bg_checkpoint_save_options options;
    bg_error *error;

    uint32_t rank, rank_count;
    uint64_t step;
    char tag[BGI_CHECKPOINT_TAG_BYTES];
    bgi_checkpoint_list list;              /* of checkpoints before this one */
    bgi_checkpoint_content part, manifest; /* the manifest only on rank 0 */
    bgi_part_word *words;                  /* by rank, on rank 0; otherwise only this rank's */
    void *room;                            /* memory for one value, or for all of them */
    bool room_is_kept;                     /* by the session */
    char *path, *manifest_path;            /* of this rank's part */
    bgi_thread thread;                     /* the thread that writes this rank's part */
    bool is_running;
    bool is_beside; /* the training continues meanwhile */
    atomic_bool is_done;
    bg_status written; /* its result */
    bg_error why;      /* and why */
} bgi_part_save;

/* Adds the manifest's metadata except those of tensors, on rank 0; texts must outlive the content. */
typedef bg_status (*bgi_checkpoint_fill)(void *user, bgi_checkpoint_content *content, bg_error *error);

/* Agrees on what is written. `copies`: copies this rank's part, so that the weights may change; otherwise they must not
 * change until it is written. */
bg_status bgi_parts_prepare(bgi_part_save *s, bool copies, bgi_checkpoint_fill fill, void *user);
/* Makes the memory of such a copy ready. All ranks call it. */
bg_status bgi_parts_reserve(bgi_part_save *s);
/* Copies the values of the part, as they are now. */
bg_status bgi_parts_copy(bgi_part_save *s);
/* Starts a thread that writes this rank's part; `written` gets the result, also when no thread could be started. */
void bgi_parts_start(bgi_part_save *s);
/* Waits until all ranks have written their parts. Ranks report progress meanwhile, so that a slow disk is not taken for
 * a lost rank. */
bg_status bgi_parts_wait(bgi_part_save *s);
/* Writes the manifest when all parts are complete, and removes old files; otherwise removes this rank's part. */
bg_status bgi_parts_complete(bgi_part_save *s);
void bgi_parts_clear(bgi_part_save *s);

#endif
