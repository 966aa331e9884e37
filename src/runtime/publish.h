/*
 * publish.h: versions of weights that sessions read where they are, while others train.
 *
 *     weights --publish--> version 1, version 2 ... <--takes the current one for a call-- reader, reader ...
 *
 * A version is a table of values that never change: blocks, counted by the versions and the weight that have them. What
 * has not changed since the last version is the same block; what changes afterward does so in another one
 * (bgi_weights_own), so that weights which nobody trains exist once, however many sessions read them.
 *
 * Readers take no lock. A reader writes down which version it is about to use and looks whether that is still the
 * current one; the publisher makes the new version current and looks who has the old one written down. These stores and
 * looks are sequentially consistent, so of a reader and a publisher that could miss each other one sees the other: a
 * version that nobody has written down is nobody's. Old ones are freed by whoever publishes next, and by the end of the
 * weights. The mutex guards the list of readers, the list of versions, and the counts of blocks; no call takes it.
 */
#ifndef BGI_RUNTIME_PUBLISH_H
#define BGI_RUNTIME_PUBLISH_H

#include <brigade/session.h>

#include "core/threads.h"

/* A value that does not change while more than one has it. */
typedef struct bgi_block {
    void *data;
    uint32_t users; /* versions and a weight */
} bgi_block;

typedef struct bgi_published {
    const char *name; /* in the version's own memory; NULL: none of this number is published */
    bg_type type;
    bg_variable_role role;
    uint64_t change; /* another number, another value */
    bgi_block *block;
} bgi_published;

/* Values by the numbers of the weights. */
typedef struct bgi_version bgi_version;
struct bgi_version {
    uint64_t number; /* 1, 2, ... */
    uint64_t step;   /* weight updates that the values have seen */
    bgi_version *older;
    uint32_t count;
    char *names;
    bgi_published items[];
};

/* Of a session that reads published values. */
typedef struct bgi_reader {
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic(bgi_version *) using; /* written by its session; NULL: none */
    struct bgi_reader *next;
} bgi_reader;

/* What weights have of this. */
typedef struct bgi_publication {
    pthread_mutex_t mutex;
    _Atomic(bgi_version *) current; /* the newest, which has the older ones */
    bgi_reader *readers;
} bgi_publication;

bool bgi_publication_init(bgi_publication *publication);
/* Frees all versions, and readers that were left. */
void bgi_publication_clear(bgi_publication *publication);

/* Under the mutex: frees the versions behind this one that nobody uses. */
void bgi_publication_trim(bgi_publication *publication, bgi_version *current);

/* NULL: no memory. */
bgi_reader *bgi_reader_add(bgi_publication *publication);
/* Nobody computes with its version any more. */
void bgi_reader_remove(bgi_publication *publication, bgi_reader *reader);
/* publish.c: publishes the newest values of parameters and buffers, inside the weights. */
bg_status bgi_weights_publish(bg_weights *weights, bg_error *error);
/* The current version, which stays until the reader drops it; NULL: none was published. */
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
