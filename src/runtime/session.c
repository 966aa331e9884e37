/*
 * session.c: implements sessions, which are engines with weights. Changed values are uploaded to the devices before a
 * run, and downloaded on demand.
 */
#include "runtime/session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/section.h"
#include "core/text.h"
#include "options/optimizer.h"
#include "options/table.h"
#include "runtime/agree.h"
#include "runtime/initialize.h"
#include "runtime/layout.h"
#include "runtime/memmap.h"
#include "runtime/quantize.h"
#include "runtime/weights.h"

enum { LEAST_TAGS = 32768, LEAST_MESSAGE_BYTES = 4096 };

/* ---- variables ---- */

static bool is_shared(const bgi_plan_variable *variable)
{
    return variable->role == BG_ROLE_PARAMETER || variable->role == BG_ROLE_BUFFER || variable->role == BG_ROLE_STATE ||
           variable->role == BG_ROLE_TRAINING;
}

void bgi_session_upload(bg_session *session, const bgi_plan_variable *variable, const void *data)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;

    if (variable->section != NULL)
        data = bgi_section_cut(variable->section, data, session->cut);
    for (uint32_t t = 0; t < tensor; t++) {
        const bg_mesh at = bg_mesh_coordinates(&mesh, t);
        const char *of_replica = data;
        if (variable->shard != NULL) {
            bg_shard_cut(&mesh, variable->shard, &at, data, session->cut, NULL);
            of_replica = session->cut;
        }
        for (uint32_t place = 0; place < mesh.data; place++) {
            const bgi_kept_part part = bgi_session_part(variable, place);
            for (uint32_t i = 0; i < variable->place_count; i++)
                bgi_engine_write(session->engine, place * tensor + t, &variable->places[i], of_replica + part.offset,
                                 part.size_bytes);
        }
    }
}

/* Copies the variable's value at position `t` on the tensor axes to `data`, from the data-parallel pieces if it has
 * any. */
static bg_status collect(const bg_session *session, const bgi_plan_variable *from, uint32_t t, const bool *readers,
                         char *data, bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const uint32_t places = from->piece_count > 0 ? mesh.data : 1;

    for (uint32_t place = 0; place < places; place++) {
        const bgi_kept_part part = bgi_session_part(from, place);
        BGI_TRY(bgi_engine_fetch(session->engine, place * mesh.tensor_1 * mesh.tensor_2 + t, &from->places[0], readers,
                                 data != NULL ? data + part.offset : NULL, part.size_bytes, error));
    }
    return BG_OK;
}

/* Copies a variable's value to its range of `data`, which is the weight's value. */
static bg_status download_variable(const bg_session *session, uint32_t variable, const bool *readers, void *data,
                                   bg_error *error)
{
    const bgi_plan_variable *from = &session->plan->variables[variable];
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    void *cut = data != NULL ? session->cut : NULL;

    if (from->section != NULL) {
        BGI_TRY(collect(session, from, 0, readers, cut, error));
        if (data != NULL)
            bgi_section_join(from->section, cut, data);
    } else if (from->shard == NULL) {
        BGI_TRY(collect(session, from, 0, readers, data, error));
    }
    for (uint32_t t = 0; from->shard != NULL && t < mesh.tensor_1 * mesh.tensor_2; t++) {
        const bg_mesh at = bg_mesh_coordinates(&mesh, t);
        BGI_TRY(collect(session, from, t, readers, cut, error));
        if (data != NULL)
            bg_shard_join(&mesh, from->shard, &at, cut, data, NULL);
    }
    return BG_OK;
}

/* Returns the next variable of a weight after `after` (UINT32_MAX: the first one); UINT32_MAX if there is none. */
static uint32_t next_of_weight(const bg_session *session, uint32_t weight, uint32_t after)
{
    uint32_t i = after + 1; /* begins at 0, because UINT32_MAX + 1 wraps */

    while (i < session->plan->variable_count && session->variables[i].weight != weight)
        i++;
    return i < session->plan->variable_count ? i : UINT32_MAX;
}

static bg_status download_weight(const bg_session *session, uint32_t variable, const bool *readers, void *data,
                                 bg_error *error)
{
    const uint32_t weight = session->variables[variable].weight;

    if (session->plan->variables[variable].section == NULL)
        return download_variable(session, variable, readers, data, error);
    for (uint32_t i = next_of_weight(session, weight, UINT32_MAX); i != UINT32_MAX;
         i = next_of_weight(session, weight, i))
        BGI_TRY(download_variable(session, i, readers, data, error));
    return BG_OK;
}

static void *find_whole(const bg_session *session, uint32_t variable)
{
    const bgi_plan_variable *of = &session->plan->variables[variable];
    const bool is_cut =
        of->section != NULL || of->shard != NULL || (of->piece_count > 0 && bgi_plan_data_replicas(session->plan) > 1);

    return is_cut ? NULL : bgi_engine_map(session->engine, 0, &of->places[0]);
}

/* Records that the devices have the weight's newest value. */
static void mark_current(bg_session *session, uint32_t weight)
{
    for (uint32_t i = next_of_weight(session, weight, UINT32_MAX); i != UINT32_MAX;
         i = next_of_weight(session, weight, i))
        session->variables[i].version = session->weights->items[weight].version;
}

/* Copies a value to all variables that are the weight or sections of it. */
static void upload_weight(bg_session *session, uint32_t weight, const void *data)
{
    for (uint32_t i = next_of_weight(session, weight, UINT32_MAX); i != UINT32_MAX;
         i = next_of_weight(session, weight, i))
        bgi_session_upload(session, &session->plan->variables[i], data);
    mark_current(session, weight);
}

static bg_status adopt_weight(bg_session *session, uint32_t variable, const void *data, bg_error *error)
{
    BGI_TRY(bgi_memmap_begin(session->memmap, error));
    upload_weight(session, session->variables[variable].weight, data);
    return BG_OK;
}

static bool is_of_ranks(const bg_session *session)
{
    return session->owners != NULL;
}

static const bgi_weight_holder holder = {.download = download_weight,
                                         .whole = find_whole,
                                         .adopt = adopt_weight,
                                         .is_of_ranks = is_of_ranks,
                                         .announce = bgi_session_announce};

/* Fetches the newest value of a variable's weight; *out is NULL on ranks that own no part of the variable. */
static bg_status fetch_own(const bg_session *session, uint32_t variable, const void **out, bg_error *error)
{
    const bg_transport *transport = session->plan->options.execution.transport;
    const uint32_t weight = session->variables[variable].weight;

    if (session->owners == NULL)
        return bgi_weights_fetch(session->weights, weight, out, error);
    bgi_session_find_readers(session, &session->plan->variables[variable], session->readers);
    return bgi_weights_fetch_for(session->weights, weight, session->readers, transport->rank, out, error);
}

