/*
 * memmap.c: the remote stores of a plan as files of a directory. Knows the directory, its lock, and what lies where in
 * a plan's stores; a file by itself is memmap_store.c's, weights are memmap_index.c's.
 *
 *     DIR/lock                     held while a session uses the directory
 *     DIR/replica0.device0.store   a page that says what it is, then the device's remote store, byte for byte
 *     DIR/replica0.device1.store   ...
 *     DIR/index.safetensors        there when the stores hold one state, whole: which, and what is not in them
 *
 * The index is what makes the rest worth anything. It is removed before the stores change for the first time and
 * written, atomically, when they are whole and on the disk. So whatever ends a process, its files are either without an
 * index, and refused, or as the index says:
 *
 *     open --> [index: go on | no files: make them | files without index: refuse] --> begin (index goes) --> runs
 *              --> finish (stores to disk, index comes) --> begin ... --> close
 *
 * Who goes on must have the plan that the files were made for, as far as it decides what lies where: that is the
 * identity. Each store and the index carry it, and a number drawn when the files were made, so that no two of different
 * directories are ever mixed. All space is taken when a file is made, so a full disk is an error before the first run.
 */
#include "runtime/memmap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/crc64.h"
#include "core/error.h"
#include "core/file.h"

/* Linux has locks that belong to an open file instead of a process, so that two sessions of one process exclude each
 * other too; POSIX has taken them over since. The number is part of the kernel's interface. */
#if defined(F_OFD_SETLK)
enum { LOCK_OF_FILE = F_OFD_SETLK };
#elif defined(__linux__)
enum { LOCK_OF_FILE = 37 };
#else
enum { LOCK_OF_FILE = F_SETLK };
#endif

struct bgi_memmap {
    char *directory, *index_path;
    bg_memmap_mode mode;
    int lock; /* file descriptor; -1: none */
    uint64_t identity, id;
    bool is_complete; /* the index is there */
    bool is_made;     /* by this session, and never used */
    bool is_continued;
    bgi_memmap_index found;
    uint32_t store_count; /* devices of all replicas */
    bgi_memmap_store *stores;
};

/* ---- identity ---- */

static void add_number(bgi_crc64 *crc, uint64_t number)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    bgi_crc64_add(crc, bytes, sizeof bytes);
}

static void add_type(bgi_crc64 *crc, const bg_type *type)
{
    add_number(crc, (uint64_t)type->dtype);
    add_number(crc, type->rank);
    for (uint32_t i = 0; i < type->rank; i++)
        add_number(crc, (uint64_t)type->dims[i]);
}

static void add_variable(bgi_crc64 *crc, const bgi_plan_variable *variable)
{
    bgi_crc64_add(crc, variable->name, strlen(variable->name) + 1);
    add_type(crc, &variable->type);
    add_type(crc, bgi_plan_variable_whole(variable));
    add_number(crc, (uint64_t)variable->role);
    add_number(crc, (uint64_t)variable->piece_count);
    add_number(crc, variable->place_count);
    for (uint32_t i = 0; i < variable->place_count; i++) {
        const bgi_operand *place = &variable->places[i];
        add_number(crc, place->device);
        add_number(crc, place->is_remote);
        /* Places in arenas are filled anew by every session. */
        add_number(crc, place->is_remote ? place->offset : 0);
    }
}

/* What decides where a session finds its values in the stores. */
static uint64_t find_identity(const bg_plan *plan)
{
    const bg_mesh mesh = bgi_plan_mesh(plan);
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    add_number(&crc, plan->training);
    add_number(&crc, mesh.data);
    add_number(&crc, mesh.tensor_1);
    add_number(&crc, mesh.tensor_2);
    add_number(&crc, plan->device_count);
    for (uint32_t d = 0; d < plan->device_count; d++)
        add_number(&crc, plan->devices[d].remote_bytes);
    add_number(&crc, plan->variable_count);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        add_variable(&crc, &plan->variables[i]);
    return bgi_crc64_value(&crc);
}

