/*
 * data.h: where samples come from: IDX files, MNIST, generated digits, data sets in memory or behind a callback, and
 * the loader that shuffles them into batches ahead of the consumer.
 *
 * Nothing here looks at the environment, prints, or knows what a batch is used for.
 */
#ifndef BRIGADE_DATA_H
#define BRIGADE_DATA_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays ---- */

/* A dense row-major value in memory of its own. All-zero is valid and empty. */
typedef struct bg_array {
    bg_type type;
    void *data; /* malloc'ed */
} bg_array;

/* Zeroed memory for `type`. Errors: BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
BG_API bg_status bg_array_init(bg_array *array, const bg_type *type, bg_error *error);

/* Frees and zeroes. */
BG_API void bg_array_clear(bg_array *array);

/* ---- IDX files (the format of the MNIST files) ---- */

/*
 * Reads an IDX file of uint8 with 1 to 4 dimensions, plain or gzipped (told by its content, not its name). A file whose
 * size does not agree with its header is refused, as are headers that promise more than 2 GiB; a hostile file makes
 * the reader allocate no more than about a thousand times the file's own size.
 * Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE (with the byte offset), BG_ERROR_UNSUPPORTED (another
 * element type or rank), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_idx_read(const char *path, bg_array *out, bg_error *error);

/* Writes a uint8 array of rank 1 to 4, gzipped when the path ends in ".gz". The file appears complete or not at all. */
BG_API bg_status bg_idx_write(const char *path, const bg_array *array, bg_error *error);

/* ---- labelled images ---- */

typedef struct bg_image_set {
    bg_array images; /* uint8 [count, rows, columns] */
    bg_array labels; /* uint8 [count], each below class_count */
    uint32_t class_count;
    char *source; /* for people: the folder, or how it was made; malloc'ed */
} bg_image_set;

BG_API void bg_image_set_clear(bg_image_set *set);

/* Reads a pair of IDX files that belong together. Beyond bg_idx_read's errors: BG_ERROR_PARSE when the ranks are wrong,
 * the counts differ, or a label is not below class_count (naming its index). */
BG_API bg_status bg_image_set_read(const char *images_path, const char *labels_path, uint32_t class_count,
                                   bg_image_set *out, bg_error *error);

/* Writes both files under the names bg_mnist_load looks for, into an existing folder. */
BG_API bg_status bg_image_set_write_mnist(const bg_image_set *set, const char *folder, bool is_training, bool compress,
                                          bg_error *error);

/* ---- MNIST ---- */

typedef enum bg_mnist_split { BG_MNIST_TRAIN, BG_MNIST_TEST } bg_mnist_split;

/*
 * Looks for the MNIST files in each folder in turn, and in its mnist/ sub-folder, under the names
 * train-images-idx3-ubyte and train-images.idx3-ubyte (t10k-... for the test split), each also with .gz. The first
 * folder that has both images and labels is read. NULL folders are skipped.
 * Errors: BG_ERROR_NOT_FOUND (listing where it looked); a file that is there but bad is an error of its own.
 */
BG_API bg_status bg_mnist_load(const char *const *folders, size_t folder_count, bg_mnist_split split, bg_image_set *out,
                               bg_error *error);

/* Bytes so far of one file; total_bytes is 0 while unknown. Return false to cancel. */
typedef bool (*bg_download_progress)(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes);

typedef struct bg_mnist_download_options {
    const char *folder;         /* created when missing */
    const char *const *mirrors; /* base addresses, tried in order for each file; NULL: public ones */
    size_t mirror_count;
    bg_download_progress progress; /* may be NULL */
    void *user;
    /* MD5 of the four unpacked files in the order train images, train labels, test images, test labels; NULL: those of
     * the canonical MNIST. For mirrors of other sets in the same format (Fashion-MNIST and others). */
    const char *const *md5;
} bg_mnist_download_options;

BG_API bg_mnist_download_options bg_mnist_download_options_default(const char *folder);

