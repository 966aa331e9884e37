/*
 * arena.h: declares bump allocation for objects that are freed together. There is one arena per long-lived owner
 * (graph, plan, trace) and one scratch arena per compilation. Objects in an arena are not freed individually. Memory is
 * zeroed.
 *
 * With the address sanitizer every object is a separate malloc, so that an overrun of one object is detected.
 */
#ifndef BGI_CORE_ARENA_H
#define BGI_CORE_ARENA_H

#include <brigade/base.h>

typedef struct bgi_arena {
    struct bgi_arena_chunk *chunks; /* newest first */
    size_t next_chunk_bytes;
    bg_allocator allocator; /* allocator of the chunks; set it before the first allocation */
} bgi_arena;

/* Frees all objects; the arena stays valid and keeps its allocator. A zeroed arena is valid and empty. */
void bgi_arena_clear(bgi_arena *arena);

/* Allocates zeroed, 16-byte aligned memory. Returns NULL if memory is exhausted or the product overflows. A size of
 * zero gives a valid pointer. */
void *bgi_arena_allocate(bgi_arena *arena, size_t count, size_t element_bytes);
void *bgi_arena_copy(bgi_arena *arena, const void *source, size_t size_bytes);
char *bgi_arena_string(bgi_arena *arena, const char *text);
char *bgi_arena_format(bgi_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Grows a malloc'ed array so that it can hold `needed` elements. Returns false, with the array unchanged, if memory is
 * exhausted. */
_Bool bgi_array_reserve(void **array, size_t *capacity, size_t needed, size_t element_bytes);

/* Allocates size_bytes of zeroed memory, aligned to `alignment`, a power of two. The caller frees it with free(). */
void *bgi_aligned_allocate(size_t alignment, size_t size_bytes);
/* Does the same without zeroing the memory. */
void *bgi_aligned_reserve(size_t alignment, size_t size_bytes);
enum { BGI_PAGE_BYTES = 4096 };
/* Rounds up to whole pages. */
static inline size_t bgi_whole_pages(size_t size_bytes)
{
    return (size_bytes + BGI_PAGE_BYTES - 1) / BGI_PAGE_BYTES * BGI_PAGE_BYTES;
}
/* Returns zeroed memory for `count` elements in whole pages, or NULL; release with free(). The function is for data
 * that a thread writes in each run. If such data shared a cache line with memory of another thread's session, both
 * threads would wait for the line. Separate lines of the same page are not enough, because processors prefetch within a
 * page. */
void *bgi_take_pages(size_t count, size_t element_bytes);
/* Returns the bytes that a block of size_bytes occupies on a system with huge pages, after all of the block except
 * untouched_bytes was written. */
size_t bgi_aligned_resident_bytes(size_t size_bytes, size_t untouched_bytes);

/* Do the same as bgi_aligned_allocate and bgi_aligned_reserve with a caller's allocator, or with the C library's if
 * `allocator` is all-zero. Release the memory with bgi_memory_return and the same size; `memory` may be NULL. */
void *bgi_memory_take(const bg_allocator *allocator, size_t alignment, size_t size_bytes);
void *bgi_memory_reserve(const bg_allocator *allocator, size_t alignment, size_t size_bytes);
void bgi_memory_return(const bg_allocator *allocator, void *memory, size_t size_bytes);
/* Returns BG_ERROR_INVALID if only one of the allocator's two functions is set. NULL is valid. */
bg_status bgi_allocator_check(const bg_allocator *allocator, bg_error *error);

/* Rounds up to whole cache lines, in which a device's memory is allocated. */
static inline size_t bgi_align(size_t size)
{
    return (size + 63) / 64 * 64;
}

#endif