/* Another one each time. */
static uint64_t draw_id(const bgi_memmap *memmap)
{
    struct timespec now = {0};
    bgi_crc64 crc;

    clock_gettime(CLOCK_REALTIME, &now);
    bgi_crc64_init(&crc);
    add_number(&crc, (uint64_t)now.tv_sec);
    add_number(&crc, (uint64_t)now.tv_nsec);
    add_number(&crc, bgi_clock_ns());
    add_number(&crc, (uint64_t)getpid());
    bgi_crc64_add(&crc, memmap->directory, strlen(memmap->directory));
    return bgi_crc64_value(&crc);
}

/* ---- the lock ---- */

static bool try_lock(int file, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    if (fcntl(file, LOCK_OF_FILE, &lock) == 0)
        return true;
    return errno == EINVAL && fcntl(file, F_SETLK, &lock) == 0;
}

/* Readers share the lock. Files on a disk that cannot be written may have been copied there without one. */
static bg_status lock_directory(bgi_memmap *memmap, bg_error *error)
{
    const bool is_reader = memmap->mode == BG_MEMMAP_READ_ONLY;
    char *path = bgi_path_join(memmap->directory, BGI_MEMMAP_LOCK);
    bg_status status = BG_OK;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(memmap->directory));
    memmap->lock = open(path, (is_reader ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0666);
    if (memmap->lock < 0 && !(is_reader && errno == ENOENT))
        status = bgi_memmap_fail(error, path, "cannot be opened");
    if (memmap->lock >= 0 && !try_lock(memmap->lock, is_reader ? F_RDLCK : F_WRLCK)) {
        if (errno == EAGAIN || errno == EACCES)
            status = bg_error_set(error, BG_ERROR_INVALID,
                                  "memmap_dir %s is in use by another session, here or in another process; wait for "
                                  "its end or use another directory",
                                  memmap->directory);
        else
            status = bgi_memmap_fail(error, path, "cannot be locked");
    }
    free(path);
    return status;
}

/* ---- which files there are ---- */

static bg_status remove_file(const char *path, bg_error *error)
{
    return unlink(path) == 0 || errno == ENOENT ? BG_OK : bgi_memmap_fail(error, path, "cannot be removed");
}

/* The index first: without it the rest is nothing. */
static bg_status remove_files(bgi_memmap *memmap, bg_error *error)
{
    BGI_TRY(remove_file(memmap->index_path, error));
    memmap->is_complete = false;
    for (uint32_t i = 0; i < memmap->store_count; i++) {
        const bgi_memmap_store *s = &memmap->stores[i];
        if (s->path == NULL || access(s->path, F_OK) != 0)
            continue;
        if (!bgi_memmap_store_is_some(s->path))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "memmap_dir: %s is no remote store of Brigade and is not overwritten; use another "
                                "directory",
                                s->path);
        BGI_TRY(remove_file(s->path, error));
    }
    return BG_OK;
}

static bool has_any_store(const bgi_memmap *memmap)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL && access(memmap->stores[i].path, F_OK) == 0)
            return true;
    return false;
}

static bg_status open_files(bgi_memmap *memmap, bg_error *error)
{
    BGI_TRY(bgi_memmap_index_read(memmap->index_path, memmap->identity, &memmap->found, error));
    memmap->id = memmap->found.id;
    for (uint32_t i = 0; i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL)
            BGI_TRY(bgi_memmap_store_open(&memmap->stores[i], memmap->identity, memmap->id,
                                          memmap->mode == BG_MEMMAP_READ_ONLY, error));
    memmap->is_continued = memmap->is_complete = true;
    return BG_OK;
}

