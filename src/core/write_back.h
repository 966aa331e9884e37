/*
 * write_back.h: asks the system to start writing a file's content to disk.
 */
#ifndef BGI_CORE_WRITE_BACK_H
#define BGI_CORE_WRITE_BACK_H

/* Without waiting for it, and without a promise: fsync says whether it is there. Nothing where the system has no such
 * call. */
void bgi_begin_write_back(int descriptor);

#endif