static bool is_in_place(const bg_session *session, uint32_t number)
{
    return session->in_place != NULL && session->in_place[number];
}

/* Copies a value to the devices, or records its address when the devices read it in place. A weight whose home is
 * another session has no address in the host's memory. */
static void give_value(bg_session *session, uint32_t number, const void *data)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    bgi_session_variable *own = &session->variables[number];

    if (is_in_place(session, number)) {
        void *place = session->weights->items[own->weight].data;
        own->read_at = place;
        bgi_in_place_set(session->engine, variable, place);
        if (place != NULL)
            return;
    }
    bgi_session_upload(session, variable, data);
}

/* Whether the devices have an older value of the weight, or read it at an old address. */
static bool is_outdated(const bg_session *session, uint32_t number)
{
    const bgi_session_variable *variable = &session->variables[number];
    const bgi_weight *weight = &session->weights->items[variable->weight];

    return variable->version != weight->version || (is_in_place(session, number) && variable->read_at != weight->data);
}

/* Updates the devices to the newest weights. */
static bg_status pull_weights(bg_session *session, bg_error *error)
{
    bg_weights *weights = session->weights;

    if (session->epoch == weights->epoch)
        return BG_OK;
    BGI_TRY(bgi_session_quantize(session, error));
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        bgi_session_variable *variable = &session->variables[i];
        const bgi_weight *weight;
        const void *data = NULL;
        if (variable->weight == UINT32_MAX)
            continue;
        BGI_TRY(bgi_progress_begin(session->progress, bgi_plan_variable_weight(&session->plan->variables[i]),
                                   bg_type_size_bytes(&session->plan->variables[i].type), error));
        /* A session that computed a newer value, or lost the value, has increased the version. */
        weight = &weights->items[variable->weight];
        if (!is_outdated(session, i))
            continue;
        BGI_TRY(fetch_own(session, i, &data, error));
        if (is_outdated(session, i)) { /* fetching may have moved the value to this session */
            BGI_TRY(bgi_memmap_begin(session->memmap, error));
            if (data != NULL)
                give_value(session, i, data);
        }
        variable->version = weight->version;
    }
    session->epoch = weights->epoch;
    session->has_newest = false;
    return BG_OK;
}

/* Records after a run that the devices have the newest values of all variables or, in inference, of those that ops
 * write. */
static void claim_weights(bg_session *session)
{
    bg_weights *weights = session->weights;
    bool claims = false;

    if (session->has_newest && session->epoch == weights->epoch)
        return;
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        bgi_session_variable *variable = &session->variables[i];
        bgi_weight *weight;
        if (variable->weight == UINT32_MAX || !(session->plan->training || session->plan->variables[i].is_written))
            continue;
        weight = &weights->items[variable->weight];
        if (weight->newest == session) {
            variable->version = weight->version; /* for another section, the version was increased already */
            continue;
        }
        weight->newest = session;
        weight->newest_variable = i;
        variable->version = ++weight->version;
        claims = true;
    }
    if (claims)
        session->epoch = ++weights->epoch;
    session->has_newest = true;
}

/* Marks the values that only this session, which has failed, had as lost. */
static void lose_weights(bg_session *session)
{
    bg_weights *weights = session->weights;

    for (uint32_t i = 0; i < weights->count; i++) {
        bgi_weight *weight = &weights->items[i];
        /* If this session is the weight's home, the run has begun to change the only copy of the value. */
        const bool is_changed = weight->home == session && weight->newest == NULL &&
                                (session->plan->training || session->plan->variables[weight->home_variable].is_written);
        if (weight->newest != session && !is_changed)
            continue;
        weight->newest = NULL;
        weight->is_lost = true;
        weight->version++;
        weights->epoch++;
    }
}

/* Copies values to weights that outlive the session. */
static void return_weights(bg_session *session)
{
    bg_weights *weights = session->weights;

    for (uint32_t i = 0; i < weights->count && weights->references > 1; i++)
        if (weights->items[i].home == session)
            bgi_weights_leave_home(weights, i);
        else if (weights->items[i].newest == session && bgi_weights_pull(weights, i, NULL) != BG_OK) {
            weights->items[i].newest = NULL;
            weights->items[i].is_lost = true;
        }
}

/* Whether the weight has its home in the session, without a host copy: in sessions that train, that have several ranks,
 * or whose values are in files. Other sessions for inference use the host copies. */
static bool is_at_home(const bg_session *session, uint32_t number)
{
    return session->owners != NULL || session->plan->training
               ? bgi_session_has_all(session, &session->plan->variables[number])
               : bgi_session_is_in_stores(session, number);
}

/* Whether all bits of the first value are 0. */
static bool is_zero(const bg_initializer *initializer)
{
    return initializer->kind == BG_INITIALIZE_CONSTANT && initializer->a == 0.0 && !signbit(initializer->a);
}

/* Makes the first values of a weight for this rank's own devices. */
static bg_status initialize_own(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bgi_plan_variable *variables = session->plan->variables;

    for (uint32_t i = number; i != UINT32_MAX; i = next_of_weight(session, index, i))
        BGI_TRY(bgi_session_make_own(session, &variables[i], &variables[number], error));
    mark_current(session, index);
    return BG_OK;
}

/* Makes the first values of a new weight from the seed. If the weight's home is a session, the value is written there.
 */
static bg_status initialize(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    bgi_weight *weight = &session->weights->items[index];
    void *data = weight->home != NULL ? find_whole(session, number) : weight->data;

    if (weight->home != NULL && is_zero(&variable->initializer) && bgi_memmap_is_new(session->memmap) &&
        bgi_session_is_in_stores(session, number)) {
        mark_current(session, index); /* a new file is zeros */
        return BG_OK;
    }
    if (weight->home == session && session->owners != NULL)
        return initialize_own(session, number, index, error);
    if (data == NULL)
        BGI_TRY(bgi_weights_take_view(session->weights, index, &data, error));
    BGI_TRY(bgi_initialize(&weight->type, &variable->initializer, weight->name, session->plan->options.numerics.seed,
                           variable->number, bgi_session_helpers(session), data, error));
    if (weight->home != NULL)
        upload_weight(session, index, data);
    return BG_OK;
}

/* Reads the value of a new weight that is in no store. */
static bg_status take_from_index(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bgi_weight *weight = &session->weights->items[index];
    void *data = weight->data;

    if (session->owners != NULL) {
        BGI_TRY(bgi_session_spread(session, number, &data, error));
    } else {
        if (weight->home != NULL)
            BGI_TRY(bgi_weights_take_view(session->weights, index, &data, error));
        BGI_TRY(bgi_memmap_index_value(bgi_memmap_found(session->memmap), session->weights, index, 0, data,
                                       bg_type_size_bytes(&weight->type), error));
    }
    if (weight->home == NULL)
        return BG_OK;
    for (uint32_t i = number; data != NULL && i != UINT32_MAX; i = next_of_weight(session, index, i))
        bgi_session_upload(session, &session->plan->variables[i], data);
    mark_current(session, index);
    return BG_OK;
}