static bg_status make_files(bgi_memmap *memmap, bg_error *error)
{
    bg_status status = BG_OK;

    memmap->id = draw_id(memmap);
    memmap->is_made = true;
    for (uint32_t i = 0; status == BG_OK && i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL)
            status = bgi_memmap_store_make(&memmap->stores[i], memmap->identity, memmap->id, error);
    return status;
}

/* Opens or makes the files, as the mode wants them. */
static bg_status find_files(bgi_memmap *memmap, bg_error *error)
{
    const bool has_index = access(memmap->index_path, F_OK) == 0;

    if (memmap->mode == BG_MEMMAP_RENEW) {
        if (has_index && open_files(memmap, NULL) == BG_OK)
            return BG_OK;
        for (uint32_t i = 0; i < memmap->store_count; i++)
            bgi_memmap_store_unmap(&memmap->stores[i]);
        bgi_memmap_index_clear(&memmap->found);
        BGI_TRY(remove_files(memmap, error));
        return make_files(memmap, error);
    }
    if (has_index)
        return open_files(memmap, error);
    if (has_any_store(memmap))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "memmap_dir %s has remote stores without %s: the run that used them did not end in order, "
                            "so their values are of no one step; go on from a checkpoint, or remove them to begin anew",
                            memmap->directory, BGI_MEMMAP_INDEX);
    return make_files(memmap, error);
}

/* ---- life ---- */

static bg_status name_files(bgi_memmap *memmap, const bg_plan *plan, bg_error *error)
{
    char name[BGI_MEMMAP_NAME_BYTES];

    memmap->directory = strdup(plan->options.memmap_dir);
    memmap->index_path = bgi_path_join(plan->options.memmap_dir, BGI_MEMMAP_INDEX);
    memmap->store_count = plan->device_count * plan->replicas;
    memmap->stores = calloc((size_t)memmap->store_count + 1, sizeof *memmap->stores);
    if (memmap->directory == NULL || memmap->index_path == NULL || memmap->stores == NULL)
        return bgi_error_memory(error, "remote stores", memmap->store_count * sizeof *memmap->stores);
    for (uint32_t i = 0; i < memmap->store_count; i++) {
        bgi_memmap_store *s = &memmap->stores[i];
        s->replica = i / plan->device_count, s->device = i % plan->device_count;
        s->store_bytes = plan->devices[s->device].remote_bytes;
        if (s->store_bytes == 0)
            continue;
        bgi_memmap_store_name(s->replica, s->device, name);
        s->path = bgi_path_join(memmap->directory, name);
        if (s->path == NULL)
            return bgi_error_memory(error, "a path", strlen(memmap->directory));
    }
    return BG_OK;
}

bg_status bgi_memmap_open(const bg_plan *plan, bgi_memmap **out, bg_error *error)
{
    const char *directory = plan->options.memmap_dir;
    bgi_memmap *memmap;
    bg_status status;

    *out = NULL;
    if (directory == NULL || directory[0] == '\0')
        return BG_OK;
    if (plan->options.memmap_mode == BG_MEMMAP_READ_ONLY && access(directory, F_OK) != 0) {
        bgi_say(&plan->options, BG_LOG_WARNING, "memmap_dir is not there, and read only: remote buffers are in memory");
        return BG_OK;
    }
    memmap = calloc(1, sizeof *memmap);
    if (memmap == NULL)
        return bgi_error_memory(error, "remote stores", sizeof *memmap);
    memmap->lock = -1;
    memmap->mode = plan->options.memmap_mode;
    memmap->identity = find_identity(plan);
    BGI_TRY_CLEANUP(name_files(memmap, plan, error));
    if (memmap->mode != BG_MEMMAP_READ_ONLY)
        BGI_TRY_CLEANUP(bgi_folder_create(memmap->directory, error));
    BGI_TRY_CLEANUP(lock_directory(memmap, error));
    if (memmap->mode == BG_MEMMAP_READ_ONLY && access(memmap->index_path, F_OK) != 0 && !has_any_store(memmap)) {
        bgi_say(&plan->options, BG_LOG_WARNING,
                "memmap_dir has no files, and is read only: remote buffers are in "
                "memory");
        goto cleanup;
    }
    BGI_TRY_CLEANUP(find_files(memmap, error));
    *out = memmap;
    return BG_OK;
cleanup:
    bgi_memmap_close(memmap);
    return status;
}

