/*
 * layout.c: lists devices so that neighbors communicate most. It cuts the list into ranges of almost equal lengths, one
 * for each rank, and assigns them to ranks in the order of their hosts. By default tensor-parallel members come first,
 * then stages, then data-parallel replicas:
 *
 *     data 0: stage 0: tensor 0, 1   stage 1: tensor 0, 1 | data 1: ...
 */
#include "runtime/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { AXES = 3 };
enum { TENSOR = 0, STAGE, DATA };
static const char *const axis_names[AXES] = {"tensor", "stage", "data"};
static const char default_layout[] = "tensor,stage,data";

static bg_status refuse(const char *layout, const char *why, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID,
                        "layout `%.200s`: %s; it must be an order of tensor, stage and data, the innermost first "
                        "(%s by default), or a rank for each device of each replica, such as 0,0,1,1",
                        layout, why, default_layout);
}

/* Converts "tensor,stage,data" to axes, the innermost first. */
static bg_status read_order(const char *layout, uint32_t order[AXES], bg_error *error)
{
    const char *next = layout;
    bool is_seen[AXES] = {false};

    for (uint32_t i = 0; i < AXES; i++) {
        const size_t length = strcspn(next, ",");
        uint32_t axis = 0;
        while (axis < AXES && (strlen(axis_names[axis]) != length || memcmp(axis_names[axis], next, length) != 0))
            axis++;
        if (axis == AXES || is_seen[axis])
            return refuse(layout, axis == AXES ? "there is no such axis" : "an axis is named twice", error);
        is_seen[axis] = true;
        order[i] = axis;
        next += length;
        if ((*next == ',') != (i + 1 < AXES))
            return refuse(layout, "it does not have three axes", error);
        next += *next == ',';
    }
    return BG_OK;
}

/* Reads a list of ranks into `owners`, which may be NULL. */
static bg_status read_ranks(const char *layout, uint32_t rank_count, uint32_t count, uint32_t *owners, bg_error *error)
{
    const char *next = layout;
    char why[160];

    for (uint32_t i = 0; i < count; i++) {
        char *end = NULL;
        const unsigned long rank = strtoul(next, &end, 10);
        if (end == next || rank >= rank_count || (*end != ',' && *end != '\0')) {
            snprintf(why, sizeof why, "entry %u is not a rank from 0 to %u", i, rank_count - 1);
            return refuse(layout, why, error);
        }
        if ((*end == ',') != (i + 1 < count)) {
            snprintf(why, sizeof why, "it has %s entries than the %u devices of all replicas",
                     *end == ',' ? "more" : "fewer", count);
            return refuse(layout, why, error);
        }
        if (owners != NULL)
            owners[i] = (uint32_t)rank;
        next = end + 1;
    }
    return BG_OK;
}

/* A rank, its host and the first rank of that host. */
typedef struct seat {
    uint32_t host, first, rank;
} seat;

