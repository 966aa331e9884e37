/*
 * taken.c: finds processors to which threads of any process are bound. So two sessions that pin threads do not share
 * processors while others are free. The system reports bound threads. The library keeps no list of them, because such a
 * list would be wrong after a crash. On a system that does not report bound threads, no processor counts as taken.
 */
#define _GNU_SOURCE /* sched_getaffinity, CPU_ALLOC */

#include "runtime/placement.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"

enum { MOST_CPUS = 1 << 16, KERNEL_THREAD = 0x00200000, TRIES = 200, NAP_NS = 5000000 };

/* ---- one session at a time ---- */

/* Takes the lock, which is the name of an abstract socket: only one process can have the name, and the system releases
 * it when the process ends. */
int bgi_placement_lock(void)
{
    static const char name[] = "brigade-pinning";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path + 1, name, sizeof name - 1);
    for (int i = 0; lock >= 0 && i < TRIES; i++) {
        if (bind(lock, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name)) == 0 ||
            errno != EADDRINUSE)
            break;
        bgi_clock_sleep(NAP_NS);
    }
    return lock;
}

void bgi_placement_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* ---- affinity of other processes ---- */

/* Whether a process has ended or is a thread of the kernel, which has bound threads on each processor. */
static bool is_of_system(const char *process)
{
    char path[64], text[512] = "";
    const char *after;
    unsigned long flags = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%.20s/stat", process);
    file = fopen(path, "re");
    if (file == NULL)
        return true; /* the thread has ended */
    if (fgets(text, sizeof text, file) == NULL)
        text[0] = '\0';
    fclose(file);
    after = strrchr(text, ')'); /* the preceding name may contain any character */
    return after == NULL || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1 ||
           (flags & KERNEL_THREAD) != 0;
}

/* Notes the processor of a thread that may use only one. */
static void note_thread(pid_t thread, cpu_set_t *set, cpu_set_t *taken)
{
    const size_t set_bytes = CPU_ALLOC_SIZE(MOST_CPUS);

    CPU_ZERO_S(set_bytes, set);
    if (sched_getaffinity(thread, set_bytes, set) == 0 && CPU_COUNT_S(set_bytes, set) == 1)
        CPU_OR_S(set_bytes, taken, taken, set);
}

static void note_process(const char *process, cpu_set_t *set, cpu_set_t *taken)
{
    char path[64];
    DIR *threads;

    snprintf(path, sizeof path, "/proc/%.20s/task", process);
    threads = opendir(path);
    if (threads == NULL)
        return;
    for (const struct dirent *entry = readdir(threads); entry != NULL; entry = readdir(threads))
        if (isdigit((unsigned char)entry->d_name[0]))
            note_thread((pid_t)atol(entry->d_name), set, taken);
    closedir(threads);
}

static void note_all(cpu_set_t *set, cpu_set_t *taken)
{
    DIR *processes = opendir("/proc");

    if (processes == NULL)
        return;
    for (const struct dirent *entry = readdir(processes); entry != NULL; entry = readdir(processes))
        if (isdigit((unsigned char)entry->d_name[0]) && !is_of_system(entry->d_name))
            note_process(entry->d_name, set, taken);
    closedir(processes);
}

/* ---- free processors first ---- */

/* Moves taken processors to the end, and otherwise keeps the order. */
void bgi_placement_sort(bgi_placement *placement, bool (*is_taken)(const void *user, uint32_t cpu), const void *user)
{
    uint32_t *later = malloc(placement->cpu_count * sizeof *later);
    uint32_t kept = 0, moved = 0, cores = 0;

    if (later == NULL)
        return;
    for (uint32_t i = 0; i < placement->cpu_count; i++) {
        const uint32_t cpu = placement->cpus[i];
        if (is_taken(user, cpu)) {
            later[moved++] = cpu;
            continue;
        }
        cores += i < placement->core_count;
        placement->cpus[kept++] = cpu;
    }
    memcpy(placement->cpus + kept, later, moved * sizeof *later);
    placement->core_count = cores;
    free(later);
}

static bool is_in(const void *user, uint32_t cpu)
{
    return cpu < MOST_CPUS && CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(MOST_CPUS), (const cpu_set_t *)user);
}

void bgi_placement_avoid(bgi_placement *placement)
{
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS), *taken = CPU_ALLOC(MOST_CPUS);

    if (set != NULL && taken != NULL && placement->cpus != NULL) {
        CPU_ZERO_S(CPU_ALLOC_SIZE(MOST_CPUS), taken);
        note_all(set, taken);
        bgi_placement_sort(placement, is_in, taken);
    }
    if (set != NULL)
        CPU_FREE(set);
    if (taken != NULL)
        CPU_FREE(taken);
}
