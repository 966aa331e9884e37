/*
 * save_parts.c: writes a checkpoint of several ranks; each rank writes a part. The manifest lists the elements and the
 * checksum of each part. It is written last, so that a checkpoint with a manifest is complete:
 *
 *     rank 0       order, tag --> part --> ok? --> manifest --> ok? --> older ones go --> ok
 *     other ranks  order, tag --> part --> ok? --> copy ------> ok? --> older ones go --> ok
 *
 * Ranks agree at each "ok". A rank that does not find rank 0's manifest has a separate folder, which gets a copy.
 */
#define _DEFAULT_SOURCE /* gethostname */
#include "checkpoint/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "core/threads.h"
#include "formats/safetensors.h"
#include "runtime/state.h"

enum { ROOM_BYTES_LEAST = 64, LOOK_NS = 5000000 };

/* ---- the part of this rank ---- */

typedef struct counting {
    uint32_t rank;
    int64_t own, all;
} counting;

static void count_own(void *user, uint32_t rank, int64_t first, int64_t count)
{
    counting *c = user;

    (void)first;
    c->all += count;
    c->own += rank == c->rank ? count : 0;
}

static bg_status fetch_part(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    bgi_part_save *s = user;
    const bg_weights *weights = bg_session_weights(s->session);

    *out_data = s->room;
    return bgi_session_read_part(s->session, bgi_weights_index(weights, entry->name), s->room, error);
}

/* Allocates a buffer for the largest value of the part. */
static bg_status take_room(bgi_part_save *s)
{
    size_t most = ROOM_BYTES_LEAST;

    for (size_t i = 0; i < s->part.entry_count; i++) {
        const size_t size_bytes = bg_type_size_bytes(&s->part.entries[i].type);
        most = size_bytes > most ? size_bytes : most;
    }
    s->room = bgi_aligned_reserve(BGI_CACHE_LINE_BYTES, most);
    return s->room != NULL ? BG_OK : bgi_error_memory(s->error, "a value", most);
}

bg_status bgi_parts_copy(bgi_part_save *s)
{
    const bg_weights *weights = bg_session_weights(s->session);
    bgi_checkpoint_content *c = &s->part;
    bgi_value_copy *copies = calloc(c->entry_count + 1, sizeof *copies);
    size_t all = ROOM_BYTES_LEAST, at = 0;
    bg_status status = BG_OK;

    for (size_t i = 0; i < c->entry_count; i++)
        all += bgi_checkpoint_room(bg_type_size_bytes(&c->entries[i].type));
    s->room = copies != NULL ? bgi_session_take_room(s->session, all, &s->room_is_kept) : NULL;
    if (s->room == NULL) {
        free(copies);
        return bgi_error_memory(s->error, "a copy of this rank's values", all);
    }
    for (size_t i = 0; i < c->entry_count; i++) {
        copies[i] = (bgi_value_copy){bgi_weights_index(weights, c->entries[i].name), (char *)s->room + at};
        c->entries[i].data = copies[i].out;
        at += bgi_checkpoint_room(bg_type_size_bytes(&c->entries[i].type));
    }
    s->copied_ns = bgi_clock_ns();
    status = bgi_session_copy_values(s->session, copies, c->entry_count, s->error);
    s->copied_ns = bgi_clock_ns() - s->copied_ns;
    free(copies);
    return status;
}

/* Lists the tensors of this rank's part. A tensor that is completely in this part keeps its shape; others are stored as
 * vectors of elements. */
static bg_status list_own(bgi_part_save *s, bgi_checkpoint_content *c)
{
    const bg_weights *weights = bg_session_weights(s->session);

    for (uint32_t i = 0; i < bgi_weights_end(weights); i++) {
        const bgi_tensor tensor = bgi_weights_tensor(weights, i);
        counting count = {.rank = s->rank};
        bg_type type = tensor.type;
        bgi_string *name;

        if (tensor.name == NULL)
            continue;
        BGI_TRY(bgi_session_walk_parts(s->session, i, count_own, &count, s->error));
        if (count.own == 0)
            continue;
        if (count.own < count.all)
            type = (bg_type){.dtype = tensor.type.dtype, .rank = 1, .dims = {count.own}};
        name = bgi_checkpoint_text(c); /* a copy, because the part may outlive the weights */
        bgi_string_add(name, "%s", tensor.name);
        if (name->failed)
            return bgi_error_memory(s->error, "names of tensors", strlen(tensor.name));
        c->entries[c->entry_count++] = (bg_safetensors_entry){.name = name->data, .type = type};
    }
    return BG_OK;
}