static int compare(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int by_host(const void *a, const void *b)
{
    const seat *x = a, *y = b;

    return x->host != y->host ? compare(x->host, y->host) : compare(x->rank, y->rank);
}

static int by_first(const void *a, const void *b)
{
    const seat *x = a, *y = b;

    return x->first != y->first ? compare(x->first, y->first) : compare(x->rank, y->rank);
}

/* Lists the first `count` ranks grouped by host, with hosts in the order of their first ranks. The result is malloc'ed;
 * NULL: no memory. */
static seat *seat_ranks(const bg_transport *transport, uint32_t count)
{
    seat *seats = calloc(count, sizeof *seats);

    for (uint32_t i = 0; seats != NULL && i < count; i++)
        seats[i] = (seat){transport->hosts != NULL ? transport->hosts[i] : 0, 0, i};
    if (seats == NULL || transport->hosts == NULL)
        return seats;
    qsort(seats, count, sizeof *seats, by_host);
    for (uint32_t i = 0; i < count; i++)
        seats[i].first = i > 0 && seats[i - 1].host == seats[i].host ? seats[i - 1].first : seats[i].rank;
    qsort(seats, count, sizeof *seats, by_first);
    return seats;
}

static void cut(const bg_plan *plan, const seat *seats, uint32_t seat_count, const uint32_t order[AXES],
                uint32_t *owners)
{
    const bg_mesh mesh = bgi_plan_mesh(plan);
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;
    const uint32_t counts[AXES] = {tensor, plan->device_count, mesh.data};
    const uint64_t total = (uint64_t)tensor * plan->device_count * mesh.data;

    for (uint64_t place = 0; place < total; place++) {
        uint64_t rest = place;
        uint32_t at[AXES];
        for (uint32_t i = 0; i < AXES; i++) {
            at[order[i]] = (uint32_t)(rest % counts[order[i]]);
            rest /= counts[order[i]];
        }
        owners[(at[DATA] * tensor + at[TENSOR]) * plan->device_count + at[STAGE]] =
            seats[place * seat_count / total].rank;
    }
}

static bg_status make_by_order(const bg_plan *plan, const bg_transport *transport, const char *layout, uint32_t *owners,
                               bg_error *error)
{
    const uint32_t devices = plan->device_count * plan->replicas;
    const uint32_t count =
        transport->rank_count < devices ? transport->rank_count : devices; /* further ranks are idle */
    uint32_t order[AXES];
    seat *seats;

    BGI_TRY(read_order(layout, order, error));
    seats = seat_ranks(transport, count);
    if (seats == NULL)
        return bgi_error_memory(error, "a layout", count * sizeof *seats);
    cut(plan, seats, count, order, owners);
    free(seats);
    return BG_OK;
}

static bg_status check_all_have(const bg_transport *transport, const char *layout, const uint32_t *owners,
                                uint32_t count, bg_error *error)
{
    const uint32_t rank_count = transport->rank_count < count ? transport->rank_count : count;
    bool *have = calloc((size_t)transport->rank_count + 1, sizeof *have);
    uint32_t rank = 0;
    char why[96];

    if (have == NULL)
        return bgi_error_memory(error, "a layout", transport->rank_count);
    for (uint32_t i = 0; i < count; i++)
        have[owners[i]] = true;
    while (rank < rank_count && have[rank])
        rank++;
    free(have);
    if (rank == rank_count)
        return BG_OK;
    snprintf(why, sizeof why, "rank %u gets no device", rank);
    return refuse(layout, why, error);
}

static bool is_list(const char *layout)
{
    return layout[0] >= '0' && layout[0] <= '9';
}

/* Returns the layout to use. A list of ranks is made for training, and a plan that tests the model often has fewer
 * replicas. Such a plan gets the default layout, because the list may give all devices of its replicas to ranks other
 * than 0. */
static const char *choose_layout(const bg_plan *plan)
{
    const char *layout = plan->options.execution.layout;
    uint64_t entries = 1;

    if (layout == NULL || layout[0] == '\0')
        return default_layout;
    for (const char *c = layout; *c != '\0'; c++)
        entries += *c == ',';
    if (is_list(layout) && !plan->training && entries > (uint64_t)plan->device_count * plan->replicas &&
        entries % plan->device_count == 0)
        return default_layout;
    return layout;
}

bg_status bgi_layout_make(const bg_plan *plan, const bg_transport *transport, uint32_t *owners, bg_error *error)
{
    const char *layout = choose_layout(plan);
    const uint32_t count = plan->device_count * plan->replicas;

    if (is_list(layout))
        BGI_TRY(read_ranks(layout, transport->rank_count, count, owners, error));
    else
        BGI_TRY(make_by_order(plan, transport, layout, owners, error));
    return check_all_have(transport, layout, owners, count, error);
}

bg_status bgi_layout_check(const bg_plan *plan, bg_error *error)
{
    const char *layout = choose_layout(plan);
    const uint32_t count = plan->device_count * plan->replicas;
    uint32_t order[AXES];

    return is_list(layout) ? read_ranks(layout, count, count, NULL, error) : read_order(layout, order, error);
}

const char *bgi_layout_default(void)
{
    return default_layout;
}
