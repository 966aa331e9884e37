/*
 * mapped_store.h: maps a file as the memory of a device's store (bgi_device_setup.store). runtime/memmap.c determines
 * the directory and the layout.
 */
#ifndef BGI_DEVICE_MAPPED_STORE_H
#define BGI_DEVICE_MAPPED_STORE_H

#include <brigade/base.h>

#include <stdbool.h>
#include <stdint.h>

/* A store's file is named after the replica and the device: "replica0.device1.store". */
enum { BGI_MAPPED_STORE_NAME_BYTES = 64, BGI_MAPPED_STORE_HEADER_BYTES = 4096 };
void bgi_mapped_store_name(uint32_t replica, uint32_t device, char name[BGI_MAPPED_STORE_NAME_BYTES]);

typedef struct bgi_mapped_store {
    char *path;             /* NULL: the device has no remote store */
    unsigned char *mapping; /* the first page, which the store follows; NULL: not open */
    size_t store_bytes;
    uint32_t replica, device;
    bool is_ours; /* made by this process */
} bgi_mapped_store;

/* Opens a store. Stores that belong together have the same identity and id. With a private mapping, changes do not
 * reach the file. While the file is mapped, it is locked: exclusively, or for reading if the mapping is private. Errors
 * name the store's path. */
bg_status bgi_mapped_store_open(bgi_mapped_store *s, uint64_t identity, uint64_t id, bool is_private, bg_error *error);
/* Creates a store that is all zeros, as new memory would be, and allocates the file's space at once. */
bg_status bgi_mapped_store_make(bgi_mapped_store *s, uint64_t identity, uint64_t id, bg_error *error);
/* Writes all content of the store to the disk. */
bg_status bgi_mapped_store_flush(const bgi_mapped_store *s, bg_error *error);
void bgi_mapped_store_unmap(bgi_mapped_store *s);
/* Removes an earlier store with this name or, if `only_looks`, only checks whether it can be removed. If the file is
 * not a store (complete or incomplete), or if another session has mapped it, the file stays, and the error is
 * BG_ERROR_INVALID. */
bg_status bgi_mapped_store_remove(const bgi_mapped_store *s, bool only_looks, bg_error *error);

/* Locks an open file until it and its mappings are closed; a shared lock admits other shared locks. If another session
 * has the lock, the error says that `what` is in use. */
bg_status bgi_mapped_store_lock(int file, const char *path, const char *what, bool is_shared, bg_error *error);

/* Reports "memmap_dir: PATH WHAT: MESSAGE", where MESSAGE is the system's for errno. */
bg_status bgi_mapped_store_fail(bg_error *error, const char *path, const char *what);

#endif
