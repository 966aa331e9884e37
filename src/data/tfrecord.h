/*
 * tfrecord.h: TFRecord files in memory, for the file reader and for the fuzzer.
 */
#ifndef BGI_DATA_TFRECORD_H
#define BGI_DATA_TFRECORD_H

#include <brigade/readers.h>

/* The content stays where it is and belongs to the caller as long as *out is used. `index` NULL: records follow each
 * other from the first byte on; else the text of an index file, which was `index_bytes` long. */
bg_status bgi_tfrecord_parse(const char *name, const void *content, size_t size_bytes, const char *index,
                             size_t index_bytes, const bg_tfrecord_options *options, bg_dataset **out, bg_error *error);

/* Tokens of the first record; 0 when it cannot be read. */
uint64_t bgi_tfrecord_length(const bg_dataset *dataset);

#endif