/* Reads the values of a new weight from the files. A value in stores is in its place already, from which the variable's
 * other places (on devices with a copy) get it. */
static bg_status continue_weight(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bool is_in_stores = session->weights->items[index].home != NULL && bgi_session_is_in_stores(session, number);
    const void *data = NULL;

    BGI_TRY(bgi_memmap_index_take(bgi_memmap_found(session->memmap), session->weights, index, is_in_stores, error));
    if (!is_in_stores)
        return take_from_index(session, number, index, error);
    mark_current(session, index);
    for (uint32_t i = number; i != UINT32_MAX; i = next_of_weight(session, index, i)) {
        if (session->plan->variables[i].place_count == 1)
            continue;
        BGI_TRY(fetch_own(session, i, &data, error));
        if (data != NULL)
            bgi_session_upload(session, &session->plan->variables[i], data);
    }
    return BG_OK;
}

/* Returns the number of an earlier variable that is a section of the same weight; UINT32_MAX when there is none. */
static uint32_t find_section_before(const bg_plan *plan, uint32_t number)
{
    const bgi_plan_variable *variable = &plan->variables[number];

    for (uint32_t i = 0; variable->section != NULL && i < number; i++)
        if (is_shared(&plan->variables[i]) && plan->variables[i].section != NULL &&
            strcmp(plan->variables[i].section->name, variable->section->name) == 0)
            return i;
    return UINT32_MAX;
}

/* Whether inference needs a value of the variable from the caller: of a parameter, or of a buffer that no op writes. */
static bool must_be_given(const bg_session *session, const bgi_plan_variable *variable)
{
    return !session->makes_values &&
           (variable->role == BG_ROLE_PARAMETER || (variable->role == BG_ROLE_BUFFER && !variable->is_written));
}

/* Finds the weight of a variable, if there is one. Otherwise *out_piece is the first of the weights that can be joined
 * to it, or UINT32_MAX. */
static bg_status find_weight(bg_session *session, uint32_t number, uint32_t *out_piece, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const bg_type *type = bgi_plan_variable_whole(variable);
    const char *name = bgi_plan_variable_weight(variable);
    const uint32_t index = bgi_weights_index(session->weights, name);
    char wanted[BG_TYPE_TEXT_BYTES], have[BG_TYPE_TEXT_BYTES];

    *out_piece = UINT32_MAX;
    if (index == UINT32_MAX)
        return bgi_weights_gather(session->weights, name, type, NULL, out_piece, error);
    if (!bg_type_equal(&session->weights->items[index].type, type))
        return bg_error_set(error, BG_ERROR_SHAPE, "variable `%s` is %s in the plan, but %s in the weights", name,
                            bg_type_text(type, wanted), bg_type_text(&session->weights->items[index].type, have));
    session->variables[number].weight = index;
    return BG_OK;
}

enum { MOST_NAMES = 8 };

static bg_status report_missing(bgi_string *names, uint32_t count, bg_error *error)
{
    char *list = NULL;

    if (count > MOST_NAMES)
        bgi_string_add(names, " and %u more", count - MOST_NAMES);
    BGI_TRY(bgi_string_finish(names, &list, error));
    bg_error_set(error, BG_ERROR_NOT_FOUND,
                 "the weights lack %u of the plan's parameters: %.2500s; use weights that have them, or set "
                 "options.initialize_missing to initialize them from the seed",
                 count, list);
    free(list);
    return BG_ERROR_NOT_FOUND;
}

/* Adds the name of a missing parameter; for a quantized buffer, that of the parameter whose values it has. */
static void add_missing(bgi_string *names, const bgi_plan_variable *variable)
{
    const char *name = bgi_plan_variable_weight(variable);
    const size_t length = variable->quantized.bits != 0 ? bgi_quantized_source_length(name) : strlen(name);

    bgi_string_add(names, "%s`%.*s`", names->length > 0 ? ", " : "", (int)length, name);
}

/* Rejects pieces, because a reader does not join the pieces of later versions. */
static bg_status refuse_pieces(const bgi_plan_variable *variable, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID,
                        "a reader needs the whole `%s`, but the weights have pieces of it; create a session over the "
                        "weights first (bg_session_create with the same plan), which joins them",
                        bgi_plan_variable_weight(variable));
}

/* Finds the weights of all variables; fails for inference when some are missing. */
static bg_status find_weights(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const bool is_continued = bgi_memmap_found(session->memmap) != NULL;
    bgi_string names = {0};
    uint32_t missing = 0, piece = UINT32_MAX;
    bool is_made;
    bg_status status;

    for (uint32_t i = 0; i < plan->variable_count; i++) {
        bgi_session_variable *variable = &session->variables[i];
        variable->weight = UINT32_MAX;
        if (!is_shared(&plan->variables[i]))
            continue;
        variable->is_repeated = find_section_before(plan, i) != UINT32_MAX;
        status = find_weight(session, i, &piece, error);
        is_made = false;
        if (status == BG_OK && plan->variables[i].quantized.bits != 0)
            status = bgi_session_find_source(session, i, &is_made, error);
        if (status == BG_OK && piece != UINT32_MAX && session->reading != NULL)
            status = refuse_pieces(&plan->variables[i], error);
        if (status != BG_OK) {
            bgi_string_clear(&names);
            return status;
        }
        if (variable->weight != UINT32_MAX || variable->is_repeated || is_made || piece != UINT32_MAX || is_continued ||
            !must_be_given(session, &plan->variables[i]))
            continue;
        if (missing++ < MOST_NAMES)
            add_missing(&names, &plan->variables[i]);
    }
    return missing > 0 ? report_missing(&names, missing, error) : BG_OK;
}

/* Adds the weight of a variable that has none; fill_weight sets its value later. */
static bg_status add_weight(bg_session *session, uint32_t number, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const uint32_t before = find_section_before(session->plan, number);

    if (before != UINT32_MAX) {
        session->variables[number].weight = session->variables[before].weight;
        return BG_OK;
    }
    session->variables[number].weight = session->weights->count;
    return bgi_weights_add(session->weights, bgi_plan_variable_weight(variable), bgi_plan_variable_whole(variable),
                           variable->role, is_at_home(session, number) ? session : NULL, number, error);
}

/* Sets the first value of a weight that the session has added, from the files with which it resumes, from given pieces,
 * or from the seed. */
