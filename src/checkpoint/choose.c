/*
 * choose.c: finds the checkpoint to load. One process searches its folder. Ranks may have separate folders, so they
 * agree on the latest step that any rank has, on the content of its manifest, and on which ranks have each part.
 *
 *     latest of each rank --> the latest of all --> the manifest, from the lowest rank that has it --> who sees what
 *
 * Before the load continues, one rank reads each part and checks its checksum.
 */
#include "checkpoint/stored.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/safetensors.h"
#include "runtime/state.h"

typedef bgi_checkpoint_loader loader;

/* Reports a damaged checkpoint and the remedy; an older one is loaded only when the user requests it. */
static bg_status fail_damaged(const loader *l, const char *name, bg_status status, const char *reason)
{
    char other[BGI_CHECKPOINT_NAME_BYTES];

    for (size_t i = 0; i < l->list.count; i++)
        if (strcmp(bgi_checkpoint_name(l->list.steps[i], other), name) != 0)
            return bg_error_set(l->error, status,
                                "%.3000s; it is not used: name `%s`, the latest of the others, as the file to load, or "
                                "remove the bad one",
                                reason, other);
    return bg_error_set(l->error, status, "%.3000s; it is not used, and %s has no other: start a new training", reason,
                        l->directory);
}

/* Reports an error with a file. `expected` is the step of a listed file; NULL: the user named the file. */
static bg_status report(loader *l, const char *name, const uint64_t *expected, bg_status status, const bg_error *inner)
{
    if (status == BG_ERROR_PARSE || status == BG_ERROR_UNSUPPORTED)
        return fail_damaged(l, name, status, inner->message);
    /* A listed file exists, at least as a broken link. "Not found" would suggest that a run may start from the
     * beginning. */
    if (status == BG_ERROR_NOT_FOUND && expected != NULL)
        status = BG_ERROR_IO;
    return status == BG_OK ? BG_OK : bg_error_set(l->error, status, "%s", inner->message);
}

/* Checks an opened checkpoint: the checksum of its own file, all metadata, and its step. */
static bg_status read_head(loader *l, const uint64_t *expected, bg_error *error)
{
    bg_status status;

    l->file = l->stored->file;
    status = bgi_checkpoint_check_sum(l->file, "checkpoint", error);
    if (status == BG_OK)
        status = bgi_checkpoint_read_head(l->file, &l->found, error);
    if (status == BG_OK && expected != NULL && l->found.step != *expected)
        status = bg_error_set(error, BG_ERROR_PARSE, "holds step %" PRIu64 ": it was renamed", l->found.step);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", l->found.path);
}

static bg_status take_path(loader *l, const char *name)
{
    l->found.path = bgi_path_join(l->directory, name);
    return l->found.path != NULL ? BG_OK : bgi_error_memory(l->error, "a path", strlen(l->directory));
}

/* ---- one process ---- */

static bg_status open_alone(loader *l, const char *name, const uint64_t *expected)
{
    bg_error inner = {0};
    bg_status status = bgi_stored_open_checkpoint(l->found.path, &l->stored, &inner);

    if (status == BG_OK)
        status = read_head(l, expected, &inner);
    if (status == BG_OK && bgi_stored_require_parts(l->stored, &inner) != BG_OK)
        status = inner.status = BG_ERROR_PARSE;
    for (uint32_t part = 0; status == BG_OK && part < l->stored->part_count; part++)
        status = bgi_stored_check_part(l->stored, part, &inner);
    return report(l, name, expected, status, &inner);
}

static bg_status refuse_folder(loader *l)
{
    struct stat found;
    const bool is_there = stat(l->directory, &found) == 0;

    return bg_error_set(l->error, BG_ERROR_NOT_FOUND,
                        is_there ? "checkpoint: %s has no checkpoint" : "checkpoint: the folder %s does not exist",
                        l->directory);
}

static bg_status choose_alone(loader *l)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];

    BGI_TRY(bgi_checkpoint_find(l->directory, &l->list, l->error));
    if (l->options.file == NULL && l->list.count == 0)
        return refuse_folder(l);
    if (l->options.file == NULL)
        bgi_checkpoint_name(l->list.steps[0], name);
    BGI_TRY(take_path(l, l->options.file != NULL ? l->options.file : name));
    return open_alone(l, l->options.file != NULL ? l->options.file : name,
                      l->options.file != NULL ? NULL : &l->list.steps[0]);
}

/* ---- several ranks ---- */

/* The latest checkpoint that one rank has. */
typedef struct candidate {
    uint64_t step; /* the checkpoint's step; 0 if the options name a file */
    uint32_t has;
} candidate;

/* Finds the latest step of all ranks, and the lowest rank that has it (UINT32_MAX if no rank has a checkpoint). */
static bg_status find_latest(const loader *l, uint64_t *out_step, uint32_t *out_root)
{
    const candidate own = {.step = l->options.file == NULL && l->list.count > 0 ? l->list.steps[0] : 0,
                           .has = l->options.file != NULL ? bgi_file_exists(l->found.path) : l->list.count > 0};

    *out_root = UINT32_MAX;
    *out_step = 0;
    for (uint32_t rank = 0; rank < bgi_session_rank_count(l->session); rank++) {
        candidate other = own;
        BGI_TRY(bgi_session_share(l->session, rank, &other, sizeof other, l->error));
        if (other.has == 0 || (*out_root != UINT32_MAX && other.step <= *out_step))
            continue;
        *out_root = rank;
        *out_step = other.step;
    }
    return BG_OK;
}