static bg_status fill_part(bgi_part_save *s, bgi_checkpoint_content *c)
{
    bgi_string *text;

    BGI_TRY(bgi_checkpoint_begin(c, s->session, 4, s->error));
    c->fetch = fetch_part;
    c->user = s;
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_STEP, s->step, s->error));
    text = bgi_checkpoint_text(c);
    bgi_string_add(text, "%" PRIu32 " of %" PRIu32, s->rank, s->rank_count);
    BGI_TRY(bgi_checkpoint_add_text(c, "part_of_checkpoint", text, s->error));
    return list_own(s, c);
}

/* Prepares this rank's part without communication. */
static bg_status prepare_part(bgi_part_save *s, bool copies)
{
    char name[BGI_CHECKPOINT_PART_BYTES];

    s->path = bgi_path_join(s->directory, bgi_checkpoint_part_name(s->step, s->tag, s->rank, s->rank_count, name));
    if (s->path == NULL)
        return bgi_error_memory(s->error, "a path", strlen(s->directory));
    if (gethostname(s->words[0].host, sizeof s->words[0].host - 1) != 0)
        snprintf(s->words[0].host, sizeof s->words[0].host, "unknown");
    BGI_TRY(fill_part(s, &s->part));
    return copies ? bgi_parts_copy(s) : take_room(s);
}

/* Whether the training leaves a processor free. */
static bool is_free(void *user)
{
    return bgi_session_leaves_processor(user);
}

static void write_part(void *user)
{
    bgi_part_save *s = user;

    if (s->is_beside) {
        s->part.pace.is_free = is_free;
        s->part.pace.user = s->session;
        s->part.pace.owed_ns = s->copied_ns * (BGI_PACE_SHARE - 1); /* the copy is earlier work */
    }
    s->written = bgi_checkpoint_write(&s->part, s->path, &s->why);
    memcpy(s->words[0].sum, s->part.sum, sizeof s->words[0].sum);
    atomic_store(&s->is_done, true);
}

void bgi_parts_start(bgi_part_save *s)
{
    s->is_running = bgi_thread_start(&s->thread, &s->part.threads, write_part, s) == 0;
    if (s->is_running)
        return;
    s->written = bg_error_set(&s->why, BG_ERROR_IO, "checkpoint: %s refused a thread",
                              s->part.threads.start != NULL ? "start_thread" : "the system");
    atomic_store(&s->is_done, true);
}

bg_status bgi_parts_wait(bgi_part_save *s)
{
    bool is_waiting = bgi_session_rank_count(s->session) > 1;
    bg_status status = BG_OK;

    while (is_waiting && status == BG_OK) {
        is_waiting = !atomic_load(&s->is_done);
        status = bgi_session_any(s->session, &is_waiting, s->error);
        if (is_waiting)
            bgi_clock_sleep(LOOK_NS);
    }
    if (s->is_running)
        bgi_thread_join(&s->thread);
    s->is_running = false;
    return status;
}

/* ---- the manifest ---- */

static void add_run(void *user, uint32_t rank, int64_t first, int64_t count)
{
    bgi_runs_add(user, rank, first, count);
}

static bg_status add_tensor(bgi_part_save *s, bgi_checkpoint_content *c, uint32_t number)
{
    const bgi_tensor tensor = bgi_weights_tensor(bg_session_weights(s->session), number);
    bgi_string *key = bgi_checkpoint_text(c), *value = bgi_checkpoint_text(c);
    bgi_runs runs = {0};
    bg_status status = bgi_session_walk_parts(s->session, number, add_run, &runs, s->error);

    bgi_runs_print(&tensor.type, &runs, value);
    bgi_runs_clear(&runs);
    BGI_TRY(status);
    bgi_string_add(key, BGI_CHECKPOINT_TENSOR "%s", tensor.name);
    return bgi_checkpoint_add_text(c, key->failed ? NULL : key->data, value, s->error);
}

