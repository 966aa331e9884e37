/*
 * weights_names.h: names of tensors between files and models, for loading and saving.
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_NAMES_H
#define BGI_CHECKPOINT_WEIGHTS_NAMES_H

#include <brigade/weights.h>

#include "core/arena.h"

/* Errors: BG_ERROR_INVALID (a name is missing, or has several `*`, or only one of the two has one). */
bg_status bgi_weights_renames_check(const bg_weights_rename *renames, uint32_t count, bg_error *error);

/* The model's name of a file's, or the other way round, by the first rule that fits; else the same. In the arena, or
 * `name` itself; NULL: memory is out. */
const char *bgi_weights_rename_name(const bg_weights_rename *renames, uint32_t count, bool to_model, const char *name,
                                    bgi_arena *arena);

/* Whether a pattern of a list, separated by commas, fits: `*` is any text. */
bool bgi_weights_names_match(const char *patterns, const char *name);

#endif
