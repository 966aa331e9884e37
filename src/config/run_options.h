/*
 * run_options.h: access to the options of a run by name, and by number (0, 1, ... in the order of printing).
 */
#ifndef BGI_CONFIG_RUN_OPTIONS_H
#define BGI_CONFIG_RUN_OPTIONS_H

#include <brigade/config.h>

#include "config/document.h"
#include "core/arena.h"
#include "options/table.h"

enum { BGI_MOST_RUN_OPTIONS = 128 };

/* Returns the name of an option; NULL beyond the last option. */
const char *bgi_run_option_name(uint32_t number);
/* Finds an option by its own name or PopTorch's; returns UINT32_MAX if there is none. */
uint32_t bgi_run_option_find(const char *name);
/* Whether a value in JSON needs quotes (words) or brackets (lists). */
bool bgi_run_option_is_text(uint32_t number);
bool bgi_run_option_is_list(uint32_t number);
/* Returns the kind of an option's value, never BG_CONFIG_NULL; that of a seed is BG_CONFIG_INTEGER. */
bg_config_kind bgi_run_option_kind(uint32_t number);
/* Sets the error for a value that the option cannot have. */
bg_status bgi_run_option_report(uint32_t number, const char *text, bg_error *error);
/* Like bg_options_set. If `arena` is not NULL, strings and lists are copied into it. */
bg_status bgi_run_option_set(bg_options *options, bgi_arena *arena, const char *name, const char *text,
                             uint32_t *out_number, bg_error *error);
void bgi_run_option_print(bgi_string *text, uint32_t number, const bg_options *options);
/* Copies one option; memory that it points to is shared. */
void bgi_run_option_copy(const bg_options *from, uint32_t number, bg_options *to);

#endif
