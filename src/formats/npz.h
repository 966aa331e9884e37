/*
 * npz.h: writes NumPy's .npz.
 */
#ifndef BGI_FORMATS_NPZ_H
#define BGI_FORMATS_NPZ_H

#include <brigade/safetensors.h>

/*
 * Writes stored .npy files in the entries' order; the archive appears complete or not at all. `fetch` reads the values
 * of entries without data. Errors: BG_ERROR_UNSUPPORTED (bfloat16; 4 GiB or more in total; more than 65534 arrays),
 * BG_ERROR_IO, BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_MEMORY; those of `fetch`.
 */
bg_status bgi_npz_write(const char *path, const bg_safetensors_entry *entries, size_t count, bg_safetensors_fetch fetch,
                        void *user, bg_error *error);

#endif
