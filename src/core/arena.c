/*
 * arena.c: allocates from a list of chunks, each twice as large as the previous one up to a bound. It also allocates
 * large memory.
 */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "core/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/threads.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_MALLOC_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_MALLOC_EACH 1
#endif
#endif
#ifndef ARENA_MALLOC_EACH
#define ARENA_MALLOC_EACH 0
#endif

enum { ALIGNMENT = 16, FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

struct bgi_arena_chunk {
    struct bgi_arena_chunk *next;
    size_t used_bytes;
    size_t size_bytes;
    size_t pad; /* keeps data 16-byte aligned */
    unsigned char data[];
};

void bgi_arena_clear(bgi_arena *arena)
{
    struct bgi_arena_chunk *chunk = arena->chunks;

    while (chunk != NULL) {
        struct bgi_arena_chunk *next = chunk->next;
        bgi_memory_return(&arena->allocator, chunk, sizeof *chunk + chunk->size_bytes);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->next_chunk_bytes = 0;
}

/* Allocates a zeroed chunk. calloc is faster than clearing if the system provides fresh pages. */
static struct bgi_arena_chunk *take_chunk(const bg_allocator *allocator, size_t size_bytes)
{
    return allocator->allocate == NULL ? calloc(1, size_bytes) : bgi_memory_take(allocator, ALIGNMENT, size_bytes);
}

static struct bgi_arena_chunk *add_chunk(bgi_arena *arena, size_t wanted_bytes)
{
    size_t size = arena->next_chunk_bytes == 0 ? FIRST_CHUNK_BYTES : arena->next_chunk_bytes;
    struct bgi_arena_chunk *chunk;

    if (ARENA_MALLOC_EACH || size < wanted_bytes)
        size = wanted_bytes;
    if (size > SIZE_MAX - sizeof *chunk)
        return NULL;
    chunk = take_chunk(&arena->allocator, sizeof *chunk + size);
    if (chunk == NULL)
        return NULL;
    chunk->size_bytes = size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->next_chunk_bytes = size >= LARGEST_CHUNK_BYTES ? LARGEST_CHUNK_BYTES : 2 * size;
    if (arena->next_chunk_bytes < FIRST_CHUNK_BYTES)
        arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
    return chunk;
}

void *bgi_arena_allocate(bgi_arena *arena, size_t count, size_t element_bytes)
{
    struct bgi_arena_chunk *chunk = arena->chunks;
    size_t size;
    void *taken;

    if (element_bytes != 0 && count > (SIZE_MAX - ALIGNMENT) / element_bytes)
        return NULL;
    size = count * element_bytes;
    if (!ARENA_MALLOC_EACH)
        size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (ARENA_MALLOC_EACH || chunk == NULL || chunk->size_bytes - chunk->used_bytes < size)
        chunk = add_chunk(arena, size);
    if (chunk == NULL)
        return NULL;
    taken = chunk->data + chunk->used_bytes;
    chunk->used_bytes += size;
    return taken;
}

void *bgi_arena_copy(bgi_arena *arena, const void *source, size_t size_bytes)
{
    void *copy = bgi_arena_allocate(arena, 1, size_bytes);

    if (copy != NULL && size_bytes > 0)
        memcpy(copy, source, size_bytes);
    return copy;
}

char *bgi_arena_string(bgi_arena *arena, const char *text)
{
    return bgi_arena_copy(arena, text, strlen(text) + 1);
}

char *bgi_arena_format(bgi_arena *arena, const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    text = bgi_arena_allocate(arena, 1, (size_t)length + 1);
    if (text == NULL)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

_Bool bgi_array_reserve(void **array, size_t *capacity, size_t needed, size_t element_bytes)
{
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    void *grown;

    if (needed <= *capacity)
        return 1;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2)
            return 0;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / element_bytes)
        return 0;
    grown = realloc(*array, wanted * element_bytes);
    if (grown == NULL)
        return 0;
    *array = grown;
    *capacity = wanted;
    return 1;
}

/* Only allocations of at least half a huge page use huge pages, so that rounding up at most doubles the memory. */
enum { HUGE_PAGE_BYTES = 2 << 20, HUGE_PAGES_FROM_BYTES = HUGE_PAGE_BYTES / 2 };

static size_t round_to_huge_pages(size_t size_bytes)
{
    return (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

size_t bgi_aligned_resident_bytes(size_t size_bytes, size_t untouched_bytes)
{
    if (size_bytes < HUGE_PAGES_FROM_BYTES)
        return size_bytes - untouched_bytes;
    return round_to_huge_pages(size_bytes) - untouched_bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

/* Returns memory for which huge pages are requested; NULL if the system has no such request or no memory. Kernels read
 * tensors with large strides, often a page or more, and the tensors of a pipeline are in the memory of several devices.
 * With pages of 4096 bytes the processor would spend its time on address translation. */
static void *take_huge_pages(size_t alignment, size_t size_bytes)
{
    void *memory = NULL;

#if defined(MADV_HUGEPAGE)
    const size_t whole_bytes = round_to_huge_pages(size_bytes);

    if (whole_bytes < size_bytes ||
        posix_memalign(&memory, alignment < HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : alignment, whole_bytes) != 0)
        return NULL;
    madvise(memory, whole_bytes, MADV_HUGEPAGE);
#else
    (void)alignment, (void)size_bytes;
#endif
    return memory;
}

void *bgi_aligned_reserve(size_t alignment, size_t size_bytes)
{
    void *memory = size_bytes >= HUGE_PAGES_FROM_BYTES ? take_huge_pages(alignment, size_bytes) : NULL;

    if (memory == NULL && posix_memalign(&memory, alignment, size_bytes == 0 ? alignment : size_bytes) != 0)
        return NULL;
    return memory;
}

void *bgi_aligned_allocate(size_t alignment, size_t size_bytes)
{
    void *memory = bgi_aligned_reserve(alignment, size_bytes);

    if (memory != NULL)
        memset(memory, 0, size_bytes);
    return memory;
}

void *bgi_take_pages(size_t count, size_t element_bytes)
{
    if (element_bytes != 0 && count > SIZE_MAX / element_bytes / 2)
        return NULL;
    return bgi_aligned_allocate(BGI_PAGE_BYTES, bgi_whole_pages(count * element_bytes));
}

void *bgi_memory_reserve(const bg_allocator *allocator, size_t alignment, size_t size_bytes)
{
    if (allocator->allocate == NULL)
        return bgi_aligned_reserve(alignment, size_bytes);
    return allocator->allocate(allocator->user, alignment, size_bytes > 0 ? size_bytes : 1);
}

void *bgi_memory_take(const bg_allocator *allocator, size_t alignment, size_t size_bytes)
{
    void *memory = bgi_memory_reserve(allocator, alignment, size_bytes);

    if (memory != NULL)
        memset(memory, 0, size_bytes);
    return memory;
}

void bgi_memory_return(const bg_allocator *allocator, void *memory, size_t size_bytes)
{
    if (allocator->release == NULL)
        free(memory);
    else if (memory != NULL)
        allocator->release(allocator->user, memory, size_bytes > 0 ? size_bytes : 1);
}

bg_status bgi_allocator_check(const bg_allocator *allocator, bg_error *error)
{
    if (allocator == NULL || (allocator->allocate == NULL) == (allocator->release == NULL))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "an allocator with %s without %s; set both, or neither",
                        allocator->allocate != NULL ? "allocate" : "release",
                        allocator->allocate != NULL ? "release" : "allocate");
}
