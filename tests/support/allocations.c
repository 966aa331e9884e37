/*
 * allocations.c: malloc and related functions that count calls. glibc has the real functions under other names.
 */
#include "support/allocations.h"

#include <stdatomic.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#include <stdlib.h> /* defines __GLIBC__ */

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)

#include <errno.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

/* The watched blocks: a hash table of addresses that never grows. */
enum { TABLE_SIZE = 1 << 16 };
#define REMOVED ((void *)1)

static _Atomic uint64_t count;
static _Atomic uint64_t until_failure;
static atomic_bool has_failed, is_anywhere;
static atomic_bool is_watching;
static _Atomic int64_t live;
static _Atomic(void *) table[TABLE_SIZE];

/* The program's own code is between these two symbols, which the linker defines. */
extern const char __executable_start[], etext[];

static bool is_own(const void *caller)
{
    return (uintptr_t)caller >= (uintptr_t)__executable_start && (uintptr_t)caller < (uintptr_t)etext;
}

static size_t hash(const void *memory)
{
    return (size_t)(((uintptr_t)memory >> 4) * 0x9e3779b97f4a7c15u >> 40) % TABLE_SIZE;
}

static void watch(void *memory)
{
    size_t at = hash(memory);

    for (size_t tries = 0; tries < TABLE_SIZE; tries++, at = (at + 1) % TABLE_SIZE) {
        void *seen = atomic_load(&table[at]);
        if ((seen == NULL || seen == REMOVED) && atomic_compare_exchange_strong(&table[at], &seen, memory)) {
            atomic_fetch_add(&live, 1);
            return;
        }
    }
}

/* Stops watching the block; returns whether it was watched. */
static bool unwatch(void *memory)
{
    size_t at = hash(memory);

    for (size_t tries = 0; tries < TABLE_SIZE; tries++, at = (at + 1) % TABLE_SIZE) {
        void *seen = atomic_load(&table[at]);
        if (seen == NULL)
            return false;
        if (seen == memory && atomic_compare_exchange_strong(&table[at], &seen, REMOVED)) {
            atomic_fetch_sub(&live, 1);
            return true;
        }
    }
    return false;
}

static bool is_refused(const void *caller)
{
    uint64_t left = atomic_load(&until_failure);

    atomic_fetch_add(&count, 1);
    if (!atomic_load(&is_anywhere) && !is_own(caller))
        return false;
    while (left > 0)
        if (atomic_compare_exchange_weak(&until_failure, &left, left - 1)) {
            if (left == 1)
                atomic_store(&has_failed, true);
            return left == 1;
        }
    return false;
}

static void *keep(void *memory, const void *caller)
{
    if (memory == NULL)
        errno = ENOMEM;
    else if (atomic_load(&is_watching) && is_own(caller))
        watch(memory);
    return memory;
}

void *malloc(size_t size)
{
    const void *caller = __builtin_return_address(0);

    return keep(is_refused(caller) ? NULL : __libc_malloc(size), caller);
}

void *calloc(size_t element_count, size_t size)
{
    const void *caller = __builtin_return_address(0);

    return keep(is_refused(caller) ? NULL : __libc_calloc(element_count, size), caller);
}

/* As in free, the address is removed from the table before the C library may reuse it. */
void *realloc(void *memory, size_t size)
{
    const void *caller = __builtin_return_address(0);
    bool was_watched;
    void *grown;

    if (is_refused(caller)) {
        errno = ENOMEM;
        return NULL;
    }
    was_watched = memory != NULL && atomic_load(&is_watching) && unwatch(memory);
    grown = __libc_realloc(memory, size);
    if (grown == NULL && size != 0 && was_watched)
        watch(memory);
    return grown != NULL ? keep(grown, caller) : NULL;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    const void *caller = __builtin_return_address(0);
    void *memory = keep(is_refused(caller) ? NULL : __libc_memalign(alignment, size), caller);

    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    const void *caller = __builtin_return_address(0);

    return keep(is_refused(caller) ? NULL : __libc_memalign(alignment, size), caller);
}

/* The address is removed first, because another thread may get it afterward. */
void free(void *memory)
{
    if (memory != NULL && atomic_load(&is_watching))
        unwatch(memory);
    __libc_free(memory);
}

bool test_allocations_available(void)
{
    return true;
}

uint64_t test_allocations_count(void)
{
    return atomic_load(&count);
}

int64_t test_allocations_live(void)
{
    atomic_store(&is_watching, true);
    return atomic_load(&live);
}

void test_allocations_fail(uint64_t n)
{
    atomic_store(&has_failed, false);
    atomic_store(&is_anywhere, false);
    atomic_store(&until_failure, n);
}

void test_allocations_fail_anywhere(uint64_t n)
{
    test_allocations_fail(0);
    atomic_store(&is_anywhere, true);
    atomic_store(&until_failure, n);
}

bool test_allocations_have_failed(void)
{
    return atomic_load(&has_failed);
}

#else

bool test_allocations_available(void)
{
    return false;
}

uint64_t test_allocations_count(void)
{
    return 0;
}

int64_t test_allocations_live(void)
{
    return 0;
}

void test_allocations_fail(uint64_t n)
{
    (void)n;
}

void test_allocations_fail_anywhere(uint64_t n)
{
    (void)n;
}

bool test_allocations_have_failed(void)
{
    return false;
}

#endif
