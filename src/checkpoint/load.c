/*
 * load.c: reads checkpoints. Everything is read and checked (checksum, metadata, names, types) before the first weight
 * is set. Then values are read again, one at a time. In addition to the weights, only one value is in memory, and the
 * values that were joined from sections.
 */
#include "checkpoint/stored.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/section.h"
#include "core/text.h"
#include "runtime/state.h"

typedef bgi_checkpoint_loader loader;

/* ---- values ---- */

/* Finds the range of elements that rank `rank` needs of weight `number`. Without a session, or if `number` is
 * UINT32_MAX, the range is the whole tensor. */
static bg_status find_range(const loader *l, const bgi_stored_tensor *tensor, uint32_t number, uint32_t rank,
                            int64_t *first, int64_t *end, bg_error *error)
{
    *first = 0;
    *end = bg_type_element_count(&tensor->type);
    if (l->session == NULL || number == UINT32_MAX)
        return BG_OK;
    return bgi_session_find_range(l->session, number, rank, first, end, error);
}

static bool sees(const loader *l, uint32_t rank, uint32_t part)
{
    return l->sees[rank * l->stored->part_count + part];
}

/* Reads the elements of a tensor that a part contains. The lowest rank with the part's file sends them to the ranks
 * that need them and do not have the file. */
static bg_status exchange_part(loader *l, const bgi_stored_tensor *tensor, uint32_t number, uint32_t part,
                               const int64_t own_range[2], bg_error *error)
{
    const size_t element = bg_dtype_size_bytes(tensor->type.dtype);
    const size_t size_bytes = (size_t)bgi_runs_elements(&tensor->runs, part) * element;
    const uint32_t own = bgi_session_rank(l->session), ranks = bgi_session_rank_count(l->session);
    char *to = (char *)l->room + (size_t)own_range[0] * element;
    bool is_needed = false;
    uint32_t holder = 0;
    void *values;
    bg_status status = BG_OK;

    while (!sees(l, holder, part))
        holder++;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int64_t first, end;
        BGI_TRY(find_range(l, tensor, number, rank, &first, &end, error));
        l->needs[rank] = !sees(l, rank, part) && first < end;
        is_needed = is_needed || (l->needs[rank] && (own == holder || own == rank));
    }
    if (sees(l, own, part) && own_range[0] < own_range[1])
        BGI_TRY(bgi_stored_read_part(l->stored, tensor, part, own_range[0], own_range[1], NULL, to, error));
    if (!is_needed)
        return BG_OK;
    values = malloc(size_bytes);
    if (values == NULL)
        return bgi_error_memory(error, tensor->name, size_bytes);
    if (own == holder)
        status = bg_safetensors_read(l->stored->parts[part].file,
                                     bg_safetensors_find(l->stored->parts[part].file, tensor->name), 0, size_bytes,
                                     values, error);
    for (uint32_t rank = 0; rank < ranks && status == BG_OK; rank++)
        if (l->needs[rank])
            status = bgi_session_hand(l->session, holder, rank, values, size_bytes, error);
    if (status == BG_OK && l->needs[own])
        status = bgi_stored_read_part(l->stored, tensor, part, own_range[0], own_range[1], values, to, error);
    free(values);
    return status;
}

static bg_status reserve_room(loader *l, size_t size_bytes, bg_error *error)
{
    if (size_bytes <= l->room_bytes)
        return BG_OK;
    free(l->room);
    l->room = malloc(size_bytes);
    l->room_bytes = l->room != NULL ? size_bytes : 0;
    return l->room != NULL ? BG_OK : bgi_error_memory(error, "a checkpoint's largest value", size_bytes);
}

/* Reads a value, which is valid until the next call. With several ranks the value has only the elements that this rank
 * needs of weight `number` (UINT32_MAX: all), at their offsets in the tensor. If some ranks do not have all parts, all
 * ranks call this function. */
