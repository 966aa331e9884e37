/*
 * device.h: declares the interface of a device: its memory and the execution of kernels. It does not depend on plans,
 * threads or other devices.
 *
 * A device has an arena and, if the plan keeps values off the device, a store. Both have a base address, to which the
 * plan's offsets are added once. Such an address belongs to the device and need not be valid on the host. Values that
 * the host reads or writes are copied in or out, or mapped if the device type supports it.
 *
 *     create --> [ enter --> launch, copy, copy_in, copy_out ... --> leave ] ... --> destroy
 *
 * A thread calls `enter` before it works for a device (on its program, its loads and stores, or parts of its calls),
 * and `leave` afterward. Several threads may work at the same time. The host calls neither of the two; between runs it
 * uses copy_in, copy_out and map. A device accesses only its own memory, and memory that a transport passes to it.
 *
 * A launch begins a kernel call; `wait` returns when all launches are complete. The runtime waits before it uses the
 * results. A type without `wait` completes the call before `launch` returns.
 */
#ifndef BGI_DEVICE_DEVICE_H
#define BGI_DEVICE_DEVICE_H

#include <brigade/kernel.h>

typedef struct bgi_device_type bgi_device_type;

/* The struct of each device type begins with this struct. */
typedef struct bgi_device {
    const bgi_device_type *type;
    char *arena, *store; /* store: NULL if the device has none */
} bgi_device;

typedef struct bgi_device_setup {
    size_t arena_bytes, store_bytes; /* both begin at a page */
    size_t unused_bytes; /* the number of bytes at the arena's beginning that are written before they are read; all
                            other bytes are zero at first */
    /* Memory for the store, such as a mapped file (mapped_store.h), which must outlive the device. NULL: the device
     * allocates it. */
    void *store;
    /* Memory functions of the program: bg_memory_options in options.h. NULL: the C library's. */
    void *(*allocate)(void *user, size_t alignment, size_t size_bytes);
    void (*release)(void *user, void *memory, size_t size_bytes);
    void *allocator_user;
} bgi_device_setup;

/* How the parts of a call are run: the device calls `run` for one function after another, and the runtime decides which
 * thread runs which part. */
typedef struct bgi_launch {
    void *user;
    /* Runs all parts of a function, and returns when they are complete. `is_main` is true for the kernel's parts, and
     * false for the parts that combine their results. */
    void (*run)(void *user, bg_kernel_function function, uint32_t part_count, bool is_main);
    /* Returns false when the run has been abandoned. The device must then do nothing more, because the kernel and its
     * plan may no longer exist. */
    bool (*goes_on)(void *user);
} bgi_launch;

struct bgi_device_type {
    const char *name;
    bg_status (*create)(const bgi_device_setup *setup, bgi_device **out, bg_error *error);
    void (*destroy)(bgi_device *device); /* may be called with NULL */
    /* Copy to the device's memory from the host's, from the device's memory to the host's, and inside the device's
     * memory. */
    void (*copy_in)(bgi_device *device, void *to, const void *host, size_t size_bytes);
    void (*copy_out)(bgi_device *device, void *host, const void *from, size_t size_bytes);
    void (*copy)(bgi_device *device, void *to, const void *from, size_t size_bytes);
    /* Returns the host's address of a device address, valid until the next run. NULL: the host cannot access the
     * device's memory. */
    void *(*map)(bgi_device *device, void *address);
    /* Called when a thread begins and ends its work for the device; calls may be nested, and several threads may work
     * at a time. NULL: nothing to do. */
    void (*enter)(bgi_device *device);
    void (*leave)(bgi_device *device);
    void (*launch)(bgi_device *device, const bg_kernel *kernel, const bg_kernel_call *call, const bgi_launch *how);
    void (*wait)(bgi_device *device); /* NULL: a launch returns when the call is complete */
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

/* A device that is the host's processor and memory; its addresses are host addresses. */
extern const bgi_device_type bgi_device_cpu;

#endif
