/*
 * data.h: sources of samples (IDX files, MNIST, generated digits, data sets in memory or behind a callback), and the
 * loader that shuffles samples into batches ahead of the consumer.
 *
 * These functions neither read the environment nor print.
 *
 * Threads: any number of threads may read one data set; one thread at a time uses a loader. bg_loader_help may be
 * called by any thread.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_MEMORY. If
 * a callback fails, the function returns the callback's status.
 */
#ifndef BRIGADE_DATA_H
#define BRIGADE_DATA_H

#include <brigade/feed.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- IDX files (the format of the MNIST files) ---- */

/*
 * Reads an IDX file of uint8 with 1 to 4 dimensions, plain or gzipped (recognized by its content, not its name). A file
 * whose size does not agree with its header is refused, and so is a header that describes more than 2 GiB. The reader
 * never allocates more than about a thousand times the file's own size. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO,
 * BG_ERROR_PARSE (with the byte offset), BG_ERROR_UNSUPPORTED (another element type or rank), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_idx_read(const char *path, bg_array *out, bg_error *error);

/* Writes a uint8 array of rank 1 to 4, gzipped when the path ends in ".gz". The file appears complete or not at all. */
BG_API bg_status bg_idx_write(const char *path, const bg_array *array, bg_error *error);

/* ---- labeled images ---- */

typedef struct bg_image_set {
    bg_array images; /* uint8 [count, rows, columns] */
    bg_array labels; /* uint8 [count], each below class_count */
    uint32_t class_count;
    char *source; /* description for users: the folder, or how the set was made; malloc'ed */
} bg_image_set;

BG_API void bg_image_set_clear(bg_image_set *set);

/* Reads a pair of IDX files that belong together. Beyond bg_idx_read's errors: BG_ERROR_PARSE when the ranks are wrong,
 * the counts differ, or a label is not below class_count (the message has its index). */
BG_API bg_status bg_image_set_read(const char *images_path, const char *labels_path, uint32_t class_count,
                                   bg_image_set *out, bg_error *error);

/* Writes the images and the labels to two files in an existing folder, under the names that bg_mnist_load looks for. */
BG_API bg_status bg_image_set_write_mnist(const bg_image_set *set, const char *folder, bool is_training, bool compress,
                                          bg_error *error);

/* ---- MNIST ---- */

/*
 * Looks for the MNIST files in each folder in turn, and in its mnist/ sub-folder, under the names
 * train-images-idx3-ubyte and train-images.idx3-ubyte (t10k-... for the test split), each also with .gz. The function
 * reads the first folder that has both images and labels. NULL folders are skipped. `is_training` false: the test
 * split. Errors: BG_ERROR_NOT_FOUND (the message lists the searched folders); for a file that exists but is invalid,
 * those of bg_image_set_read.
 */
BG_API bg_status bg_mnist_load(const char *const *folders, size_t folder_count, bool is_training, bg_image_set *out,
                               bg_error *error);

