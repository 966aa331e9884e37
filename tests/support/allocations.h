/*
 * allocations.h: counts heap allocations, and lets the n-th one fail. Works under glibc without sanitizers (it takes
 * malloc's place there); elsewhere test_allocations_available is false and the rest does nothing.
 */
#ifndef TESTS_SUPPORT_ALLOCATIONS_H
#define TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

bool test_allocations_available(void);

/* Calls of malloc, calloc, realloc and the aligned ones so far, by the whole process. */
uint64_t test_allocations_count(void);
/* Blocks that the program itself (not a shared library) has taken since the first call of this, and not given back. */
int64_t test_allocations_live(void);

/* From now on the n-th allocation that the program itself makes fails (1: the next one), once. 0: none does.
 * Allocations of shared libraries succeed, because not all of these libraries survive a failure. */
void test_allocations_fail(uint64_t n);
/* The same, and those of shared libraries count too. */
void test_allocations_fail_anywhere(uint64_t n);
/* Whether it has. */
bool test_allocations_have_failed(void);

#endif