/* Fills the manifest, except for checksums and hosts, which are known only when the parts are written. */
static bg_status fill_manifest(bgi_part_save *s, bgi_checkpoint_fill fill, void *user)
{
    bg_weights *weights = bg_session_weights(s->session);
    const uint32_t end = bgi_weights_end(weights);
    bgi_checkpoint_content *c = &s->manifest;

    BGI_TRY(bgi_checkpoint_begin(c, s->session, (size_t)end + s->rank_count + 4, s->error));
    BGI_TRY(fill(user, c, s->error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_VERSION, BGI_CHECKPOINT_MANIFEST_VERSION, s->error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_PARTS, s->rank_count, s->error));
    bgi_checkpoint_add(c, BGI_CHECKPOINT_TAG, s->tag);
    for (uint32_t i = 0; i < end; i++)
        if (bgi_weights_tensor(weights, i).name != NULL) {
            BGI_TRY(bgi_checkpoint_add_weight(c, i, false, s->error));
            BGI_TRY(add_tensor(s, c, i));
        }
    return BG_OK;
}

/* Called on rank 0: adds the checksums and hosts of the parts to the manifest, and writes it. */
static bg_status write_manifest(bgi_part_save *s)
{
    bgi_checkpoint_content *c = &s->manifest;

    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        bgi_string *key = bgi_checkpoint_text(c), *value = bgi_checkpoint_text(c);
        bgi_string_add(key, BGI_CHECKPOINT_PART "%" PRIu32, rank);
        bgi_string_add(value, "%s %s", s->words[rank].sum, s->words[rank].host);
        BGI_TRY(bgi_checkpoint_add_text(c, key->failed ? NULL : key->data, value, s->error));
    }
    return bgi_checkpoint_write(c, s->manifest_path, s->error);
}

/* Whether this rank's folder contains a manifest with this content. */
static bool has_manifest(const bgi_part_save *s, const char *content, size_t size_bytes)
{
    char *here = NULL;
    size_t here_bytes = 0;
    const bool is =
        bgi_file_load(s->manifest_path, BGI_SAFETENSORS_HEADER_LIMIT + 8, &here, &here_bytes, NULL) == BG_OK &&
        here_bytes == size_bytes && memcmp(here, content, size_bytes) == 0;

    free(here);
    return is;
}

/* Copies the manifest to folders other than rank 0's. */
static bg_status spread_manifest(bgi_part_save *s)
{
    char *content = NULL;
    size_t here_bytes = 0;
    uint64_t bytes = 0;
    bg_status status = BG_OK;

    if (s->rank == 0) {
        status = bgi_file_load(s->manifest_path, BGI_SAFETENSORS_HEADER_LIMIT + 8, &content, &here_bytes, s->error);
        bytes = here_bytes;
    }
    status = bgi_session_settle(s->session, status, s->error);
    if (status == BG_OK)
        status = bgi_session_share(s->session, 0, &bytes, sizeof bytes, s->error);
    if (status != BG_OK) {
        free(content);
        return status;
    }
    if (s->rank > 0)
        content = malloc(bytes + 1);
    status = content != NULL ? BG_OK : bgi_error_memory(s->error, "a manifest", bytes);
    status = bgi_session_settle(s->session, status, s->error);
    if (status == BG_OK)
        status = bgi_session_share(s->session, 0, content, bytes, s->error);
    if (status == BG_OK) {
        if (s->rank > 0 && !has_manifest(s, content, bytes))
            status = bgi_file_save(s->manifest_path, content, bytes, s->error);
        status = bgi_session_settle(s->session, status, s->error);
    }
    free(content);
    return status;
}

/* ---- the whole ---- */

/* Chooses the tag of this save, so that its parts do not replace those of another save. */
static bg_status take_tag(bgi_part_save *s)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(s->tag, sizeof s->tag, "%08" PRIx32,
             (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec * 2654435761u ^ (uint32_t)getpid() << 12);
    BGI_TRY(bgi_session_share(s->session, 0, s->tag, sizeof s->tag, s->error));
    s->tag[sizeof s->tag - 1] = '\0';
    return BG_OK;
}

