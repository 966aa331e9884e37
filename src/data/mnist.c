/*
 * mnist.c: reads and writes pairs of IDX files with images and their labels, and finds those of MNIST. mnist_download.c
 * downloads the files.
 */
#include "data/mnist.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(stem, rank)                                                                                              \
    {                                                                                                                  \
        stem "-idx" rank "-ubyte.gz", stem "-idx" rank "-ubyte", stem ".idx" rank "-ubyte",                            \
            stem ".idx" rank "-ubyte.gz"                                                                               \
    }

const bgi_mnist_file bgi_mnist_files[BGI_MNIST_FILE_COUNT] = {
    {NAMES("train-images", "3"), "6bbc9ace898e44ae57da46a324031adb"},
    {NAMES("train-labels", "1"), "a25bea736e30d166cdddb491f175f624"},
    {NAMES("t10k-images", "3"), "2646ac647ad5339dbf082846283269ea"},
    {NAMES("t10k-labels", "1"), "27ae3e4e09519cfbb04c329615203637"},
};

enum { MNIST_SIDE = 28, MNIST_CLASSES = 10 };

/* ---- a pair of files ---- */

static bg_status check_labels(const char *path, const bg_array *labels, uint32_t class_count, bg_error *error)
{
    const uint8_t *values = labels->data;

    for (int64_t i = 0; i < labels->type.dims[0]; i++)
        if (values[i] >= class_count)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: label %" PRId64 " (byte %" PRId64 ") is %d but must be 0 to %" PRIu32, path, i,
                                8 + i, values[i], class_count - 1);
    return BG_OK;
}

static bg_status check_pair(const char *images_path, const char *labels_path, const bg_image_set *set, bg_error *error)
{
    const bg_type *images = &set->images.type, *labels = &set->labels.type;

    if (images->rank != 3)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte 3: the file has %" PRIu32 " dimensions but images have 3",
                            images_path, images->rank);
    if (labels->rank != 1)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte 3: the file has %" PRIu32 " dimensions but labels have 1",
                            labels_path, labels->rank);
    if (images->dims[0] != labels->dims[0])
        return bg_error_set(error, BG_ERROR_PARSE, "%s has %" PRId64 " labels but %s has %" PRId64 " images",
                            labels_path, labels->dims[0], images_path, images->dims[0]);
    return check_labels(labels_path, &set->labels, set->class_count, error);
}

static char *copy_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bg_status bg_image_set_read(const char *images_path, const char *labels_path, uint32_t class_count, bg_image_set *out,
                            bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(images_path, "images_path", __func__, error));
    BGI_TRY(bgi_require(labels_path, "labels_path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_image_set set = {.class_count = class_count};
    bg_status status;

    if (class_count < 1 || class_count > 256)
        return bg_error_set(error, BG_ERROR_INVALID, "class_count is %" PRIu32 " but must be 1 to 256", class_count);
    BGI_TRY_CLEANUP(bg_idx_read(images_path, &set.images, error));
    BGI_TRY_CLEANUP(bg_idx_read(labels_path, &set.labels, error));
    BGI_TRY_CLEANUP(check_pair(images_path, labels_path, &set, error));
    set.source = copy_folder_of(images_path);
    if (set.source == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a path", strlen(images_path)));
    *out = set;
    return BG_OK;

cleanup:
    bg_image_set_clear(&set);
    return status;
}

static bg_status write_into(const char *folder, const char *name, const bg_array *array, bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(folder) + strlen(name));
    status = bg_idx_write(path, array, error);
    free(path);
    return status;
}

bg_status bg_image_set_write_mnist(const bg_image_set *set, const char *folder, bool is_training, bool compress,
                                   bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(set, "set", __func__, error));
    BGI_TRY(bgi_require(folder, "folder", __func__, error));

    const bgi_mnist_file *files = bgi_mnist_files + (is_training ? 0 : 2);
    const int form = compress ? 0 : 1;

    BGI_TRY(write_into(folder, files[0].names[form], &set->images, error));
    return write_into(folder, files[1].names[form], &set->labels, error);
}