/* Called on `root`: reads the content of the manifest. *out_bytes is 0 for a checkpoint in one file. */
static bg_status load_manifest(loader *l, uint64_t *out_bytes, bg_error *error)
{
    bg_safetensors *file = NULL;
    size_t size_bytes = 0;
    bool is_manifest;

    BGI_TRY(bg_safetensors_open_header(l->found.path, &file, error));
    is_manifest = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_PARTS) != NULL;
    bg_safetensors_destroy(file);
    if (is_manifest)
        BGI_TRY(bgi_file_load(l->found.path, BGI_SAFETENSORS_HEADER_LIMIT + 8, &l->manifest, &size_bytes, error));
    *out_bytes = size_bytes;
    return BG_OK;
}

/* Opens the same manifest on all ranks. If the checkpoint is in one file, each rank opens the file of its own
 * folder. */
static bg_status open_together(loader *l, uint32_t root, bg_error *error)
{
    const uint32_t own = bgi_session_rank(l->session);
    uint64_t bytes = 0;
    bg_status status = own == root ? load_manifest(l, &bytes, error) : BG_OK;

    BGI_TRY(bgi_session_settle(l->session, status, error));
    BGI_TRY(bgi_session_share(l->session, root, &bytes, sizeof bytes, error));
    if (bytes == 0) {
        status = bgi_stored_open_checkpoint(l->found.path, &l->stored, error);
        return bgi_session_settle(l->session, status, error);
    }
    if (own != root)
        l->manifest = malloc(bytes);
    status = l->manifest != NULL ? BG_OK : bgi_error_memory(error, "a manifest", bytes);
    BGI_TRY(bgi_session_settle(l->session, status, error));
    BGI_TRY(bgi_session_share(l->session, root, l->manifest, bytes, error));
    status = bgi_stored_open_manifest(l->found.path, l->manifest, bytes, &l->stored, error);
    return bgi_session_settle(l->session, status, error);
}

/* Finds which ranks have each part, shares the result with all ranks, and lets one rank compare the checksum of each
 * part. */
static bg_status find_parts(loader *l, bg_error *error)
{
    const uint32_t ranks = bgi_session_rank_count(l->session), parts = l->stored->part_count;
    bool all = true;
    bg_status status;

    l->sees = calloc((size_t)ranks * parts + 1, sizeof *l->sees);
    l->needs = calloc(ranks, sizeof *l->needs);
    status = l->sees != NULL && l->needs != NULL ? BG_OK : bgi_error_memory(error, "parts", (size_t)ranks * parts);
    BGI_TRY(bgi_session_settle(l->session, status, error));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool *row = l->sees + (size_t)rank * parts;
        for (uint32_t part = 0; part < parts; part++)
            row[part] = l->stored->parts[part].file != NULL;
        BGI_TRY(bgi_session_share(l->session, rank, row, parts * sizeof *row, error));
    }
    for (size_t i = 0; i < (size_t)ranks * parts; i++)
        all = all && l->sees[i];
    for (uint32_t part = 0; part < parts; part++) {
        uint32_t rank = 0;
        while (rank < ranks && !l->sees[(size_t)rank * parts + part])
            rank++;
        if (rank == ranks)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: part %" PRIu32 " of %" PRIu32 ", `%s`, is in no rank's folder; host %.200s wrote "
                                "it: start a rank there, or copy the file",
                                l->found.path, part, parts, l->stored->parts[part].name, l->stored->parts[part].host);
        /* One rank, if possible a different one for consecutive parts, reads the part and checks its checksum. */
        if (l->sees[(size_t)(part % ranks) * parts + part])
            rank = part % ranks;
        if (status == BG_OK && rank == bgi_session_rank(l->session))
            status = bgi_stored_check_part(l->stored, part, error);
    }
    if (all) {
        free(l->sees);
        l->sees = NULL;
    }
    return bgi_session_settle(l->session, status, error);
}

static bg_status choose_together(loader *l)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    const char *file = l->options.file;
    const uint64_t *expected = NULL;
    bg_error inner = {0};
    uint64_t step = 0;
    uint32_t root = 0;
    bg_status status = bgi_checkpoint_find(l->directory, &l->list, l->error);

    BGI_TRY(bgi_session_settle(l->session, status, l->error));
    if (file != NULL)
        BGI_TRY(take_path(l, file));
    BGI_TRY(find_latest(l, &step, &root));
    if (root == UINT32_MAX && file != NULL)
        return bg_error_set(l->error, BG_ERROR_NOT_FOUND, "%s: no rank has such a file", l->found.path);
    if (root == UINT32_MAX)
        return refuse_folder(l);
    if (file == NULL) {
        file = bgi_checkpoint_name(step, name);
        expected = &step;
        BGI_TRY(take_path(l, file));
    }
    status = open_together(l, root, &inner);
    if (status == BG_OK)
        status = bgi_session_settle(l->session, read_head(l, expected, &inner), &inner);
    if (status == BG_OK && l->stored->part_count > 0)
        status = find_parts(l, &inner);
    return report(l, file, expected, status, &inner);
}

bg_status bgi_checkpoint_choose(loader *l)
{
    return l->session != NULL && bgi_session_rank_count(l->session) > 1 ? choose_together(l) : choose_alone(l);
}
