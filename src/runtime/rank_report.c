/*
 * rank_report.c: prints what each rank of a plan would own, hold and send, in tables in which equal ranks share a row.
 * It reads only the plan and the layout, so any number of ranks can be examined on one machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "runtime/engine.h"
#include "runtime/layout.h"

enum {
    LABEL_BYTES = 24,
    ROW_BYTES = 256,
    MOST_LISTED = 8,
    MEMORY_COLUMNS = BG_MEMORY_CLASS_COUNT + 1,
    MOST_COLUMNS = 16
};

/* Classes of the bytes that are sent in a step. */
typedef enum sent_class { MESSAGES = 0, SUMS, GATHERS, COLLECTIVES, FETCHES, SENT_CLASSES } sent_class;
static const char *const sent_names[SENT_CLASSES] = {"messages", "sums", "gathers", "tensor", "fetches"};

/* The number of devices and the bytes of one rank. */
typedef struct figures {
    uint64_t devices;
    uint64_t memory[MEMORY_COLUMNS]; /* the last column is the transport's memory for messages to other ranks and
                                        collective operations with them */
    uint64_t sent[SENT_CLASSES];
} figures;

typedef struct survey {
    const bg_plan *plan;
    const uint32_t *owners;
    uint32_t rank_count;
    figures *ranks;
    bgi_exchange *exchanges, *round; /* memory for the exchanges of an instruction */
    uint64_t meeting;                /* the number of the current collective operation */
    uint64_t *last_meetings;         /* by rank: the last operation in which a member on that rank was counted */
    char (*rows)[ROW_BYTES];         /* by rank */
} survey;

static uint32_t owner(const survey *s, uint32_t replica, uint32_t device)
{
    return s->owners[replica * s->plan->device_count + device];
}

/* ---- memory ---- */

