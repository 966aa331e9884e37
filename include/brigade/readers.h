/*
 * readers.h: files as arrays and data sets: NumPy's .npy and .npz, tokens (raw, TFRecord), CSV, folders of PNG images.
 *
 * Messages about an error in a file have the file's name and the position in it. A reader allocates at most about a
 * thousand times the file's size.
 *
 * Threads: any thread may call these functions at any time; one thread at a time uses a result.
 *
 * Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE (the content is wrong), BG_ERROR_UNSUPPORTED (the content is
 * valid, but this library does not support it), BG_ERROR_INVALID (an option), BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_READERS_H
#define BRIGADE_READERS_H

#include <brigade/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- NumPy ---- */

/*
 * Reads an array from a .npy file (format 1, 2 or 3) with at most 6 dimensions, none of which has size 0. Element
 * types: float16, float32, float64 and uint8 are kept; bool becomes uint8; int8, int16, int32 and uint16 become int32;
 * int64, uint32 and uint64 become int32 if every value fits, otherwise int64 (BG_ERROR_PARSE if a value does not fit
 * int64). Both byte orders are supported. Fortran order becomes C order.
 */
BG_API bg_status bg_npy_read(const char *path, bg_array *out, bg_error *error);

/* The arrays of a .npz file, stored or deflated, in the file's order. Clear it with bg_npz_clear; a zeroed struct is
 * empty. */
typedef struct bg_npz {
    uint32_t count;
    char **names; /* without ".npy" */
    bg_array *arrays;
} bg_npz;

BG_API bg_status bg_npz_read(const char *path, bg_npz *out, bg_error *error);
BG_API void bg_npz_clear(bg_npz *npz);
BG_API const bg_array *bg_npz_find(const bg_npz *npz, const char *name); /* NULL if the file has no such array */

/* Opens .npy files as a data set. Each array becomes one tensor of the samples; its first dimension counts samples. */
BG_API bg_status bg_dataset_open_npy(const char *const *paths, uint32_t path_count, bg_dataset **out, bg_error *error);

/* Opens the named arrays of one .npz file as a data set, whose tensors have the order of `names`; name_count 0: all
 * arrays, in the file's order. */
BG_API bg_status bg_dataset_open_npz(const char *path, const char *const *names, uint32_t name_count, bg_dataset **out,
                                     bg_error *error);

/* Writes a .npy file of format 1, which appears complete or not at all. Errors: BG_ERROR_UNSUPPORTED (bfloat16, which
 * NumPy does not have), BG_ERROR_SHAPE, BG_ERROR_IO, BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_MEMORY. */
BG_API bg_status bg_npy_write(const char *path, const bg_array *array, bg_error *error);

/* ---- tokens ---- */

typedef struct bg_tokens_options {
    size_t struct_bytes;      /* 0, or sizeof(bg_tokens_options): see base.h */
    uint32_t sequence_length; /* S, at least 1 */
    uint32_t vocabulary_size; /* every token must be below this; 0: below 2^31 */
    /* These two are for raw token files; they must be 0 for TFRecord files. */
    uint32_t token_bytes; /* bytes of a token, 2 or 4, little-endian unsigned; 0: the ending of the file's name decides,
                             .u16 or .u32 */
    uint32_t stride;      /* distance between the first tokens of two consecutive samples; 0: S */
    /* For TFRecord files; must be NULL for raw token files. */
    const char *feature; /* the feature with the tokens; NULL: "input_ids" */
} bg_tokens_options;

/* Opens a raw token file. A small file is read into memory; from a large one, samples are read when they are requested.
 * Sample k is int32 [S + 1]: tokens k * stride ... k * stride + S, which contain the inputs and the labels (the inputs
 * shifted by one). A token that is too large is an error when its sample is read. */
BG_API bg_status bg_dataset_open_tokens(const char *path, const bg_tokens_options *options, bg_dataset **out,
                                        bg_error *error);

/* Opens a TFRecord file. Each record is a tf.train.Example with a list of int64. Sample k is int32 [S + 1], the first
 * tokens of record k. A record is read when its sample is requested; one with fewer tokens, or with a wrong checksum,
 * is an error. If there is an index file (PATH.index, or .index instead of .tfrecord; lines "OFFSET SIZE"), the
 * samples are the records that it lists; otherwise they are all records. */
