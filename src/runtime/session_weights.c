/*
 * session_weights.c: connects the variables of a session with the weights that it shares. A new session finds or makes
 * its weights. Changed values are uploaded to the devices before a run, and downloaded on demand.
 */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/section.h"
#include "core/text.h"
#include "options/optimizer.h"
#include "runtime/initialize.h"
#include "runtime/memmap.h"
#include "runtime/quantize.h"
#include "runtime/weights.h"

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

const bgi_weight_holder bgi_session_holder = {.download = download_weight,
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

bg_status bgi_session_refresh(bg_session *session, bg_error *error)
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

void bgi_session_claim(bg_session *session)
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

void bgi_session_lose(bg_session *session)
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

void bgi_session_return(bg_session *session)
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

/* Whether a new weight has its home in the session, without a host copy: if the session trains or has several ranks,
 * and its plan has the whole weight, or if the value is in files. Other sessions use host copies. */
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

/* Finds the weight of a variable, if there is one. Otherwise sets *out_piece to the first of the pieces that can be
 * joined to this weight, or to UINT32_MAX. */
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

/* Whether the variable is the quantized form of a parameter that is also in the plan. */
static bool follows_parameter(const bg_plan *plan, const bgi_plan_variable *variable)
{
    const size_t length = bgi_quantized_source_length(variable->name);

    for (uint32_t i = 0; variable->quantized.bits != 0 && i < plan->variable_count; i++)
        if (strncmp(plan->variables[i].name, variable->name, length) == 0 && plan->variables[i].name[length] == '\0')
            return true;
    return false;
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

/* Finds the weights of all variables; fails when weights are missing that the caller must give (must_be_given). */
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
            !must_be_given(session, &plan->variables[i]) || follows_parameter(plan, &plan->variables[i]))
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

bg_status bgi_session_attach(bg_session *session, bg_error *error)
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

void bgi_session_move_home(bg_session *session)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        if (index != UINT32_MAX && takes_home(session, i, &session->weights->items[index]))
            bgi_weights_move_home(session->weights, index, session, i);
    }
}

void bgi_session_name_roles(bg_session *session)
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

uint64_t bgi_session_count_creation(const bg_session *session)
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
