/*
 * allocations.h: counts heap allocations, and lets the n-th one fail. It works under glibc without sanitizers, where it
 * replaces malloc; elsewhere test_allocations_available is false and the other functions do nothing.
 */
#ifndef TESTS_SUPPORT_ALLOCATIONS_H
#define TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

bool test_allocations_available(void);

/* Returns the number of calls of malloc, calloc, realloc and the aligned functions in the whole process so far. */
uint64_t test_allocations_count(void);
/* Returns the number of blocks that the program itself (not a shared library) has allocated since the first call of
 * this function and not freed. */
int64_t test_allocations_live(void);

/* Makes the n-th allocation of the program itself from now on (1: the next one) fail once; 0: no allocation fails.
 * Allocations of shared libraries succeed, because not all of these libraries survive a failure. */
void test_allocations_fail(uint64_t n);
/* Does the same as test_allocations_fail, but counts allocations of shared libraries too. */
void test_allocations_fail_anywhere(uint64_t n);
/* Returns whether the allocation that was to fail has failed. */
bool test_allocations_have_failed(void);

#endif
