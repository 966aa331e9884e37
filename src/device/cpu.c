/*
 * cpu.c: implements a device that uses the processor and memory of the host.
 */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

typedef struct cpu_device {
    bgi_device base;
    bool owns_store;
    bgi_device_setup setup; /* for the functions that allocate memory, and the sizes of arena and store */
} cpu_device;

/* Reserves whole pages, for the reason given at bgi_take_pages. */
static void *reserve(const bgi_device_setup *setup, size_t size_bytes)
{
    if (setup->allocate == NULL)
        return bgi_aligned_reserve(BGI_PAGE_BYTES, bgi_whole_pages(size_bytes));
    return setup->allocate(setup->allocator_user, BGI_PAGE_BYTES, size_bytes > 0 ? size_bytes : BGI_PAGE_BYTES);
}

static void release(const bgi_device_setup *setup, void *memory, size_t size_bytes)
{
    if (setup->allocate == NULL)
        free(memory);
    else if (memory != NULL)
        setup->release(setup->allocator_user, memory, size_bytes > 0 ? size_bytes : BGI_PAGE_BYTES);
}

static void destroy(bgi_device *device)
{
    const cpu_device *cpu = (cpu_device *)device;

    if (device == NULL)
        return;
    if (cpu->owns_store)
        release(&cpu->setup, device->store, cpu->setup.store_bytes);
    release(&cpu->setup, device->arena, cpu->setup.arena_bytes);
    free(device);
}

static bg_status create(const bgi_device_setup *setup, bgi_device **out, bg_error *error)
{
    cpu_device *device = bgi_take_pages(1, sizeof *device);

    if (device == NULL)
        return bgi_error_memory(error, "a device", sizeof *device);
    device->base.type = &bgi_device_cpu;
    device->setup = *setup;
    device->base.arena = reserve(setup, setup->arena_bytes);
    if (device->base.arena != NULL)
        memset(device->base.arena + setup->unused_bytes, 0, setup->arena_bytes - setup->unused_bytes);
    device->base.store = setup->store;
    if (setup->store == NULL && setup->store_bytes > 0) {
        device->base.store = reserve(setup, setup->store_bytes);
        device->owns_store = true;
        if (device->base.store != NULL)
            memset(device->base.store, 0, setup->store_bytes);
    }
    if (device->base.arena != NULL && (device->base.store != NULL || setup->store_bytes == 0)) {
        *out = &device->base;
        return BG_OK;
    }
    if (device->base.arena == NULL)
        bgi_error_memory(error, "a device's arena", setup->arena_bytes);
    else
        bgi_error_memory(error, "a device's remote store", setup->store_bytes);
    destroy(&device->base);
    return BG_ERROR_MEMORY;
}

static void copy(bgi_device *device, void *to, const void *from, size_t size_bytes)
{
    (void)device;
    if (to != from)
        memcpy(to, from, size_bytes);
}

static void *map(bgi_device *device, void *address)
{
    (void)device;
    return address;
}

/* Runs a kernel call. Fields that are needed after the last part are read first, because the kernel may not exist any
 * more after the run was abandoned. */
static void launch(bgi_device *device, const bg_kernel *kernel, const bg_kernel_call *call, const bgi_launch *how)
{
    void (*const finish)(const bg_kernel_call *) = kernel->finish;
    const bg_kernel_function combine = kernel->combine;
    const uint32_t combine_count = kernel->combine_count;

    (void)device;
    if (kernel->prepare != NULL) {
        kernel->prepare(call);
        if (!how->goes_on(how->user))
            return;
    }
    how->run(how->user, kernel->run, kernel->part_count, true);
    if (combine != NULL && how->goes_on(how->user))
        how->run(how->user, combine, combine_count, false);
    if (finish != NULL && how->goes_on(how->user))
        finish(call);
}

const bgi_device_type bgi_device_cpu = {.name = "cpu",
                                        .create = create,
                                        .destroy = destroy,
                                        .copy_in = copy,
                                        .copy_out = copy,
                                        .copy = copy,
                                        .map = map,
                                        .launch = launch};
