/*
 * allocations.c: a library to be preloaded (LD_PRELOAD) into any program, which makes the n-th allocation of the whole
 * process fail once, even inside other libraries or the C library.
 *
 *     BRIGADE_TEST_FAIL=N       which one (1: the first); 0 or nothing: none fails
 *     BRIGADE_TEST_COUNT=FILE   how many there were, written when the process ends
 *
 * It needs glibc, which provides the original functions under other names, and does not work with sanitizers, which
 * replace them.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic uint64_t count;
static uint64_t failing;
static const char *count_file;

/* Begins the count, so that allocations by the dynamic linker and by earlier constructors are not counted. */
__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("BRIGADE_TEST_FAIL");

    count_file = getenv("BRIGADE_TEST_COUNT");
    for (failing = 0; text != NULL && *text >= '0' && *text <= '9'; text++)
        failing = failing * 10 + (uint64_t)(*text - '0');
    atomic_store(&count, 0);
}

__attribute__((destructor)) static void end(void)
{
    char digits[24];
    size_t at = sizeof digits;
    int descriptor = count_file != NULL ? open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    if (descriptor < 0)
        return;
    digits[--at] = '\n';
    for (uint64_t left = atomic_load(&count); left > 0; left /= 10)
        digits[--at] = (char)('0' + left % 10);
    if (write(descriptor, digits + at, sizeof digits - at) < 0)
        unlink(count_file); /* if the file cannot be written, the count is unknown */
    close(descriptor);
}

static bool is_refused(void)
{
    const bool refused = atomic_fetch_add(&count, 1) + 1 == failing;

    if (refused)
        errno = ENOMEM;
    return refused;
}

void *malloc(size_t size)
{
    return is_refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t element_count, size_t size)
{
    return is_refused() ? NULL : __libc_calloc(element_count, size);
}

void *realloc(void *memory, size_t size)
{
    return is_refused() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *memory = is_refused() ? NULL : __libc_memalign(alignment, size);

    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}
