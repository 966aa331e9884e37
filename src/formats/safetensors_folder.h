/*
 * safetensors_folder.h: opens the files of a folder that together contain one model, as Hugging Face's tools write it.
 */
#ifndef BGI_FORMATS_SAFETENSORS_FOLDER_H
#define BGI_FORMATS_SAFETENSORS_FOLDER_H

#include <brigade/safetensors.h>

#define BGI_SAFETENSORS_MODEL "model.safetensors"
#define BGI_SAFETENSORS_INDEX "model.safetensors.index.json"

enum { BGI_SAFETENSORS_FILE_LIMIT = 1024 };

typedef struct bgi_safetensors_folder {
    const char *directory; /* borrowed from the caller */
    bg_safetensors *files[BGI_SAFETENSORS_FILE_LIMIT];
    char *names[BGI_SAFETENSORS_FILE_LIMIT];
    uint32_t file_count;
} bgi_safetensors_folder;

/* Opens model.safetensors, or otherwise each file that the index names, with foreign tensors and without values.
 * `directory` must outlive the result. Errors: BG_ERROR_NOT_FOUND (neither exists, or a file of the index does not),
 * BG_ERROR_PARSE, BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_safetensors_folder_open(const char *directory, bgi_safetensors_folder **out, bg_error *error);
void bgi_safetensors_folder_close(bgi_safetensors_folder *folder);

#endif
