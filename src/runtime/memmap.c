/*
 * memmap.c: stores the remote memory of a plan in files of a directory. It knows the directory, its lock, and the
 * layout of a plan's stores; device/mapped_store.c handles single files, and memmap_index.c handles the weights.
 *
 *     DIR/lock                     held while a session uses the directory
 *     DIR/replica0.device0.store   a page with the identity, then the bytes of the device's remote store
 *     DIR/replica0.device1.store   ...
 *     DIR/index                    present when the stores hold one complete state; has what the stores lack
 *
 * Without the index the stores are worthless. A session removes the index before it changes the stores, and writes it
 * atomically when they are complete and on the disk. So whenever a process ends, its files either have no index and are
 * rejected, or are in the state that the index describes:
 *
 *     open --> [index: resume | no files: make them | files without index: reject]
 *          --> begin (removes the index) --> runs --> finish (flushes the stores, writes the index)
 *          --> begin ... --> close
 *
 * The identity is a checksum of the part of a plan that determines the layout of the stores; a session that resumes
 * must have the same identity. Each store and the index contain the identity, and a number drawn when the files were
 * made, so that stores of different directories are never mixed. A store's whole file is allocated when the store is
 * made, so a full disk is an error before the first run.
 *
 * With several ranks each rank makes, opens and locks the stores of its own devices, in a directory that may be on its
 * own host. Rank 0 has the directory's lock and the index; it decides whether to resume, make or reject files, and
 * distributes the content of the index. An error on one rank is an error on all, so that all ranks take each of these
 * steps together.
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
#include "runtime/agree.h"
#include "transport/ranks.h"

struct bgi_memmap {
    bgi_transport *transport; /* between ranks; NULL: one process */
    bgi_progress *progress;   /* the progress of the session's creation; NULL afterward */
    char *directory, *index_path, *old_index_path;
    bg_memmap_mode mode;
    int lock; /* file descriptor of the lock file; -1: none */
    uint64_t identity, id;
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES]; /* the optimizer to which the plan's state belongs; "": no state */
    bool is_complete;                              /* the index exists */
    bool is_made;                                  /* this session has made the files and has not used them yet */
    bool is_continued;
    bgi_memmap_index found;
    uint32_t store_count; /* the number of devices of all replicas */
    bgi_mapped_store *stores;
};

/* ---- ranks ---- */

/* Whether this rank has the lock and the index. */
static bool is_first(const bgi_memmap *memmap)
{
    return memmap->transport == NULL || memmap->transport->setup.ranks->carrier->rank == 0;
}

static bool is_own(const bgi_memmap *memmap, uint32_t device)
{
    return memmap->transport == NULL || bgi_ranks_has(memmap->transport->setup.ranks, device);
}

/* Sends rank 0's data to all ranks. */
static bg_status share(const bgi_memmap *memmap, void *data, size_t size_bytes, bg_error *error)
{
    return memmap->transport != NULL ? bgi_ranks_share(memmap->transport, 0, data, size_bytes, error) : BG_OK;
}

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
        const bgi_place *place = &variable->places[i];
        add_number(crc, place->device);
        add_number(crc, place->operand.memory == BGI_MEMORY_REMOTE);
        /* Places in arenas do not count, because every session fills them again. */
        add_number(crc, place->operand.memory == BGI_MEMORY_REMOTE ? place->operand.offset : 0);
    }
}

/* Returns a checksum of the part of the plan that determines where a session finds its values in the stores. */
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

/* Returns a number that differs in each call. */
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

/* Readers share the lock. Files may have been copied to a read-only disk without the lock file. */
static bg_status lock_directory(bgi_memmap *memmap, bg_error *error)
{
    const bool is_reader = memmap->mode == BG_MEMMAP_READ_ONLY;
    char *path = bgi_path_join(memmap->directory, BGI_MEMMAP_LOCK);
    bg_status status = BG_OK;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(memmap->directory));
    memmap->lock = open(path, (is_reader ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0666);
    if (memmap->lock < 0 && !(is_reader && errno == ENOENT))
        status = bgi_mapped_store_fail(error, path, "cannot be opened");
    if (memmap->lock >= 0)
        status = bgi_mapped_store_lock(memmap->lock, path, memmap->directory, is_reader, error);
    free(path);
    return status;
}