static bg_status fill_weight(bg_session *session, uint32_t number, bg_error *error)
{
    const uint32_t index = session->variables[number].weight;
    bgi_weight *weight = &session->weights->items[index];
    uint32_t piece = UINT32_MAX;
    void *data = weight->data;

    if (session->plan->variables[number].quantized.bits != 0)
        return bgi_session_make_quantized(session, number, error);
    BGI_TRY(bgi_weights_gather(session->weights, weight->name, &weight->type, NULL, &piece, error));
    if (piece == UINT32_MAX && bgi_memmap_found(session->memmap) != NULL)
        return continue_weight(session, number, index, error);
    if (piece == UINT32_MAX)
        return initialize(session, number, index, error);
    if (weight->home != NULL)
        BGI_TRY(bgi_weights_take_view(session->weights, index, &data, error));
    BGI_TRY(bgi_weights_gather(session->weights, weight->name, &weight->type, data, &piece, error));
    weight->is_given = session->weights->items[piece].is_given;
    weight->updates = session->weights->items[piece].updates;
    if (weight->home == NULL)
        return BG_OK;
    BGI_TRY(bgi_memmap_begin(session->memmap, error));
    upload_weight(session, index, data);
    return BG_OK;
}

/* Rejects the state of another optimizer, which may have the same names and types but a different meaning. */
static bg_status check_state(const bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;
    char own[BG_OPTIMIZER_STATE_TEXT_BYTES];

    bg_optimizer_describe_state(&plan->optimizer, own);
    for (uint32_t i = 0; plan->training && i < plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        const bgi_weight *weight = index != UINT32_MAX ? &session->weights->items[index] : NULL;

        if (weight == NULL || plan->variables[i].role != BG_ROLE_STATE || weight->optimizer[0] == '\0' ||
            strcmp(weight->optimizer, own) == 0)
            continue;
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the weights have `%s` of optimizer `%s`, but the plan trains with `%s`: train with `%s`, "
            "or give weights without this state, such as new ones into which bg_checkpoint_load_weights "
            "loads a checkpoint with options.drop \"optimizer\"",
            weight->name, weight->optimizer, own, weight->optimizer);
    }
    return BG_OK;
}

static bg_status attach_all(bg_session *session, bg_error *error)
{
    const uint32_t first_new = session->weights->count;

    BGI_TRY(find_weights(session, error));
    BGI_TRY(check_state(session, error));
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (is_shared(&session->plan->variables[i]) && session->variables[i].weight == UINT32_MAX)
            BGI_TRY(add_weight(session, i, error));
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        if (index == UINT32_MAX || index < first_new || session->variables[i].is_repeated)
            continue;
        BGI_TRY(bgi_progress_begin(session->progress, session->weights->items[index].name,
                                   bg_type_size_bytes(&session->weights->items[index].type), error));
        BGI_TRY(fill_weight(session, i, error));
    }
    return BG_OK;
}

/* Whether the session becomes the home of a weight. A session with files also becomes the home of weights whose home is
 * a session in memory. */
static bool takes_home(const bg_session *session, uint32_t number, const bgi_weight *weight)
{
    if (weight->home == NULL)
        return is_at_home(session, number);
    return weight->home != session && session->owners == NULL && weight->home->owners == NULL &&
           bgi_session_is_in_stores(session, number) && !bgi_session_is_in_stores(weight->home, weight->home_variable);
}

/* Makes the session the home of given weights, once nothing can fail any more. */
static void move_home(bg_session *session)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        if (index != UINT32_MAX && takes_home(session, i, &session->weights->items[index]))
            bgi_weights_move_home(session->weights, index, session, i);
    }
}

/* Sets roles and optimizers from the plan, which is more precise than the file from which a weight was read. */
static void name_roles(bg_session *session)
{
    char own[BG_OPTIMIZER_STATE_TEXT_BYTES];

    bg_optimizer_describe_state(&session->plan->optimizer, own);
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (session->variables[i].weight != UINT32_MAX) {
            bgi_weight *weight = &session->weights->items[session->variables[i].weight];
            weight->role = session->plan->variables[i].role;
            weight->is_attached = true;
            if (session->plan->training && weight->role == BG_ROLE_STATE)
                memcpy(weight->optimizer, own, sizeof own);
        }
}

/* ---- the optimizer's numbers ---- */

static void upload_optimizer(bg_session *session)
{
    double numbers[BGI_OPTIMIZER_NUMBERS];

    if (session->plan->hyper_variable == UINT32_MAX)
        return;
    bgi_optimizer_write_numbers(&session->optimizer, numbers);
    bgi_session_upload(session, &session->plan->variables[session->plan->hyper_variable], numbers);
}

static bg_status check_hyper(const bg_plan *plan, bg_error *error)
{
    const bgi_plan_variable *variable;

    if (plan->hyper_variable == UINT32_MAX)
        return BG_OK;
    variable = plan->hyper_variable < plan->variable_count ? &plan->variables[plan->hyper_variable] : NULL;
    if (variable == NULL || variable->type.dtype != BG_FLOAT64 ||
        bg_type_element_count(&variable->type) != BGI_OPTIMIZER_NUMBERS)
        return bg_error_set(error, BG_ERROR_INTERNAL, "plan: the optimizer's numbers are not float64[%d]",
                            BGI_OPTIMIZER_NUMBERS);
    return BG_OK;
}

bg_status bgi_session_restart_state(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;

    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        bgi_weight *weight = index != UINT32_MAX ? &session->weights->items[index] : NULL;
        const size_t size_bytes = weight != NULL ? bg_type_size_bytes(&weight->type) : 0;
        bg_status status;
        void *data;

        if (weight == NULL || plan->variables[i].role != BG_ROLE_STATE || session->variables[i].is_repeated)
            continue;
        data = malloc(size_bytes);
        if (data == NULL)
            return bgi_error_memory(error, weight->name, size_bytes);
        status =
            bgi_initialize(&weight->type, &plan->variables[i].initializer, weight->name, plan->options.numerics.seed,
                           plan->variables[i].number, bgi_session_helpers(session), data, error);
        if (status == BG_OK)
            status = bgi_weights_set(session->weights, weight->name, &weight->type, data, error);
        free(data);
        if (status != BG_OK)
            return status;
        weight->is_given = false;
        weight->updates = 0;
    }
    return BG_OK;
}

static bg_status set_optimizer(bg_session *session, const bg_optimizer *optimizer, bg_error *error)
{
    if (!session->plan->training)
        return bg_error_set(error, BG_ERROR_INVALID, "a session for inference has no optimizer");
    BGI_TRY(bg_optimizer_validate(optimizer, error));
    BGI_TRY(bgi_optimizer_check_change(&session->plan->optimizer, optimizer, error));
    session->optimizer = *optimizer;
    upload_optimizer(session);
    return BG_OK;
}