typedef struct bg_mnist_download_options {
    size_t struct_bytes;        /* set by bg_mnist_download_options_defaults; see base.h */
    const char *folder;         /* created when missing */
    const char *const *mirrors; /* base addresses, tried in order for each file; NULL: public ones */
    size_t mirror_count;
    /* Called while a file is downloaded; total_bytes is 0 while unknown. Returns false to cancel. May be NULL. */
    bool (*progress)(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
    /* MD5 of the four unpacked files in the order train images, train labels, test images, test labels; NULL: those of
     * the canonical MNIST. Set this field for mirrors of other data in the same format, such as Fashion-MNIST. */
    const char *const *md5;
} bg_mnist_download_options;

BG_API void bg_mnist_download_options_init(bg_mnist_download_options *options, size_t struct_bytes, const char *folder);
static inline bg_mnist_download_options bg_mnist_download_options_defaults(const char *folder)
{
    bg_mnist_download_options options;

    bg_mnist_download_options_init(&options, sizeof options, folder);
    return options;
}

/*
 * Downloads each of the four files (12 MB together) that the folder lacks. A file gets its final name only after the
 * MD5 of its unpacked content was checked. Errors: BG_ERROR_IO (every mirror failed; the message has the error of
 * each), BG_ERROR_CANCELED. Only one thread at a time may call the function, because libcurl initializes itself on
 * first use.
 */
BG_API bg_status bg_mnist_download(const bg_mnist_download_options *options, bg_error *error);

/* ---- generated digits ---- */

/*
 * Handwriting-like digits 0..9 on 28 x 28 uint8 (0 background, 255 ink) drawn from strokes, for use without a data set.
 * The digits are about as hard for a small convolutional network as MNIST. Sample i depends only on (seed, i), so
 * threads or processes can each generate a part, and disjoint ranges of indices give different samples.
 */
typedef struct bg_digits_options {
    size_t struct_bytes; /* 0, or sizeof(bg_digits_options): see base.h */
    uint64_t seed;
    uint64_t first_index; /* index of the first generated sample */
    uint64_t count;
} bg_digits_options;

enum { BG_DIGITS_ROWS = 28, BG_DIGITS_COLUMNS = 28, BG_DIGITS_CLASSES = 10 };

/* Generates the digits. `images` has count * 784 bytes, `labels` count bytes. */
BG_API void bg_digits_generate(const bg_digits_options *options, uint8_t *images, uint8_t *labels);

/* Generates the same digits in memory that the function allocates. Errors: BG_ERROR_INVALID (a count of 0 or of 2^31 or
 * more), BG_ERROR_MEMORY. */
BG_API bg_status bg_digits_create(const bg_digits_options *options, bg_image_set *out, bg_error *error);

/* ---- data sets ---- */

/*
 * A set of samples that are read by index. Every sample has the same number of tensors with the same types. A data set
 * does not change, so any number of loaders and threads may share it. The functions of brigade/readers.h make data sets
 * from files.
 */
typedef struct bg_dataset bg_dataset;

enum { BG_DATASET_MAX_TENSORS = BG_INFEED_MAX_TENSORS };

typedef struct bg_dataset_options {
    size_t struct_bytes;   /* 0, or sizeof(bg_dataset_options): see base.h */
    uint64_t sample_count; /* 1 to 2^32 - 1 */
    uint32_t tensor_count; /* 1 to BG_DATASET_MAX_TENSORS */
    const bg_type *sample_types;
    /* Writes tensor t of a sample to outputs[t], which has the size of sample_types[t]. Several threads call the
     * function at once when the loader has several workers. `epoch` is for augmentation: runs are reproducible if
     * results depend only on (epoch, sample_index). On failure fill `error` (bg_error_set) and return its status. */
    bg_status (*get)(void *user, uint64_t epoch, uint64_t sample_index, void *const outputs[], bg_error *error);
    void *user;
} bg_dataset_options;

/* Creates a data set whose samples a callback writes. Errors: BG_ERROR_INVALID, BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
BG_API bg_status bg_dataset_create(const bg_dataset_options *options, bg_dataset **out, bg_error *error);

/* Makes a data set whose samples lie along the first dimension of the arrays, which have the same size there. The data
 * set borrows the arrays' data without a copy, so the arrays must outlive the data set. */
BG_API bg_status bg_dataset_create_arrays(const bg_array *arrays, uint32_t array_count, bg_dataset **out,
                                          bg_error *error);

/* Releases the caller's reference. Data sets that were made from `dataset` keep it alive. */
BG_API void bg_dataset_destroy(bg_dataset *dataset);
BG_API uint64_t bg_dataset_sample_count(const bg_dataset *dataset);
BG_API uint32_t bg_dataset_tensor_count(const bg_dataset *dataset);
BG_API const bg_type *bg_dataset_sample_type(const bg_dataset *dataset, uint32_t tensor_index);

/* ---- data sets made from data sets ---- */

/*
 * Each of these data sets is lazy: a sample is read only when it is requested. Each holds a reference to its source, so
 * the caller may destroy the source right after the call. Sample i of epoch e is always a function of (e, i), so the
 * order does not depend on the number of workers, and a run can resume at any sample. Errors: BG_ERROR_INVALID,
 * BG_ERROR_MEMORY.
 */

/* Makes a data set of the first `count` samples, or of all if the source has fewer. */
BG_API bg_status bg_dataset_take(bg_dataset *source, uint64_t count, bg_dataset **out, bg_error *error);

/* Makes a data set of all samples except the first `count`; the source must have more than `count`. */
BG_API bg_status bg_dataset_skip(bg_dataset *source, uint64_t count, bg_dataset **out, bg_error *error);

/* Makes a data set of the samples of the first source, then those of the second, and so on. The tensors of all sources
 * must have the same types (BG_ERROR_SHAPE). */
BG_API bg_status bg_dataset_concatenate(bg_dataset *const *sources, uint32_t source_count, bg_dataset **out,
                                        bg_error *error);

/* Makes a data set of every `shard_count`-th sample, from sample `shard_index` on. */
BG_API bg_status bg_dataset_shard(bg_dataset *source, uint32_t shard_index, uint32_t shard_count, bg_dataset **out,
                                  bg_error *error);

/* Makes a data set whose epoch e consists of the source's epochs count * e ... count * e + count - 1, one after the
 * other. */
BG_API bg_status bg_dataset_repeat(bg_dataset *source, uint32_t count, bg_dataset **out, bg_error *error);

/*
 * Shuffles the source: the order in an epoch is a function of (seed, epoch). `buffer` 0: a sample may come at any
 * position. Otherwise the order is that of a shuffle buffer of this many samples: each sample is drawn from the buffer,
 * and the next sample of the source replaces it. Sample i is therefore read at position i - buffer + 1 at the earliest.
 * Memory: 8 bytes per sample.
 */
BG_API bg_status bg_dataset_shuffle(bg_dataset *source, uint64_t buffer, uint64_t seed, bg_dataset **out,
                                    bg_error *error);

/* Makes a data set that keeps every sample in memory after its first use, for all epochs. Apply random transformations
 * to the cached set, not to its source. */
BG_API bg_status bg_dataset_cache(bg_dataset *source, bg_dataset **out, bg_error *error);

typedef struct bg_dataset_map_options {
    size_t struct_bytes;   /* 0, or sizeof(bg_dataset_map_options): see base.h */
    uint32_t tensor_count; /* number of tensors of the new samples; 0: the number and types of the source's */
    const bg_type *sample_types;
    /* Makes a sample of new tensors from a sample of the source: inputs[t] is tensor t of the source's sample,
     * outputs[t] tensor t of the new one. Several threads call the function at once. Random numbers that depend only on
     * a seed, `epoch` and `sample_index` are the same for any number of workers. On failure fill `error` and return its
     * status. */
    bg_status (*map)(void *user, uint64_t epoch, uint64_t sample_index, const void *const inputs[],
                     void *const outputs[], bg_error *error);
    void *user;
} bg_dataset_map_options;

BG_API bg_status bg_dataset_map(bg_dataset *source, const bg_dataset_map_options *options, bg_dataset **out,
                                bg_error *error);

/* bg_dataset_normalize converts tensor `tensor_index` from uint8 to float32: ((x / 255) - mean) / deviation,
 * bit-identical to torchvision. There is one mean and one deviation for all elements (channel_count 1), or one for each
 * plane of the tensor's first dimension. */
typedef struct bg_normalize_options {
    size_t struct_bytes; /* 0, or sizeof(bg_normalize_options): see base.h */
    uint32_t tensor_index;
    uint32_t channel_count;
    const float *means;
    const float *deviations; /* each not 0 */
} bg_normalize_options;

BG_API bg_status bg_dataset_normalize(bg_dataset *source, const bg_normalize_options *options, bg_dataset **out,
                                      bg_error *error);

/* Makes samples that have the tensors of all sources, in their order. All sources must have the same number of samples
 * (BG_ERROR_SHAPE). Tables opened with skip_incomplete must leave out the same rows (BG_ERROR_INVALID). */
BG_API bg_status bg_dataset_zip(bg_dataset *const *sources, uint32_t source_count, bg_dataset **out, bg_error *error);

/* bg_dataset_convert converts tensor `tensor_index` to another element type and shape. Values do not change. If an
 * integer does not fit the type, or a fraction would become an integer, reading the sample fails (BG_ERROR_PARSE). If
 * channel_count is not 0, the result has a float type and is computed in float32: ((x / 255) - mean) / deviation for
 * uint8, and (x - mean) / deviation for other types. There is one mean and one deviation for all elements
 * (channel_count 1), or one for each plane of the source's first dimension. */
typedef struct bg_convert_options {
    size_t struct_bytes; /* 0, or sizeof(bg_convert_options): see base.h */
    uint32_t tensor_index;
    bg_type type;           /* must have the source's number of elements */
    uint32_t channel_count; /* 0: values do not change */
    const float *means;
    const float *deviations; /* each not 0 */
} bg_convert_options;

/* Errors: BG_ERROR_SHAPE (another number of elements), BG_ERROR_INVALID, BG_ERROR_MEMORY. */
BG_API bg_status bg_dataset_convert(bg_dataset *source, const bg_convert_options *options, bg_dataset **out,
                                    bg_error *error);

/* ---- streams ---- */

/*
 * Samples that can only be read in sequence. A stream is opened once for each shard of each epoch, and a shard must
 * provide only its part of the samples: if every shard provided all samples, each sample would come shard_count times.
 */
typedef struct bg_stream_shard {
    uint64_t epoch;
    uint32_t index;
    uint32_t count;
    uint64_t seed; /* the shard's seed: a function of the loader's seed, the epoch and the index */
} bg_stream_shard;

typedef struct bg_sample_stream {
    size_t struct_bytes;   /* 0, or sizeof(bg_sample_stream): see base.h */
    uint32_t tensor_count; /* 1 to BG_DATASET_MAX_TENSORS */
    const bg_type *sample_types;
    void *user;
    /* Begins a shard. *out_iterator is passed to the other two functions. Several threads may open, read and close
     * different shards at once; one thread at a time uses one shard. */
    bg_status (*open)(void *user, const bg_stream_shard *shard, void **out_iterator, bg_error *error);
    /* Writes the next sample, or sets *out_has_sample to false at the end of the shard. */
    bg_status (*next)(void *iterator, void *const outputs[], bool *out_has_sample, bg_error *error);
    /* Called once for every successful open; may be NULL. */
    void (*close)(void *iterator);
} bg_sample_stream;

/* Returns a stream of a data set's samples. Shard i of n has up to ceil(count / n) samples, from sample i * ceil(count
 * / n) on. The data set must outlive the stream. */
BG_API bg_sample_stream bg_dataset_stream(const bg_dataset *dataset);

/* ---- loader ---- */

/*
 * Batches of a data set, in an order that is a function of (seed, epoch) and never of the number of workers. Workers
 * fill a ring of batches ahead of the consumer, also across the end of an epoch, and sleep when the ring is full.
 * Nothing is allocated after creation. One thread consumes the batches.
 */
typedef struct bg_loader bg_loader;

typedef enum bg_loader_mode {
    BG_LOADER_ASYNC,           /* threads prepare batches ahead; with 0 workers the same as BG_LOADER_SYNC */
    BG_LOADER_SYNC,            /* batches are made in the caller, on demand */
    BG_LOADER_ASYNC_REBATCHED, /* like ASYNC, but for a stream the remainders of all shards are joined into batches */
    BG_LOADER_MODE_COUNT
} bg_loader_mode;

typedef struct bg_loader_options {
    size_t struct_bytes; /* set by bg_loader_options_defaults; see base.h */
    bg_loader_mode mode;
    uint64_t batch_size; /* samples in a batch: the combined batch size of one run call */
    bool shuffle;        /* a new order each epoch; otherwise ascending */
    bool drop_last;      /* leave out the remainder; otherwise the last batch is smaller */
    /* Without drop_last: the last batch is filled up to a multiple of this number of samples, which divides batch_size;
     * 0: it is not filled. Tensor t of an added sample has the bytes pad_samples[t] (copied when the loader is
     * created), for instance a label that the loss ignores, or zeros if pad_samples or pad_samples[t] is NULL. */
    uint64_t pad_multiple;
    const void *const *pad_samples;
    uint64_t shuffle_buffer; /* with shuffle: the buffer of bg_dataset_shuffle; 0: all samples */
    uint64_t seed;           /* seed of the order */
    uint32_t worker_count;   /* 0: batches are made in the caller, on demand */
    uint32_t prefetch_depth; /* batches ready ahead of the one in use, at least 1 */
    /* The part of this process if several processes share the data set. All processes use the same order and get
     * disjoint parts of equal size (without drop_last the first parts may have one sample more). With drop_last all
     * parts shift by the size of the remainder in odd epochs, so that every sample is used. */
    uint32_t process_index;
    uint32_t process_count;
    /* Lists of samples instead of a computed order. An epoch has sampler_list_count lists; sampler_combine consecutive
     * lists make a batch, which has at most batch_size samples. Lists cannot be combined with shuffle or several
     * processes. With drop_last, a last batch of fewer lists is left out. The function writes the sample indices of
     * list `list` of an epoch, and their number to *out_count: at least one and at most `limit` indices, each below the
     * data set's sample count. The indices depend only on (epoch, list). One thread at a time calls the function. */
    bg_status (*sampler)(void *user, uint64_t epoch, uint64_t list, uint32_t *indices, uint64_t limit,
                         uint64_t *out_count, bg_error *error);
    void *sampler_user;
    uint64_t sampler_list_count;
    uint64_t sampler_combine;
    bool early_preload;     /* begins epoch 0 at creation instead of with the first bg_loader_begin_epoch */
    bool load_indefinitely; /* prepares the next epoch when an epoch ends; false: when it is begun */
    /* Only for streams. */
    uint32_t shard_count;    /* number of shards that are read concurrently; 0: one for each worker, at least 1 */
    uint64_t rebatched_size; /* BG_LOADER_ASYNC_REBATCHED: number of consecutive samples of a shard before those of the
                                next shard; 0: batch_size */
    /* A callback that provides a thread of the caller for a worker, as bg_options.execution.start_thread does for a
     * session. The callback is called once for each worker, which runs until the loader is destroyed. A loader of a
     * stream has at most one worker for each shard. NULL: threads of the system, in which all signals are blocked. */
    bool (*start_thread)(void *user, void (*function)(void *argument), void *argument);
    void *start_thread_user;
    bg_allocator allocator; /* for the memory of batches; all-zero: the C library */
} bg_loader_options;

/* Defaults: async, batch_size 1, no shuffle, drop_last, no padding, seed 0, 1 worker, depth 3, process 0 of 1, no
 * sampler, no early preload, load_indefinitely. */
BG_API void bg_loader_options_init(bg_loader_options *options, size_t struct_bytes);
static inline bg_loader_options bg_loader_options_defaults(void)
{
    bg_loader_options options;

    bg_loader_options_init(&options, sizeof options);
    return options;
}

typedef struct bg_batch {
    const void *const *tensors; /* [tensor_count], each [sample_count, sample dims...] */
    uint64_t sample_count; /* below batch_size only in a last batch; 0: the epoch has ended, there are no tensors */
    uint64_t valid_count;  /* number of leading samples that are from the data set; the others are padding
                              (pad_multiple) */
    uint64_t position;     /* position of the batch in its epoch, from 0 */
    uint64_t epoch;
} bg_batch;

/* Creates a loader, which borrows the data set. Its workers sleep until the first bg_loader_begin_epoch. Errors:
 * BG_ERROR_INVALID (an invalid option; or, with drop_last, fewer samples than one batch), BG_ERROR_MEMORY, BG_ERROR_IO
 * (a thread could not be started). */
BG_API bg_status bg_loader_create(const bg_dataset *dataset, const bg_loader_options *options, bg_loader **out,
                                  bg_error *error);

/*
 * Creates a loader of batches of a stream. A batch comes from one shard: the first batch of shard 0, the first of shard
 * 1, ... the second of shard 0, and so on, skipping shards that have ended. The order and the content of batches are a
 * function of the stream, the seed, the epoch and shard_count, never of the number of workers. With drop_last the
 * remainder of each shard is left out; otherwise it is a smaller batch. With BG_LOADER_ASYNC_REBATCHED the shards'
 * samples are first joined in this order and then cut into batches, so at most one remainder is left. pad_multiple
 * fills up a smaller batch. The stream's struct is copied; memory that it points to is borrowed. bg_loader_batch_count
 * is 0, because the number is not known. bg_loader_begin_at reads the batches before the position and drops them.
 * Errors: BG_ERROR_INVALID, also for shuffle, a sampler and several processes, which streams do not support;
 * BG_ERROR_SHAPE, BG_ERROR_MEMORY, BG_ERROR_IO.
 */
BG_API bg_status bg_loader_create_stream(const bg_sample_stream *stream, const bg_loader_options *options,
                                         bg_loader **out, bg_error *error);

/*
 * Serves a consumer that uses a part of each batch, such as one of several processes that share the devices. In full
 * batches of a data set only the wanted tensors are read; other tensors have undefined content. The order of samples
 * does not change, and smaller batches are read whole. If a sample's tensors are read together (callbacks, records),
 * all of them are read if one of them is wanted. The function drops prepared batches: call bg_loader_begin_at next.
 * `wanted` returns bit t for each wanted tensor t of sample `sample` of a batch. Several threads call `wanted` at the
 * same time, until the next bg_loader_want or the end of the loader. NULL: all tensors are wanted. Streams are always
 * read whole.
 */
BG_API void bg_loader_want(bg_loader *loader, uint32_t (*wanted)(void *user, uint64_t sample), void *user);

/* Waits for calls of the data set's `get` that are in progress, and ends the workers. */
BG_API void bg_loader_destroy(bg_loader *loader);

BG_API uint64_t bg_loader_batch_count(const bg_loader *loader); /* batches in an epoch; 0 for a stream */
/* Returns the number of samples that an epoch leaves out because of drop_last. The function also returns 0 if it does
 * not know the number: for streams, samplers, and one of several processes. */
BG_API uint64_t bg_loader_dropped_count(const bg_loader *loader);
BG_API uint64_t bg_loader_batch_size(const bg_loader *loader);
/* Returns the types of the tensors of one sample. */
BG_API const bg_type *bg_loader_sample_types(const bg_loader *loader, uint32_t *out_tensor_count);

/*
 * Moves the loader to the beginning of an epoch, from any position. With load_indefinitely, batches of the epoch after
 * the one that just ended are already being prepared; beginning any other epoch drops prepared batches. Batches that
 * were returned before are no longer valid. Call the function also to continue after an error.
 */
BG_API bg_status bg_loader_begin_epoch(bg_loader *loader, uint64_t epoch, bg_error *error);

/* Moves the loader to batch `position` of an epoch, to resume in the middle; `position` may be the epoch's batch
 * count. */
BG_API bg_status bg_loader_begin_at(bg_loader *loader, uint64_t epoch, uint64_t position, bg_error *error);

/*
 * Returns the next batch of the epoch, and waits for it if necessary. The batch is valid until the next call on this
 * loader. At the end of the epoch the status is BG_OK and out->sample_count is 0, also in further calls. Errors: those
 * of the data set's callback, with the sample's index; further calls return the same error until bg_loader_begin_epoch.
 * BG_ERROR_INVALID if no epoch has begun.
 */
BG_API bg_status bg_loader_next(bg_loader *loader, bg_batch *out, bg_error *error);

/*
 * Lets a thread that is idle for a moment copy some kilobytes of samples to a batch that is not needed yet. Returns
 * false if there are no samples to copy, if another thread is copying, or if the loader's samples are not copies of
 * memory (callbacks, streams). Any thread may call the function until the loader is destroyed. After the first call the
 * loader's own threads fill batches only while fewer than half of prefetch_depth are ready.
 */
BG_API bool bg_loader_help(bg_loader *loader);

/* Counts and times since the creation of the loader, which show whether the loader keeps up with the consumer. */
typedef struct bg_loader_statistics {
    uint64_t batch_count; /* batches returned */
    uint64_t miss_count;  /* number of batches for which the consumer had to wait */
    uint64_t wait_ns;     /* total time that the consumer waited */
} bg_loader_statistics;

BG_API bg_loader_statistics bg_loader_statistics_of(const bg_loader *loader);

/* ---- infeeds of samples (feed.h) ---- */

/* Creates an infeed of micro-batches from a loader's batches, each of which must be a whole number of micro-batches
 * (drop_last or pad_multiple). Borrows the loader; only the infeed may use it until the infeed is destroyed. */
BG_API bg_status bg_infeed_create_loader(bg_loader *loader, const bg_infeed_options *options, bg_infeed **out,
                                         bg_error *error);
/* Creates an infeed of micro-batches from the samples of a data set in ascending order; the remainder of an epoch is
 * left out. Borrows the data set. */
BG_API bg_status bg_infeed_create_dataset(const bg_dataset *dataset, const bg_infeed_options *options, bg_infeed **out,
                                          bg_error *error);

/* Runs the session with the next batch of a loader as inputs. At the end of `epoch` a run returns BG_ERROR_RANGE. If
 * `epoch` differs from that of the last run, the run uses the first batch of `epoch`. To begin inside an epoch, or to
 * continue with the next epoch automatically, use an infeed. The loader is borrowed until the session is destroyed or
 * gets another loader. */
BG_API bg_status bg_session_run_loader(bg_session *session, bg_loader *loader, uint64_t epoch, void *const *outputs,
                                       bg_error *error);

/* ---- what limits a run ---- */

typedef enum bg_run_limit {
    BG_LIMIT_UNKNOWN, /* nothing was loaded, or no time was measured */
    BG_LIMIT_DEVICE,  /* data were ready when the devices needed them */
    BG_LIMIT_DATASET  /* the devices waited for data for more than a twentieth of the time */
} bg_run_limit;

#define BG_RUN_LIMIT_TEXT_BYTES 256

/* Finds what limited a run, from the statistics of its loader and the time of the run (waiting included). Writes a line
 * for the user into `text` (BG_RUN_LIMIT_TEXT_BYTES; may be NULL). */
BG_API bg_run_limit bg_loader_judge(const bg_loader_statistics *statistics, uint64_t run_ns, char *text);

/* Predicts what will limit a run, from two rates in samples per second: the rate at which data are read (measured by a
 * benchmark, below), and the rate of the devices. `is_ahead`: data are read while the devices work (BG_LOADER_ASYNC,
 * infeeds); otherwise reading and the devices take turns. `text` is as in bg_loader_judge. A rate that is not above 0,
 * or not finite, gives BG_LIMIT_UNKNOWN. */
BG_API bg_run_limit bg_rates_judge(double data_rate, double device_rate, bool is_ahead, char *text);

/* ---- benchmarks ---- */

typedef struct bg_benchmark_options {
    size_t struct_bytes;         /* 0, or sizeof(bg_benchmark_options): see base.h */
    uint64_t epoch_count;        /* at least 1 */
    uint64_t elements_per_epoch; /* at least 1; a data set that has fewer elements is read again */
    bool do_memcpy;              /* also copies each element, as a transfer to a device does */
} bg_benchmark_options;

/*
 * Reads samples of a data set in one thread, without any device, and reports JSON as TensorFlow for IPU does:
 *
 *     {"epochs":[{"elements_processed":512,"total_bytes_processed":401920,"time_elapsed":0.0001,
 *                 "elements_per_second":5120000,"bandwidth":4.0192,
 *                 "latency_mean":...,"latency_p50":...,"latency_p90":...,"latency_p99":...,"latency_max":...}, ...]}
 *
 * Times are in seconds, bandwidth in GB/s; every field is above 0. The text is malloc'ed. Errors: BG_ERROR_INVALID (0
 * epochs or elements), those of the data set, BG_ERROR_MEMORY.
 */
BG_API bg_status bg_dataset_benchmark(const bg_dataset *dataset, const bg_benchmark_options *options, char **out_json,
                                      bg_error *error);

/* Measures a loader like bg_dataset_benchmark, with batches as elements, from epoch 0 on. Each epoch has two more
 * fields: "misses", the number of batches that the benchmark had to wait for, and "wait_time" in seconds. */
BG_API bg_status bg_infeed_benchmark(bg_loader *loader, const bg_benchmark_options *options, char **out_json,
                                     bg_error *error);

/* Measures an infeed's callback (feed.h) like bg_dataset_benchmark. `types` are those of one element's tensors, 1 to
 * BG_DATASET_MAX_TENSORS. The callback is called in the calling thread, epoch_count x elements_per_epoch times. Errors:
 * as bg_dataset_benchmark; those of the callback, with the element's number; BG_ERROR_INVALID if the callback reports
 * the end of the data before the last element. */
BG_API bg_status bg_infeed_benchmark_source(const bg_type *types, uint32_t tensor_count, bg_infeed_source source,
                                            void *user, const bg_benchmark_options *options, char **out_json,
                                            bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
