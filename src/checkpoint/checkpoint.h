/*
 * checkpoint.h: declares what the files of this folder share: names, metrics, checksums, metadata, and the steps of
 * saving and loading a checkpoint.
 */
#ifndef BGI_CHECKPOINT_CHECKPOINT_H
#define BGI_CHECKPOINT_CHECKPOINT_H

#include <brigade/checkpoint.h>
#include <brigade/safetensors.h>

#include "core/pace.h"
#include "core/text.h"
#include "core/threads.h"

/* ---- folder.c ---- */

typedef struct bgi_checkpoint_list {
    uint64_t *steps; /* steps of the folder's checkpoints, latest first */
    size_t count, capacity;
} bgi_checkpoint_list;

enum { BGI_CHECKPOINT_NAME_BYTES = 64 };

const char *bgi_checkpoint_name(uint64_t step, char text[BGI_CHECKPOINT_NAME_BYTES]);
/* Calls bgi_checkpoint_find_best for the folder's checkpoints with these steps, which are sorted from the newest to the
 * oldest. */
bool *bgi_checkpoint_best_of(const char *directory, const uint64_t *steps, size_t count, uint32_t keep_best);
/* Makes the name of a part's file. The tag, 8 hexadecimal digits, identifies the save that wrote the part. */
enum { BGI_CHECKPOINT_PART_BYTES = 112, BGI_CHECKPOINT_TAG_BYTES = 9 };
const char *bgi_checkpoint_part_name(uint64_t step, const char *tag, uint32_t number, uint32_t count,
                                     char text[BGI_CHECKPOINT_PART_BYTES]);
bool bgi_checkpoint_is_tag(const char *text);
/* Parses a decimal number below 2^64. Returns false if the text has a sign, leading zeros or other characters. */
bool bgi_checkpoint_number(const char *text, uint64_t *out);

/* Lists the checkpoints of a folder; a missing folder has none. `out` must be zeroed, and the caller frees out->steps
 * even after an error. */
bg_status bgi_checkpoint_find(const char *directory, bgi_checkpoint_list *out, bg_error *error);
/* Removes checkpoints of the list that the options do not keep, temporary files, and parts that belong to no manifest
 * of the folder. Logs files that it cannot remove. The list must have been made before the checkpoint of `step` was
 * written. Strings of the options are not read, because they may have been freed. */
void bgi_checkpoint_remove_old(const char *directory, const bgi_checkpoint_list *list, uint64_t step,
                               const bg_checkpoint_save_options *options, bg_log_function log, void *log_user);

/* ---- best.c ---- */

typedef struct bgi_checkpoint_metric {
    const char *name; /* points into the parsed text */
    double value;
    bool rises; /* a higher value is better */
} bgi_checkpoint_metric;

/* Parses a metric from the metadata; returns false if the text is NULL or not a metric. */
bool bgi_checkpoint_parse_metric(const char *text, bgi_checkpoint_metric *out);
/* Marks the `keep_best` best checkpoints. Paths are sorted from the newest to the oldest. Only checkpoints with the
 * same metric as the newest one that has a metric are compared. The caller frees the result, which is NULL when memory
 * is exhausted. */
bool *bgi_checkpoint_find_best(char *const *paths, size_t count, uint32_t keep_best);

/* ---- sum.c ---- */

/* Computes a checksum of the metadata except the checksum itself, then of names, types and values of the entries. Both
 * lists must have the order in which an opened file has them. Writes 16 hexadecimal digits. `fetch` reads values that
 * are not in memory; it may be NULL if all are. */
enum { BGI_CHECKPOINT_SUM_BYTES = 17 };
bg_status bgi_checkpoint_sum(const bg_safetensors_entry *entries, size_t entry_count,
                             const bg_safetensors_metadata *metadata, size_t metadata_count, bg_safetensors_fetch fetch,
                             void *user, char text[BGI_CHECKPOINT_SUM_BYTES], bg_error *error);

/* These functions add a pair of metadata (except the checksum itself), or a tensor's name and type, to the checksum. */
struct bgi_crc64;
void bgi_checkpoint_sum_metadata(struct bgi_crc64 *crc, const bg_safetensors_metadata *pair);
void bgi_checkpoint_sum_name(struct bgi_crc64 *crc, const bg_safetensors_entry *entry);
void bgi_checkpoint_print_sum(const struct bgi_crc64 *crc, char text[BGI_CHECKPOINT_SUM_BYTES]);

/* Computes the checksum of an opened file. Values that are not in memory are read part by part. */
bg_status bgi_checkpoint_sum_file(const bg_safetensors *file, char text[BGI_CHECKPOINT_SUM_BYTES], bg_error *error);

