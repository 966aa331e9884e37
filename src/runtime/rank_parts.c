/*
 * rank_parts.c: cuts the weights of a session with several ranks into parts. Each element belongs to one part, and each
 * part to a rank that has it. Every rank computes the same cut from the plan and the layout, without communication.
 *
 *     weight --> variables (sections) --> tensor axes --> data replicas' pieces --> stretches of one rank
 *
 * Replicas with the same parameters and state take turns by the weight's number, so that each writes its share.
 */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/stretch.h"
#include "runtime/agree.h"
#include "runtime/weights.h"

/* One place of a variable: its elements on a replica, and its owner. */
typedef struct part_place {
    const bgi_plan_variable *variable;
    bg_mesh at; /* coordinates on the tensor axes */
    uint32_t replica, rank;
    int64_t first, end; /* the range of elements */
} part_place;

typedef bg_status visit_place(void *user, const part_place *place, bg_error *error);

/* Returns the weight's home if that session has several ranks, otherwise NULL. */
static const bg_session *home_of(const bg_session *session, uint32_t number)
{
    const bg_session *home = session->weights->items[number].home;

    return home != NULL && home->owners != NULL ? home : NULL;
}

static uint32_t owner_of(const bg_session *home, uint32_t replica, uint32_t device)
{
    return home->owners[replica * home->plan->device_count + device];
}

/* Whether no replica with lower coordinates on the tensor axes has the same piece. */
static bool is_first_copy(const bgi_plan_variable *variable, const bg_mesh *at)
{
    uint32_t axes = 0;

    for (uint32_t i = 0; variable->shard != NULL && i < variable->shard->whole.rank; i++)
        axes |= (uint32_t)variable->shard->dims[i].axis;
    return ((axes & BG_MESH_TENSOR_1) != 0 || at->tensor_1 == 0) &&
           ((axes & BG_MESH_TENSOR_2) != 0 || at->tensor_2 == 0);
}

static part_place place_at(const bg_session *home, const bgi_plan_variable *variable, uint32_t t, uint32_t place,
                           uint32_t device)
{
    const bg_mesh mesh = bgi_plan_mesh(home->plan);
    const bgi_kept_part kept = bgi_session_part(variable, place);
    const size_t element = bg_dtype_size_bytes(variable->type.dtype);
    const uint32_t replica = place * mesh.tensor_1 * mesh.tensor_2 + t;

    return (part_place){.variable = variable,
                        .at = bg_mesh_coordinates(&mesh, t),
                        .replica = replica,
                        .rank = owner_of(home, replica, device),
                        .first = (int64_t)(kept.offset / element),
                        .end = (int64_t)((kept.offset + kept.size_bytes) / element)};
}

/* Visits places of a variable that together contain each element once. */
static bg_status visit_variable(const bg_session *home, uint32_t number, const bgi_plan_variable *variable,
                                visit_place *visit, void *user, bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(home->plan);
    const bool is_pieces = variable->piece_count > 0;
    /* Statistics of a batch norm may differ between replicas; the first replica's statistics are used. */
    const bool takes_turns = variable->role == BG_ROLE_PARAMETER || variable->role == BG_ROLE_STATE;

    for (uint32_t t = 0; t < mesh.tensor_1 * mesh.tensor_2; t++) {
        const bg_mesh at = bg_mesh_coordinates(&mesh, t);
        if (!is_first_copy(variable, &at))
            continue;
        for (uint32_t place = 0; place < (is_pieces ? mesh.data : 1); place++) {
            const part_place here = place_at(home, variable, t,
                                             is_pieces     ? place
                                             : takes_turns ? number % mesh.data
                                                           : 0,
                                             variable->places[0].device);
            if (here.first < here.end)
                BGI_TRY(visit(user, &here, error));
        }
    }
    return BG_OK;
}

/* Whether the variable is a section of the weight, or its home variable (the whole weight). */
static bool is_of_weight(const bg_session *home, uint32_t number, uint32_t variable)
{
    const bgi_weight *weight = &home->weights->items[number];

    return home->variables[variable].weight == number &&
           (home->plan->variables[variable].section != NULL || variable == weight->home_variable);
}

static bg_status visit_weight(const bg_session *home, uint32_t number, visit_place *visit, void *user, bg_error *error)
{
    for (uint32_t i = 0; i < home->plan->variable_count; i++)
        if (is_of_weight(home, number, i))
            BGI_TRY(visit_variable(home, number, &home->plan->variables[i], visit, user, error));
    return BG_OK;
}

/* ---- ranges of a place ---- */