BG_API bg_status bg_dataset_open_tfrecord(const char *path, const bg_tokens_options *options, bg_dataset **out,
                                          bg_error *error);

/* ---- CSV ---- */

typedef struct bg_csv_options {
    size_t struct_bytes; /* 0, or sizeof(bg_csv_options): see base.h */
    char delimiter;      /* 0: a comma */
    bool has_no_header;
    /* Leaves out each row in which a column that is read has no number: a blank field, NA, N/A, null, none, nan or inf,
     * in upper or lower case. False: such a field is an error. Other text is always an error. */
    bool skip_incomplete;
    /* Columns of the features, as names in the header or numbers from 0; column_count 0: all columns except the
     * label. */
    const char *const *columns;
    uint32_t column_count;
    const char *label;     /* name or number of a column of whole numbers; NULL: no label */
    uint64_t *out_skipped; /* receives, on success, the number of rows that were left out; NULL: not needed */
} bg_csv_options;

/*
 * Reads a table of numbers. Lines end with LF or CRLF, fields may be enclosed in double quotes (a doubled quote is a
 * literal one), and every line has as many fields as the first. *out_features is float32 [rows, columns]; *out_labels
 * int32 [rows], unchanged without a label. Messages about the content have the line and the column. Errors:
 * BG_ERROR_PARSE (also if skip_incomplete leaves out every row), BG_ERROR_NOT_FOUND (no such file or column),
 * BG_ERROR_INVALID, BG_ERROR_IO, BG_ERROR_MEMORY.
 */
BG_API bg_status bg_csv_read(const char *path, const bg_csv_options *options, bg_array *out_features,
                             bg_array *out_labels, bg_error *error);

/* Opens a table as a data set. A sample has float32 [columns], and int32 [] if there is a label. With skip_incomplete,
 * open all columns that belong together as one data set, and divide its samples with bg_dataset_map: bg_dataset_zip
 * refuses data sets that leave out different rows. */
BG_API bg_status bg_dataset_open_csv(const char *path, const bg_csv_options *options, bg_dataset **out,
                                     bg_error *error);

/* ---- images ---- */

/* Reads a PNG with at most 8 bits per channel, or with a palette, as uint8 [channels, rows, columns]. `channels`: 1
 * (gray), 3 (RGB), 4 (RGBA), or 0 for those of the image. Colors become gray as 0.299 R + 0.587 G + 0.114 B, a missing
 * alpha channel is 255, and a surplus alpha channel is dropped. */
BG_API bg_status bg_png_read(const char *path, uint32_t channels, bg_array *out, bg_error *error);

/*
 * Opens a folder with one folder for each class as a data set. Classes and the .png files of each class are in the
 * order of their names (bytes). A sample is the image, uint8 [channels, rows, columns], and its class, int32 []. Images
 * are read on demand; all must have the size of the first image. `channels` is as in bg_png_read, but 0 means those of
 * the first image.
 */
BG_API bg_status bg_dataset_open_images(const char *folder, uint32_t channels, bg_dataset **out, bg_error *error);

/* ---- data by name ---- */

/*
 * Opens a data set with one tensor from a file. `source` is the file's path, and may name a part of the file after a
 * colon:
 *
 *     images.npy                     the array's first dimension is that of the samples
 *     digits.npz:x                   an array; a file of one array needs no name
 *     batch.safetensors:labels       a tensor of a file; only this one is read
 *     table.csv:rooms,area           columns, by the header's names or numbers from 0; one column is a number for
 *                                    each sample, several are a vector; none named: all. The first line is a header
 *                                    if its first field is a name, or is blank and all others are names
 *     train-images-idx3-ubyte.gz     an IDX file: any other ending
 *     photos, photos:classes         a folder of images (bg_dataset_open_images), and the classes of the same images
 *
 * Element types are those of the reader for the kind of file. Errors: those of all readers, BG_ERROR_SHAPE (a single
 * number).
 */
BG_API bg_status bg_dataset_open(const char *source, bg_dataset **out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