/* Lists the checkpoints in this rank's folder, and creates the folder if there is none. */
static bg_status begin(bgi_part_save *s)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];

    s->words = calloc(s->rank_count, sizeof *s->words);
    s->manifest_path = bgi_path_join(s->directory, bgi_checkpoint_name(s->step, name));
    if (s->words == NULL || s->manifest_path == NULL)
        return bgi_error_memory(s->error, "a checkpoint's names", s->rank_count * sizeof *s->words);
    BGI_TRY(bgi_checkpoint_find(s->directory, &s->list, s->error));
    BGI_TRY(bgi_checkpoint_check_order(s->directory, &s->list, s->step, s->error));
    return bgi_folder_create(s->directory, s->error);
}

static bg_status gather_words(bgi_part_save *s)
{
    for (uint32_t rank = 1; rank < s->rank_count; rank++) {
        bgi_part_word word = s->words[0];
        BGI_TRY(bgi_session_hand(s->session, rank, 0, &word, sizeof word, s->error));
        word.sum[sizeof word.sum - 1] = word.host[sizeof word.host - 1] = '\0';
        if (s->rank == 0)
            s->words[rank] = word;
    }
    return BG_OK;
}

static void find_place(bgi_part_save *s)
{
    s->rank = bgi_session_rank(s->session);
    s->rank_count = bgi_session_rank_count(s->session);
    s->step = bg_session_step(s->session);
}

/* Allocates the memory for copies, and copies the values once, because the first write to each page is slow. */
bg_status bgi_parts_reserve(bgi_part_save *s)
{
    bg_status status;

    find_place(s);
    status = fill_part(s, &s->part);
    if (status == BG_OK)
        status = bgi_parts_copy(s);
    return bgi_session_settle(s->session, status, s->error);
}

bg_status bgi_parts_prepare(bgi_part_save *s, bool copies, bgi_checkpoint_fill fill, void *user)
{
    bg_status status;

    find_place(s);
    BGI_TRY(bgi_session_settle(s->session, begin(s), s->error));
    BGI_TRY(take_tag(s));
    BGI_TRY(bgi_session_pull(s->session, s->error));
    status = prepare_part(s, copies);
    if (status == BG_OK && s->rank == 0)
        status = fill_manifest(s, fill, user);
    return bgi_session_settle(s->session, status, s->error);
}

static bg_status complete(bgi_part_save *s)
{
    bg_status status = s->written;

    if (status != BG_OK)
        bg_error_set(s->error, status, "%s", s->why.message);
    BGI_TRY(bgi_session_settle(s->session, status, s->error));
    BGI_TRY(gather_words(s));
    status = s->rank == 0 ? write_manifest(s) : BG_OK;
    BGI_TRY(bgi_session_settle(s->session, status, s->error));
    return spread_manifest(s);
}

bg_status bgi_parts_complete(bgi_part_save *s)
{
    const bg_options *run = bg_plan_options(bg_session_plan(s->session));
    const bg_status status = complete(s);

    if (status != BG_OK) {
        /* If all ranks still communicate, each removes its part of the failed checkpoint. If a rank is lost, parts
         * stay, because it may only be stopped, and may write the manifest when it continues. The next checkpoint
         * removes parts without a manifest. */
        if (bgi_session_settle(s->session, BG_OK, NULL) == BG_OK && s->path != NULL &&
            !bgi_file_exists(s->manifest_path))
            remove(s->path);
        return status;
    }
    bgi_checkpoint_remove_old(s->directory, &s->list, s->step, &s->options, run->reporting.log,
                              run->reporting.log_user);
    /* Waits for all ranks, so that none removes files of the next save. */
    return bgi_session_settle(s->session, BG_OK, s->error);
}

void bgi_parts_clear(bgi_part_save *s)
{
    if (s->is_running)
        bgi_thread_join(&s->thread);
    bgi_checkpoint_end(&s->part);
    bgi_checkpoint_end(&s->manifest);
    free(s->list.steps);
    free(s->words);
    if (s->session != NULL)
        bgi_session_return_room(s->session, s->room, s->room_is_kept);
    free(s->path);
    free(s->manifest_path);
}
