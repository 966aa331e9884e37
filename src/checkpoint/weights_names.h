/*
 * weights_names.h: translates the names of tensors between files and models, for loading and saving.
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_NAMES_H
#define BGI_CHECKPOINT_WEIGHTS_NAMES_H

#include <brigade/weights.h>

#include "core/arena.h"

/* Checks rules. Errors: BG_ERROR_INVALID (a name is missing or has several `*`, or only one name of a rule has a
 * `*`). */
bg_status bgi_weights_renames_check(const bg_weights_rename *renames, uint32_t count, bg_error *error);

/* Translates a file's name to the model's, or the reverse, by the first rule that matches. Returns `name` itself if no
 * rule matches, and NULL if memory is exhausted. The arena owns a new name. */
const char *bgi_weights_rename_name(const bg_weights_rename *renames, uint32_t count, bool to_model, const char *name,
                                    bgi_arena *arena);

/* Whether one of the comma-separated patterns matches; `*` matches any text. */
bool bgi_weights_names_match(const char *patterns, const char *name);

#endif
