/*
 * parts.h: a checkpoint that several ranks write, in steps, so that training can continue during the second step.
 *
 *     prepare (all ranks; the weights hold still) --> start (a thread of each) --> wait --> complete (all ranks)
 */
#ifndef BGI_CHECKPOINT_PARTS_H
#define BGI_CHECKPOINT_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/stored.h"

enum { BGI_PART_HOST_BYTES = 64, BGI_PART_ROOM_ALIGNMENT = 64 };

/* What a rank says of its part. */
typedef struct bgi_part_word {
    char sum[BGI_CHECKPOINT_SUM_BYTES], host[BGI_PART_HOST_BYTES];
} bgi_part_word;

/* Zero but for what the caller sets; clear in any case. */
typedef struct bgi_part_save {
    bg_session *session;   /* the caller's */
    const char *directory; /* the caller's, until it is cleared */
    bg_checkpoint_save_options options;
    bg_error *error;

    uint32_t rank, rank_count;
    uint64_t step;
    char tag[BGI_CHECKPOINT_TAG_BYTES];
    bgi_checkpoint_list list;              /* of checkpoints before this one */
    bgi_checkpoint_content part, manifest; /* the second on rank 0 alone */
    bgi_part_word *words;                  /* by rank, on rank 0; else the own one alone */
    void *room;                            /* of one value, or of all of them */
    char *path, *manifest_path;            /* of the own part */
    pthread_t thread;                      /* that writes the own part */
    bool is_running;
    atomic_bool is_done;
    bg_status written; /* what came of it */
    bg_error why;      /* and why */
} bgi_part_save;

/* What the manifest says beside the tensors, on rank 0; texts must live as long as the content. */
typedef bg_status (*bgi_checkpoint_fill)(void *user, bgi_checkpoint_content *content, bg_error *error);

/* Agrees on what is written. `copies`: takes a copy of the own part, so that the weights may change; else they must not
 * until it is written. */
bg_status bgi_parts_prepare(bgi_part_save *s, bool copies, bgi_checkpoint_fill fill, void *user);
/* A thread writes the own part; what comes of it, also that there is no thread, is in `written`. */
void bgi_parts_start(bgi_part_save *s);
/* Waits until all ranks have written theirs. They tell each other so meanwhile: a slow disk is no rank that is gone. */
bg_status bgi_parts_wait(bgi_part_save *s);
/* Writes the manifest when all parts are there, and removes what is old; or the own part, when some are not. */
bg_status bgi_parts_complete(bgi_part_save *s);
void bgi_parts_clear(bgi_part_save *s);

#endif
