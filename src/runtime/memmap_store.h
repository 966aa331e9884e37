/*
 * memmap_store.h: one remote store as a file that is mapped into memory. Knows nothing of the directory and of what
 * lies where in the store (memmap.c).
 */
#ifndef BGI_RUNTIME_MEMMAP_STORE_H
#define BGI_RUNTIME_MEMMAP_STORE_H

#include <brigade/base.h>

#include <stdbool.h>
#include <stdint.h>

/* A store's file is named for the replica and the device: "replica0.device1.store". */
enum { BGI_MEMMAP_NAME_BYTES = 64, BGI_MEMMAP_HEADER_BYTES = 4096 };
void bgi_memmap_store_name(uint32_t replica, uint32_t device, char name[BGI_MEMMAP_NAME_BYTES]);

typedef struct bgi_memmap_store {
    char *path;             /* NULL: the device has no remote store */
    unsigned char *mapping; /* the page first; NULL: not open */
    size_t store_bytes;
    uint32_t replica, device;
    bool is_ours; /* made by this session */
} bgi_memmap_store;

/* Errors name the store's path. What belongs together has the same identity and id. Private: what is written does not
 * reach the file. */
bg_status bgi_memmap_store_open(bgi_memmap_store *s, uint64_t identity, uint64_t id, bool is_private, bg_error *error);
/* A file that is new, so that all of it is zero, as memory would be; all its space is taken at once. */
bg_status bgi_memmap_store_make(bgi_memmap_store *s, uint64_t identity, uint64_t id, bg_error *error);
/* All that it holds is on the disk. */
bg_status bgi_memmap_store_flush(const bgi_memmap_store *s, bg_error *error);
void bgi_memmap_store_unmap(bgi_memmap_store *s);
/* Whether a file that stands where a store would go is one, whole or not: another is not overwritten. */
bool bgi_memmap_store_is_some(const char *path);

/* "memmap_dir: PATH WHAT: what the system says" (errno). */
bg_status bgi_memmap_fail(bg_error *error, const char *path, const char *what);

#endif
