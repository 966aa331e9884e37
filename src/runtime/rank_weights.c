/*
 * rank_weights.c: makes and moves weights of a session with several ranks. Each rank computes only the first values of
 * its own devices, and sends its parts to the ranks that read them.
 *
 *     the rank that reads     use --> fetch --> announce: number --> take parts | ... | --> announce: end
 *     ranks with parts of it  serve: take number --> send them                  | ... | --> end
 */
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/stretch.h"
#include "runtime/initialize.h"
#include "runtime/weights.h"

enum { MADE_ELEMENTS = 1 << 18 }; /* the largest number of elements that are made at a time */

/* ---- a rank's own values ---- */

bool bgi_session_has_all(const bg_session *session, const bgi_plan_variable *variable)
{
    int64_t end = 0;
    bool goes_on = variable->section != NULL;

    while (goes_on) {
        goes_on = false;
        for (uint32_t i = 0; i < session->plan->variable_count; i++) {
            const bg_section *other = session->plan->variables[i].section;
            if (other == NULL || strcmp(other->name, variable->section->name) != 0 || other->first > end ||
                other->first + other->count <= end)
                continue;
            end = other->first + other->count;
            goes_on = true;
        }
    }
    return variable->section == NULL || end == variable->section->whole.dims[variable->section->axis];
}

static bool has_place(const bg_session *session, const bgi_plan_variable *variable, uint32_t replica, uint32_t rank)
{
    for (uint32_t p = 0; p < variable->place_count; p++)
        if (session->owners[replica * session->plan->device_count + variable->places[p].device] == rank)
            return true;
    return false;
}

void bgi_session_find_readers(const bg_session *session, const bgi_plan_variable *variable, bool *readers)
{
    const bg_transport *transport = session->plan->options.execution.transport;

    for (uint32_t rank = 0; rank < transport->rank_count; rank++) {
        readers[rank] = false;
        for (uint32_t replica = 0; replica < session->plan->replicas && !readers[rank]; replica++)
            readers[rank] = has_place(session, variable, replica, rank);
    }
}

/* ---- first values ---- */

typedef struct maker {
    const bgi_first_values *values;
    char *part;
} maker;

static void make_stretch(void *user, const bgi_stretch *stretch)
{
    const maker *m = user;

    bgi_first_values_fill(m->values, stretch->whole, stretch->length,
                          m->part + (size_t)stretch->part * bg_dtype_size_bytes(m->values->whole.dtype));
}

/* Writes bytes first .. end - 1 of the value at position `t` on the tensor axes to this rank's places. With
 * data-parallel pieces, each place gets the bytes of its piece. */
static void write_range(bg_session *session, const bgi_plan_variable *variable, uint32_t t, const char *data,
                        size_t first, size_t end)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);

    for (uint32_t place = 0; place < mesh.data; place++) {
        const bgi_kept_part part = bgi_session_part(variable, place);
        const size_t begin = first > part.offset ? first : part.offset;
        const size_t stop = end < part.offset + part.size_bytes ? end : part.offset + part.size_bytes;
        for (uint32_t p = 0; p < variable->place_count && begin < stop; p++) {
            bgi_place at = variable->places[p];
            at.operand.offset += begin - part.offset;
            bgi_engine_write(session->engine, place * mesh.tensor_1 * mesh.tensor_2 + t, &at, data + (begin - first),
                             stop - begin);
        }
    }
}

/* Makes the value of a variable that is cut out of its weight, for the replicas at one position on the tensor axes. */
static bg_status make_cut(bg_session *session, const bgi_plan_variable *variable, const bgi_first_values *values,
                          uint32_t t, bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan), at = bg_mesh_coordinates(&mesh, t);
    const size_t size_bytes = bg_type_size_bytes(&variable->type);
    maker m = {values, session->cut};

    memset(session->cut, 0, size_bytes);
    if (variable->section != NULL)
        bgi_section_walk(variable->section, make_stretch, &m);
    else
        BGI_TRY(bgi_shard_walk(&mesh, variable->shard, &at, make_stretch, &m, error));
    write_range(session, variable, t, session->cut, 0, size_bytes);
    return BG_OK;
}

static bool is_own(const bg_session *session, const bgi_plan_variable *variable, uint32_t t)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;

    for (uint32_t place = 0; place < mesh.data; place++)
        if (has_place(session, variable, place * tensor + t, session->plan->options.execution.transport->rank))
            return true;
    return false;
}

/* Makes values in parts of bounded length; each part is made once for all replicas of this rank. */
static bg_status make_whole(bg_session *session, const bgi_plan_variable *variable, const bgi_first_values *values,
                            bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const int64_t count = bg_type_element_count(&variable->type);
    const size_t element = bg_dtype_size_bytes(variable->type.dtype);
    const size_t room_bytes = element * (size_t)(count < MADE_ELEMENTS ? count : MADE_ELEMENTS);
    char *room = malloc(room_bytes + 1);

    if (room == NULL)
        return bgi_error_memory(error, variable->name, room_bytes);
    for (int64_t first = 0; first < count; first += MADE_ELEMENTS) {
        const int64_t end = count - first < MADE_ELEMENTS ? count : first + MADE_ELEMENTS;
        bgi_first_values_fill(values, first, end - first, room);
        for (uint32_t t = 0; t < mesh.tensor_1 * mesh.tensor_2; t++)
            write_range(session, variable, t, room, (size_t)first * element, (size_t)end * element);
    }
    free(room);
    return BG_OK;
}

static bg_status make_own(bg_session *session, const bgi_plan_variable *variable, const bgi_first_values *values,
                          bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);

    if (variable->section == NULL && variable->shard == NULL)
        return make_whole(session, variable, values, error);
    for (uint32_t t = 0; t < mesh.tensor_1 * mesh.tensor_2; t++)
        if (is_own(session, variable, t))
            BGI_TRY(make_cut(session, variable, values, t, error));
    return BG_OK;
}