/* ---- finding the files ---- */

static bg_status remove_file(const char *path, bg_error *error)
{
    return unlink(path) == 0 || errno == ENOENT ? BG_OK : bgi_mapped_store_fail(error, path, "cannot be removed");
}

/* Removes the index; called before the stores are removed, because stores without an index are known to be worthless.
 */
static bg_status remove_index(bgi_memmap *memmap, bg_error *error)
{
    BGI_TRY(remove_file(memmap->index_path, error));
    return remove_file(memmap->old_index_path, error);
}

static bg_status remove_stores(bgi_memmap *memmap, bool only_looks, bg_error *error)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL)
            BGI_TRY(bgi_mapped_store_remove(&memmap->stores[i], only_looks, error));
    return BG_OK;
}

static bool has_any_store(const bgi_memmap *memmap)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL && access(memmap->stores[i].path, F_OK) == 0)
            return true;
    return false;
}

static bg_status open_stores(bgi_memmap *memmap, bg_error *error)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        if (memmap->stores[i].path != NULL)
            BGI_TRY(bgi_mapped_store_open(&memmap->stores[i], memmap->identity, memmap->id,
                                          memmap->mode == BG_MEMMAP_READ_ONLY, error));
    return BG_OK;
}

static bg_status open_files(bgi_memmap *memmap, bg_error *error)
{
    bg_status status = BG_OK;

    if (is_first(memmap))
        status = bgi_memmap_index_read(memmap->index_path, memmap->identity, memmap->optimizer, &memmap->found, error);
    BGI_TRY(bgi_ranks_settle(memmap->transport, status, NULL, error));
    if (memmap->transport != NULL)
        BGI_TRY(bgi_memmap_index_share(&memmap->found, memmap->transport, error));
    memmap->id = memmap->found.id;
    BGI_TRY(bgi_ranks_settle(memmap->transport, open_stores(memmap, error), NULL, error));
    memmap->is_continued = memmap->is_complete = true;
    return BG_OK;
}

static bg_status make_stores(bgi_memmap *memmap, bg_error *error)
{
    char name[BGI_MAPPED_STORE_NAME_BYTES];

    for (uint32_t i = 0; i < memmap->store_count; i++) {
        bgi_mapped_store *s = &memmap->stores[i];
        bgi_mapped_store_name(s->replica, s->device, name);
        if (s->store_bytes > 0)
            BGI_TRY(bgi_progress_begin(memmap->progress, name, s->store_bytes, error));
        if (s->path != NULL)
            BGI_TRY(bgi_mapped_store_make(s, memmap->identity, memmap->id, error));
    }
    return BG_OK;
}

static bg_status make_files(bgi_memmap *memmap, bg_error *error)
{
    memmap->id = draw_id(memmap);
    memmap->is_made = true;
    BGI_TRY(share(memmap, &memmap->id, sizeof memmap->id, error));
    return bgi_ranks_settle(memmap->transport, make_stores(memmap, error), NULL, error);
}

/* Removes the old stores and makes new ones; keeps files of other sessions and plans, and unknown files. */
static bg_status renew_files(bgi_memmap *memmap, bg_error *error)
{
    bg_status status;

    BGI_TRY(bgi_ranks_settle(memmap->transport, remove_stores(memmap, true, error), NULL, error));
    status = is_first(memmap) ? remove_index(memmap, error) : BG_OK;
    BGI_TRY(bgi_ranks_settle(memmap->transport, status, NULL, error));
    BGI_TRY(bgi_ranks_settle(memmap->transport, remove_stores(memmap, false, error), NULL, error));
    return make_files(memmap, error);
}

