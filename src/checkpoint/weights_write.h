/*
 * weights_write.h: writes named tensors to a file or a folder, for weights (weights_save.c) and conversions
 * (convert.c).
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_WRITE_H
#define BGI_CHECKPOINT_WEIGHTS_WRITE_H

#include <brigade/safetensors.h>

typedef struct bgi_weights_content {
    const bg_safetensors_entry *entries; /* sorted by name; `fetch` reads the values of entries without data */
    size_t count;
    uint64_t folder_bytes; /* for a folder: the largest size of a file; 0: no limit */
    bg_safetensors_fetch fetch;
    void *user;
} bgi_weights_content;

/* Writes to `path`, which is as in bg_weights_save. Errors: those of bg_weights_save. */
bg_status bgi_weights_write(const char *path, const bgi_weights_content *content, bg_error *error);

#endif
