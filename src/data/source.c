/*
 * source.c: opens data by a name, which is that of a file or folder and may name a part of it: "images.npy",
 * "digits.npz:x", "table.csv:price", "batch.safetensors:labels", "train-images-idx3-ubyte.gz", "photos",
 * "photos:classes". The ending of a file's name determines its format; the readers are in formats/.
 */
#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/csv.h"
#include "formats/idx.h"
#include "formats/npy.h"
#include "formats/safetensors.h"

enum { SHOWN_NAMES = 8, LARGEST_COLUMN_LIST = 1024 };
static const size_t LARGEST_SOURCE_BYTES = ((size_t)4 << 30) - 1;

/* The parts of a source's name. */
typedef struct place {
    char *path;
    const char *part; /* after the colon; NULL: none */
    bool is_folder;
    bgi_source_kind kind;
} place;

static bgi_source_kind find_kind(const char *path)
{
    return bgi_text_ends_with(path, ".npy")           ? BGI_SOURCE_NPY
           : bgi_text_ends_with(path, ".npz")         ? BGI_SOURCE_NPZ
           : bgi_text_ends_with(path, ".safetensors") ? BGI_SOURCE_SAFETENSORS
           : bgi_text_ends_with(path, ".csv")         ? BGI_SOURCE_CSV
                                                      : BGI_SOURCE_IDX;
}

/* Splits the name of a source at its last colon. A colon in the name of an existing file belongs to the name. */
static bg_status find_place(const char *source, place *out, bg_error *error)
{
    struct stat about;
    char *colon;

    *out = (place){.path = strdup(source)};
    if (out->path == NULL)
        return bgi_error_memory(error, "a path", strlen(source) + 1);
    colon = strrchr(out->path, ':');
    if (colon != NULL && stat(out->path, &about) != 0) {
        *colon = '\0';
        out->part = colon + 1;
    }
    out->is_folder = stat(out->path, &about) == 0 && S_ISDIR(about.st_mode);
    out->kind = find_kind(out->path);
    return BG_OK;
}

/* ---- parts ---- */

static void add_name(bgi_string *list, uint32_t index, const char *name)
{
    if (index < SHOWN_NAMES)
        bgi_string_add(list, "%s`%s`", index > 0 ? ", " : "", name);
    else if (index == SHOWN_NAMES)
        bgi_string_add(list, ", ...");
}

/* Reports that a part is missing or unknown, with the existing ones in `list`, and frees `list`. */
static bg_status fail_part(const char *name, const char *part, const char *what, bgi_string *list, bg_error *error)
{
    const char *names = list->data != NULL ? list->data : "nothing";

    if (part == NULL)
        bg_error_set(error, BG_ERROR_INVALID,
                     "%s: the name of the %s is missing; add one after a colon (the file has %s)", name, what, names);
    else
        bg_error_set(error, BG_ERROR_NOT_FOUND, "%s: there is no %s `%s`; the file has %s", name, what, part, names);
    bgi_string_clear(list);
    return error != NULL ? error->status : part == NULL ? BG_ERROR_INVALID : BG_ERROR_NOT_FOUND;
}

/* Moves the named array, or the only one, to *out. */
static bg_status take_array(const char *name, bg_npz *npz, const char *part, bg_array *out, bg_error *error)
{
    bgi_string list = {0};

    for (uint32_t i = 0; i < npz->count; i++)
        if (part != NULL ? strcmp(npz->names[i], part) == 0 : npz->count == 1) {
            *out = npz->arrays[i];
            memset(&npz->arrays[i], 0, sizeof npz->arrays[i]);
            return BG_OK;
        }
    for (uint32_t i = 0; i < npz->count; i++)
        add_name(&list, i, npz->names[i]);
    return fail_part(name, part, "array", &list, error);
}

