/*
 * doctor_machine.c: reads facts about the machine and the limits of this process from the system.
 */
#define _GNU_SOURCE /* CPU_COUNT, getloadavg */
#include "cli/doctor.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/isa.h"
#include "core/threads.h"

/* Reads the first line of a file; "" when it cannot be read. */
static void read_line(const char *path, char *out, size_t size_bytes)
{
    FILE *stream = fopen(path, "r");

    out[0] = '\0';
    if (stream == NULL)
        return;
    if (fgets(out, (int)size_bytes, stream) != NULL)
        out[strcspn(out, "\n")] = '\0';
    fclose(stream);
}

static void read_processor(doctor_machine *m)
{
    FILE *stream = fopen("/proc/cpuinfo", "r");
    char line[512];

    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0)
            continue;
        snprintf(m->processor, sizeof m->processor, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (stream != NULL)
        fclose(stream);
}

static void count_processors(doctor_machine *m)
{
    char line[128];
    double quota, period;
    cpu_set_t set;

    m->online = bgi_processors_online();
    CPU_ZERO(&set);
    m->allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 0;
    read_line("/sys/fs/cgroup/cpu.max", line, sizeof line);
    if (sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0.0)
        m->quota = quota / period;
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", m->governor, sizeof m->governor);
    if (getloadavg(&m->load, 1) != 1)
        m->load = 0.0;
}

static void read_memory(doctor_machine *m)
{
    FILE *stream = fopen("/proc/meminfo", "r");
    uint64_t swap[2] = {0, 0}, kilobytes;
    char line[256];

    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        if (sscanf(line, "MemTotal: %" SCNu64, &kilobytes) == 1)
            m->memory_bytes = kilobytes * 1024;
        else if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1)
            m->available_bytes = kilobytes * 1024;
        else if (sscanf(line, "SwapTotal: %" SCNu64, &kilobytes) == 1)
            swap[0] = kilobytes * 1024;
        else if (sscanf(line, "SwapFree: %" SCNu64, &kilobytes) == 1)
            swap[1] = kilobytes * 1024;
    }
    if (stream != NULL)
        fclose(stream);
    m->swap_used_bytes = swap[0] > swap[1] ? swap[0] - swap[1] : 0;
    read_line("/sys/fs/cgroup/memory.max", line, sizeof line);
    m->memory_limit_bytes = strtoull(line, NULL, 10); /* "max", which means no limit, becomes 0 */
}

static void read_caches(doctor_machine *m)
{
    for (int index = 0; index < DOCTOR_MOST_CACHES; index++) {
        char path[128], level[16], kind[32], size[32];

        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
        read_line(path, level, sizeof level);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", index);
        read_line(path, kind, sizeof kind);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        read_line(path, size, sizeof size);
        if (level[0] == '\0' || strcmp(kind, "Instruction") == 0)
            continue;
        snprintf(m->caches[m->cache_count].name, sizeof m->caches[0].name, "L%.8s", level);
        m->caches[m->cache_count].bytes = strtoull(size, NULL, 10) * (strchr(size, 'M') != NULL   ? 1u << 20
                                                                      : strchr(size, 'K') != NULL ? 1u << 10
                                                                                                  : 1u);
        m->cache_count++;
    }
}

/* Returns the soft limit; UINT64_MAX if there is no limit, or if getrlimit has returned an error (`failed`). */
static uint64_t value_of(int failed, const struct rlimit *limit)
{
    return failed != 0 || limit->rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit->rlim_cur;
}

/* Reads the setting of transparent huge pages, which the system marks by brackets: "always [madvise] never". */
static void read_huge_pages(doctor_machine *m)
{
    char line[128];
    const char *begin;

    read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    begin = strchr(line, '[');
    if (begin != NULL)
        snprintf(m->huge_pages, sizeof m->huge_pages, "%.*s", (int)strcspn(begin + 1, "]"), begin + 1);
}

void doctor_look(doctor_machine *out)
{
    struct rlimit limit;

    memset(out, 0, sizeof *out);
    read_processor(out);
    count_processors(out);
    read_memory(out);
    read_caches(out);
    read_huge_pages(out);
    snprintf(out->sets, sizeof out->sets, "%s", bgi_isa_name(bgi_cpu_isa()));
    out->file_limit = value_of(getrlimit(RLIMIT_NOFILE, &limit), &limit);
    out->address_limit = value_of(getrlimit(RLIMIT_AS, &limit), &limit);
    out->lock_limit = value_of(getrlimit(RLIMIT_MEMLOCK, &limit), &limit);
    out->size_limit = value_of(getrlimit(RLIMIT_FSIZE, &limit), &limit);
}
