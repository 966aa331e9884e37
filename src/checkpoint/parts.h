/*
 * parts.h: declares the steps in which several ranks write a checkpoint; training can continue between `start` and
 * `wait`.
 *
 *     prepare (all ranks; the weights hold still) --> start (a thread of each) --> wait --> complete (all ranks)
 */
#ifndef BGI_CHECKPOINT_PARTS_H
#define BGI_CHECKPOINT_PARTS_H

#include <stdatomic.h>

#include "checkpoint/stored.h"
#include "core/threads.h"

enum { BGI_PART_HOST_BYTES = 64 };

/* The facts that a rank sends to rank 0 after it has written its part. */
typedef struct bgi_part_word {
    char sum[BGI_CHECKPOINT_SUM_BYTES], host[BGI_PART_HOST_BYTES];
} bgi_part_word;

/* The state of a save. It must be zeroed except for the caller's fields, and must be cleared even after an error. */
typedef struct bgi_part_save {
    bg_session *session;   /* the caller's */
    const char *directory; /* the caller's string, which must stay valid until the struct is cleared */
    bg_checkpoint_save_options options;
    bg_error *error;

    uint32_t rank, rank_count;
    uint64_t step;
    char tag[BGI_CHECKPOINT_TAG_BYTES];
    bgi_checkpoint_list list;              /* earlier checkpoints of the folder */
    bgi_checkpoint_content part, manifest; /* `manifest` is used only on rank 0 */
    bgi_part_word *words;                  /* on rank 0: by rank; on other ranks: words[0] is this rank's */
    void *room;                            /* memory for one value, or for all of them */
    bool room_is_kept;                     /* the session owns `room` */
    uint64_t copied_ns;                    /* duration of the copy, for which the training waited */
    char *path, *manifest_path;            /* paths of this rank's part and of the manifest */
    bgi_thread thread;                     /* the thread that writes this rank's part */
    bool is_running;
    bool is_beside; /* the training continues while the part is written */
    atomic_bool is_done;
    bg_status written; /* the result of writing this rank's part */
    bg_error why;      /* the error, if `written` is not BG_OK */
} bgi_part_save;

/* Called on rank 0: adds the manifest's metadata except those of tensors. The strings must outlive the content. */
typedef bg_status (*bgi_checkpoint_fill)(void *user, bgi_checkpoint_content *content, bg_error *error);

/* Agrees with the other ranks on the step and the tag, and prepares this rank's part. With `copies` the function copies
 * the values, so that the weights may change; otherwise the weights must not change until the part is written. */
bg_status bgi_parts_prepare(bgi_part_save *s, bool copies, bgi_checkpoint_fill fill, void *user);
/* Allocates the memory for the copy that bgi_parts_prepare makes with `copies`. All ranks call this function. */
bg_status bgi_parts_reserve(bgi_part_save *s);
/* Copies the current values of this rank's part. */
bg_status bgi_parts_copy(bgi_part_save *s);
/* Starts a thread that writes this rank's part and sets `written` to the result. If no thread can be started, sets
 * `written` to the error. */
void bgi_parts_start(bgi_part_save *s);
/* Waits until all ranks have written their parts. Ranks report progress meanwhile, so that a slow disk is not taken for
 * a lost rank. */
bg_status bgi_parts_wait(bgi_part_save *s);
/* Writes the manifest when all parts are complete, and removes old files; otherwise removes this rank's part. */
bg_status bgi_parts_complete(bgi_part_save *s);
void bgi_parts_clear(bgi_part_save *s);

#endif
