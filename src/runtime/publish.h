/*
 * publish.h: keeps versions of weights that sessions read in place while another session trains.
 *
 *     weights --publish--> version 1, version 2 ... <--takes the current one for a call-- reader, reader ...
 *
 * A version is a table of values that never change: blocks, which count the versions and the weight that use them. A
 * value that has not changed since the last version shares its block; a later change is written to another block
 * (bgi_weights_own). So weights that are not trained exist once for any number of reading sessions.
 *
 * Readers take no lock. A reader announces the version that it is about to use and then checks that it is still the
 * current one. The publisher makes the new version current and then checks which readers have announced the old one.
 * These stores and loads are sequentially consistent, so either the publisher sees the announcement or the reader sees
 * the new version. So a version that no reader has announced is unused. Unused versions are freed by the next
 * publication, and with the weights. The mutex guards the list of readers, the list of versions, and the counts of
 * blocks; runs do not lock it.
 */
#ifndef BGI_RUNTIME_PUBLISH_H
#define BGI_RUNTIME_PUBLISH_H

#include <brigade/session.h>

#include "core/threads.h"

/* A value in memory, which does not change while it has several users. */
typedef struct bgi_block {
    void *data;
    size_t size_bytes;
    uint32_t users; /* the number of versions that use the value, plus one if its weight does */
} bgi_block;

typedef struct bgi_published {
    const char *name; /* by weight, in the version's own memory; NULL: the weight is not published */
    bg_type type;
    bg_variable_role role;
    uint64_t change; /* a number that differs between any two values of the weight */
    bgi_block *block;
} bgi_published;

/* A version: values by the numbers of the weights. */
typedef struct bgi_version bgi_version;
struct bgi_version {
    uint64_t number; /* 1, 2, ... */
    uint64_t step;   /* the number of weight updates in these values */
    bgi_version *older;
    uint32_t count;
    char *names;
    bgi_published items[];
};

/* A session that reads published values. */
typedef struct bgi_reader {
    _Alignas(
        BGI_CACHE_LINE_BYTES) _Atomic(bgi_version *) using; /* the version in use, written by its session; NULL: none */
    struct bgi_reader *next;
} bgi_reader;

/* The publication state of weights. */
typedef struct bgi_publication {
    bg_allocator allocator; /* allocates the data of blocks */
    pthread_mutex_t mutex;
    _Atomic(bgi_version *) current; /* the newest, which links to the older ones */
    bgi_reader *readers;
} bgi_publication;

bool bgi_publication_init(bgi_publication *publication);
/* Frees all versions and remaining readers. */
void bgi_publication_clear(bgi_publication *publication);

/* Called under the mutex: frees unused versions older than `current`. */
void bgi_publication_trim(bgi_publication *publication, bgi_version *current);

/* Adds a reader; returns NULL when memory is out. */
bgi_reader *bgi_reader_add(bgi_publication *publication);
/* Removes a reader; called when no thread computes with the reader's version any more. */
void bgi_reader_remove(bgi_publication *publication, bgi_reader *reader);
/* publish.c: publishes the newest values of parameters and buffers; the caller has entered the weights. */
bg_status bgi_weights_publish(bg_weights *weights, bg_error *error);
/* Returns the current version, which is not freed until the reader drops it; NULL: no version was published. */
static inline const bgi_version *bgi_reader_take(bgi_publication *publication, bgi_reader *reader)
{
    bgi_version *version;

    do {
        version = atomic_load(&publication->current);
        atomic_store(&reader->using, version);
    } while (atomic_load(&publication->current) != version);
    return version;
}
static inline void bgi_reader_drop(bgi_reader *reader)
{
    atomic_store_explicit(&reader->using, NULL, memory_order_release);
}

#endif