/* Checks the checksum of a file; messages call the file `what`. */
bg_status bgi_checkpoint_check_sum(const bg_safetensors *file, const char *what, bg_error *error);

/* ---- write.c ---- */

/* Writes a file whose metadata contain the checksum `sum`, which this function sets. Entries and metadata must be
 * sorted by name. Before the file gets its name, a thread reads it back and compares the checksum; `threads` (NULL: the
 * system) provides this thread. Both threads call bgi_pace_wait between parts of the file, unless `pace` is NULL. */
bg_status bgi_checkpoint_write_summed(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                      const bg_safetensors_metadata *metadata, size_t metadata_count,
                                      bg_safetensors_fetch fetch, void *user, const bgi_thread_source *threads,
                                      const bgi_pace *pace, char sum[BGI_CHECKPOINT_SUM_BYTES], bg_error *error);

/* ---- record.c ---- */

const char *bgi_checkpoint_role(bg_variable_role role);

/* The metadata of a weight. */
typedef struct bgi_checkpoint_record {
    bg_variable_role role;
    bool is_given;
    uint64_t updates;
} bgi_checkpoint_record;

bg_status bgi_checkpoint_read_number(const bg_safetensors *file, const char *key, uint64_t *out, bg_error *error);
bg_status bgi_checkpoint_find_record(const bg_safetensors *file, const char *name, bgi_checkpoint_record *out,
                                     bg_error *error);

/* Prints the settings of a training plan that decide the bits of its results, besides the seed and the optimizer:
 * "precision=32 batch=24 micro_batch=4 replicas=2". With canonical reductions the bits do not depend on the replicas,
 * and "canonical_reductions" stands in their place. */
void bgi_checkpoint_describe_run(const bg_plan *plan, bgi_string *out);

/* Returns the kind of state at the end of a name, such as "exp_avg". */
const char *bgi_checkpoint_kind(const char *state_name);
/* Sorts `kinds`, and adds each kind once to the string. */
bg_status bgi_checkpoint_join_kinds(const char **kinds, size_t count, bgi_string *out, bg_error *error);

/* ---- content.c ---- */

/* The content of a file to write. Call begin, add, write and end in this order; add takes at most twelve keys in
 * addition to those of weights. */
typedef struct bgi_checkpoint_content {
    bg_weights *weights;
    bg_safetensors_entry *entries;
    size_t entry_count;
    bg_safetensors_metadata *metadata;
    size_t metadata_count;
    bgi_string *texts; /* the `text_count` keys and values that the content owns */
    size_t text_count;
    bg_safetensors_fetch fetch; /* reads values; `begin` sets it to read those of the weights */
    void *user;
    bgi_thread_source threads;          /* the session's */
    bgi_pace pace;                      /* pace of writing; after `begin` it never waits */
    char sum[BGI_CHECKPOINT_SUM_BYTES]; /* after writing */
} bgi_checkpoint_content;

/* Begins the content for a session's weights, with memory for `more` keys. */
bg_status bgi_checkpoint_begin(bgi_checkpoint_content *content, const bg_session *session, size_t more,
                               bg_error *error);
void bgi_checkpoint_end(bgi_checkpoint_content *content); /* also accepts a zeroed struct */
/* Returns the bytes that a value takes in a buffer of copies, where values begin at multiples of 64. */
static inline size_t bgi_checkpoint_room(size_t size_bytes)
{
    return (size_bytes + 63) / 64 * 64;
}
/* Adds a key and a value, which are borrowed until bgi_checkpoint_end. */
void bgi_checkpoint_add(bgi_checkpoint_content *content, const char *key, const char *value);
/* Adds an empty string for a key or value, which the content frees. */
bgi_string *bgi_checkpoint_text(bgi_checkpoint_content *content);
bg_status bgi_checkpoint_add_text(bgi_checkpoint_content *content, const char *key, const bgi_string *value,
                                  bg_error *error);
bg_status bgi_checkpoint_add_number(bgi_checkpoint_content *content, const char *key, uint64_t number, bg_error *error);
bg_status bgi_checkpoint_add_blob(bgi_checkpoint_content *content, const void *blob, size_t size_bytes,
                                  bg_error *error);
/* Adds the metadata of a weight and, if `with_value` is true, its newest value. */
bg_status bgi_checkpoint_add_weight(bgi_checkpoint_content *content, uint32_t index, bool with_value, bg_error *error);
/* Adds the optimizer whose state the weights have, and the kinds of state; without state, adds `fallback` (NULL:
 * nothing). If the state is that of several optimizers or of an unknown one, nothing is added, and a load identifies
 * the optimizer by the kinds. */