/* Rejects an index in the format of 0.1, with its own message instead of that for a failed run. */
static bg_status refuse_old(const bgi_memmap *memmap, bg_error *error)
{
    if (access(memmap->old_index_path, F_OK) != 0)
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_UNSUPPORTED,
        "memmap_dir: %s is an index of Brigade 0.1, which this release does not read: save a checkpoint "
        "with 0.1 and load it here, or use another directory",
        memmap->old_index_path);
}

/* What to do with the existing files: use memory instead, resume, resume or renew if that fails, renew, or make files.
 */
typedef enum course { COURSE_MEMORY = 1, COURSE_OPEN, COURSE_OPEN_OR_RENEW, COURSE_RENEW, COURSE_MAKE } course;

/* Called on rank 0: chooses from the existing files what to do, or rejects the directory. `has_stores`: any rank has
 * stores. */
static bg_status choose(const bgi_memmap *memmap, bool has_stores, uint32_t *out, bg_error *error)
{
    const bool has_index = access(memmap->index_path, F_OK) == 0;

    if (memmap->mode == BG_MEMMAP_RENEW) {
        *out = has_index ? COURSE_OPEN_OR_RENEW : COURSE_RENEW;
        return BG_OK;
    }
    if (has_index || (memmap->mode == BG_MEMMAP_READ_ONLY && !has_stores)) {
        *out = has_index ? COURSE_OPEN : COURSE_MEMORY;
        return BG_OK;
    }
    BGI_TRY(refuse_old(memmap, error));
    if (has_stores)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "memmap_dir %s has remote stores without %s: the run that used them did not end properly, so their values "
            "do not belong to one step; resume from a checkpoint, or remove the files to start from the beginning",
            memmap->directory, BGI_MEMMAP_INDEX);
    *out = COURSE_MAKE;
    return BG_OK;
}

/* Opens, renews or makes the files; `what` is the same on all ranks. */
static bg_status take_course(bgi_memmap *memmap, course what, bg_error *error)
{
    if (what == COURSE_OPEN || what == COURSE_OPEN_OR_RENEW) {
        bg_error why = {0};
        const bg_status status = open_files(memmap, &why);
        if (status == BG_OK || what == COURSE_OPEN)
            return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", why.message);
        for (uint32_t i = 0; i < memmap->store_count; i++)
            bgi_mapped_store_unmap(&memmap->stores[i]);
        bgi_memmap_index_clear(&memmap->found);
        what = COURSE_RENEW;
    }
    return what == COURSE_RENEW ? renew_files(memmap, error) : make_files(memmap, error);
}

/* ---- life ---- */

static bg_status name_files(bgi_memmap *memmap, const bg_plan *plan, bg_error *error)
{
    char name[BGI_MAPPED_STORE_NAME_BYTES];

    memmap->directory = strdup(plan->options.files.memmap_dir);
    memmap->index_path = bgi_path_join(plan->options.files.memmap_dir, BGI_MEMMAP_INDEX);
    memmap->old_index_path = bgi_path_join(plan->options.files.memmap_dir, BGI_MEMMAP_OLD);
    memmap->store_count = plan->device_count * plan->replicas;
    memmap->stores = calloc((size_t)memmap->store_count + 1, sizeof *memmap->stores);
    if (memmap->directory == NULL || memmap->index_path == NULL || memmap->old_index_path == NULL ||
        memmap->stores == NULL)
        return bgi_error_memory(error, "remote stores", memmap->store_count * sizeof *memmap->stores);
    for (uint32_t i = 0; i < memmap->store_count; i++) {
        bgi_mapped_store *s = &memmap->stores[i];
        s->replica = i / plan->device_count, s->device = i % plan->device_count;
        s->store_bytes = plan->devices[s->device].remote_bytes;
        if (s->store_bytes == 0 || !is_own(memmap, i))
            continue;
        bgi_mapped_store_name(s->replica, s->device, name);
        s->path = bgi_path_join(memmap->directory, name);
        if (s->path == NULL)
            return bgi_error_memory(error, "a path", strlen(memmap->directory));
    }
    return BG_OK;
}