static bg_status parse_npz(const char *name, const char *part, const char *content, size_t size_bytes, bg_array *out,
                           bg_error *error)
{
    bg_npz npz = {.count = 0};
    bg_status status;

    BGI_TRY(bgi_npz_parse(name, content, size_bytes, &npz, error));
    status = take_array(name, &npz, part, out, error);
    bg_npz_clear(&npz);
    return status;
}

/* Reads the named tensor of the file, or its only one if `part` is NULL. Only the header of the file need be in
 * memory. */
static bg_status take_tensor(const char *name, const bg_safetensors *file, const char *part, bg_array *out,
                             bg_error *error)
{
    const size_t count = bg_safetensors_count(file);
    const bg_safetensors_entry *entry = part != NULL ? bg_safetensors_find(file, part)
                                        : count == 1 ? bg_safetensors_at(file, 0)
                                                     : NULL;
    bg_array array = {.data = NULL};
    bgi_string list = {0};
    bg_status status = BG_OK;

    if (entry == NULL) {
        for (size_t i = 0; i < count && i <= SHOWN_NAMES; i++)
            add_name(&list, (uint32_t)i, bg_safetensors_at(file, i)->name);
        return fail_part(name, part, "tensor", &list, error);
    }
    if (entry->type.dtype == BG_DTYPE_NONE)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%s` has %s elements but must have F32, F64, F16, BF16, I64, I32 or U8", name,
                            entry->name, bgi_safetensors_storage_of(entry)->name);
    BGI_TRY(bg_array_init(&array, &entry->type, error));
    if (entry->data != NULL)
        memcpy(array.data, entry->data, bg_type_size_bytes(&entry->type));
    else
        status = bg_safetensors_read(file, entry, 0, bg_type_size_bytes(&entry->type), array.data, error);
    if (status != BG_OK) {
        bg_array_clear(&array);
        return status;
    }
    *out = array;
    return BG_OK;
}

static bg_status parse_tensor(const char *name, const char *part, const char *content, size_t size_bytes, bg_array *out,
                              bg_error *error)
{
    bg_safetensors *file = NULL;
    bg_status status;

    BGI_TRY(bgi_safetensors_parse(name, content, size_bytes, true, &file, error));
    status = take_tensor(name, file, part, out, error);
    bg_safetensors_destroy(file);
    return status;
}

/* ---- columns ---- */

/* Makes the samples of a single column numbers instead of rows of one number. */
static void drop_single(bg_array *array)
{
    if (array->type.rank == 2 && array->type.dims[1] == 1)
        array->type = bg_type_make(array->type.dtype, 1, array->type.dims);
}

/* Splits a list of columns, "a,b", in place. */
static bg_status list_columns(const char *name, char *text, const char **columns, uint32_t *out_count, bg_error *error)
{
    *out_count = 0;
    for (char *at = text, *comma; at != NULL; at = comma != NULL ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        if (comma != NULL)
            *comma = '\0';
        if (*out_count == LARGEST_COLUMN_LIST)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: the list names more than %d columns; name fewer", name,
                                LARGEST_COLUMN_LIST);
        if (at[0] == '\0')
            return bg_error_set(error, BG_ERROR_INVALID,
                                "%s: column %" PRIu32
                                " of the list has no name; write the list as \"price,rooms\" or with numbers",
                                name, *out_count);
        columns[(*out_count)++] = at;
    }
    return BG_OK;
}

/* The columns that a source names: a copy of the source's text, and pointers to the names in it. */
typedef struct column_list {
    char *text;
    const char **names;
    uint32_t count; /* 0: all columns */
} column_list;

/* Makes the list of the columns that `part` names. The caller calls clear_list even after an error. */
static bg_status make_list(const char *name, const char *part, column_list *out, bg_error *error)
{
    *out = (column_list){.text = NULL};
    if (part == NULL)
        return BG_OK;
    out->text = strdup(part);
    out->names = calloc(LARGEST_COLUMN_LIST, sizeof *out->names);
    if (out->text == NULL || out->names == NULL)
        return bgi_error_memory(error, "a list of columns", LARGEST_COLUMN_LIST * sizeof *out->names);
    return list_columns(name, out->text, out->names, &out->count, error);
}

static void clear_list(column_list *list)
{
    free(list->names);
    free(list->text);
}

static bg_status parse_csv(const char *name, const char *part, const char *content, size_t size_bytes, bg_array *out,
                           bg_error *error)
{
    bg_csv_options options = {.has_no_header = !bgi_csv_has_header(content, size_bytes)};
    column_list list;
    bg_status status = make_list(name, part, &list, error);

    options.columns = list.names;
    options.column_count = list.count;
    if (status == BG_OK)
        status = bgi_csv_parse(name, content, size_bytes, &options, NULL, out, NULL, error);
    if (status == BG_OK)
        drop_single(out);
    clear_list(&list);
    return status;
}

/* ---- files ---- */

static bg_status refuse_part(const char *name, const char *part, const char *what, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID, "%s:%s: %s has no named parts; leave `:%s` out", name, part, what,
                        part);
}

bg_status bgi_source_parse(const char *name, bgi_source_kind kind, const char *part, const char *content,
                           size_t size_bytes, bg_array *out, bg_error *error)
{
    if (part != NULL && (kind == BGI_SOURCE_NPY || kind == BGI_SOURCE_IDX))
        return refuse_part(name, part, kind == BGI_SOURCE_NPY ? "a .npy file" : "an IDX file", error);
    switch (kind) {
    case BGI_SOURCE_NPY:
        return bgi_npy_parse(name, content, size_bytes, out, error);
    case BGI_SOURCE_NPZ:
        return parse_npz(name, part, content, size_bytes, out, error);
    case BGI_SOURCE_SAFETENSORS:
        return parse_tensor(name, part, content, size_bytes, out, error);
    case BGI_SOURCE_CSV:
        return parse_csv(name, part, content, size_bytes, out, error);
    default:
        return bgi_idx_parse(name, content, size_bytes, out, error);
    }
}

/* Reads only the requested tensor into memory. */
static bg_status read_tensor(const place *p, bg_array *out, bg_error *error)
{
    bg_safetensors *file = NULL;
    bg_status status;

    BGI_TRY(bgi_safetensors_open_header(p->path, true, &file, error));
    status = take_tensor(p->path, file, p->part, out, error);
    bg_safetensors_destroy(file);
    return status;
}

static bg_status read_file(const place *p, bg_array *out, bg_error *error)
{
    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    if (p->kind == BGI_SOURCE_SAFETENSORS)
        return read_tensor(p, out, error);
    BGI_TRY(bgi_file_load(p->path, LARGEST_SOURCE_BYTES, &content, &size_bytes, error));
    status = bgi_source_parse(p->path, p->kind, p->part, content, size_bytes, out, error);
    free(content);
    if (status != BG_OK && p->kind == BGI_SOURCE_IDX && p->part == NULL)
        return bg_error_context(
            error, status, "read as an IDX file, because the name does not end in .npy, .npz, .csv or .safetensors");
    return status;
}

static bg_status open_folder(const place *p, bg_dataset **out, bg_error *error)
{
    bg_array classes = {.data = NULL};
    bg_status status;

    if (p->part == NULL)
        return bgi_dataset_open_pictures(p->path, out, error);
    if (strcmp(p->part, "classes") != 0)
        return bg_error_set(error, BG_ERROR_NOT_FOUND,
                            "%s:%s: a folder of images has no part of that name; use %s (its images) or %s:classes",
                            p->path, p->part, p->path, p->path);
    BGI_TRY(bgi_images_read_classes(p->path, &classes, error));
    status = bgi_dataset_own_arrays(&classes, 1, out, error);
    bg_array_clear(&classes);
    return status;
}

static bg_status open_file(const place *p, bg_dataset **out, bg_error *error)
{
    bg_array array = {.data = NULL};
    bg_status status;

    BGI_TRY(read_file(p, &array, error));
    if (array.type.rank == 0)
        status =
            bg_error_set(error, BG_ERROR_SHAPE, "is a single number but must have a first dimension for the samples");
    else
        status = bgi_dataset_own_arrays(&array, 1, out, error);
    bg_array_clear(&array);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", p->path);
}

bg_status bg_dataset_open(const char *source, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    place p;
    bg_status status;

    BGI_TRY(find_place(source, &p, error));
    status = p.is_folder ? open_folder(&p, out, error) : open_file(&p, out, error);
    free(p.path);
    return status;
}

/* ---- complete rows of a table ---- */

/* Reads one list of columns of the table, without the rows in which a column of `all` has no number. */
static bg_status open_list(const char *path, const char *content, size_t size_bytes, const column_list *list,
                           const bgi_csv_columns *all, bg_dataset **out, uint64_t *out_skipped, bg_error *error)
{
    const bg_csv_options options = {.has_no_header = !bgi_csv_has_header(content, size_bytes),
                                    .skip_incomplete = true,
                                    .columns = list->names,
                                    .column_count = list->count,
                                    .out_skipped = out_skipped};
    bg_array array = {.data = NULL};
    bg_status status;

    BGI_TRY(bgi_csv_parse(path, content, size_bytes, &options, all, &array, NULL, error));
    drop_single(&array);
    status = bgi_dataset_own_arrays(&array, 1, out, error);
    bg_array_clear(&array);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", path);
}

static bg_status open_lists(const char *path, const char *content, size_t size_bytes, const column_list *lists,
                            uint32_t count, bg_dataset **out, uint64_t *out_skipped, bg_error *error)
{
    const char **names = calloc((size_t)count * LARGEST_COLUMN_LIST, sizeof *names);
    bgi_csv_columns all = {.names = names};
    bg_status status = BG_OK;

    if (names == NULL)
        return bgi_error_memory(error, "a list of columns", (size_t)count * LARGEST_COLUMN_LIST * sizeof *names);
    for (uint32_t i = 0; i < count; i++) {
        all.has_all = all.has_all || lists[i].count == 0;
        for (uint32_t k = 0; k < lists[i].count; k++)
            names[all.count++] = lists[i].names[k];
    }
    for (uint32_t i = 0; status == BG_OK && i < count; i++)
        status = open_list(path, content, size_bytes, &lists[i], &all, &out[i], out_skipped, error);
    free(names);
    return status;
}

static bg_status check_table(const place *p, const place *first, bg_error *error)
{
    if (p->is_folder || p->kind != BGI_SOURCE_CSV)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: rows with missing values can be left out only of a CSV file (a name ending in .csv)",
                            p->path);
    if (strcmp(p->path, first->path) == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s and %s are different files, whose rows cannot be left out together; put all columns into "
                        "one CSV file",
                        first->path, p->path);
}

bg_status bgi_sources_open_complete(const char *const *sources, uint32_t count, bg_dataset **out, uint64_t *out_skipped,
                                    bg_error *error)
{
    place places[BG_DATASET_MAX_TENSORS] = {{.path = NULL}};
    column_list lists[BG_DATASET_MAX_TENSORS] = {{.text = NULL}};
    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < count; i++)
        out[i] = NULL;
    for (uint32_t i = 0; status == BG_OK && i < count; i++) {
        status = find_place(sources[i], &places[i], error);
        if (status == BG_OK)
            status = check_table(&places[i], &places[0], error);
        if (status == BG_OK)
            status = make_list(places[i].path, places[i].part, &lists[i], error);
    }
    if (status == BG_OK)
        status = bgi_file_load(places[0].path, LARGEST_SOURCE_BYTES, &content, &size_bytes, error);
    if (status == BG_OK)
        status = open_lists(places[0].path, content, size_bytes, lists, count, out, out_skipped, error);
    for (uint32_t i = 0; i < count; i++) {
        if (status != BG_OK) {
            bg_dataset_destroy(out[i]);
            out[i] = NULL;
        }
        clear_list(&lists[i]);
        free(places[i].path);
    }
    free(content);
    return status;
}