bg_status bgi_session_make_own(bg_session *session, const bgi_plan_variable *variable, const bgi_plan_variable *first,
                               bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const bg_type *whole = variable->section != NULL ? &variable->section->whole
                           : variable->shard != NULL ? &variable->shard->whole
                                                     : &variable->type;
    bgi_first_values values;
    bool is_any_own = false;
    bg_status status;

    for (uint32_t t = 0; t < mesh.tensor_1 * mesh.tensor_2; t++)
        is_any_own = is_any_own || is_own(session, variable, t);
    if (!is_any_own)
        return BG_OK;
    BGI_TRY(bgi_first_values_init(&values, whole, &first->initializer, first->name,
                                  session->plan->options.numerics.seed, first->number, bgi_session_helpers(session),
                                  error));
    status = make_own(session, variable, &values, error);
    bgi_first_values_clear(&values);
    return status;
}

/* ---- values for one rank ---- */

enum { TEXT_BYTES = 512 };
static const uint32_t no_more = UINT32_MAX;

/* A request that the reading rank sends to the others. */
typedef struct request {
    uint32_t number; /* the number of a weight; or no_more */
    uint32_t status; /* when `number` is no_more: the status of the reading rank */
    char why[TEXT_BYTES];
} request;

/* Whether a rank has a part of the value that is read from the weight's home. */
static bool has_part(const bg_session *home, uint32_t weight, uint32_t rank)
{
    for (uint32_t i = 0; i < home->plan->variable_count; i++)
        for (uint32_t replica = 0; home->variables[i].weight == weight && replica < home->plan->replicas; replica++)
            if (home->owners[replica * home->plan->device_count + home->plan->variables[i].places[0].device] == rank)
                return true;
    return false;
}

/* Sends the number of a weight that this rank is about to read to the ranks that have a part, or to all ranks when the
 * value must be moved home first. */
bg_status bgi_session_announce(const bg_session *session, uint32_t weight, bg_error *error)
{
    const bg_transport *transport = session->plan->options.execution.transport;
    const bgi_weight *asked = &session->weights->items[weight];
    const bool is_home = asked->home != NULL && (asked->newest == NULL || asked->newest == asked->home);
    request r = {.number = weight};

    for (uint32_t rank = 0; rank < transport->rank_count; rank++)
        if (!is_home || has_part(asked->home, weight, rank))
            BGI_TRY(bgi_ranks_hand(session->engine->transport, transport->rank, rank, &r, sizeof r, error));
    return BG_OK;
}

static bg_status ask(bg_session *session, bgi_weights_reader use, void *user, bg_error *error)
{
    const uint32_t own = session->plan->options.execution.transport->rank;
    request end = {.number = no_more};
    bg_error own_error = {0};
    bg_status status;

    session->weights->serving = session;
    status = use(user, &own_error);
    session->weights->serving = NULL;
    end.status = (uint32_t)status;
    snprintf(end.why, sizeof end.why, "%.500s", own_error.message);
    if (status == BG_OK)
        return bgi_ranks_share(session->engine->transport, own, &end, sizeof end, error);
    bgi_ranks_share(session->engine->transport, own, &end, sizeof end, NULL);
    return bg_error_set(error, status, "%s", own_error.message);
}

static bg_status serve(bg_session *session, uint32_t rank, bool *readers, bg_error *error)
{
    const uint32_t own = session->plan->options.execution.transport->rank;
    request r = {0};
    const void *data;

    for (;;) {
        BGI_TRY(bgi_ranks_share(session->engine->transport, rank, &r, sizeof r, error));
        r.why[TEXT_BYTES - 1] = '\0';
        if (r.number == no_more)
            return r.status == BG_OK ? BG_OK : bg_error_set(error, (bg_status)r.status, "%s", r.why);
        BGI_TRY(bgi_weights_fetch_for(session->weights, r.number, readers, own, &data, error));
    }
}

bg_status bgi_session_read_weights(bg_session *session, uint32_t rank, bgi_weights_reader use, void *user,
                                   bg_error *error)
{
    const bg_transport *transport = session->plan->options.execution.transport;
    bool *readers;
    bg_status status;

    if (session->owners == NULL)
        return use(user, error);
    readers = calloc(transport->rank_count, sizeof *readers);
    if (readers == NULL)
        return bgi_error_memory(error, "readers of weights", transport->rank_count);
    readers[rank] = true;
    if (transport->rank == rank) {
        session->weights->readers = readers;
        session->weights->is_reader = true;
        status = ask(session, use, user, error);
        session->weights->readers = NULL;
        bgi_weights_drop_view(session->weights);
    } else {
        status = serve(session, rank, readers, error);
    }
    free(readers);
    return status;
}

bg_status bg_session_read_weights(bg_session *session, uint32_t rank, bgi_weights_reader use, void *user,
                                  bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    const bg_transport *transport = session->plan->options.execution.transport;
    bg_status status;

    if (use == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "bg_session_read_weights: `use` is NULL");
    if (rank > 0 && (transport == NULL || rank >= transport->rank_count))
        return bg_error_set(error, BG_ERROR_INVALID, "bg_session_read_weights: rank is %u but must be below %u", rank,
                            transport != NULL ? transport->rank_count : 1);
    /* The thread leaves the weights before it calls `use`, because the functions that `use` calls enter them. */
    if (session->owners == NULL || transport->rank == rank)
        return bgi_session_read_weights(session, rank, use, user, error);
    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_read_weights", error));
    status = bgi_session_read_weights(session, rank, use, user, error);
    bgi_weights_leave(session->weights);
    return status;
}