/* ---- finding ---- */

bg_status bgi_mnist_find(const char *folder, const bgi_mnist_file *file, char **out_path, bg_error *error)
{
    *out_path = NULL;
    for (int form = 0; form < BGI_MNIST_NAME_FORMS; form++) {
        char *path = bgi_path_join(folder, file->names[form]);

        if (path == NULL)
            return bgi_error_memory(error, "a path", strlen(folder));
        if (bgi_file_exists(path)) {
            *out_path = path;
            return BG_OK;
        }
        free(path);
    }
    return BG_OK;
}

/* The folders in which the files were not found, for the final message. Folders that do not fit are omitted. */
typedef struct search_log {
    char text[2048];
    size_t used;
} search_log;

static void note_miss(search_log *log, const char *folder, const char *found, const char *missing)
{
    const size_t room = sizeof log->text - log->used;
    int written;

    if (found != NULL)
        written = snprintf(log->text + log->used, room, "%s%s (has %s, lacks %s)", log->used > 0 ? ", " : "", folder,
                           strrchr(found, '/') + 1, missing);
    else
        written = snprintf(log->text + log->used, room, "%s%s", log->used > 0 ? ", " : "", folder);
    if (written > 0)
        log->used += (size_t)written < room ? (size_t)written : room - 1;
}

/* Sets *found to whether the folder has both files, and reads them if it has. */
static bg_status try_folder(const char *folder, bool is_training, search_log *log, bool *found, bg_image_set *out,
                            bg_error *error)
{
    const bgi_mnist_file *files = bgi_mnist_files + (is_training ? 0 : 2);
    char *images_path = NULL, *labels_path = NULL;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_mnist_find(folder, &files[0], &images_path, error));
    BGI_TRY_CLEANUP(bgi_mnist_find(folder, &files[1], &labels_path, error));
    *found = images_path != NULL && labels_path != NULL;
    if (*found)
        status = bg_image_set_read(images_path, labels_path, MNIST_CLASSES, out, error);
    else if (images_path != NULL)
        note_miss(log, folder, images_path, files[1].names[0]);
    else
        note_miss(log, folder, labels_path, files[0].names[0]);

cleanup:
    free(images_path);
    free(labels_path);
    return status;
}

static bg_status check_mnist_size(bg_image_set *set, bg_error *error)
{
    const int64_t *dims = set->images.type.dims;
    bg_status status;

    if (dims[1] == MNIST_SIDE && dims[2] == MNIST_SIDE)
        return BG_OK;
    status = bg_error_set(error, BG_ERROR_PARSE, "%s: images are %" PRId64 " x %" PRId64 " but must be %d x %d",
                          set->source, dims[1], dims[2], MNIST_SIDE, MNIST_SIDE);
    bg_image_set_clear(set);
    return status;
}

bg_status bg_mnist_load(const char *const *folders, size_t folder_count, bool is_training, bg_image_set *out,
                        bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (folder_count > 0)
        BGI_TRY(bgi_require(folders, "folders", __func__, error));

    search_log log = {.text = ""};
    bg_image_set set = {0};
    bool found = false;

    for (size_t i = 0; i < folder_count && !found; i++) {
        char *inner;
        bg_status status;

        if (folders[i] == NULL)
            continue;
        BGI_TRY(try_folder(folders[i], is_training, &log, &found, &set, error));
        if (found)
            break;
        inner = bgi_path_join(folders[i], "mnist");
        if (inner == NULL)
            return bgi_error_memory(error, "a path", strlen(folders[i]));
        status = try_folder(inner, is_training, &log, &found, &set, error);
        free(inner);
        BGI_TRY(status);
    }
    if (!found)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "MNIST: %s and its labels are not in any of: %s",
                            bgi_mnist_files[is_training ? 0 : 2].names[0],
                            log.used > 0 ? log.text : "(no folder given)");
    BGI_TRY(check_mnist_size(&set, error));
    *out = set;
    return BG_OK;
}