bg_status bg_session_set_optimizer(bg_session *session, const bg_optimizer *optimizer, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(optimizer, "optimizer", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_set_optimizer", error));
    status = set_optimizer(session, optimizer, error);
    bgi_weights_leave(session->weights);
    return status;
}

bg_status bg_session_set_learning_rate(bg_session *session, double learning_rate, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    bg_optimizer optimizer;
    bg_status status;

    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_set_learning_rate", error));
    optimizer = session->optimizer;
    optimizer.learning_rate = learning_rate;
    status = set_optimizer(session, &optimizer, error);
    bgi_weights_leave(session->weights);
    return status;
}

/* ---- life ---- */

/* Allocates memory for one replica's part of a variable that is cut out of its weight. */
static bg_status take_cut(bg_session *session, bg_error *error)
{
    size_t most = 0;

    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const bgi_plan_variable *variable = &session->plan->variables[i];
        const bool is_cut = variable->shard != NULL || variable->section != NULL;
        const size_t size = is_cut ? bg_type_size_bytes(&variable->type) : 0;
        most = size > most ? size : most;
    }
    if (most > 0)
        session->cut = malloc(most);
    return most == 0 || session->cut != NULL ? BG_OK : bgi_error_memory(error, "pieces of variables", most);
}

/* Reads from the files the progress of the training run that this session resumes. */
static bg_status take_note(bg_session *session, bool weights_are_new, bg_error *error)
{
    const bgi_memmap_index *found = bgi_memmap_found(session->memmap);
    char text[192];

    if (found == NULL)
        return BG_OK;
    session->note = strdup(found->note);
    if (session->note == NULL)
        return bgi_error_memory(error, "a note", strlen(found->note));
    if (weights_are_new)
        session->weights->step = found->step;
    if (found->seed != session->plan->options.numerics.seed) {
        snprintf(text, sizeof text,
                 "memmap_dir: the files were made with seed %" PRIu64 ", this session has %" PRIu64
                 "; random numbers (dropout) continue with the session's",
                 found->seed, session->plan->options.numerics.seed);
        bgi_log(&session->plan->options, BG_LOG_WARNING, text);
    }
    bgi_memmap_forget(session->memmap);
    return BG_OK;
}

static bg_status take_carried(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;

    session->carried = calloc((size_t)plan->carried_count + 1, sizeof *session->carried);
    if (session->carried == NULL)
        return bgi_error_memory(error, "carried values", plan->carried_count * sizeof *session->carried);
    for (uint32_t i = 0; i < plan->carried_count; i++) {
        const size_t size = bg_type_size_bytes(&plan->variables[plan->carried[i]].type);
        session->carried[i] = bgi_take_lines(1, size + 1);
        if (session->carried[i] == NULL)
            return bgi_error_memory(error, "a carried value", size);
    }
    return BG_OK;
}

static void *find_store(const void *memmap, uint32_t device)
{
    return bgi_memmap_address(memmap, device);
}

static void close_stores(void *memmap)
{
    bgi_memmap_close(memmap);
}

/* Checks the functions of a transport that the caller provides. */
static bg_status check_transport(const bg_transport *transport, bg_error *error)
{
    if (transport->struct_bytes != sizeof *transport)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "transport.struct_bytes is %zu; it must be sizeof(bg_transport), here %zu",
                            transport->struct_bytes, sizeof *transport);
    if (transport->rank >= transport->rank_count)
        return bg_error_set(error, BG_ERROR_INVALID, "transport.rank is %u but must be below rank_count, %u",
                            transport->rank, transport->rank_count);
    if (transport->tag_count < LEAST_TAGS || transport->message_bytes < LEAST_MESSAGE_BYTES)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the transport has %u tags and messages of %zu bytes; it must have at least %d tags and "
                            "messages of %d bytes",
                            transport->tag_count, transport->message_bytes, LEAST_TAGS, LEAST_MESSAGE_BYTES);
    if (transport->name == NULL || transport->open == NULL || transport->close == NULL || transport->send == NULL ||
        transport->receive == NULL || transport->poll == NULL)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the transport lacks a function or its name; it must have name, open, close, send, receive and poll");
    return BG_OK;
}

/* Finds the owners of devices, if there are several ranks. */
static bg_status find_owners(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const bg_transport *transport = plan->options.execution.transport;

    if (transport != NULL)
        BGI_TRY(check_transport(transport, error));
    if (transport == NULL || transport->rank_count == 1)
        return bgi_layout_check(plan, error);
    session->owners = calloc((size_t)plan->device_count * plan->replicas + 1, sizeof *session->owners);
    session->readers = calloc(transport->rank_count, sizeof *session->readers);
    session->hosts = calloc(transport->rank_count, sizeof *session->hosts);
    if (session->owners == NULL || session->readers == NULL || session->hosts == NULL)
        return bgi_error_memory(error, "the owners of devices", 0);
    BGI_TRY(bgi_layout_make(plan, transport, session->owners, error));
    if (transport->rank_count > plan->device_count * plan->replicas && transport->rank == 0) {
        char text[192];
        snprintf(text, sizeof text,
                 "there are %u ranks but only %u devices (%u in each of %u replicas), so ranks from %u on are idle",
                 transport->rank_count, plan->device_count * plan->replicas, plan->device_count, plan->replicas,
                 plan->device_count * plan->replicas);
        bgi_log(&plan->options, BG_LOG_WARNING, text);
    }
    return BG_OK;
}

/* Chooses the weights that the session reads in place: in inference, in one process and without files. */
static bg_status choose_in_place(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const char *files = plan->options.files.memmap_dir;

    if (plan->training || session->owners != NULL || (files != NULL && files[0] != '\0'))
        return BG_OK;
    session->in_place = calloc((size_t)plan->variable_count + 1, sizeof *session->in_place);
    if (session->in_place == NULL)
        return bgi_error_memory(error, "variables", plan->variable_count);
    bgi_in_place_choose(plan, session->in_place);
    return BG_OK;
}

/* Creates the engine, which closes the files of remote memory, because a late worker may still write to them. */
static bg_status make_engine(bg_session *session, const bgi_ranks *ranks, bgi_memmap *memmap, bg_error *error)
{
    const bgi_engine_options options = {.ranks = ranks,
                                        .in_place = session->in_place,
                                        .stores = {.address = find_store, .close = close_stores, .user = memmap},
                                        .progress = session->progress};

    BGI_TRY(bgi_engine_create(session->plan, &options, &session->engine, error));
    session->memmap = memmap;
    return BG_OK;
}

/* Creates the engine together with the other ranks. All ranks compare their plans before any of them allocates memory,
 * and no rank continues without the others. */
