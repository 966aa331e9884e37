/*
 * checkpoint.h: declares the options of `brigade checkpoint`, and its subcommands, which are in separate files.
 */
#ifndef BGI_CLI_CHECKPOINT_H
#define BGI_CLI_CHECKPOINT_H

#include <brigade/base.h>

#include "checkpoint/stored.h"
#include "cli/options.h"

typedef struct checkpoint_settings {
    bool json, tensors, weights;
    const char *to, *like, *prefix, *floats;
    cli_texts renames, ignore;
    uint64_t step, seed, file_bytes;
} checkpoint_settings;

/* Prints the content of a file (checkpoint_inspect.c). */
bg_status checkpoint_inspect(const char *path, const checkpoint_settings *settings, bg_error *error);
/* Converts a file (checkpoint_convert.c). */
bg_status checkpoint_convert(const char *from, const char *to, const checkpoint_settings *settings, bg_error *error);
/* Prints the differences of two files (checkpoint_diff.c). Sets *out_same to whether the files are equal. */
bg_status checkpoint_diff(const char *first, const char *second, const checkpoint_settings *settings, bool *out_same,
                          bg_error *error);
/* Reads the record of a checkpoint's tensor. For other files the record says that the tensor is a parameter. */
bg_status checkpoint_record(const bgi_stored *source, const char *name, bgi_checkpoint_record *out, bg_error *error);

#endif