static void add_memory(survey *s, uint32_t replica, uint32_t device)
{
    figures *f = &s->ranks[owner(s, replica, device)];

    f->devices++;
    for (uint32_t k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
        f->memory[k] += s->plan->devices[device].class_bytes[k];
}

/* ---- messages ---- */

static void add_messages(survey *s, uint32_t replica)
{
    for (uint32_t e = 0; e < s->plan->edge_count; e++) {
        const bgi_plan_edge *edge = &s->plan->edges[e];
        const uint32_t from = owner(s, replica, edge->from_device), to = owner(s, replica, edge->to_device);
        if (from == to)
            continue;
        s->ranks[from].memory[BG_MEMORY_CLASS_COUNT] += (uint64_t)edge->depth * edge->slot_bytes;
        s->ranks[from].sent[MESSAGES] += edge->slot_bytes * (edge->per_step ? 1 : s->plan->micro_batches);
    }
}

/* ---- meetings ---- */

/* Adds a collective operation of a device's group along some axes: bytes to members on other ranks, and buffers. */
static void add_meeting(survey *s, uint32_t replica, uint32_t device, uint32_t axes, uint32_t count, sent_class class,
                        uint64_t *staging)
{
    const bg_mesh mesh = bgi_plan_mesh(s->plan);
    const uint32_t size = bg_mesh_group_size(&mesh, axes), member = bg_mesh_group_member(&mesh, axes, replica);
    const uint32_t own = owner(s, replica, device);
    uint64_t room = 0, sums = 0;
    bool are_apart = true;

    s->meeting++;
    for (uint32_t m = 0; m < size; m++) {
        uint64_t *last = &s->last_meetings[owner(s, bg_mesh_group_at(&mesh, axes, replica, m), device)];
        are_apart = are_apart && *last != s->meeting;
        *last = s->meeting;
    }
    for (uint32_t other = 0; other < size; other++) {
        const uint32_t rank = owner(s, bg_mesh_group_at(&mesh, axes, replica, other), device);
        bgi_meeting_bytes most = {0};
        bgi_cut cut = {0};
        if (other == member || rank == own)
            continue;
        while (cut.exchange < count) {
            const uint32_t some = bgi_exchange_cut(bgi_ranks_round_bytes(size), s->exchanges, count, &cut, s->round);
            const bgi_meeting_bytes bytes = bgi_ranks_meeting_bytes(s->round, some, member, other, are_apart);
            s->ranks[own].sent[class] += bytes.sent;
            most.room = bytes.room > most.room ? bytes.room : most.room;
            most.sums = bytes.sums > most.sums ? bytes.sums : most.sums;
        }
        room += most.room;
        sums = most.sums > sums ? most.sums : sums;
    }
    room += sums;
    *staging = room > *staging ? room : *staging;
}

static void add_variables(survey *s, uint32_t replica, uint32_t device, const bgi_instruction *instruction,
                          uint64_t *staging)
{
    const uint32_t size = bgi_plan_data_replicas(s->plan);
    const bool is_sum = instruction->action.kind == BG_ACTION_REDUCE;

    for (uint32_t i = 0; i < instruction->reduced_count; i++)
        s->exchanges[i] = bgi_collective_exchange(instruction, i, size);
    add_meeting(s, replica, device, BG_MESH_DATA, instruction->reduced_count, is_sum ? SUMS : GATHERS, staging);
}

static void add_instruction(survey *s, uint32_t replica, uint32_t device, const bgi_instruction *instruction,
                            uint64_t *staging)
{
    if (instruction->reduced_count > 0)
        add_variables(s, replica, device, instruction, staging);
    for (uint32_t c = 0; c < instruction->call_count; c++) {
        const bgi_call *call = &instruction->calls[c];
        const bgi_collective_attributes *attributes = call->attributes;
        if (!call->is_collective)
            continue;
        s->exchanges[0] = (bgi_exchange){.pattern = bgi_collective_pattern(call), .dtype = call->types[0].dtype};
        add_meeting(s, replica, device, attributes->axes, 1, COLLECTIVES, staging);
    }
}

/* Adds the bytes of the other replicas' pieces that a LOAD of a value in pieces fetches. */
static void add_fetches(survey *s, uint32_t replica, uint32_t device)
{
    const bg_mesh mesh = bgi_plan_mesh(s->plan);

    for (uint32_t i = 0; i < s->plan->devices[device].transfer_count; i++) {
        const bgi_transfer *transfer = &s->plan->devices[device].transfers[i];
        const uint32_t axes = transfer->piece_axes;
        for (uint32_t m = 0; transfer->piece_bytes > 0 && transfer->action.kind == BG_ACTION_LOAD &&
                             m < bg_mesh_group_size(&mesh, axes);
             m++) {
            const uint32_t from = owner(s, bg_mesh_group_at(&mesh, axes, replica, m), device);
            const uint64_t before = (uint64_t)m * transfer->piece_bytes;
            const uint64_t left = transfer->size_bytes > before ? transfer->size_bytes - before : 0;
            if (from != owner(s, replica, device))
                s->ranks[from].sent[FETCHES] += left < transfer->piece_bytes ? left : transfer->piece_bytes;
        }
    }
}

static void add_device(survey *s, uint32_t replica, uint32_t device)
{
    const bgi_plan_device *program = &s->plan->devices[device];
    uint64_t staging = 0;

    add_memory(s, replica, device);
    for (uint32_t i = 0; i < program->instruction_count; i++)
        add_instruction(s, replica, device, &program->instructions[i], &staging);
    add_fetches(s, replica, device);
    s->ranks[owner(s, replica, device)].memory[BG_MEMORY_CLASS_COUNT] += staging;
}

static uint32_t most_exchanges(const bg_plan *plan)
{
    uint32_t most = 1;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            if (plan->devices[d].instructions[i].reduced_count > most)
                most = plan->devices[d].instructions[i].reduced_count;
    return most;
}

static void look(survey *s)
{
    for (uint32_t replica = 0; replica < s->plan->replicas; replica++) {
        add_messages(s, replica);
        for (uint32_t device = 0; device < s->plan->device_count; device++)
            add_device(s, replica, device);
    }
}

/* ---- as text ---- */

/* Whether two ranks have equal printed rows. */
static bool is_equal(const survey *s, uint32_t a, uint32_t b)
{
    return strcmp(s->rows[a], s->rows[b]) == 0;
}

static bool is_first(const survey *s, uint32_t rank)
{
    for (uint32_t before = 0; before < rank; before++)
        if (is_equal(s, before, rank))
            return false;
    return true;
}

/* Writes the ranks that are equal to this one as "0-3, 8" or, when there are more than two ranges, the first rank and
 * their number. */
static void name_ranks(const survey *s, uint32_t rank, char label[LABEL_BYTES])
{
    uint32_t count = 0, runs = 0;
    int length = 0;

    for (uint32_t i = rank, end; i < s->rank_count; i = end + 1) {
        end = i;
        if (!is_equal(s, rank, i))
            continue;
        while (end + 1 < s->rank_count && is_equal(s, rank, end + 1))
            end++;
        count += end - i + 1;
        if (++runs > 2)
            continue;
        length += snprintf(label + length, (size_t)(LABEL_BYTES - length), "%s%u", runs > 1 ? ", " : "", i);
        if (end > i)
            length += snprintf(label + length, (size_t)(LABEL_BYTES - length), "-%u", end);
    }
    if (runs > 2)
        snprintf(label, LABEL_BYTES, "%u, %u in all", rank, count);
}

/* Prints one table with the columns in which any rank has a number above 0, and their sum. `first`: the numbers of rank
 * 0. */
static void print_table(survey *s, bgi_string *text, const char *title, const uint64_t *first, uint32_t count,
                        const char *(*name)(uint32_t column))
{
    const size_t offset = (size_t)((const char *)first - (const char *)s->ranks);
    bool is_shown[MOST_COLUMNS] = {false};

    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t k = 0; k < count; k++)
            is_shown[k] |= ((const uint64_t *)((const char *)&s->ranks[rank] + offset))[k] > 0;
    bgi_string_add(text, "%-*s", LABEL_BYTES, title);
    for (uint32_t k = 0; k < count; k++)
        if (is_shown[k])
            bgi_string_add(text, " %10s", name(k));
    bgi_string_add(text, " %10s\n", "all");
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        const uint64_t *values = (const uint64_t *)((const char *)&s->ranks[rank] + offset);
        char bytes[BGI_BYTES_TEXT_BYTES];
        uint64_t all = 0;
        int length = 0;
        for (uint32_t k = 0; k < count; k++) {
            all += values[k];
            if (is_shown[k])
                length += snprintf(s->rows[rank] + length, (size_t)(ROW_BYTES - length), " %10s",
                                   bgi_bytes_text(values[k], bytes));
        }
        snprintf(s->rows[rank] + length, (size_t)(ROW_BYTES - length), " %10s", bgi_bytes_text(all, bytes));
    }
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        char label[LABEL_BYTES];
        if (!is_first(s, rank))
            continue;
        name_ranks(s, rank, label);
        bgi_string_add(text, "%-*s%s\n", LABEL_BYTES, label, s->rows[rank]);
    }
}

