/*
 * device.h: what a device's memory and execution are. Knows kernels; knows no plans, no threads and no other device.
 *
 * A device has an arena and, where the plan keeps something off it, a store. Both have a base address to which the
 * plan's offsets are added once; such an address is the device's own and need not be one of the host's. What the host
 * wants to see it copies in or out, or maps where the type can.
 *
 *     create --> [ enter --> launch, copy, copy_in, copy_out ... --> leave ] ... --> destroy
 *
 * Whoever works for a device is between `enter` and `leave`: a worker with its program, its loads and stores, or parts
 * of its calls, several at a time. The host is not: between runs it uses copy_in, copy_out and map. Devices touch no
 * memory but their own, and what a transport hands them.
 *
 * A launch begins a kernel call; `wait` returns when all that was launched is done. The runtime waits before anything
 * depends on it, so a type without `wait` has done the work when `launch` returns.
 */
#ifndef BGI_DEVICE_DEVICE_H
#define BGI_DEVICE_DEVICE_H

#include <brigade/kernel.h>

typedef struct bgi_device_type bgi_device_type;

/* Types put this first into a struct of their own. */
typedef struct bgi_device {
    const bgi_device_type *type;
    char *arena, *store; /* store: NULL when it has none */
} bgi_device;

typedef struct bgi_device_setup {
    size_t arena_bytes, store_bytes; /* of both the first bytes are aligned to a page */
    size_t
        unused_bytes; /* of the arena, its first: what is not written there is not read; the rest begins with zeros */
    /* Memory for the store, a mapped file (mapped_store.h) say, that lives as long as the device; NULL: its own. */
    void *store;
    /* Memory of the program's: bg_memory_options in options.h. NULL: the C library's. */
    void *(*allocate)(void *user, size_t alignment, size_t size_bytes);
    void (*release)(void *user, void *memory, size_t size_bytes);
    void *allocator_user;
} bgi_device_setup;

/* How the parts of a call are run. The device calls `run` for one function after the other; who runs which part is the
 * runtime's affair. */
typedef struct bgi_launch {
    void *user;
    /* Returns when all parts are done. `is_main`: the kernel's own parts, not those that combine them. */
    void (*run)(void *user, bg_kernel_function function, uint32_t part_count, bool is_main);
    /* False when the run has been given up: nothing more is done, and the kernel and its plan may be gone. */
    bool (*goes_on)(void *user);
} bgi_launch;

struct bgi_device_type {
    const char *name;
    bg_status (*create)(const bgi_device_setup *setup, bgi_device **out, bg_error *error);
    void (*destroy)(bgi_device *device); /* NULL is fine */
    /* Between the host's memory and the device's; between two places of the device's own. */
    void (*copy_in)(bgi_device *device, void *to, const void *host, size_t size_bytes);
    void (*copy_out)(bgi_device *device, void *host, const void *from, size_t size_bytes);
    void (*copy)(bgi_device *device, void *to, const void *from, size_t size_bytes);
    /* The host's address of a place; good until the next run. NULL: the host sees none of it. */
    void *(*map)(bgi_device *device, void *address);
    /* A thread begins, ends to work for the device; nested, and by several threads at a time. NULL: nothing to do. */
    void (*enter)(bgi_device *device);
    void (*leave)(bgi_device *device);
    void (*launch)(bgi_device *device, const bg_kernel *kernel, const bg_kernel_call *call, const bgi_launch *how);
    void (*wait)(bgi_device *device); /* NULL: a launch returns when the call is done */
};

static inline void bgi_device_enter(bgi_device *device)
{
    if (device->type->enter != NULL)
        device->type->enter(device);
}

static inline void bgi_device_leave(bgi_device *device)
{
    if (device->type->leave != NULL)
        device->type->leave(device);
}

/* ---- cpu.c ---- */

/* The host's processor and memory: an address is an address. */
extern const bgi_device_type bgi_device_cpu;

#endif
