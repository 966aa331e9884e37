/*
 * tfrecord.h: reads TFRecord files in memory, for the file reader and the fuzz targets, and writes TFRecord files.
 */
#ifndef BGI_DATA_TFRECORD_H
#define BGI_DATA_TFRECORD_H

#include <brigade/readers.h>
#include <brigade/tokenizer.h>

#include "core/file.h"

/* Makes a data set of records in memory. The caller owns the content, which must outlive *out. `index` is the text of
 * an index file of `index_bytes` bytes. If it is NULL, records follow each other from the first byte on. */
bg_status bgi_tfrecord_parse(const char *name, const void *content, size_t size_bytes, const char *index,
                             size_t index_bytes, const bg_tokens_options *options, bg_dataset **out, bg_error *error);

/* Returns the number of tokens of the first record; 0 when it cannot be read. */
uint64_t bgi_tfrecord_length(const bg_dataset *dataset);

/* Reads all tokens of record `index`, whatever the samples' length; a number that is not a token becomes UINT32_MAX. */
bg_status bgi_tfrecord_read(const bg_dataset *dataset, uint64_t index, bg_token_list *out, bg_error *error);

/* Returns the path of a file's index: PATH.index if that file exists, otherwise the path with .index instead of
 * .tfrecord. The result is malloc'ed, and NULL if memory is exhausted. */
char *bgi_tfrecord_index_path(const char *path);

/* ---- writing (tfrecord_write.c) ---- */

/* Writes a TFRecord file and its index; both appear complete or not at all, the index last. Call begin, then exactly
 * one of commit or abandon. Commit reports failures of writing. */
typedef struct bgi_tfrecord_writer {
    bgi_file_writer records, index;
    char *index_path;
    unsigned char *buffer; /* buffer for one record */
    uint64_t offset;
} bgi_tfrecord_writer;

/* Begins a file whose records have at most `most_tokens` tokens. Errors: those of bgi_file_writer_begin. */
bg_status bgi_tfrecord_writer_begin(bgi_tfrecord_writer *writer, const char *path, size_t most_tokens, bg_error *error);
/* Writes a record: tf.train.Example with the list of int64 `input_ids`. */
void bgi_tfrecord_write(bgi_tfrecord_writer *writer, const uint32_t *tokens, size_t count);
bg_status bgi_tfrecord_writer_commit(bgi_tfrecord_writer *writer, bg_error *error);
/* Removes what was not committed. May be called for a writer that was never begun (zeroed), or has ended. */
void bgi_tfrecord_writer_abandon(bgi_tfrecord_writer *writer, bg_error *error);

#endif