typedef struct clipping {
    int64_t first, end, taken; /* `taken`: the number of visited elements of the place */
    bgi_visit_stretch *visit;
    void *user;
} clipping;

static void clip(void *user, const bgi_stretch *stretch)
{
    clipping *c = user;
    const int64_t begin = stretch->part > c->first ? stretch->part : c->first;
    const int64_t end = stretch->part + stretch->length < c->end ? stretch->part + stretch->length : c->end;

    if (begin >= end)
        return;
    c->visit(c->user, &(bgi_stretch){stretch->whole + (begin - stretch->part), begin - c->first, end - begin});
    c->taken += end - begin;
}

/* Visits the ranges of the weight that the place has, in order; `part` counts from the place's first element. */
static bg_status walk_place(const bg_session *home, const part_place *place, bgi_visit_stretch *visit, void *user,
                            bg_error *error)
{
    const bgi_plan_variable *variable = place->variable;
    const bg_mesh mesh = bgi_plan_mesh(home->plan);
    clipping c = {place->first, place->end, 0, visit, user};

    if (variable->section != NULL)
        bgi_section_walk(variable->section, clip, &c);
    else if (variable->shard != NULL)
        return bgi_shard_walk(&mesh, variable->shard, &place->at, clip, &c, error);
    else
        clip(&c, &(bgi_stretch){0, 0, bg_type_element_count(&variable->type)});
    return BG_OK;
}

/* ---- parts ---- */

typedef struct walking {
    const bg_session *home;
    uint32_t rank;
    bgi_visit_part *visit;
    void *user;
    int64_t done;        /* the number of elements of this rank's part so far */
    uint32_t of;         /* the rank of the current place */
    char *out;           /* when reading: the destination of the part */
    char *room;          /* when reading: memory for the elements of a place */
    bgi_copy_list *list; /* when reading: gets ranges that are to be copied later; NULL: all are copied now */
    size_t element_bytes;
} walking;

static void hand_on(void *user, const bgi_stretch *stretch)
{
    walking *w = user;

    w->visit(w->user, w->of, stretch->whole, stretch->length);
}

static bg_status walk_part(void *user, const part_place *place, bg_error *error)
{
    walking *w = user;

    w->of = place->rank;
    return walk_place(w->home, place, hand_on, w, error);
}

bg_status bgi_session_walk_parts(const bg_session *session, uint32_t number, bgi_visit_part *visit, void *user,
                                 bg_error *error)
{
    const bg_session *home = home_of(session, number);
    walking w = {.home = home, .visit = visit, .user = user};

    if (home != NULL)
        return visit_weight(home, number, walk_part, &w, error);
    visit(user, 0, 0, bg_type_element_count(&session->weights->items[number].type));
    return BG_OK;
}

static void copy_stretch(void *user, const bgi_stretch *stretch)
{
    walking *w = user;

    memcpy(w->out + (size_t)w->done * w->element_bytes, w->room + (size_t)stretch->part * w->element_bytes,
           (size_t)stretch->length * w->element_bytes);
    w->done += stretch->length;
}

static bg_status read_place(void *user, const part_place *place, bg_error *error)
{
    walking *w = user;
    const size_t size_bytes = (size_t)(place->end - place->first) * w->element_bytes;
    const bgi_plan_variable *variable = place->variable;
    bg_status status;

    if (place->rank != w->rank)
        return BG_OK;
    if (variable->section == NULL && variable->shard == NULL) {
        char *to = w->out + (size_t)w->done * w->element_bytes;
        w->done += place->end - place->first;
        if (w->list != NULL)
            return bgi_copy_list_add(w->list, w->home->engine, place->replica, &variable->places[0], to, size_bytes,
                                     error);
        bgi_engine_read(w->home->engine, place->replica, &variable->places[0], to, size_bytes);
        return BG_OK;
    }
    w->room = malloc(size_bytes);
    if (w->room == NULL)
        return bgi_error_memory(error, variable->name, size_bytes);
    bgi_engine_read(w->home->engine, place->replica, &variable->places[0], w->room, size_bytes);
    status = walk_place(w->home, place, copy_stretch, w, error);
    free(w->room);
    return status;
}

bg_status bgi_session_list_part(const bg_session *session, uint32_t number, bgi_copy_list *list, void *out,
                                bg_error *error)
{
    const bg_session *home = home_of(session, number);
    const bgi_weight *weight = &session->weights->items[number];
    walking w = {.home = home,
                 .rank = bgi_session_rank(session),
                 .out = out,
                 .list = list,
                 .element_bytes = bg_dtype_size_bytes(weight->type.dtype)};

    if (home != NULL)
        return visit_weight(home, number, read_place, &w, error);
    if (w.rank == 0)
        memcpy(out, weight->data, bg_type_size_bytes(&weight->type));
    return BG_OK;
}

