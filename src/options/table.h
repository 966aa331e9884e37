/*
 * table.h: every option of a plan and a session, each defined once.
 *
 * A row of options.def defines an option's name, kind, default, range and description, whether it affects the plan, and
 * its names in other systems. Defaults, deep copies, equality, range checks, the plan cache's key, options by name, and
 * the tables of `--help` and the documents all use the rows. Rules between several options are checked where they are
 * used (plan/options.c).
 */
#ifndef BGI_OPTIONS_TABLE_H
#define BGI_OPTIONS_TABLE_H

#include <brigade/options.h>

#include "core/archive.h"
#include "core/arena.h"
#include "core/text.h"

typedef enum bgi_option_kind {
    BGI_OPTION_BOOL = 0,
    BGI_OPTION_COUNT,    /* uint32_t */
    BGI_OPTION_SIZE,     /* size_t */
    BGI_OPTION_SEED,     /* uint64_t */
    BGI_OPTION_INTEGER,  /* int32_t */
    BGI_OPTION_REAL,     /* double */
    BGI_OPTION_CHOICE,   /* an enumeration */
    BGI_OPTION_DTYPE,    /* a bg_dtype */
    BGI_OPTION_SCHEDULE, /* const char *: a generator's name, or NULL */
    BGI_OPTION_TEXT,     /* const char *, or NULL */
    BGI_OPTION_COUNTS,   /* const uint32_t *, and the number of elements */
    BGI_OPTION_REALS,    /* const double *, and the number of elements */
    BGI_OPTION_RECORDS,  /* an array of structs, and the number of structs; only set in C */
    BGI_OPTION_POINTER   /* a function or its argument; only set in C, and owned by the caller */
} bgi_option_kind;

/* Groups, in the order in which they are printed. */
typedef enum bgi_option_group {
    BGI_OPTIONS_EXECUTION = 0, /* stages, devices, micro-batches, workers */
    BGI_OPTIONS_MEMORY,        /* budgets, recomputation, remote memory */
    BGI_OPTIONS_REPLICAS,
    BGI_OPTIONS_NUMERICS, /* gradients, precision, kernels */
    BGI_OPTIONS_FILES,
    BGI_OPTIONS_REPORTING, /* outputs, logs, traces */
    BGI_OPTION_GROUPS
} bgi_option_group;
const char *bgi_option_group_name(bgi_option_group group);

/* Commands of the program that have flags for options, as bits; `brigade gpt pretrain` and `bench` share one. */
typedef enum bgi_command { BGI_COMMAND_MNIST = 1, BGI_COMMAND_GPT = 2 } bgi_command;

/* Another name for a value. */
typedef struct bgi_synonym {
    const char *name;
    int value;
} bgi_synonym;

/* Names of an enumeration's values from 0 on; NULL for a value without a name. */
typedef struct bgi_choices {
    const char *const *names;
    const char *const *constants; /* the values' constants in C: "BG_STRATEGY_SINGLE" */
    uint32_t count;
    const bgi_synonym *synonyms; /* other strings that are accepted, ending with a NULL name; NULL: no synonyms */
} bgi_choices;

typedef struct bgi_option bgi_option;

/* Members of the structs of an array; offsets are relative to a struct. */
typedef struct bgi_record {
    size_t size_bytes;
    const bgi_option *members;
    uint32_t member_count;
} bgi_record;