void bgi_memmap_close(bgi_memmap *memmap)
{
    if (memmap == NULL)
        return;
    bgi_memmap_index_clear(&memmap->found);
    for (uint32_t i = 0; memmap->stores != NULL && i < memmap->store_count; i++) {
        bgi_memmap_store *s = &memmap->stores[i];
        bgi_memmap_store_unmap(s);
        if (memmap->is_made && s->is_ours)
            unlink(s->path);
        free(s->path);
    }
    if (memmap->lock >= 0)
        close(memmap->lock);
    free(memmap->stores);
    free(memmap->index_path);
    free(memmap->directory);
    free(memmap);
}

void *bgi_memmap_address(const bgi_memmap *memmap, uint32_t index)
{
    if (memmap == NULL || memmap->stores[index].mapping == NULL)
        return NULL;
    return memmap->stores[index].mapping + BGI_MEMMAP_HEADER_BYTES;
}

bool bgi_memmap_is_continued(const bgi_memmap *memmap)
{
    return memmap != NULL && memmap->is_continued;
}

bool bgi_memmap_is_new(const bgi_memmap *memmap)
{
    return memmap != NULL && memmap->is_made;
}

bool bgi_memmap_is_private(const bgi_memmap *memmap)
{
    return memmap != NULL && memmap->mode == BG_MEMMAP_READ_ONLY;
}

const bgi_memmap_index *bgi_memmap_found(const bgi_memmap *memmap)
{
    return memmap != NULL && memmap->found.file != NULL ? &memmap->found : NULL;
}

void bgi_memmap_forget(bgi_memmap *memmap)
{
    if (memmap != NULL)
        bgi_memmap_index_clear(&memmap->found);
}

const char *bgi_memmap_index_path(const bgi_memmap *memmap)
{
    return memmap->index_path;
}

uint64_t bgi_memmap_identity(const bgi_memmap *memmap)
{
    return memmap->identity;
}

uint64_t bgi_memmap_id(const bgi_memmap *memmap)
{
    return memmap->id;
}

/* ---- whole or not ---- */

/* A name that has gone must be gone on the disk too, before what it spoke of changes. */
static bg_status flush_directory(const bgi_memmap *memmap, bg_error *error)
{
    const int folder = open(memmap->directory, O_RDONLY | O_CLOEXEC);
    bg_status status = BG_OK;

    if (folder < 0)
        return bgi_memmap_fail(error, memmap->directory, "cannot be opened");
    if (fsync(folder) != 0 && errno != EINVAL)
        status = bgi_memmap_fail(error, memmap->directory, "cannot be flushed");
    close(folder);
    return status;
}

void bgi_memmap_keep(bgi_memmap *memmap)
{
    if (memmap != NULL)
        memmap->is_made = false;
}

bg_status bgi_memmap_begin(bgi_memmap *memmap, bg_error *error)
{
    if (memmap == NULL || memmap->mode == BG_MEMMAP_READ_ONLY)
        return BG_OK;
    if (!memmap->is_complete)
        return BG_OK;
    BGI_TRY(remove_file(memmap->index_path, error));
    memmap->is_complete = false;
    return flush_directory(memmap, error);
}

bg_status bgi_memmap_flush(bgi_memmap *memmap, bg_error *error)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        BGI_TRY(bgi_memmap_store_flush(&memmap->stores[i], error));
    return BG_OK;
}

void bgi_memmap_set_complete(bgi_memmap *memmap)
{
    memmap->is_complete = true;
    memmap->is_made = false;
}