static bg_status open_together(bg_session *session, const bgi_ranks *ranks, bgi_transport *talk, bg_error *error)
{
    bgi_memmap *memmap = NULL;
    bg_error own = {0};
    bg_status status;

    BGI_TRY(bgi_ranks_agree(session->plan, talk, error));
    BGI_TRY(bgi_ranks_share_hosts(talk, session->hosts, error));
    BGI_TRY(bgi_memmap_open(session->plan, talk, session->progress, &memmap, error));
    status = bgi_ranks_settle(talk, make_engine(session, ranks, memmap, &own), NULL, &own);
    if (status == BG_OK) {
        bgi_memmap_follow(memmap, session->engine->transport);
        status = bgi_ranks_settle(session->engine->transport, BG_OK, NULL, &own);
    }
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", own.message);
}

static bg_status open_engine(bg_session *session, bg_error *error)
{
    const bgi_ranks ranks = {.carrier = session->plan->options.execution.transport,
                             .owners = session->owners,
                             .hosts = (const char(*)[BGI_HOST_BYTES])session->hosts,
                             .wait_limit_s = session->plan->options.execution.wait_limit_s};
    bgi_transport *talk = NULL;
    bgi_memmap *memmap = NULL;
    bg_status status;

    if (session->owners == NULL) {
        BGI_TRY(bgi_memmap_open(session->plan, NULL, session->progress, &memmap, error));
        return make_engine(session, NULL, memmap, error);
    }
    BGI_TRY(bgi_ranks_talk(&ranks, &talk, error));
    status = open_together(session, &ranks, talk, error);
    talk->type->destroy(talk);
    return status;
}

/* Sums the bytes of all parts of a creation: memory of devices and files, first values of new weights, and copies of
 * values to devices. The sum is the same on all ranks. */
static uint64_t count_creation(const bg_session *session)
{
    const bg_plan *plan = session->plan;
    uint64_t bytes = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        bytes += plan->replicas * (uint64_t)(plan->devices[d].arena_bytes + plan->devices[d].remote_bytes);
    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const bgi_plan_variable *variable = &plan->variables[i];
        if (!is_shared(variable))
            continue;
        bytes += bg_type_size_bytes(&variable->type);
        if (bgi_weights_index(session->weights, bgi_plan_variable_weight(variable)) == UINT32_MAX &&
            find_section_before(plan, i) == UINT32_MAX)
            bytes += bg_type_size_bytes(bgi_plan_variable_whole(variable));
    }
    return bytes;
}

static bg_status open_session(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const uint32_t weight_count = session->weights->count;
    bg_status status;

    session->variables = calloc((size_t)plan->variable_count + 1, sizeof *session->variables);
    if (session->variables == NULL)
        return bgi_error_memory(error, "variables", plan->variable_count * sizeof *session->variables);
    BGI_TRY(check_hyper(plan, error));
    BGI_TRY(take_cut(session, error));
    BGI_TRY(take_carried(session, error));
    BGI_TRY(find_owners(session, error));
    BGI_TRY(choose_in_place(session, error));
    BGI_TRY(open_engine(session, error));
    BGI_TRY(bgi_session_check_quantized(session, error));
    /* The weights' versions begin at 1, so all values are copied to the devices. */
    status = attach_all(session, error);
    if (status == BG_OK)
        status = pull_weights(session, error);
    if (status != BG_OK) {
        bgi_weights_truncate(session->weights, weight_count);
        return status;
    }
    name_roles(session);
    upload_optimizer(session);
    if (plan->condition != NULL) {
        session->condition_memory = bgi_interpret_memory(plan->condition);
        if (session->condition_memory == NULL)
            return bgi_error_memory(error, "a loop's condition", plan->condition->devices[0].arena_bytes);
    }
    BGI_TRY(take_note(session, weight_count == 0, error));
    move_home(session);
    bgi_weights_drop_pieces(session->weights);
    return BG_OK;
}

/* Frees the session, but not its reference to the weights. If there are weights, the thread has entered them. */
static void close_session(bg_session *session)
{
    bg_plan *own_plan = session->own_plan;

    if (session->weights != NULL && session->engine != NULL)
        return_weights(session);
    bgi_session_drop_traces(session);
    bgi_engine_destroy(session->engine);
    for (bg_outfeed *outfeed = session->outfeeds, *next; outfeed != NULL; outfeed = next) {
        next = outfeed->next;
        bgi_outfeed_close(outfeed);
    }
    bg_infeed_destroy(session->kept_infeed);
    for (uint32_t i = 0; session->carried != NULL && i < session->plan->carried_count; i++)
        free(session->carried[i]);
    free(session->carried);
    free(session->condition_memory);
    free(session->cut);
    bgi_session_drop_room(session);
    free(session->owners);
    free(session->readers);
    free(session->hosts);
    free(session->note);
    free(session->in_place);
    free(session->variables);
    free(session);
    bg_plan_destroy(own_plan);
}

bg_status bgi_session_make(const bg_plan *plan, bg_weights *weights, bool makes_values, bgi_reading *reading,
                           bg_session **out, bg_error *error)
{
    const bg_reporting_options *reporting = &plan->options.reporting;
    bgi_progress progress = {reporting->progress, reporting->progress_user, "the session", 0, 0};
    bg_session *session = bgi_take_lines(1, sizeof *session);
    bg_status status;

    if (session == NULL)
        return bgi_error_memory(error, "a session", sizeof *session);
    session->plan = plan;
    session->makes_values = makes_values;
    session->optimizer = plan->optimizer;
    session->weights = weights;
    session->reading = reading;
    weights->holder = &holder;
    if (progress.call != NULL)
        progress.total = count_creation(session);
    session->progress = &progress;
    status = open_session(session, error);
    session->progress = NULL;
    if (status == BG_OK)
        *out = session;
    else
        close_session(session);
    return status;
}

bg_status bg_session_create(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (plan == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a session without a plan");
    return bgi_session_create(plan, weights, plan->training || plan->options.numerics.initialize_missing, out, error);
}

bg_status bgi_session_create(const bg_plan *plan, bg_weights *weights, bool makes_values, bg_session **out,
                             bg_error *error)
{
    const bg_allocator allocator = bgi_options_allocator(&plan->options);
    bg_status status;

    if (plan->options.execution.compile_only)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan was made with options.compile_only, only for inspection, and cannot run; make it "
                            "again with compile_only false");
    if (weights == NULL)
        BGI_TRY(bg_weights_create_in(&allocator, &weights, error));
    else
        atomic_fetch_add(&weights->references, 1);
    status = bgi_weights_enter(weights, NULL, "bg_session_create", error);
    if (status == BG_OK) {
        status = bgi_session_make(plan, weights, makes_values, NULL, out, error);
        bgi_weights_leave(weights);
    }
    if (status != BG_OK)
        bg_weights_destroy(weights);
    return status;
}

