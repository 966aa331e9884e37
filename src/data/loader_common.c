/*
 * loader_common.c: contains the common code of both engines of bg_loader.
 */
#include "data/loader.h"

#include <inttypes.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

enum { MAX_PREFETCH_DEPTH = 1024 };

bg_status bgi_loader_check(const bg_loader_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_loader_options",
                             "bg_loader_options_defaults()", error));
    BGI_TRY(bgi_allocator_check(&options->allocator, error));
    if ((unsigned)options->mode >= BG_LOADER_MODE_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: mode is %d but must be one of bg_loader_mode",
                            (int)options->mode);
    if (options->batch_size == 0 || options->batch_size > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: the batch size is %" PRIu64 " but must be 1 to %" PRIu32,
                            options->batch_size, UINT32_MAX);
    if (options->worker_count > BGI_LOADER_WORKERS)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: worker_count is %" PRIu32 " but must be at most %d",
                            options->worker_count, BGI_LOADER_WORKERS);
    if (options->prefetch_depth < 1 || options->prefetch_depth > MAX_PREFETCH_DEPTH)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: the prefetch depth is %" PRIu32 " but must be 1 to %d",
                            options->prefetch_depth, MAX_PREFETCH_DEPTH);
    if (options->process_count == 0 || options->process_index >= options->process_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: process_index is %" PRIu32 " of %" PRIu32
                            " processes; the index must be below the count",
                            options->process_index, options->process_count);
    if (options->pad_multiple != 0 && options->drop_last)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: pad_multiple %" PRIu64
                            " is set with drop_last, which leaves no batch to pad; set only one of them",
                            options->pad_multiple);
    if (options->pad_multiple != 0 && options->batch_size % options->pad_multiple != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: pad_multiple is %" PRIu64 " but must divide the batch size, %" PRIu64,
                            options->pad_multiple, options->batch_size);
    if (options->shuffle_buffer != 0 && !options->shuffle)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: the shuffle buffer has %" PRIu64
                            " samples, but shuffle is off; turn it on, or leave shuffle_buffer at 0",
                            options->shuffle_buffer);
    return BG_OK;
}

bg_status bgi_loader_thread(bgi_thread *thread, const bg_loader_options *options, void (*run)(void *argument),
                            void *argument, uint32_t index, uint32_t count, bg_error *error)
{
    const bgi_thread_source source = {options->start_thread, options->start_thread_user};
    char reason[BGI_ERRNO_TEXT_BYTES];
    const int result = bgi_thread_start(thread, &source, run, argument);

    if (result == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_IO, "loader: cannot start worker %" PRIu32 " of %" PRIu32 ": %s", index, count,
                        source.start != NULL ? "start_thread refused it" : bgi_errno_text(result, reason));
}
