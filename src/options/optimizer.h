/*
 * optimizer.h: optimizers and their settings, each defined once (optimizers.def). Code that reads, checks, prints or
 * passes an optimizer's numbers uses this table instead of naming optimizers. The equations are in
 * transform/training.c, which adds their ops.
 */
#ifndef BGI_OPTIONS_OPTIMIZER_H
#define BGI_OPTIONS_OPTIMIZER_H

#include <brigade/options.h>

#include "kernels/optimizer/attributes.h"

/* The number of elements from which updates read an optimizer's numbers, and the index of the learning rate among
 * them. */
enum { BGI_OPTIMIZER_NUMBERS = BGI_HYPER_COUNT, BGI_OPTIMIZER_RATE = BGI_HYPER_LEARNING_RATE };

typedef struct bgi_setting {
    const char *name; /* the member of bg_optimizer */
    size_t offset;
    bool is_flag;            /* the member is a bool; otherwise it is a double */
    double minimum, maximum; /* the range of a number */
    bool is_above, is_below; /* the range excludes the minimum, or the maximum */
    const char *rule;        /* the message for a number out of range */
    uint32_t element;        /* index of the element from which updates read the number */
    bool makes_state; /* a value above 0 makes the optimizer keep state, for which a plan that was made with 0 has no
                         memory */
    bool is_fixed;    /* the number is part of the plan, as flags are */
    size_t with;      /* offset of the flag without which the number is ignored; 0: it always applies */
    const char *what; /* description of the setting, without a period */
} bgi_setting;

/* Returns settings by number, in the order of the table; NULL past the last. */
const bgi_setting *bgi_setting_at(uint32_t number);
/* Returns the value of a setting; a flag is 0 or 1. */
double bgi_setting_get(const bgi_setting *setting, const bg_optimizer *optimizer);

void bgi_setting_set(const bgi_setting *setting, bg_optimizer *optimizer, double value);

/* Writes the numbers of an optimizer for its updates, float64 [BGI_OPTIMIZER_NUMBERS]; unused elements are 0. */
void bgi_optimizer_write_numbers(const bg_optimizer *optimizer, double *out);
/* Checks that a plan that was made with `planned` can train with `next`, which must be valid. Errors:
 * BG_ERROR_INVALID. */
bg_status bgi_optimizer_check_change(const bg_optimizer *planned, const bg_optimizer *next, bg_error *error);

/* Describes an optimizer in one sentence; NULL for an unknown kind. */
const char *bgi_optimizer_sentence(bg_optimizer_kind kind);
/* Whether the optimizer has the setting; *standard (may be NULL) is then its default. */
bool bgi_optimizer_has(bg_optimizer_kind kind, const bgi_setting *setting, double *standard);
/* Returns the setting with a name, or NULL. */
const bgi_setting *bgi_setting_find(const char *name);

/* Returns by number the optimizers whose states differ in meaning: each kind with each choice of the flags that
 * determine the meaning. Returns false past the last. */
bool bgi_optimizer_variant(uint32_t number, bg_optimizer *out);

#endif
