/*
 * weights_names.h: names of tensors between files and models, for loading and saving.
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_NAMES_H
#define BGI_CHECKPOINT_WEIGHTS_NAMES_H

#include <brigade/weights.h>

#include "core/arena.h"

/* Errors: BG_ERROR_INVALID (a name is missing, has several `*`, or only one of the two has one). */
bg_status bgi_weights_renames_check(const bg_weights_rename *renames, uint32_t count, bg_error *error);

/* The model's name for a file's name, or the reverse, by the first rule that matches; otherwise the same name. It is
 * allocated in the arena, or is `name` itself; NULL: memory is out. */
const char *bgi_weights_rename_name(const bg_weights_rename *renames, uint32_t count, bool to_model, const char *name,
                                    bgi_arena *arena);

/* Whether one of the patterns, separated by commas, matches: `*` is any text. */
bool bgi_weights_names_match(const char *patterns, const char *name);

#endif