struct bgi_option {
    const char *name;
    bgi_option_group group;
    bgi_option_kind kind;
    const char *path;    /* path of the member of bg_options: "execution.strategy" */
    size_t offset;       /* offset of the member in bg_options */
    size_t count_offset; /* offset of the number of elements; only for COUNTS, REALS and RECORDS */
    const char *count_name;
    bool may_be_empty; /* an empty array has the same meaning as NULL */
    double standard;   /* the default of a number, a flag or a choice; texts and lists have no default */
    bool shapes_plan;  /* whether the option is part of the plan cache's key */
    const bgi_choices *choices;
    const bgi_record *record;
    bool is_bounded; /* a number must be in minimum..maximum (without the minimum if is_above), a text not empty */
    bool is_above;
    bool is_for_c; /* the option cannot be set from text although its kind can */
    double minimum, maximum;
    const char *rule;      /* the rule in messages for a value out of range: "it must be at least 1" */
    const char *unit;      /* NULL: no unit */
    const char *poptorch;  /* accessor of poptorch.Options; NULL: no accessor */
    const char *optimum;   /* field of Optimum's IPUConfig that sets the option; NULL: no field */
    const char *elsewhere; /* names in other systems, such as "PyTorch: clip_grad_norm_"; NULL: no names */
    const char *costs;     /* cost in time, memory or accuracy of using the option; NULL: no cost */
    const char *flag;      /* name of the flag without dashes; NULL: the program has no flag */
    uint32_t commands;     /* bgi_command: the commands with the flag */
    const char *value;     /* the name of the flag's value in help; NULL: the kind determines it */
    const char *what;      /* description of the option, without a period */
};

/* Returns options by number, in the order of the table; NULL past the last. */
const bgi_option *bgi_option_at(uint32_t number);
/* Finds an option by its own name or PopTorch's; returns UINT32_MAX for an unknown name. */
uint32_t bgi_option_find(const char *name);
/* Finds the first option that a flag of the command sets; returns UINT32_MAX for an unknown flag. */
uint32_t bgi_option_find_flag(const char *flag, bgi_command command);
/* Whether the option can be set from text. */
bool bgi_option_has_text(const bgi_option *option);

/* Limits that rows and checks share. */
enum { BGI_MOST_DEVICES = 65536, BGI_MOST_IO_THREADS = 64 };
#define BGI_LEAST_LOSS_SCALE 0x1p-64
#define BGI_MOST_LOSS_SCALE  0x1p64

/* ---- whole structs (table.c) ---- */

/* Checks that bg_options_defaults of this release of the library made the struct. */
bg_status bgi_options_check_made(const bg_options *options, bg_error *error);

/* Returns the caller's allocator, or an empty one. */
static inline bg_allocator bgi_options_allocator(const bg_options *options)
{
    return (bg_allocator){options->memory.allocate, options->memory.release, options->memory.allocator_user};
}
/* Copies the options, and everything that they point to into the arena; callbacks and their arguments are shared. */
bg_status bgi_options_copy(bgi_arena *arena, const bg_options *from, bg_options *out, bg_error *error);
/* Whether one option, or every option, has the same value in both structs. */
bool bgi_option_is_equal(const bgi_option *option, const bg_options *a, const bg_options *b);
bool bgi_options_equal(const bg_options *a, const bg_options *b);
/* Appends to the key all values that affect a plan. A callback is not appended; the caller appends its return
 * values. */
void bgi_options_write_key(const bg_options *options, bgi_archive *key);
/* Copies one option; memory that it points to is shared. */
void bgi_option_copy(const bgi_option *option, const bg_options *from, bg_options *to);
/* Calls `report` with a line for each option whose value is out of range. */
void bgi_options_check_ranges(const bg_options *options, void (*report)(void *user, const char *line), void *user);

/* ---- one option as text (text.c) ---- */

/* Sets an option from text. Strings and lists are copied into the arena. Errors: BG_ERROR_INVALID, with the allowed
 * values; BG_ERROR_UNSUPPORTED for an option that can only be set in C, and for a list without an arena;
 * BG_ERROR_MEMORY. */
bg_status bgi_option_set(const bgi_option *option, bg_options *options, bgi_arena *arena, const char *text,
                         bg_error *error);
void bgi_option_print(const bgi_option *option, const bg_options *options, bgi_string *text);
/* Sets BG_ERROR_INVALID for a value that the option cannot have. */
bg_status bgi_option_refuse(const bgi_option *option, const char *text, bg_error *error);
/* Sets BG_ERROR_NOT_FOUND, with the nearest name. */
bg_status bgi_option_unknown(const char *name, bg_error *error);
/* Appends the values of a choice, "a, b, c", and their constants in C, "BG_A, BG_B, BG_C". */
void bgi_option_print_choices(const bgi_option *option, bgi_string *text);
void bgi_option_print_constants(const bgi_option *option, bgi_string *text);

#endif
