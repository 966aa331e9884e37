/*
 * open.c: opens data sets of arrays in files: .npy, .npz and CSV. The readers are in formats/.
 */
#include <brigade/readers.h>

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "data/dataset.h"
#include "formats/csv.h"

bg_status bg_dataset_open_npy(const char *const *paths, uint32_t path_count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(paths, "paths", __func__, error));

    bg_array arrays[BG_DATASET_MAX_TENSORS] = {{.data = NULL}};
    bg_status status = BG_OK;

    if (path_count == 0 || path_count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID, "data set: path_count is %" PRIu32 " but must be 1 to %d",
                            path_count, BG_DATASET_MAX_TENSORS);
    for (uint32_t i = 0; status == BG_OK && i < path_count; i++)
        status = bg_npy_read(paths[i], &arrays[i], error);
    if (status == BG_OK) {
        status = bgi_dataset_own_arrays(arrays, path_count, out, error);
        if (status != BG_OK)
            bg_error_context(error, status, "%s", paths[0]);
    }
    for (uint32_t i = 0; i < path_count; i++)
        bg_array_clear(&arrays[i]);
    return status;
}

/* Moves the named arrays, or all if name_count is 0, from `npz` to `arrays`. Naming an array twice is an error, because
 * it was moved the first time. */
static bg_status choose(const char *path, bg_npz *npz, const char *const *names, uint32_t name_count,
                        bg_array arrays[BG_DATASET_MAX_TENSORS], bg_error *error)
{
    const uint32_t count = name_count > 0 ? name_count : npz->count;

    if (count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: %" PRIu32 " arrays are requested but at most %d are possible; name some of them", path,
                            count, BG_DATASET_MAX_TENSORS);
    for (uint32_t i = 0; i < count; i++) {
        bg_array *found = name_count > 0 ? (bg_array *)(uintptr_t)bg_npz_find(npz, names[i]) : &npz->arrays[i];

        if (found == NULL || found->data == NULL)
            return bg_error_set(error, BG_ERROR_NOT_FOUND, "%s: has no array `%s`%s", path, names[i],
                                found != NULL ? " left, because it was named before" : "");
        arrays[i] = *found;
        memset(found, 0, sizeof *found);
    }
    return BG_OK;
}

bg_status bg_dataset_open_npz(const char *path, const char *const *names, uint32_t name_count, bg_dataset **out,
                              bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (name_count > 0)
        BGI_TRY(bgi_require(names, "names", __func__, error));

    bg_array arrays[BG_DATASET_MAX_TENSORS] = {{.data = NULL}};
    bg_npz npz = {.count = 0};
    bg_status status;

    BGI_TRY(bg_npz_read(path, &npz, error));
    status = choose(path, &npz, names, name_count, arrays, error);
    if (status == BG_OK) {
        status = bgi_dataset_own_arrays(arrays, name_count > 0 ? name_count : npz.count, out, error);
        if (status != BG_OK)
            bg_error_context(error, status, "%s", path);
    }
    for (uint32_t i = 0; i < BG_DATASET_MAX_TENSORS; i++)
        bg_array_clear(&arrays[i]);
    bg_npz_clear(&npz);
    return status;
}

bg_status bg_dataset_open_csv(const char *path, const bg_csv_options *options, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_csv_options", NULL, error));

    bg_array arrays[2] = {{.data = NULL}};
    uint64_t rows_left_out = 0;
    bg_status status;

    BGI_TRY(bgi_csv_read(path, options, &arrays[0], &arrays[1], &rows_left_out, error));
    status = bgi_dataset_own_arrays(arrays, options->label != NULL ? 2 : 1, out, error);
    if (status == BG_OK && options->skip_incomplete)
        (*out)->rows_left_out = rows_left_out;
    bg_array_clear(&arrays[0]);
    bg_array_clear(&arrays[1]);
    return status;
}
