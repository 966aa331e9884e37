/*
 * protected_device.c: memory that the system protects against access.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "copied/protected_device.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

enum { PAGE_BYTES = 4096 };

typedef struct protected_device {
    bgi_device base;
    size_t arena_bytes, store_bytes; /* whole pages */
    bool owns_store;
    bool is_open;
    uint32_t depth; /* of enter */
    uint32_t number;
    const bg_kernel *kernel; /* launched, but not waited for yet */
    const bg_kernel_call *call;
    bgi_launch how;
    struct protected_device *next;
} protected_device;

/* Guards all following variables, and each device's depth. The signal handler only reads them. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static protected_device *first;
static uint32_t created;
static bool stays_open;
static protected_device *last_left; /* the open device that no worker uses */

void test_device_stay_open(void)
{
    stays_open = true;
}

static protected_device *of(bgi_device *device)
{
    return (protected_device *)device;
}

static size_t to_pages(size_t size_bytes)
{
    return (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* ---- faults ---- */

static bool is_in(const char *address, const char *memory, size_t size_bytes)
{
    return memory != NULL && address >= memory && address < memory + size_bytes;
}

static void report_fault(int number, siginfo_t *info, void *context)
{
    const char *address = info->si_addr;
    char text[160];

    (void)number;
    (void)context;
    for (const protected_device *d = first; d != NULL; d = d->next) {
        const bool in_arena = is_in(address, d->base.arena, d->arena_bytes);
        if (!in_arena && !is_in(address, d->base.store, d->store_bytes))
            continue;
        snprintf(text, sizeof text, "byte %zu of the %s of device %u touched by somebody else\n",
                 (size_t)(address - (in_arena ? d->base.arena : d->base.store)), in_arena ? "arena" : "store",
                 d->number);
        if (write(STDERR_FILENO, text, strlen(text)) < 0)
            _exit(TEST_FAULT_EXIT + 1);
        _exit(TEST_FAULT_EXIT);
    }
    signal(SIGSEGV, SIG_DFL);
}

static void watch_faults(void)
{
    struct sigaction action = {.sa_sigaction = report_fault, .sa_flags = SA_SIGINFO};

    sigaction(SIGSEGV, &action, NULL);
}

/* ---- creation and destruction ---- */

static void protect(protected_device *d, int how)
{
    if (stays_open)
        how = PROT_READ | PROT_WRITE;
    if (stays_open && d->is_open)
        return;
    d->is_open = how != PROT_NONE;
    if (d->arena_bytes > 0 && mprotect(d->base.arena, d->arena_bytes, how) != 0)
        abort();
    if (d->base.store != NULL && mprotect(d->base.store, d->store_bytes, how) != 0)
        abort();
}

static void destroy(bgi_device *device)
{
    protected_device *d = of(device), **link = &first;

    if (device == NULL)
        return;
    pthread_mutex_lock(&mutex);
    last_left = last_left == d ? NULL : last_left;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    pthread_mutex_unlock(&mutex);
    protect(d, PROT_READ | PROT_WRITE);
    munmap(device->arena, d->arena_bytes);
    if (d->owns_store)
        munmap(device->store, d->store_bytes);
    free(d);
}

static char *take(size_t size_bytes)
{
    void *memory = mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static bg_status create(const bgi_device_setup *setup, bgi_device **out, bg_error *error)
{
    protected_device *d = calloc(1, sizeof *d);

    if (d == NULL)
        return bgi_error_memory(error, "a device", sizeof *d);
    d->base.type = &test_device_protected;
    d->arena_bytes = to_pages(setup->arena_bytes + 1);
    d->base.arena = take(d->arena_bytes);
    d->store_bytes = to_pages(setup->store_bytes);
    d->owns_store = setup->store == NULL && setup->store_bytes > 0;
    d->base.store = d->owns_store ? take(d->store_bytes) : setup->store;
    protect(d, PROT_NONE);
    pthread_mutex_lock(&mutex);
    d->number = created++;
    d->next = first;
    first = d;
    watch_faults();
    pthread_mutex_unlock(&mutex);
    *out = &d->base;
    return BG_OK;
}

/* ---- work ---- */

static void close_last(void)
{
    if (last_left != NULL && last_left->depth == 0)
        protect(last_left, PROT_NONE);
}

/* Protecting memory needs slow system calls. One thread works for all devices, so a device stays open after `leave`
 * until the thread enters another device. Two devices may be open while the thread works for both, and the host may
 * copy while the worker leaves. */
static void enter(bgi_device *device)
{
    protected_device *d = of(device);

    pthread_mutex_lock(&mutex);
    if (d->depth++ == 0 && d != last_left) {
        close_last();
        last_left = NULL;
        protect(d, PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock(&mutex);
}

static void leave(bgi_device *device)
{
    protected_device *d = of(device);

    pthread_mutex_lock(&mutex);
    if (--d->depth == 0 && d != last_left) {
        close_last();
        last_left = d;
    }
    pthread_mutex_unlock(&mutex);
}

static void copy(bgi_device *device, void *to, const void *from, size_t size_bytes)
{
    enter(device);
    memcpy(to, from, size_bytes);
    leave(device);
}

static void launch(bgi_device *device, const bg_kernel *kernel, const bg_kernel_call *call, const bgi_launch *how)
{
    protected_device *d = of(device);

    if (d->kernel != NULL)
        abort(); /* no thread has waited for the previous launch */
    d->kernel = kernel;
    d->call = call;
    d->how = *how;
}

static void wait_for_launch(bgi_device *device)
{
    protected_device *d = of(device);
    const bg_kernel *kernel = d->kernel;

    d->kernel = NULL;
    bgi_device_cpu.launch(device, kernel, d->call, &d->how);
}

const bgi_device_type test_device_protected = {.name = "protected",
                                               .create = create,
                                               .destroy = destroy,
                                               .copy_in = copy,
                                               .copy_out = copy,
                                               .copy = copy,
                                               .enter = enter,
                                               .leave = leave,
                                               .launch = launch,
                                               .wait = wait_for_launch};
