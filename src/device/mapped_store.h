/*
 * mapped_store.h: memory for a device's store (bgi_device_setup.store) that is a file, mapped. Knows nothing of the
 * directory and of what lies where in the store (runtime/memmap.c).
 */
#ifndef BGI_DEVICE_MAPPED_STORE_H
#define BGI_DEVICE_MAPPED_STORE_H

#include <brigade/base.h>

#include <stdbool.h>
#include <stdint.h>

/* A store's file is named for the replica and the device: "replica0.device1.store". */
enum { BGI_MAPPED_STORE_NAME_BYTES = 64, BGI_MAPPED_STORE_HEADER_BYTES = 4096 };
void bgi_mapped_store_name(uint32_t replica, uint32_t device, char name[BGI_MAPPED_STORE_NAME_BYTES]);

typedef struct bgi_mapped_store {
    char *path;             /* NULL: the device has no remote store */
    unsigned char *mapping; /* the page first; NULL: not open */
    size_t store_bytes;
    uint32_t replica, device;
    bool is_ours; /* made by this process */
} bgi_mapped_store;

/* Errors name the store's path. What belongs together has the same identity and id. Private: what is written does not
 * reach the file. As long as it is mapped the file is locked, for this session alone, or to be read by all. */
bg_status bgi_mapped_store_open(bgi_mapped_store *s, uint64_t identity, uint64_t id, bool is_private, bg_error *error);
/* A file that is new, so that all of it is zero, as memory would be; all its space is taken at once. */
bg_status bgi_mapped_store_make(bgi_mapped_store *s, uint64_t identity, uint64_t id, bg_error *error);
/* All that it holds is on the disk. */
bg_status bgi_mapped_store_flush(const bgi_mapped_store *s, bg_error *error);
void bgi_mapped_store_unmap(bgi_mapped_store *s);
/* Removes a file that stands where a store would go, if there is one; or only looks whether that could be done. What is
 * no store, whole or not, stays, and what another session has mapped: BG_ERROR_INVALID. */
bg_status bgi_mapped_store_remove(const bgi_mapped_store *s, bool only_looks, bg_error *error);

/* Locks an open file until it is closed, mappings included; one who shares it can do so beside others. `what` is in use
 * when another has it. */
bg_status bgi_mapped_store_lock(int file, const char *path, const char *what, bool is_shared, bg_error *error);

/* "memmap_dir: PATH WHAT: what the system says" (errno). */
bg_status bgi_mapped_store_fail(bg_error *error, const char *path, const char *what);

#endif