/* Makes the file names, creates the directory unless it is only read, and locks it on rank 0. */
static bg_status prepare(bgi_memmap *memmap, const bg_plan *plan, bg_error *error)
{
    BGI_TRY(name_files(memmap, plan, error));
    if (memmap->mode != BG_MEMMAP_READ_ONLY)
        BGI_TRY(bgi_folder_create(memmap->directory, error));
    return is_first(memmap) ? lock_directory(memmap, error) : BG_OK;
}

/* Locks the directory and chooses what to do with its files; *out_what is the same on all ranks. */
static bg_status begin_files(bgi_memmap *memmap, const bg_plan *plan, uint32_t *out_what, bg_error *error)
{
    bg_status status = prepare(memmap, plan, error);
    bool has_stores = status == BG_OK && has_any_store(memmap);

    BGI_TRY(bgi_ranks_settle(memmap->transport, status, &has_stores, error));
    if (is_first(memmap))
        status = choose(memmap, has_stores, out_what, error);
    BGI_TRY(bgi_ranks_settle(memmap->transport, status, NULL, error));
    return share(memmap, out_what, sizeof *out_what, error);
}

static void warn_of_memory(const bgi_memmap *memmap, const bg_plan *plan)
{
    if (is_first(memmap))
        bgi_log(&plan->options, BG_LOG_WARNING,
                access(memmap->directory, F_OK) != 0
                    ? "memmap_dir does not exist and memmap_mode is read_only, so remote buffers are in memory"
                    : "memmap_dir has no files and memmap_mode is read_only, so remote buffers are in memory");
}

static bg_status open_memmap(bgi_memmap *memmap, const bg_plan *plan, bool *out_is_used, bg_error *error)
{
    uint32_t what = 0;

    memmap->lock = -1;
    memmap->mode = plan->options.files.memmap_mode;
    memmap->identity = find_identity(plan);
    if (plan->training)
        bg_optimizer_describe_state(&plan->optimizer, memmap->optimizer);
    BGI_TRY(begin_files(memmap, plan, &what, error));
    if (what == COURSE_MEMORY) {
        warn_of_memory(memmap, plan);
        return BG_OK;
    }
    BGI_TRY(take_course(memmap, (course)what, error));
    *out_is_used = true;
    return BG_OK;
}

/* Sets the progress to the bytes of all stores, which exist by now. */
static void end_progress(bgi_memmap *memmap)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < memmap->store_count; i++)
        bytes += memmap->stores[i].store_bytes;
    memmap->progress->done = bytes;
    memmap->progress = NULL;
}

bg_status bgi_memmap_open(const bg_plan *plan, bgi_transport *transport, bgi_progress *progress, bgi_memmap **out,
                          bg_error *error)
{
    const char *directory = plan->options.files.memmap_dir;
    bool is_used = false;
    bgi_memmap *memmap;
    bg_error why = {0};
    bg_status status;

    *out = NULL;
    if (directory == NULL || directory[0] == '\0')
        return BG_OK;
    memmap = calloc(1, sizeof *memmap);
    if (memmap == NULL)
        return bgi_error_memory(error, "remote stores", sizeof *memmap);
    memmap->transport = transport;
    memmap->progress = progress;
    status = open_memmap(memmap, plan, &is_used, &why);
    if (status == BG_OK && is_used) {
        end_progress(memmap);
        *out = memmap;
        return BG_OK;
    }
    bgi_memmap_close(memmap);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", why.message);
}

void bgi_memmap_follow(bgi_memmap *memmap, bgi_transport *transport)
{
    if (memmap != NULL)
        memmap->transport = transport;
}

void bgi_memmap_close(bgi_memmap *memmap)
{
    if (memmap == NULL)
        return;
    bgi_memmap_index_clear(&memmap->found);
    for (uint32_t i = 0; memmap->stores != NULL && i < memmap->store_count; i++) {
        bgi_mapped_store *s = &memmap->stores[i];
        bgi_mapped_store_unmap(s);
        /* A store that cannot be removed stays without an index: the next session rejects it, or removes it if
         * memmap_mode is BG_MEMMAP_RENEW. */
        if (memmap->is_made && s->is_ours)
            (void)unlink(s->path);
        free(s->path);
    }
    if (memmap->lock >= 0)
        close(memmap->lock);
    free(memmap->stores);
    free(memmap->old_index_path);
    free(memmap->index_path);
    free(memmap->directory);
    free(memmap);
}

