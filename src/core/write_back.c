/*
 * write_back.c: starts writing a file's new data to disk, instead of waiting for its flush.
 */
#define _GNU_SOURCE /* sync_file_range */
#include "core/write_back.h"

#include <fcntl.h>

void bgi_begin_write_back(int descriptor)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)descriptor;
#endif
}