static bg_status read_value(loader *l, const bgi_stored_tensor *tensor, uint32_t number, const void **out_data,
                            bg_error *error)
{
    const uint32_t own = l->session != NULL ? bgi_session_rank(l->session) : 0;
    const size_t element = bg_dtype_size_bytes(tensor->type.dtype);
    int64_t range[2];

    BGI_TRY(reserve_room(l, tensor->size_bytes, error));
    BGI_TRY(find_range(l, tensor, number, own, &range[0], &range[1], error));
    *out_data = l->room;
    if (l->sees == NULL)
        return range[0] < range[1] ? bgi_stored_read(l->stored, tensor, (size_t)range[0] * element,
                                                     (size_t)(range[1] - range[0]) * element,
                                                     (char *)l->room + (size_t)range[0] * element, error)
                                   : BG_OK;
    for (uint32_t part = 0; part < l->stored->part_count; part++)
        if (bgi_runs_elements(&tensor->runs, part) > 0)
            BGI_TRY(exchange_part(l, tensor, number, part, range, error));
    return BG_OK;
}

/* ---- pieces ---- */

static bgi_piece entry_at(const void *user, size_t index)
{
    const bgi_stored_tensor *tensor = &((const loader *)user)->stored->tensors[index];

    return (bgi_piece){.name = tensor->name, .type = &tensor->type};
}

static bg_status read_entry(const void *user, size_t index, const void **out_data, bg_error *error)
{
    loader *l = (loader *)(uintptr_t)user;

    return read_value(l, &l->stored->tensors[index], UINT32_MAX, out_data, error);
}

/* Joins the value of a weight from its sections in the file. */
static bg_status join_pieces(loader *l, uint32_t index)
{
    const bgi_piece_list list = {.user = l, .count = l->stored->count, .at = entry_at, .read = read_entry};
    const bgi_tensor weight = bgi_weights_tensor(l->weights, index);
    const size_t size_bytes = bg_type_size_bytes(&weight.type);
    size_t first = SIZE_MAX;
    bg_status status = bgi_section_gather(&list, weight.name, &weight.type, NULL, &first, l->error);

    if (status != BG_OK)
        return bg_error_context(l->error, status, "%s", l->found.path);
    if (first == SIZE_MAX)
        return BG_OK;
    l->joined[index] = malloc(size_bytes);
    if (l->joined[index] == NULL)
        return bgi_error_memory(l->error, weight.name, size_bytes);
    l->piece[index] = l->stored->tensors[first].name;
    return bgi_section_gather(&list, weight.name, &weight.type, l->joined[index], &first, l->error);
}

static bg_status join_all(loader *l)
{
    l->weight_count = bgi_weights_end(l->weights);
    l->joined = calloc((size_t)l->weight_count + 1, sizeof *l->joined);
    l->piece = calloc((size_t)l->weight_count + 1, sizeof *l->piece);
    if (l->joined == NULL || l->piece == NULL)
        return bgi_error_memory(l->error, "checkpoint", l->weight_count * sizeof *l->joined);
    for (uint32_t i = 0; i < l->weight_count; i++) {
        const char *name = bgi_weights_tensor(l->weights, i).name;
        if (name != NULL && bgi_stored_find(l->stored, name) == NULL)
            BGI_TRY(join_pieces(l, i));
    }
    return BG_OK;
}

/* ---- loading ---- */

/* Sets a weight's value to `data`. `name` is the tensor in the file with the weight's properties: the weight itself or
 * its first section. */
static bg_status set_weight(const loader *l, const char *weight_name, const bg_type *type, const void *data,
                            const char *name)
{
    bgi_checkpoint_record about = {0};
    bgi_tensor tensor = {.name = weight_name, .type = *type, .optimizer = l->optimizer};

    BGI_TRY(bgi_checkpoint_find_record(l->file, name, &about, l->error));
    tensor.role = about.role;
    tensor.is_given = about.is_given;
    tensor.updates = about.updates;
    return bgi_weights_restore(l->weights, &tensor, l->weight_count == 0, data, l->error);
}

/* Whether a tensor of the file is skipped because the optimizer's state is dropped. */
static bool is_dropped(const loader *l, const char *name)
{
    bgi_checkpoint_record about = {0};

    return l->drops_state && bgi_checkpoint_find_record(l->file, name, &about, NULL) == BG_OK &&
           about.role == BG_ROLE_STATE;
}

/* Allocates memory for the largest value before any weight changes. */
static bg_status reserve_largest(loader *l)
{
    size_t most = 1;

    for (size_t i = 0; i < l->stored->count; i++)
        most = l->stored->tensors[i].size_bytes > most ? l->stored->tensors[i].size_bytes : most;
    return reserve_room(l, most, l->error);
}

