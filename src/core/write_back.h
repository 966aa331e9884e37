/*
 * write_back.h: asks the system to start writing a file's content to disk.
 */
#ifndef BGI_CORE_WRITE_BACK_H
#define BGI_CORE_WRITE_BACK_H

/* Requests the write without waiting for it, and guarantees nothing: fsync reports whether the content is on the disk.
 * The function does nothing on systems without such a call. */
void bgi_begin_write_back(int descriptor);

#endif
