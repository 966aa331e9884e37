/*
 * host_memory.c: before allocation, compares the memory that a session needs with the available memory. A system that
 * overcommits grants any address space, and kills a process when the pages are touched.
 *
 *     machine          MemAvailable + SwapFree of /proc/meminfo
 *     control groups   limit - (usage - file cache), of the group in /proc/self/cgroup and all above it (v2, and v1's
 *                      memory controller); in a container the path may be the host's: then the mount's own files count
 *
 * The smallest of these limits applies. File cache counts as free, because the system drops it first.
 */
#include "runtime/host_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { PATH_BYTES = 4352, LINE_BYTES = 4224 };

/* ---- small files of numbers ---- */

static bool read_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    while (*text == ' ' || *text == '\t')
        text++;
    if (*text < '0' || *text > '9')
        return false; /* "max" */
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text;
}

/* Reads a file that contains one number. */
static bool read_single(const char *folder, const char *name, uint64_t *out)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool is_read = false;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || (file = fopen(path, "re")) == NULL)
        return false;
    if (fgets(line, sizeof line, file) != NULL)
        is_read = read_number(line, out);
    fclose(file);
    return is_read;
}

/* Sums the values of the lines of a file that begin with one of two keys, such as "MemAvailable:" or "inactive_file ".
 * Returns false when the first key is missing. */
static bool read_keyed(const char *folder, const char *name, const char *key, const char *other, uint64_t *out)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool is_found = false;
    uint64_t value;
    FILE *file;

    *out = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || (file = fopen(path, "re")) == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL) {
        const bool is_key = strncmp(line, key, strlen(key)) == 0;
        const char *which = is_key ? key : other;
        if (strncmp(line, which, strlen(which)) != 0 || !read_number(line + strlen(which), &value))
            continue;
        is_found = is_found || is_key;
        *out += value;
    }
    fclose(file);
    return is_found;
}

/* ---- control groups ---- */

typedef struct group_files {
    const char *mount, *limit, *usage, *inactive, *active;
} group_files;

static const group_files v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "};
static const group_files v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file ", "total_active_file "};

static void take_less(bgi_host_memory *memory, uint64_t free_bytes)
{
    if (free_bytes >= memory->free_bytes)
        return;
    memory->free_bytes = free_bytes;
    memory->is_limit = true;
}

static void look_at_group(const group_files *files, const char *folder, bgi_host_memory *memory)
{
    uint64_t limit, usage, cache = 0;

    if (!read_single(folder, files->limit, &limit) || !read_single(folder, files->usage, &usage))
        return;
    read_keyed(folder, "memory.stat", files->inactive, files->active, &cache);
    usage -= cache < usage ? cache : usage;
    take_less(memory, usage < limit ? limit - usage : 0);
}

/* Reads the limits of the group and of all groups above it, up to the mount point. */
static void look_at_groups(const char *root, const group_files *files, char *group, bgi_host_memory *memory)
{
    char folder[PATH_BYTES];
    size_t mount_length;

    group[strcspn(group, "\n")] = '\0';
    mount_length = (size_t)snprintf(folder, sizeof folder, "%s%s", root, files->mount);
    if (mount_length + strlen(group) >= sizeof folder)
        return;
    strcpy(folder + mount_length, group);
    for (;;) {
        char *slash;
        look_at_group(files, folder, memory);
        slash = strrchr(folder, '/');
        if (slash == NULL || slash < folder + mount_length)
            break;
        *slash = '\0';
    }
}

/* Reads the limits of the process's control groups, which lines "0::/user.slice/x" (v2) and "4:memory:/x" (v1) name. */
static void look_at_control_groups(const char *root, bgi_host_memory *memory)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    FILE *file;

    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path ||
        (file = fopen(path, "re")) == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        if (strcmp(line, "0:") == 0)
            look_at_groups(root, &v2, group, memory);
        else if (strstr(controllers, "memory") != NULL)
            look_at_groups(root, &v1, group, memory);
    }
    fclose(file);
}

bgi_host_memory bgi_host_memory_read(const char *root)
{
    bgi_host_memory memory = {.free_bytes = UINT64_MAX};
    char folder[PATH_BYTES];
    uint64_t kilobytes;

    if (snprintf(folder, sizeof folder, "%s/proc", root) < (int)sizeof folder &&
        read_keyed(folder, "meminfo", "MemAvailable:", "SwapFree:", &kilobytes) && kilobytes < UINT64_MAX / 1024)
        memory.free_bytes = 1024 * kilobytes;
    look_at_control_groups(root, &memory);
    return memory;
}

/* ---- the comparison ---- */

bg_status bgi_host_memory_check(const bgi_host_memory *memory, const bg_plan *plan, uint64_t needed_bytes,
                                bg_error *error)
{
    char needed[BGI_BYTES_TEXT_BYTES], free_text[BGI_BYTES_TEXT_BYTES];
    const uint64_t devices = (uint64_t)plan->replicas * plan->device_count;

    if (needed_bytes <= memory->free_bytes)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_BUDGET,
                        "the session needs %s (%" PRIu64 " bytes) of memory for %" PRIu64
                        " device%s (%u replica%s), but %s has only %s (%" PRIu64
                        " bytes) free; use %ssmaller micro-batches, %sor set options.no_memory_check "
                        "to try anyway",
                        bgi_bytes_text(needed_bytes, needed), needed_bytes, devices, devices == 1 ? "" : "s",
                        plan->replicas, plan->replicas == 1 ? "" : "s",
                        memory->is_limit ? "the control group of this process" : "the machine",
                        bgi_bytes_text(memory->free_bytes, free_text), memory->free_bytes,
                        plan->replicas > 1 ? "fewer replicas or " : "",
                        plan->options.files.memmap_dir == NULL || plan->options.files.memmap_dir[0] == '\0'
                            ? "keep remote buffers in files (options.memmap_dir), "
                            : "");
}