/*
 * Fetches the four files (12 MB) that are not in the folder yet, checks each one's MD5 after unpacking, and only then
 * gives it its name. Errors: BG_ERROR_IO (every mirror failed; what each said), BG_ERROR_CANCELLED.
 * libcurl initialises itself on first use: do not call this from two threads at once.
 */
BG_API bg_status bg_mnist_download(const bg_mnist_download_options *options, bg_error *error);

/* ---- generated digits ---- */

/*
 * Handwriting-like digits 0..9 on 28 x 28 uint8 (0 background, 255 ink) drawn from strokes, for when there is no data
 * set at hand: about as hard for a small convolutional network as MNIST is. Sample i is a function of (seed, i) alone,
 * so threads or processes can each make a part, and disjoint index ranges are disjoint sets.
 */
typedef struct bg_digits_options {
    uint64_t seed;
    uint64_t first_index; /* of the samples made */
    uint64_t count;
} bg_digits_options;

enum { BG_DIGITS_ROWS = 28, BG_DIGITS_COLUMNS = 28, BG_DIGITS_CLASSES = 10 };

/* images: count * 784 bytes; labels: count bytes. */
BG_API void bg_digits_generate(const bg_digits_options *options, uint8_t *images, uint8_t *labels);

/* The same in memory of its own. Errors: BG_ERROR_INVALID (count 0), BG_ERROR_MEMORY. */
BG_API bg_status bg_digits_create(const bg_digits_options *options, bg_image_set *out, bg_error *error);

/* ---- data sets ---- */

/*
 * Samples that can be asked for by index. Every sample has the same tensors with the same types. Immutable; any number
 * of loaders and threads may share one.
 */
typedef struct bg_dataset bg_dataset;

/*
 * A user's samples: writes tensor t of the sample to outputs[t] (the size of sample_types[t]). Called by several
 * threads at once when the loader has several workers. `epoch` is for augmentation: results that depend on nothing but
 * (epoch, sample_index) keep runs reproducible. On failure fill `error` (bg_error_set) and return its status.
 */
typedef bg_status (*bg_dataset_get)(void *user, uint64_t epoch, uint64_t sample_index, void *const outputs[],
                                    bg_error *error);

enum { BG_DATASET_MAX_TENSORS = 16 };

typedef struct bg_dataset_options {
    uint64_t sample_count; /* 1 to 2^32 - 1 */
    uint32_t tensor_count; /* 1 to BG_DATASET_MAX_TENSORS */
    const bg_type *sample_types;
    bg_dataset_get get;
    void *user;
} bg_dataset_options;

/* Errors: BG_ERROR_INVALID, BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
BG_API bg_status bg_dataset_create(const bg_dataset_options *options, bg_dataset **out, bg_error *error);

/* Samples along the first dimension of arrays that agree in it. The arrays' data are borrowed, not copied: they must
 * outlive the data set. */
BG_API bg_status bg_dataset_create_arrays(const bg_array *arrays, uint32_t array_count, bg_dataset **out,
                                          bg_error *error);

BG_API void bg_dataset_destroy(bg_dataset *dataset);
BG_API uint64_t bg_dataset_sample_count(const bg_dataset *dataset);
BG_API uint32_t bg_dataset_tensor_count(const bg_dataset *dataset);
BG_API const bg_type *bg_dataset_sample_type(const bg_dataset *dataset, uint32_t tensor_index);

/* ---- loader ---- */

/*
 * Batches of a data set, in an order that is a function of (seed, epoch) and never of the number of workers. Workers
 * fill a ring of batches ahead of the consumer, on into the next epoch, and sleep when it is full. Nothing is allocated
 * after creation. One thread consumes.
 */
typedef struct bg_loader bg_loader;

