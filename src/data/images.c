/*
 * images.c: reads folders of PNG images, with a subfolder for each class, as a data set. Names are read when the data
 * set is opened, images on demand.
 */
#include "core/error.h"
#include "core/file.h"
#include "data/source.h"
#include "formats/png.h"

#include <brigade/readers.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST_IMAGE_BYTES = 1 << 28 };

/* ---- one image ---- */

static bg_status check_channels(const char *name, uint32_t channels, bg_error *error)
{
    if (channels == 1 || channels == 3 || channels == 4)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s: %" PRIu32
                        " channels were requested; the count must be 1 (gray), 3 (RGB), 4 (RGBA), or 0 for the file's",
                        name, channels);
}

static uint32_t choose_channels(const bgi_png_size *size, uint32_t wanted)
{
    return wanted != 0 ? wanted : size->channels == 2 ? 1 : size->channels;
}

static bg_type image_type(const bgi_png_size *size, uint32_t channels)
{
    return bg_tensor3(BG_UINT8, channels, size->rows, size->columns);
}

bg_status bg_png_read(const char *path, uint32_t channels, bg_array *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_array array = {.data = NULL};
    char *content = NULL;
    size_t size_bytes = 0;
    bgi_png_size size;
    bg_type type;
    bg_status status;

    if (channels != 0)
        BGI_TRY(check_channels(path, channels, error));
    BGI_TRY(bgi_file_load(path, LARGEST_IMAGE_BYTES, &content, &size_bytes, error));
    BGI_TRY_CLEANUP(bgi_png_measure(path, content, size_bytes, &size, error));
    channels = choose_channels(&size, channels);
    type = image_type(&size, channels);
    BGI_TRY_CLEANUP(bg_array_init(&array, &type, error));
    BGI_TRY_CLEANUP(bgi_png_decode(path, content, size_bytes, &size, channels, array.data, error));
    *out = array;
    array.data = NULL;
cleanup:
    bg_array_clear(&array);
    free(content);
    return status;
}

/* ---- names ---- */

typedef struct names {
    char **items;
    size_t count;
} names;

static void clear_names(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
    *n = (names){.count = 0};
}

static bg_status add_name(names *n, char *name, bg_error *error)
{
    char **grown = name == NULL ? NULL : realloc(n->items, (n->count + 1) * sizeof *grown);

    if (grown == NULL) {
        free(name);
        return bgi_error_memory(error, "the names of files", (n->count + 1) * sizeof *grown);
    }
    n->items = grown;
    n->items[n->count++] = name;
    return BG_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_image_name(const char *name)
{
    const size_t length = strlen(name);

    return length > 4 && (strcmp(name + length - 4, ".png") == 0 || strcmp(name + length - 4, ".PNG") == 0);
}

/* Lists the paths of the folders or of the images in a folder, sorted and without hidden ones. */
static bg_status list_paths(const char *folder, bool wants_folders, names *out, bg_error *error)
{
    DIR *directory = opendir(folder);
    char reason[BGI_ERRNO_TEXT_BYTES];
    bg_status status = BG_OK;

    if (directory == NULL)
        return bg_error_set(error, errno == ENOENT ? BG_ERROR_NOT_FOUND : BG_ERROR_IO, "%s: cannot read the folder: %s",
                            folder, bgi_errno_text(errno, reason));
    for (struct dirent *entry; status == BG_OK && (entry = readdir(directory)) != NULL;) {
        struct stat about;
        char *path;

        if (entry->d_name[0] == '.' || (!wants_folders && !is_image_name(entry->d_name)))
            continue;
        path = bgi_path_join(folder, entry->d_name);
        if (path != NULL && wants_folders && (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)))
            free(path);
        else
            status = add_name(out, path, error);
    }
    closedir(directory);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_names);
    return status;
}

/* ---- the data set ---- */

typedef struct images {
    names paths;
    int32_t *labels;
    bgi_png_size size; /* of each image */
    uint32_t channels;
} images;

static void release_images(void *state)
{
    images *s = state;

    clear_names(&s->paths);
    free(s->labels);
    free(s);
}