static const char *name_memory(uint32_t k)
{
    return k < BG_MEMORY_CLASS_COUNT ? bg_memory_class_name((bg_memory_class)k) : "transport";
}

static const char *name_sent(uint32_t k)
{
    return sent_names[k];
}

/* Prints the devices of one rank as ranges. */
static void print_devices(const survey *s, uint32_t rank, bgi_string *text)
{
    const uint32_t devices = s->plan->device_count;
    const char *comma = "";

    bgi_string_add(text, "rank %u:", rank);
    for (uint32_t replica = 0; replica < s->plan->replicas; replica++)
        for (uint32_t d = 0; d < devices; d++) {
            uint32_t end = d;
            if (owner(s, replica, d) != rank)
                continue;
            while (end + 1 < devices && owner(s, replica, end + 1) == rank)
                end++;
            if (s->plan->replicas > 1)
                bgi_string_add(text, "%s replica %u", comma, replica);
            else
                bgi_string_add(text, "%s", comma);
            if (end > d)
                bgi_string_add(text, " devices %u-%u", d, end);
            else
                bgi_string_add(text, " device %u", d);
            comma = ",";
            d = end;
        }
    bgi_string_add(text, "%s\n", s->ranks[rank].devices == 0 ? " none" : "");
}

static void print_layout(const survey *s, bgi_string *text)
{
    const char *layout = s->plan->options.execution.layout;

    bgi_string_add(text, "%" PRIu64 " devices on %u rank%s, %s\n", (uint64_t)s->plan->device_count * s->plan->replicas,
                   s->rank_count, s->rank_count == 1 ? "" : "s",
                   layout != NULL && layout[0] != '\0' ? layout : bgi_layout_default());
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        if (rank + 1 < MOST_LISTED || rank + 1 == s->rank_count)
            print_devices(s, rank, text);
        else if (rank + 1 == MOST_LISTED)
            bgi_string_add(text, "...\n");
}

bg_status bg_plan_print_ranks(const bg_plan *plan, uint32_t rank_count, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    const bg_transport *transport = plan->options.execution.transport;
    const bg_transport made = {.rank_count = rank_count};
    survey s = {.plan = plan, .rank_count = rank_count};
    uint32_t *owners = calloc((size_t)plan->device_count * plan->replicas + 1, sizeof *owners);
    bgi_string text = {0};
    bg_status status;

    if (rank_count == 0)
        s.rank_count = transport != NULL ? transport->rank_count : 1;
    s.owners = owners;
    s.ranks = calloc(s.rank_count, sizeof *s.ranks);
    s.rows = calloc(s.rank_count, sizeof *s.rows);
    s.last_meetings = calloc(s.rank_count, sizeof *s.last_meetings);
    s.exchanges = calloc(most_exchanges(plan), sizeof *s.exchanges);
    s.round = calloc(most_exchanges(plan), sizeof *s.round);
    if (owners == NULL || s.rows == NULL || s.last_meetings == NULL || s.ranks == NULL || s.exchanges == NULL ||
        s.round == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a table of ranks", s.rank_count * sizeof *s.ranks));
    BGI_TRY_CLEANUP(s.rank_count > 1 ? bgi_layout_make(plan, rank_count == 0 ? transport : &made, owners, error)
                                     : bgi_layout_check(plan, error));
    look(&s);
    print_layout(&s, &text);
    print_table(&s, &text, "memory of rank", s.ranks[0].memory, MEMORY_COLUMNS, name_memory);
    print_table(&s, &text, "sent in a step by rank", s.ranks[0].sent, SENT_CLASSES, name_sent);
    status = bgi_string_finish(&text, out_text, error);
cleanup:
    free(s.exchanges);
    free(s.round);
    free(s.rows);
    free(s.last_meetings);
    free(s.ranks);
    free(owners);
    return status;
}