/* Sets the weights. If there are no weights yet, all tensors are loaded. Adding a weight may fail, and so may reading,
 * if the file has changed since it was checked. */
static bg_status set_weights(loader *l)
{
    const bool is_empty = l->weight_count == 0;

    for (uint32_t i = 0; i < l->weight_count; i++)
        if (l->joined[i] != NULL && !is_dropped(l, l->piece[i])) {
            const bgi_tensor weight = bgi_weights_tensor(l->weights, i);
            BGI_TRY(set_weight(l, weight.name, &weight.type, l->joined[i], l->piece[i]));
        }
    for (size_t i = 0; i < l->stored->count; i++) {
        const bgi_stored_tensor *entry = &l->stored->tensors[i];
        const uint32_t number = is_empty ? UINT32_MAX : bgi_weights_index(l->weights, entry->name);
        const void *data = NULL;
        bg_status status;
        if ((!is_empty && number == UINT32_MAX) || is_dropped(l, entry->name))
            continue;
        status = read_value(l, entry, number, &data, l->error);
        if (status == BG_OK)
            status = set_weight(l, entry->name, &entry->type, data, entry->name);
        if (status != BG_OK) {
            if (is_empty)
                bgi_weights_truncate(l->weights, 0);
            return status;
        }
    }
    bgi_weights_set_step(l->weights, l->found.step);
    return BG_OK;
}

static bg_status run_load(loader *l, bg_session *session)
{
    bg_status status;

    if (l->directory == NULL || l->directory[0] == '\0')
        return bg_error_set(l->error, BG_ERROR_INVALID,
                            "checkpoint: the name of the directory is empty; give the folder of checkpoints");
    if ((unsigned)l->options.differences > BG_CHECKPOINT_REFUSE)
        return bg_error_set(l->error, BG_ERROR_INVALID,
                            "checkpoint: differences is %d but must be BG_CHECKPOINT_WARN, _IGNORE or _REFUSE",
                            (int)l->options.differences);
    BGI_TRY(bgi_checkpoint_read_drop(l));
    BGI_TRY(bgi_checkpoint_choose(l));
    BGI_TRY(join_all(l));
    BGI_TRY(bgi_checkpoint_compare(l));
    if (l->drops_state && l->session != NULL && bg_plan_optimizer(bg_session_plan(l->session)) != NULL)
        BGI_TRY(bgi_session_restart_state(session, l->error));
    status = reserve_largest(l);
    if (l->session != NULL)
        status = bgi_session_settle(l->session, status, l->error);
    return status == BG_OK ? set_weights(l) : status;
}

static bg_status load(bg_weights *weights, bg_session *session, const char *directory,
                      const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    loader l = {.weights = weights, .session = session, .directory = directory, .error = error};
    bg_status status;

    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_checkpoint_load_options",
                                 "bg_checkpoint_load_defaults()", error));
    l.options = options != NULL ? *options : bg_checkpoint_load_defaults();
    if (l.options.log == NULL && session != NULL) {
        l.options.log = bg_plan_options(bg_session_plan(session))->reporting.log;
        l.options.log_user = bg_plan_options(bg_session_plan(session))->reporting.log_user;
    }
    BGI_TRY(bgi_weights_enter(weights, session, "bg_checkpoint_load", error));
    status = run_load(&l, session);
    bgi_weights_leave(weights);
    bgi_stored_close(l.stored);
    free(l.manifest);
    free(l.sees);
    free(l.needs);
    for (uint32_t i = 0; l.joined != NULL && i < l.weight_count; i++)
        free(l.joined[i]);
    free(l.joined);
    free(l.piece);
    free(l.room);
    free(l.list.steps);
    if (status == BG_OK && out != NULL)
        *out = l.found;
    else
        bg_checkpoint_clear(&l.found);
    return status;
}

void bg_checkpoint_load_options_init(bg_checkpoint_load_options *options, size_t struct_bytes)
{
    const bg_checkpoint_load_options made = {.struct_bytes = struct_bytes, .differences = BG_CHECKPOINT_WARN};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

bg_status bg_checkpoint_load(bg_session *session, const char *directory, const bg_checkpoint_load_options *options,
                             bg_checkpoint *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    return load(bg_session_weights(session), session, directory, options, out, error);
}

bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                     const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    return load(weights, NULL, directory, options, out, error);
}