static bg_status read_image(const images *s, const char *path, unsigned char *out, bg_error *error)
{
    char *content = NULL;
    size_t size_bytes = 0;
    bgi_png_size size;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_IMAGE_BYTES, &content, &size_bytes, error));
    status = bgi_png_measure(path, content, size_bytes, &size, error);
    if (status == BG_OK && (size.rows != s->size.rows || size.columns != s->size.columns))
        status = bg_error_set(error, BG_ERROR_SHAPE,
                              "%s: %" PRIu32 " x %" PRIu32 " pixels, but the first image (%s) has %" PRIu32
                              " x %" PRIu32 "; all images must have the same size",
                              path, size.columns, size.rows, s->paths.items[0], s->size.columns, s->size.rows);
    if (status == BG_OK)
        status = bgi_png_decode(path, content, size_bytes, &size, s->channels, out, error);
    free(content);
    return status;
}

static bg_status gather_images(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const images *s = dataset->state;
    (void)epoch, (void)scratch;

    for (size_t i = 0; i < count; i++) {
        *out_failed = i;
        BGI_TRY(read_image(s, s->paths.items[indices[i]], tensors[0] + i * dataset->sample_bytes[0], error));
        if (dataset->tensor_count > 1)
            memcpy(tensors[1] + i * sizeof(int32_t), &s->labels[indices[i]], sizeof(int32_t));
    }
    return BG_OK;
}

static bg_status collect(const char *folder, const names *classes, images *s, bg_error *error)
{
    for (size_t c = 0; c < classes->count; c++) {
        names files = {.count = 0};
        const size_t first = s->paths.count;
        bg_status status = list_paths(classes->items[c], false, &files, error);
        int32_t *labels;

        for (size_t i = 0; status == BG_OK && i < files.count; i++) {
            status = add_name(&s->paths, files.items[i], error);
            files.items[i] = NULL;
        }
        clear_names(&files);
        BGI_TRY(status);
        labels = realloc(s->labels, (s->paths.count + 1) * sizeof *labels);
        if (labels == NULL)
            return bgi_error_memory(error, "the classes", s->paths.count * sizeof *labels);
        s->labels = labels;
        for (size_t i = first; i < s->paths.count; i++)
            labels[i] = (int32_t)c;
    }
    if (s->paths.count > 0)
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_NOT_FOUND,
        "%s: there are no images in the folder; it must have a folder for each class with .png files in it", folder);
}

static bg_status measure_first(images *s, uint32_t channels, bg_error *error)
{
    const char *path = s->paths.items[0];
    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_IMAGE_BYTES, &content, &size_bytes, error));
    status = bgi_png_measure(path, content, size_bytes, &s->size, error);
    free(content);
    s->channels = choose_channels(&s->size, channels);
    return status;
}

static bg_status list_images(const char *folder, images *s, bg_error *error)
{
    names classes = {.count = 0};
    bg_status status = list_paths(folder, true, &classes, error);

    if (status == BG_OK)
        status = collect(folder, &classes, s, error);
    clear_names(&classes);
    return status;
}

/* Opens a data set of the images, and also of their classes if tensor_count is 2. */
static bg_status open_images(const char *folder, uint32_t channels, uint32_t tensor_count, bg_dataset **out,
                             bg_error *error)
{
    images *s = calloc(1, sizeof *s);
    bg_dataset *dataset = NULL;
    bg_type types[2];
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "a data set", sizeof *s);
    status = list_images(folder, s, error);
    if (status == BG_OK)
        status = measure_first(s, channels, error);
    if (status == BG_OK) {
        types[0] = image_type(&s->size, s->channels);
        types[1] = bg_scalar(BG_INT32);
        status = bgi_dataset_allocate(s->paths.count, tensor_count, types, &dataset, error);
    }
    if (status != BG_OK) {
        release_images(s);
        return status;
    }
    dataset->state = s;
    dataset->release = release_images;
    dataset->gather = gather_images;
    *out = dataset;
    return BG_OK;
}

bg_status bg_dataset_open_images(const char *folder, uint32_t channels, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(folder, "folder", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (channels != 0)
        BGI_TRY(check_channels(folder, channels, error));
    return open_images(folder, channels, 2, out, error);
}

bg_status bgi_dataset_open_pictures(const char *folder, bg_dataset **out, bg_error *error)
{
    return open_images(folder, 0, 1, out, error);
}

bg_status bgi_images_read_classes(const char *folder, bg_array *out, bg_error *error)
{
    images *s = calloc(1, sizeof *s);
    bg_type type;
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "classes", sizeof *s);
    status = list_images(folder, s, error);
    if (status == BG_OK) {
        type = bg_vector(BG_INT32, (int64_t)s->paths.count);
        status = bg_array_init(out, &type, error);
    }
    if (status == BG_OK)
        memcpy(out->data, s->labels, s->paths.count * sizeof *s->labels);
    release_images(s);
    return status;
}
