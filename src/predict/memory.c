/*
 * memory.c: computes the parts of a process's memory. The runtime allocates arenas and stores as whole blocks and
 * clears them, so all their bytes are resident. Other memory is counted if it grows with the plan; two constants cover
 * the remaining memory.
 */
#include "predict/memory.h"

#include <stdio.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/record.h"

/* Bytes of pages that a worker touches: its stack, and the C library's data about the thread. */
enum { THREAD_BYTES = 32 << 10 };
/* Bytes of pages of code that only a run touches: kernels and the runtime. */
enum { CODE_BYTES = 11 << 17 };

static const char *const names[BGI_PROCESS_PART_COUNT] = {"weights", "gradients", "optimizer", "activations",
                                                          "stores",  "host",      "runtime",   "threads",
                                                          "pages",   "data",      "program"};

const char *bgi_process_part_name(bgi_process_part part)
{
    return (unsigned)part < BGI_PROCESS_PART_COUNT ? names[part] : "?";
}

bool bgi_process_memory_read(size_t *out_bytes, size_t *out_peak_bytes)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long long kb;
    bool has_bytes = false, has_peak = false;
    char line[128];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "VmRSS: %llu kB", &kb) == 1) {
            *out_bytes = (size_t)kb << 10;
            has_bytes = true;
        } else if (sscanf(line, "VmHWM: %llu kB", &kb) == 1) {
            *out_peak_bytes = (size_t)kb << 10;
            has_peak = true;
        }
    }
    if (file != NULL)
        fclose(file);
    return has_bytes && has_peak;
}

/* ---- devices ---- */

/* Returns whether the system gives huge pages on request. bgi_aligned_reserve requests them. */
static bool has_huge_pages(void)
{
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    char line[64];
    const bool has = file != NULL && fgets(line, sizeof line, file) != NULL && strstr(line, "[never]") == NULL;

    if (file != NULL)
        fclose(file);
    return has;
}

/* Returns the memory that a block takes beyond its bytes. The first `untouched` bytes are not counted. */
static size_t count_page_bytes(bool has_pages, size_t block_bytes, size_t untouched)
{
    return has_pages ? bgi_aligned_resident_bytes(block_bytes, untouched) - (block_bytes - untouched) : 0;
}

static void add_devices(const bg_plan *plan, bool has_pages, size_t *bytes)
{
    const bool has_allocator = plan->options.memory.allocate != NULL;

    for (uint32_t d = 0; d < plan->device_count; d++) {
        const bgi_plan_device *device = &plan->devices[d];
        const size_t untouched = (size_t)bgi_in_place_bytes(plan, d);
        size_t rest = device->arena_bytes;

        for (int k = BG_MEMORY_WEIGHTS; k <= BG_MEMORY_STATE; k++)
            rest -= device->class_bytes[k];
        bytes[BGI_PROCESS_WEIGHTS] += device->class_bytes[BG_MEMORY_WEIGHTS] - untouched;
        bytes[BGI_PROCESS_GRADIENTS] += device->class_bytes[BG_MEMORY_GRADIENTS];
        bytes[BGI_PROCESS_OPTIMIZER] += device->class_bytes[BG_MEMORY_STATE];
        bytes[BGI_PROCESS_ACTIVATIONS] += rest;
        bytes[BGI_PROCESS_STORES] += device->remote_bytes;
        bytes[BGI_PROCESS_PAGES] += count_page_bytes(has_pages && !has_allocator, device->arena_bytes, untouched) +
                                    count_page_bytes(has_pages && !has_allocator, device->remote_bytes, 0);
    }
    for (int k = BGI_PROCESS_WEIGHTS; k < BGI_PROCESS_PART_COUNT; k++)
        bytes[k] *= plan->replicas;
}

/* ---- the host ---- */

/* Returns whether the variable is the first one of its weight. */
static bool is_first_of_weight(const bg_plan *plan, uint32_t number)
{
    const bg_section *section = plan->variables[number].section;

    for (uint32_t i = 0; section != NULL && i < number; i++)
        if (plan->variables[i].section != NULL && strcmp(plan->variables[i].section->name, section->name) == 0)
            return false;
    return true;
}

/* Adds the memory of values on the host. In training, only the devices keep values. A value that is sharded over
 * devices is joined and split in two buffers. */
static void add_host(const bg_plan *plan, bool has_pages, size_t *bytes)
{
    size_t largest_whole = 0, largest_part = 0;

    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const bgi_plan_variable *variable = &plan->variables[i];
        const size_t whole = bg_type_size_bytes(bgi_plan_variable_whole(variable));
        const bool is_cut = variable->section != NULL || variable->shard != NULL;

        if (variable->role == BG_ROLE_ACCUMULATOR || i == plan->hyper_variable)
            continue;
        if (!plan->training && is_first_of_weight(plan, i)) {
            bytes[BGI_PROCESS_HOST] += whole;
            bytes[BGI_PROCESS_PAGES] += count_page_bytes(has_pages && plan->options.memory.allocate == NULL, whole, 0);
        }
        if ((is_cut || (variable->piece_count > 0 && plan->replicas > 1)) && whole > largest_whole)
            largest_whole = whole;
        if (is_cut && bg_type_size_bytes(&variable->type) > largest_part)
            largest_part = bg_type_size_bytes(&variable->type);
    }
    bytes[BGI_PROCESS_HOST] += largest_whole + largest_part;
}

/* ---- the process ---- */

bg_status bgi_process_memory_predict(const bg_plan *plan, uint32_t cores, size_t data_bytes, bgi_process_memory *out,
                                     bg_error *error)
{
    bgi_process_memory memory = {.planning_bytes = 0};
    size_t now, sum = 0;
    bool has_pages;

    if (!bgi_process_memory_read(&now, &memory.planning_bytes))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "this system does not report the memory of a process");
    has_pages = has_huge_pages();
    add_devices(plan, has_pages, memory.bytes);
    add_host(plan, has_pages, memory.bytes);
    memory.bytes[BGI_PROCESS_RUNTIME] = (size_t)bgi_engine_table_bytes(plan) + CODE_BYTES;
    memory.bytes[BGI_PROCESS_THREADS] = (size_t)cores * THREAD_BYTES;
    memory.bytes[BGI_PROCESS_DATA] = data_bytes;
    memory.bytes[BGI_PROCESS_PROGRAM] = now;
    for (int k = 0; k < BGI_PROCESS_PART_COUNT; k++)
        sum += memory.bytes[k];
    memory.peak_bytes = sum > memory.planning_bytes ? sum : memory.planning_bytes;
    *out = memory;
    return BG_OK;
}

bg_status bgi_process_memory_print(const bgi_process_memory *memory, char **out_text, bg_error *error)
{
    char size[BGI_BYTES_TEXT_BYTES];
    bgi_string text = {0};
    const char *between = "";

    bgi_string_add(&text, "the process takes %s: ", bgi_bytes_text(memory->peak_bytes, size));
    for (int k = 0; k < BGI_PROCESS_PART_COUNT; k++) {
        if (memory->bytes[k] == 0)
            continue;
        bgi_string_add(&text, "%s%s %s", between, names[k], bgi_bytes_text(memory->bytes[k], size));
        between = ", ";
    }
    bgi_string_add(&text, "\n");
    return bgi_string_finish(&text, out_text, error);
}
