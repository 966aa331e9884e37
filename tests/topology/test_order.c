/*
 * test_order.c: tests the order of processors by cores.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/topology.h>

enum { MOST = 1024 };

static uint32_t list_allowed(uint32_t cpus[MOST])
{
    uint32_t count = 0;
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (uint32_t cpu = 0; cpu < MOST; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[count++] = cpu;
    return count;
}

/* Returns the lowest number of a processor on the core of processor `cpu`, according to the system's files. */
static uint32_t core_of(uint32_t cpu)
{
    char path[128];
    unsigned first = cpu;
    FILE *file;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    file = fopen(path, "r");
    if (file == NULL)
        return cpu;
    if (fscanf(file, "%u", &first) != 1)
        first = cpu;
    fclose(file);
    return first;
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static uint32_t count_cores(const uint32_t *cpus, uint32_t count)
{
    uint32_t cores[MOST], found = 0;

    for (uint32_t i = 0; i < count; i++)
        cores[i] = core_of(cpus[i]);
    qsort(cores, count, sizeof *cores, compare);
    for (uint32_t i = 0; i < count; i++)
        found += i == 0 || cores[i] != cores[i - 1];
    return found;
}

/* Checks that all given processors are listed, each once, in any order of cores. With spread, each core occurs once
 * before any core occurs again. With compact, all processors of a core are adjacent. */
static void test_orders(void **state)
{
    uint32_t allowed[MOST], cpus[MOST], sorted[MOST];
    const uint32_t all = list_allowed(allowed);

    (void)state;
    for (uint32_t count = all; count > 0; count--)
        for (int spread = 0; spread < 2; spread++) {
            const bg_pinning pinning = spread ? BG_PINNING_SPREAD : BG_PINNING_COMPACT;
            uint32_t cores, changes = 1;
            memcpy(cpus, allowed, count * sizeof *cpus);
            cores = bg_topology_order(NULL, pinning, cpus, count);
            assert_int_equal(cores, count_cores(allowed, count));
            memcpy(sorted, cpus, count * sizeof *cpus);
            qsort(sorted, count, sizeof *sorted, compare);
            assert_memory_equal(sorted, allowed, count * sizeof *sorted);
            if (spread)
                assert_int_equal(count_cores(cpus, cores), cores);
            for (uint32_t i = 1; i < count; i++)
                changes += core_of(cpus[i]) != core_of(cpus[i - 1]);
            if (!spread)
                assert_int_equal(changes, cores);
        }
}

static void test_none(void **state)
{
    uint32_t cpu = 7;

    (void)state;
    assert_int_equal(bg_topology_order(NULL, BG_PINNING_COMPACT, &cpu, 0), 0);
    assert_int_equal(cpu, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_orders), cmocka_unit_test(test_none)};

    return cmocka_run_group_tests_name("topology/order", tests, NULL, NULL);
}