bg_status bgi_session_read_part(const bg_session *session, uint32_t number, void *out, bg_error *error)
{
    return bgi_session_list_part(session, number, NULL, out, error);
}

bg_status bgi_session_pull(bg_session *session, bg_error *error)
{
    for (uint32_t i = 0; i < session->weights->count; i++)
        if (!session->weights->items[i].is_gone)
            BGI_TRY(bgi_weights_pull(session->weights, i, error));
    return BG_OK;
}

/* ---- the ranges that a rank needs ---- */

typedef struct needing {
    int64_t first, end;
} needing;

static void widen(void *user, const bgi_stretch *stretch)
{
    needing *n = user;

    n->first = stretch->whole < n->first ? stretch->whole : n->first;
    n->end = stretch->whole + stretch->length > n->end ? stretch->whole + stretch->length : n->end;
}

static bg_status widen_by_variable(const bg_session *home, const bgi_plan_variable *variable, uint32_t rank, needing *n,
                                   bg_error *error)
{
    const bg_mesh mesh = bgi_plan_mesh(home->plan);

    for (uint32_t t = 0; t < mesh.tensor_1 * mesh.tensor_2; t++)
        for (uint32_t place = 0; place < mesh.data; place++)
            for (uint32_t p = 0; p < variable->place_count; p++) {
                const part_place here = place_at(home, variable, t, place, variable->places[p].device);
                if (here.rank == rank)
                    BGI_TRY(walk_place(home, &here, widen, n, error));
            }
    return BG_OK;
}

bg_status bgi_session_find_range(const bg_session *session, uint32_t number, uint32_t rank, int64_t *out_first,
                                 int64_t *out_end, bg_error *error)
{
    const int64_t all = bg_type_element_count(&session->weights->items[number].type);
    const bg_session *home = home_of(session, number);
    needing n = {.first = home != NULL ? all : 0, .end = home != NULL ? 0 : all};

    for (uint32_t i = 0; home != NULL && i < home->plan->variable_count; i++)
        if (home->variables[i].weight == number)
            BGI_TRY(widen_by_variable(home, &home->plan->variables[i], rank, &n, error));
    *out_first = n.first < n.end ? n.first : 0;
    *out_end = n.first < n.end ? n.end : 0;
    return BG_OK;
}

/* ---- messages between ranks ---- */

static const bg_transport *carrier_of(const bg_session *session)
{
    return session->owners != NULL ? session->plan->options.execution.transport : NULL;
}

uint32_t bgi_session_rank(const bg_session *session)
{
    return carrier_of(session) != NULL ? carrier_of(session)->rank : 0;
}

uint32_t bgi_session_rank_count(const bg_session *session)
{
    return carrier_of(session) != NULL ? carrier_of(session)->rank_count : 1;
}

bg_status bgi_session_settle(const bg_session *session, bg_status status, bg_error *error)
{
    return bgi_ranks_settle(carrier_of(session) != NULL ? session->engine->transport : NULL, status, NULL, error);
}

bg_status bgi_session_any(const bg_session *session, bool *any, bg_error *error)
{
    return bgi_ranks_settle(carrier_of(session) != NULL ? session->engine->transport : NULL, BG_OK, any, error);
}

enum { SHARED_BYTES = 1 << 20 }; /* the largest number of bytes sent at a time, as for values */

bg_status bgi_session_share(const bg_session *session, uint32_t root, void *data, size_t size_bytes, bg_error *error)
{
    if (carrier_of(session) == NULL)
        return BG_OK;
    for (size_t at = 0; at < size_bytes; at += SHARED_BYTES)
        BGI_TRY(bgi_ranks_share(session->engine->transport, root, (char *)data + at,
                                size_bytes - at < SHARED_BYTES ? size_bytes - at : SHARED_BYTES, error));
    return BG_OK;
}

bg_status bgi_session_hand(const bg_session *session, uint32_t from, uint32_t to, void *data, size_t size_bytes,
                           bg_error *error)
{
    if (carrier_of(session) == NULL || from == to)
        return BG_OK;
    for (size_t at = 0; at < size_bytes; at += SHARED_BYTES)
        BGI_TRY(bgi_ranks_hand(session->engine->transport, from, to, (char *)data + at,
                               size_bytes - at < SHARED_BYTES ? size_bytes - at : SHARED_BYTES, error));
    return BG_OK;
}
