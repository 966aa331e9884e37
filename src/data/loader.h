/*
 * loader.h: declares what the two engines of bg_loader share: loader.c for data sets with an index, and stream_loader.c
 * for streams.
 */
#ifndef BGI_DATA_LOADER_H
#define BGI_DATA_LOADER_H

#include <brigade/data.h>

#include "core/threads.h"

enum { BGI_LOADER_WORKERS = 256 };

/* Checks the options that both engines check in the same way. */
bg_status bgi_loader_check(const bg_loader_options *options, bg_error *error);

/* Starts worker `index` of `count`, with options->start_thread if it is set, or returns BG_ERROR_IO with the reason. */
bg_status bgi_loader_thread(bgi_thread *thread, const bg_loader_options *options, void (*run)(void *argument),
                            void *argument, uint32_t index, uint32_t count, bg_error *error);

/* The engine for streams. Its functions implement those of bg_loader with the same names. */
typedef struct bgi_stream_loader bgi_stream_loader;

bg_status bgi_stream_loader_create(const bg_sample_stream *stream, const bg_loader_options *options,
                                   bgi_stream_loader **out, bg_error *error);
void bgi_stream_loader_destroy(bgi_stream_loader *loader);
uint64_t bgi_stream_loader_batch_size(const bgi_stream_loader *loader);
const bg_type *bgi_stream_loader_types(const bgi_stream_loader *loader, uint32_t *out_tensor_count);
bg_status bgi_stream_loader_begin(bgi_stream_loader *loader, uint64_t epoch, uint64_t position, bg_error *error);
bg_status bgi_stream_loader_next(bgi_stream_loader *loader, bg_batch *out, bg_error *error);
bg_loader_statistics bgi_stream_loader_statistics(const bgi_stream_loader *loader);

#endif