typedef struct bg_loader_options {
    uint64_t batch_size; /* samples in a batch: the combined batch size of one run call */
    bool shuffle;        /* a new order each epoch; otherwise ascending */
    bool drop_last;      /* leave out the remainder; otherwise the last batch is smaller */
    /* With drop_last off: fills the last batch up to a multiple of this many samples (a divisor of batch_size; 0: it
     * stays as small as it is). Data made for it have pad_samples[t] as tensor t's sample (its bytes; copied), zeros
     * where pad_samples or one of them is NULL: a label that the loss ignores, for instance. */
    uint64_t pad_multiple;
    const void *const *pad_samples;
    uint64_t seed;           /* of the order */
    uint32_t worker_count;   /* 0: batches are made in the caller, when asked for */
    uint32_t prefetch_depth; /* batches ready ahead of the one in use, at least 1 */
    /* This process's part when several share the data set. All draw the same order and take disjoint parts of equal
     * size (with drop_last; else the first ones take one sample more). With drop_last the part shifts by what was left
     * over in odd epochs, so that every sample is seen. */
    uint32_t process_index;
    uint32_t process_count;
} bg_loader_options;

/* batch_size 1, no shuffle, drop_last, no padding, seed 0, 1 worker, depth 3, process 0 of 1. */
BG_API bg_loader_options bg_loader_options_default(void);

typedef struct bg_batch {
    const void *const *tensors; /* [tensor_count], each [sample_count, sample dims...] */
    uint64_t sample_count; /* below batch_size only in a last batch; 0: the epoch has ended, there are no tensors */
    uint64_t valid_count;  /* of these, the first ones, that are the data set's; the others were made (pad_multiple) */
    uint64_t position;     /* of the batch in its epoch, from 0 */
    uint64_t epoch;
} bg_batch;

/* Borrows the data set. Workers sleep until the first bg_loader_begin_epoch. Errors: BG_ERROR_INVALID (an option; or
 * fewer samples than one batch with drop_last), BG_ERROR_MEMORY, BG_ERROR_IO (a thread could not be started). */
BG_API bg_status bg_loader_create(const bg_dataset *dataset, const bg_loader_options *options, bg_loader **out,
                                  bg_error *error);

/* Waits for calls of bg_dataset_get in progress and ends the workers. */
BG_API void bg_loader_destroy(bg_loader *loader);

BG_API uint64_t bg_loader_batch_count(const bg_loader *loader); /* in an epoch */
BG_API uint64_t bg_loader_batch_size(const bg_loader *loader);

/*
 * Goes to the beginning of an epoch, from wherever the loader is. The epoch after the one that just ended is already
 * being prepared; any other choice (a restart, a jump after a resume) drops what was prepared. Batches handed out
 * before are no longer valid. Also the way to go on after an error.
 */
BG_API bg_status bg_loader_begin_epoch(bg_loader *loader, uint64_t epoch, bg_error *error);

/* As above, from batch `position` of the epoch on (to resume in the middle); position may be the epoch's batch count.
 */
BG_API bg_status bg_loader_begin_at(bg_loader *loader, uint64_t epoch, uint64_t position, bg_error *error);

/*
 * The next batch of the epoch; waits for it when it is not ready. It is valid until the next call on this loader.
 * At the end of the epoch the status is BG_OK and out->sample_count is 0, as often as one asks.
 * Errors: what the data set's callback returned, with the sample's index; the same again until bg_loader_begin_epoch.
 * BG_ERROR_INVALID when no epoch was begun.
 */
BG_API bg_status bg_loader_next(bg_loader *loader, bg_batch *out, bg_error *error);

/* How well the loader keeps up, since its creation. */
typedef struct bg_loader_statistics {
    uint64_t batch_count; /* handed out */
    uint64_t miss_count;  /* of these, how many the consumer had to wait for */
    uint64_t wait_ns;     /* the consumer's waiting, all together */
} bg_loader_statistics;

BG_API bg_loader_statistics bg_loader_statistics_of(const bg_loader *loader);

#ifdef __cplusplus
}
#endif

#endif