void bg_session_destroy(bg_session *session)
{
    bg_weights *weights = session != NULL ? session->weights : NULL;
    bgi_reading *reading = session != NULL ? session->reading : NULL;
    bool is_dead;

    if (session == NULL)
        return;
    is_dead = session->engine->is_dead;
    if (is_dead && session->in_place != NULL) { /* a kernel that has not returned may read the weights */
        atomic_fetch_add(&weights->references, 1);
        session->engine->read_weights = weights;
    }
    bgi_weights_enter_late(weights, session, "bg_session_destroy");
    close_session(session);
    bgi_weights_leave(weights);
    bg_weights_destroy(weights);
    bgi_reading_close(reading, is_dead);
}

bg_weights *bg_session_weights(const bg_session *session)
{
    return session->reading != NULL ? session->reading->source : session->weights;
}

const bg_plan *bg_session_plan(const bg_session *session)
{
    return session->plan;
}

uint64_t bg_session_step(const bg_session *session)
{
    return session->weights->step;
}

bg_status bg_session_set_step(bg_session *session, uint64_t step, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_set_step", error));
    session->weights->step = step;
    bgi_weights_leave(session->weights);
    return BG_OK;
}

/* ---- files ---- */

const char *bg_session_note(const bg_session *session)
{
    if (!bgi_memmap_is_continued(session->memmap))
        return NULL;
    return session->note != NULL ? session->note : "";
}

static bg_status flush(bg_session *session, const char *note, bg_error *error)
{
    if (session->engine->is_dead)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "memmap_dir: a run of this session failed, so the values in the files do not belong to one step");
    return bgi_memmap_finish(session->memmap, session, note != NULL ? note : "", error);
}

bg_status bg_session_flush(bg_session *session, const char *note, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    const bgi_memmap *memmap = session->memmap;
    bg_status status;

    if (memmap == NULL || bgi_memmap_is_private(memmap))
        return BG_OK;
    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_flush", error));
    status = flush(session, note, error);
    bgi_weights_leave(session->weights);
    return status;
}

/* ---- streams ---- */

uint32_t bg_session_input_count(const bg_session *session)
{
    return session->plan->input_count;
}

uint32_t bg_session_output_count(const bg_session *session)
{
    return bgi_plan_output_count(session->plan);
}

static bg_stream make_stream(uint32_t replicas, const char *name, const bg_type *type, uint64_t count)
{
    return (bg_stream){.name = name,
                       .micro_batch_type = *type,
                       .count = count,
                       .replicas = replicas,
                       .size_bytes = (size_t)count * bg_type_size_bytes(type)};
}

bg_status bg_session_input(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_plan *plan = session->plan;

    if (index >= plan->input_count)
        return bg_error_set(error, BG_ERROR_INVALID, "input is %u but must be below %u, the number of inputs", index,
                            plan->input_count);
    *out = make_stream(bgi_plan_is_canonical(plan) ? 1 : bgi_plan_input_rows(plan), plan->inputs[index].name,
                       &plan->inputs[index].type, bgi_stream_input_count(plan));
    return BG_OK;
}

bg_status bg_session_output(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_plan *plan = session->plan;

    if (index >= bgi_plan_output_count(plan))
        return bg_error_set(error, BG_ERROR_INVALID, "output is %u but must be below %u, the number of outputs", index,
                            bgi_plan_output_count(plan));
    *out =
        make_stream(bgi_plan_has_stretches(plan, &plan->outputs[index]) ? 1 : plan->replicas, plan->outputs[index].name,
                    &plan->outputs[index].type, bgi_stream_output_count(plan, &plan->outputs[index]));
    return BG_OK;
}