void *bgi_memmap_address(const bgi_memmap *memmap, uint32_t index)
{
    if (memmap == NULL || memmap->stores[index].mapping == NULL)
        return NULL;
    return memmap->stores[index].mapping + BGI_MAPPED_STORE_HEADER_BYTES;
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
    return memmap != NULL && memmap->found.note != NULL ? &memmap->found : NULL;
}

void bgi_memmap_forget(bgi_memmap *memmap)
{
    if (memmap != NULL)
        bgi_memmap_index_clear(&memmap->found);
}

/* ---- the index is removed and written ---- */

/* Flushes the directory: the removal of the index must be on the disk before the stores that it described change. */
static bg_status flush_directory(const bgi_memmap *memmap, bg_error *error)
{
    const int folder = open(memmap->directory, O_RDONLY | O_CLOEXEC);
    bg_status status = BG_OK;

    if (folder < 0)
        return bgi_mapped_store_fail(error, memmap->directory, "cannot be opened");
    if (fsync(folder) != 0 && errno != EINVAL)
        status = bgi_mapped_store_fail(error, memmap->directory, "cannot be flushed");
    close(folder);
    return status;
}

void bgi_memmap_keep(bgi_memmap *memmap)
{
    if (memmap != NULL)
        memmap->is_made = false;
}

static bg_status remove_index_for_good(const bgi_memmap *memmap, bg_error *error)
{
    BGI_TRY(remove_file(memmap->index_path, error));
    return flush_directory(memmap, error);
}

bg_status bgi_memmap_begin(bgi_memmap *memmap, bg_error *error)
{
    bg_error why = {0};
    bg_status status = BG_OK;

    if (memmap == NULL || memmap->mode == BG_MEMMAP_READ_ONLY)
        return BG_OK;
    if (!memmap->is_complete)
        return BG_OK;
    if (is_first(memmap))
        status = remove_index_for_good(memmap, &why);
    status = bgi_ranks_settle(memmap->transport, status, NULL, &why);
    if (status != BG_OK)
        return bg_error_set(error, status, "%s", why.message);
    memmap->is_complete = false;
    return BG_OK;
}

static bg_status flush_stores(const bgi_memmap *memmap, bg_error *error)
{
    for (uint32_t i = 0; i < memmap->store_count; i++)
        BGI_TRY(bgi_mapped_store_flush(&memmap->stores[i], error));
    return BG_OK;
}

/* What rank 0 writes to the index. */
typedef struct writing {
    bgi_memmap *memmap;
    bgi_memmap_index index;
    bg_weights *weights;
} writing;

static bg_status write_index(void *user, bg_error *error)
{
    writing *w = user;

    return bgi_memmap_index_write(w->memmap->index_path, w->memmap->identity, &w->index, w->weights, error);
}

static bg_status finish(writing *w, bg_session *session, bg_error *error)
{
    BGI_TRY(bgi_memmap_begin(w->memmap, error));
    BGI_TRY(bgi_memmap_index_list(&w->index, session, error));
    BGI_TRY(bgi_ranks_settle(w->memmap->transport, flush_stores(w->memmap, error), NULL, error));
    BGI_TRY(bgi_session_read_weights(session, 0, write_index, w, error));
    w->memmap->is_complete = true;
    w->memmap->is_made = false;
    return BG_OK;
}

bg_status bgi_memmap_finish(bgi_memmap *memmap, bg_session *session, const char *note, bg_error *error)
{
    writing w = {.memmap = memmap, .index = {.note = note, .id = memmap->id}, .weights = session->weights};
    bg_error why = {0};
    const bg_status status = finish(&w, session, &why);

    bgi_memmap_index_clear(&w.index);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", why.message);
}
