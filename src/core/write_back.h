/*
 * write_back.h: telling the system that a file's content may go to the disk now.
 */
#ifndef BGI_CORE_WRITE_BACK_H
#define BGI_CORE_WRITE_BACK_H

/* Without waiting for it, and without a promise: fsync says whether it is there. Nothing where the system has no such
 * call. */
void bgi_begin_write_back(int descriptor);

#endif