uint32_t bg_session_find_input(const bg_session *session, const char *name)
{
    for (uint32_t i = 0; i < session->plan->input_count; i++)
        if (strcmp(session->plan->inputs[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

uint32_t bg_session_find_output(const bg_session *session, const char *name)
{
    for (uint32_t i = 0; i < bgi_plan_output_count(session->plan); i++)
        if (strcmp(session->plan->outputs[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- runs ---- */

/* Returns the number of weight updates that the optimizer's state has seen; 0 without state. */
static uint64_t find_optimizer_step(const bg_session *session)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (session->plan->variables[i].role == BG_ROLE_STATE && session->variables[i].weight != UINT32_MAX) {
            const bgi_weight *state = &session->weights->items[session->variables[i].weight];
            return state->is_given ? session->weights->step : state->updates;
        }
    return 0;
}

static void count_updates(bg_session *session, uint64_t iterations)
{
    session->weights->step += iterations;
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (session->plan->variables[i].role == BG_ROLE_STATE && session->variables[i].weight != UINT32_MAX &&
            !session->variables[i].is_repeated)
            session->weights->items[session->variables[i].weight].updates += iterations;
}

/* Measures the time of a run if the options request it, and otherwise does not read the clock. */
static bg_status run_timed(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    const bg_options *options = &session->plan->options;
    const uint64_t start_ns = options->reporting.log_cycles ? bgi_clock_ns() : 0;
    char text[64];

    session->cycles = 0;
    BGI_TRY(bgi_engine_run(session->engine, run, out_iterations, error));
    if (!options->reporting.log_cycles)
        return BG_OK;
    session->cycles = bgi_clock_ns() - start_ns;
    snprintf(text, sizeof text, "run took %" PRIu64 " cycles", session->cycles);
    bgi_log(options, BG_LOG_INFO, text);
    return BG_OK;
}

uint64_t bg_session_cycles(const bg_session *session)
{
    return session->cycles;
}

/* Reports a run in which an update was refused because of its loss; only the iterations before that update count. */
static bg_status report_refused(bg_session *session, const bgi_run *run, uint64_t *iterations, bg_error *error)
{
    const bgi_plan_variable *hyper = &session->plan->variables[session->plan->hyper_variable];
    double numbers[BGI_OPTIMIZER_NUMBERS];
    uint64_t update;

    BGI_TRY(bgi_engine_fetch(session->engine, 0, &hyper->places[0], NULL, numbers, sizeof numbers, error));
    update = (uint64_t)numbers[BG_UPDATE_SKIP] - 1 - run->optimizer_step;
    *iterations = update < *iterations ? update : *iterations;
    upload_optimizer(session); /* clears the mark of the skipped update for the next run */
    count_updates(session, *iterations);
    update = session->weights->step;
    return bg_error_set(error, BG_ERROR_NOT_FINITE,
                        "the loss of weight update %" PRIu64
                        " is infinite or NaN: the update was refused, so weights and optimizer are as they were "
                        "after %" PRIu64 "; lower the learning rate, or look at the samples",
                        update + 1, update);
}

static bg_status run_with_weights(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    const bg_plan *plan = session->plan;
    bg_status status;

    bgi_session_drop_traces(session);
    if (!session->engine->is_dead) /* a failed session's values are lost; the engine reports why it does not run */
        BGI_TRY(pull_weights(session, error));
    BGI_TRY(bgi_memmap_begin(session->memmap, error));
    bgi_memmap_keep(session->memmap);
    run->step = session->weights->step;
    run->optimizer_step = find_optimizer_step(session);
    status = run_timed(session, run, out_iterations, error);
    if (status == BG_OK && session->engine->has_refused) {
        claim_weights(session);
        return report_refused(session, run, out_iterations, error);
    }
    if (run->scalars != NULL)
        upload_optimizer(session); /* restores the values that were set */
    if (status != BG_OK) {
        lose_weights(session);
        return status;
    }
    claim_weights(session);
    if (plan->training)
        count_updates(session, *out_iterations);
    return BG_OK;
}

/* Runs the session. After a failed run a reader keeps its version, because a kernel that reads it may not have
 * returned. */
bg_status bgi_session_run(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    bg_status status;

    if (session->reading == NULL)
        return run_with_weights(session, run, out_iterations, error);
    status = bgi_reading_begin(session, error);
    if (status == BG_OK)
        status = run_with_weights(session, run, out_iterations, error);
    if (!session->engine->is_dead)
        bgi_reading_end(session);
    return status;
}

/* ---- looking inside ---- */

bg_status bg_session_print_workers(const bg_session *session, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    const char *allowed = session->engine->cpus;
    bgi_string text = {0};

    for (uint32_t i = 0; i < session->engine->worker_count; i++) {
        const bgi_worker *worker = &session->engine->workers[i];
        if (worker->does_io)
            bgi_string_add(&text, "worker %u on any core%s%s, for loads and stores\n", worker->number,
                           allowed[0] != '\0' ? " of " : "", allowed);
        else if (worker->is_caller)
            bgi_string_add(&text, "worker %u on the calling thread\n", worker->number);
        else if (worker->cpu == BGI_NO_CPU)
            bgi_string_add(&text, "worker %u on any core%s%s\n", worker->number, allowed[0] != '\0' ? " of " : "",
                           allowed);
        else
            bgi_string_add(&text, "worker %u on core %u\n", worker->number, worker->cpu);
    }
    return bgi_string_finish(&text, out_text, error);
}

static bgi_runner *find_device(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bg_plan *plan = session->plan;

    if (replica >= plan->replicas || device >= plan->device_count || !bgi_engine_has(session->engine, replica, device))
        return NULL;
    return &session->engine->runners[replica * plan->device_count + device];
}

void bg_session_ask_to_stop(bg_session *session)
{
    atomic_store(&session->engine->asks_to_stop, true);
}

bool bg_session_is_asked_to_stop(const bg_session *session)
{
    return session->engine->ranks != NULL ? session->engine->is_asked_to_stop
                                          : atomic_load(&session->engine->asks_to_stop);
}

bool bg_session_has_device(const bg_session *session, uint32_t replica, uint32_t device)
{
    return find_device(session, replica, device) != NULL;
}

/* Whether the device reads the input; a device reads the same inputs for every micro-batch. */
static bool device_reads(const bgi_plan_device *device, uint32_t input)
{
    for (uint32_t i = 0; i < device->instruction_count; i++) {
        const bgi_instruction *instruction = &device->instructions[i];

        if (instruction->action.kind != BG_ACTION_HOST_IN || instruction->action.micro_batch != 0)
            continue;
        for (uint32_t c = 0; c < instruction->copy_count; c++)
            if (instruction->copies[c].stream == input)
                return true;
    }
    return false;
}

bool bg_session_reads(const bg_session *session, uint32_t input, uint64_t index)
{
    const bg_plan *plan = session->plan;
    const uint32_t row = bgi_plan_place_row(plan, index);

    for (uint32_t d = 0; d < plan->device_count; d++) {
        if (!device_reads(&plan->devices[d], input))
            continue;
        for (uint32_t replica = 0; replica < plan->replicas; replica++)
            if (bgi_plan_input_row(plan, replica) == row && bgi_engine_has(session->engine, replica, d))
                return true;
    }
    return false;
}

size_t bg_session_device_bytes(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_runner *found = find_device(session, replica, device);
    size_t touched;

    if (found == NULL)
        return 0;
    if (found->trace.events == NULL)
        return found->program->arena_bytes;
    if (bgi_weights_enter(session->weights, session, "bg_session_device_bytes", NULL) != BG_OK)
        return 0;
    touched = found->touched_bytes > found->io_touched_bytes ? found->touched_bytes : found->io_touched_bytes;
    bgi_weights_leave(session->weights);
    return (touched + BGI_CACHE_LINE_BYTES - 1) / BGI_CACHE_LINE_BYTES * BGI_CACHE_LINE_BYTES;
}

static uint32_t count_events(const bgi_trace_ring *ring)
{
    return ring->count < ring->capacity ? (uint32_t)ring->count : ring->capacity;
}

/* Returns the trace of another rank's device, if it was shared; otherwise NULL. */
static const bgi_shared_trace *find_shared(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bg_plan *plan = session->plan;

    if (session->shared_traces == NULL || replica >= plan->replicas || device >= plan->device_count)
        return NULL;
    return &session->shared_traces[replica * plan->device_count + device];
}

static uint32_t count_all_events(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_runner *found = find_device(session, replica, device);
    const bgi_shared_trace *shared = find_shared(session, replica, device);

    if (found == NULL)
        return shared != NULL ? (uint32_t)shared->count : 0;
    return found->trace.events != NULL ? count_events(&found->trace) + count_events(&found->io_trace) : 0;
}

uint32_t bg_session_trace_count(const bg_session *session, uint32_t replica, uint32_t device)
{
    uint32_t count;

    if (bgi_weights_enter(session->weights, session, "bg_session_trace_count", NULL) != BG_OK)
        return 0;
    count = count_all_events(session, replica, device);
    bgi_weights_leave(session->weights);
    return count;
}

/* Finds event `index` of a device; the events of its program come first, then those of its transfers. */
static bg_status find_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                            bg_trace_event *out, bg_error *error)
{
    const uint32_t total = count_all_events(session, replica, device);
    const bgi_runner *found = find_device(session, replica, device);
    const bgi_trace_ring *ring;
    uint32_t count;

    if (index >= total)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "event is %u but must be below %u, the number of events of replica %u, device %u%s", index, total, replica,
            device, session->plan->options.reporting.trace ? "" : "; the plan's options do not ask for a trace");
    if (found == NULL) {
        *out = find_shared(session, replica, device)->events[index];
        return BG_OK;
    }
    ring = &found->trace;
    count = count_events(ring);
    if (index >= count) {
        index -= count;
        ring = &found->io_trace;
        count = count_events(ring);
    }
    *out = ring->events[(ring->count - count + index) % ring->capacity];
    return BG_OK;
}

bg_status bg_session_trace_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                                 bg_trace_event *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_trace_event", error));
    status = find_event(session, replica, device, index, out, error);
    bgi_weights_leave(session->weights);
    return status;
}