bg_status bgi_checkpoint_add_optimizer(bgi_checkpoint_content *content, const char *fallback, bg_error *error);
/* Writes the file with its checksum. The file is read back, and its checksum compared, before it gets its name. */
bg_status bgi_checkpoint_write(bgi_checkpoint_content *content, const char *path, bg_error *error);

/* ---- load.c ---- */

/* Reads everything except the tensors into a zeroed `out`, which must be cleared with bg_checkpoint_clear also after an
 * error. The checksum is not verified. */
bg_status bgi_checkpoint_read_head(const bg_safetensors *file, bg_checkpoint *out, bg_error *error);

/* The state of a load: its arguments and what it has found. */
typedef struct bgi_checkpoint_loader {
    bg_weights *weights;
    const bg_session *session; /* may be NULL */
    const char *directory;
    bg_checkpoint_load_options options;
    bool drops_state, drops_parameters; /* options.drop */
    bgi_checkpoint_list list;
    struct bgi_stored *stored;
    const bg_safetensors *file; /* the file whose metadata are read */
    char *manifest;             /* content of `stored` if another rank has read it */
    bool *needs;                /* by rank: whether it needs elements of the current part */
    bool *sees; /* [rank * parts + part]: whether the rank has the part's file; NULL: every rank has every part */
    uint32_t weight_count; /* number of weights before anything is set */
    void **joined; /* by weight: its value, joined from sections in the file; NULL if the file has no sections of it */
    const char **piece; /* by weight: the name of the first of these sections */
    void *room;         /* memory for one value */
    size_t room_bytes;
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES]; /* the optimizer of the file's state; "": no state, or unknown */
    bg_checkpoint found;
    bg_error *error;
} bgi_checkpoint_loader;

/* ---- choose.c ---- */

/* Finds the checkpoint that the options name, or the latest, opens it and checks it completely. All ranks call this
 * function. */
bg_status bgi_checkpoint_choose(bgi_checkpoint_loader *l);

/* ---- save.c ---- */

/* Fails if the folder has a later checkpoint. */
bg_status bgi_checkpoint_check_order(const char *directory, const bgi_checkpoint_list *list, uint64_t step,
                                     bg_error *error);

/* ---- compare.c ---- */

/* Returns the index of the weight with the name of a file's entry, or of the weight of which the entry is a section.
 * Returns UINT32_MAX if there is no such weight. */
uint32_t bgi_checkpoint_find_weight(const bgi_checkpoint_loader *l, const char *name);
/* Reads options.drop. */
bg_status bgi_checkpoint_read_drop(bgi_checkpoint_loader *l);
/* Compares the seed, the settings, the optimizer and the tensors of the file with those of the weights and the session.
 * Refuses, reports or ignores differences, as the options say, and logs what is dropped. Changes no weight. */
bg_status bgi_checkpoint_compare(bgi_checkpoint_loader *l);

/* Keys of the metadata. */
#define BGI_CHECKPOINT_VERSION "checkpoint_version"
#define BGI_CHECKPOINT_STEP    "step"
#define BGI_CHECKPOINT_SEED    "seed"
#define BGI_CHECKPOINT_INFO    "info"
#define BGI_CHECKPOINT_METRIC  "metric" /* best.c */
#define BGI_CHECKPOINT_BLOB    "blob"   /* hexadecimal */
/* The optimizer that made the state, as bg_optimizer_describe_state prints it, and the sorted kinds of state, separated
 * by spaces. */
#define BGI_CHECKPOINT_OPTIMIZER "optimizer"
#define BGI_CHECKPOINT_KINDS     "optimizer_state"
/* The settings of the training that decide the bits of its results, as bgi_checkpoint_describe_run prints them. */
#define BGI_CHECKPOINT_RUN    "run"
#define BGI_CHECKPOINT_SUM    "checksum"
#define BGI_CHECKPOINT_WEIGHT "weight:" /* then the name; value: "state 12" (role, updates) */
#define BGI_CHECKPOINT_GIVEN  "given"
/* Keys of a manifest: the number of parts, the tag in their names, the checksum and host of each part ("part:0"), and
 * the type of each tensor with the elements in each part ("tensor:NAME", runs.h). */
#define BGI_CHECKPOINT_PARTS  "parts"
#define BGI_CHECKPOINT_TAG    "tag"
#define BGI_CHECKPOINT_PART   "part:"
#define BGI_CHECKPOINT_TENSOR "tensor:"
enum { BGI_CHECKPOINT_FILE_VERSION = 1, BGI_CHECKPOINT_MANIFEST_VERSION = 2 };

#endif
