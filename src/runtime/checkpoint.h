/*
 * checkpoint.h: the names of checkpoints in a folder, and the checksum; for the files that make them and for tests.
 */
#ifndef BGI_RUNTIME_CHECKPOINT_H
#define BGI_RUNTIME_CHECKPOINT_H

#include <brigade/checkpoint.h>
#include <brigade/safetensors.h>

/* ---- checkpoint_folder.c ---- */

typedef struct bgi_checkpoint_list {
    uint64_t *steps; /* of complete files, the latest first */
    size_t count, capacity;
} bgi_checkpoint_list;

enum { BGI_CHECKPOINT_NAME_BYTES = 64 };

const char *bgi_checkpoint_name(uint64_t step, char text[BGI_CHECKPOINT_NAME_BYTES]);
/* Decimal digits of a number below 2^64, without sign or zeros before it, and nothing else. */
bool bgi_checkpoint_number(const char *text, uint64_t *out);

/* Fine when there is no such folder: no checkpoints. `out` is zero before, and freed by the caller (steps) also after
 * an error. */
bg_status bgi_checkpoint_find(const char *directory, bgi_checkpoint_list *out, bg_error *error);
/* Removes those of the list from `begin` on, and temporary files. Says in the log what it cannot remove. */
void bgi_checkpoint_remove_old(const char *directory, const bgi_checkpoint_list *list, size_t begin,
                               bg_log_function log, void *log_user);

/* ---- checkpoint.c, checkpoint_load.c ---- */

/* Over all metadata but the checksum itself, then names, types and values; both in the order of bg_safetensors_at.
 * Text of 16 hexadecimal digits. */
enum { BGI_CHECKPOINT_SUM_BYTES = 17 };
void bgi_checkpoint_sum(const bg_safetensors_entry *entries, size_t entry_count,
                        const bg_safetensors_metadata *metadata, size_t metadata_count,
                        char text[BGI_CHECKPOINT_SUM_BYTES]);

const char *bgi_checkpoint_role(bg_variable_role role);

/* The metadata's keys. */
#define BGI_CHECKPOINT_VERSION "checkpoint_version"
#define BGI_CHECKPOINT_STEP    "step"
#define BGI_CHECKPOINT_SEED    "seed"
#define BGI_CHECKPOINT_INFO    "info"
#define BGI_CHECKPOINT_BLOB    "blob" /* hexadecimal */
#define BGI_CHECKPOINT_SUM     "checksum"
#define BGI_CHECKPOINT_WEIGHT  "weight:" /* and its name: "state 12", role and updates; "parameter given" */
#define BGI_CHECKPOINT_GIVEN   "given"
enum { BGI_CHECKPOINT_NEWEST_VERSION = 1 };

#endif
