/*
 * rank_outputs.c: sends outputs to the ranks that have arrays for them, in rounds of bounded length.
 */
#include "runtime/agree.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { LAST_BIT = 61, REFUSED_BIT = 62, ASKS_BIT = 63, ROUND_BYTES = 1 << 20 };

static bool has_array(const bgi_engine *engine, uint32_t output)
{
    const bgi_run *run = engine->run;

    return bgi_run_array(run, output) != NULL;
}

uint64_t bgi_ranks_wanted(const bgi_engine *engine)
{
    uint64_t wanted = atomic_load(&engine->asks_to_stop) ? UINT64_C(1) << ASKS_BIT : 0;

    if (engine->has_refused)
        wanted |= UINT64_C(1) << REFUSED_BIT;
    for (uint32_t i = 0; i < engine->plan->output_count; i++)
        if (has_array(engine, i))
            wanted |= UINT64_C(1) << (i < LAST_BIT ? i : LAST_BIT);
    return wanted;
}

static bool wants(const bgi_engine *engine, uint32_t rank, uint32_t output)
{
    const uint64_t wanted =
        rank == engine->ranks->carrier->rank ? bgi_ranks_wanted(engine) : bgi_ranks_wanted_by(engine->transport, rank);

    return (wanted >> (output < LAST_BIT ? output : LAST_BIT) & 1) != 0;
}

/* Whether any rank has set a bit. */
static bool is_said(const bgi_engine *engine, uint64_t own, uint32_t bit)
{
    bool said = (own >> bit & 1) != 0;

    for (uint32_t rank = 0; rank < engine->ranks->carrier->rank_count; rank++)
        if (rank != engine->ranks->carrier->rank)
            said = said || (bgi_ranks_wanted_by(engine->transport, rank) >> bit & 1) != 0;
    return said;
}

bool bgi_ranks_ask_to_stop(const bgi_engine *engine, uint64_t own)
{
    return is_said(engine, own, ASKS_BIT);
}

bool bgi_ranks_have_refused(const bgi_engine *engine, uint64_t own)
{
    return is_said(engine, own, REFUSED_BIT);
}

static uint32_t owner_of(const bgi_engine *engine, uint32_t output, uint32_t replica)
{
    return engine->ranks->owners[replica * engine->plan->device_count + engine->output_devices[output]];
}

/* Returns the number of values that each replica has made in the run. */
static uint64_t count_values(const bg_plan *plan, const bgi_plan_output *output, uint64_t iterations)
{
    const uint64_t planned = bgi_stream_output_count(plan, output) / plan->replicas;
    const uint64_t per_step = output->is_per_update ? 1 : plan->micro_batches;

    if (!bgi_plan_counts_steps(plan) || (output->mode != BG_OUTPUT_ALL && output->mode != BG_OUTPUT_EVERY_N))
        return iterations > 0 ? planned : 0;
    return output->mode == BG_OUTPUT_ALL ? iterations * per_step : iterations / output->period * per_step;
}

/* The values of an output that one rank makes, and the position up to which they are copied. */
typedef struct stretch {
    uint32_t output, rank;
    uint64_t count,
        value; /* the number of values of each replica, and the next value's number, replica and first byte (`done`) */
    uint32_t replica;
    size_t done;
} stretch;

static void step(const bgi_engine *engine, stretch *s)
{
    s->done = 0;
    if (++s->replica < engine->plan->replicas)
        return;
    s->replica = 0;
    s->value++;
}

/* Copies values between the output's array and the buffer `room`, which is full afterward except in the last round.
 * Returns the number of bytes in the buffer. */
static size_t copy_round(const bgi_engine *engine, stretch *s, char *room, bool is_packing)
{
    const bg_plan *plan = engine->plan;
    const bgi_plan_output *output = &plan->outputs[s->output];
    const size_t bytes = bg_type_size_bytes(&output->type);
    const bool is_one = output->is_per_update || output->mode == BG_OUTPUT_FINAL || output->mode == BG_OUTPUT_SUM;
    const uint32_t per_step = is_one ? 1 : plan->micro_batches;
    char *array = engine->run->outputs[s->output];
    size_t at = 0;

    while (s->value < s->count && at < ROUND_BYTES) {
        char *place = array + bgi_plan_output_place(plan, per_step, s->value, s->replica) * bytes + s->done;
        const size_t left = owner_of(engine, s->output, s->replica) == s->rank ? bytes - s->done : 0;
        const size_t some = left < ROUND_BYTES - at ? left : ROUND_BYTES - at;
        if (some > 0)
            memcpy(is_packing ? room + at : place, is_packing ? place : room + at, some);
        at += some;
        s->done += some;
        if (some == left)
            step(engine, s);
    }
    return at;
}

/* Returns the bytes of the output that the rank makes, in all rounds together. */
static uint64_t count_bytes(const bgi_engine *engine, const stretch *s)
{
    uint64_t replicas = 0;

    for (uint32_t replica = 0; replica < engine->plan->replicas; replica++)
        replicas += owner_of(engine, s->output, replica) == s->rank;
    return s->count * replicas * bg_type_size_bytes(&engine->plan->outputs[s->output].type);
}

static bg_status share_rounds(bgi_engine *engine, stretch *s, uint64_t left, char *room, bg_error *error)
{
    const uint32_t own = engine->ranks->carrier->rank, from = s->rank;

    for (uint64_t some; left > 0; left -= some) {
        some = left < ROUND_BYTES ? left : ROUND_BYTES;
        if (own == from)
            copy_round(engine, s, room, true);
        for (uint32_t to = 0; to < engine->ranks->carrier->rank_count; to++)
            if (to != from && (own == from || own == to) && wants(engine, to, s->output))
                BGI_TRY(bgi_ranks_hand(engine->transport, from, to, room, (size_t)some, error));
        if (own != from)
            copy_round(engine, s, room, false);
    }
    return BG_OK;
}

static bool others_want(const bgi_engine *engine, uint32_t from, uint32_t output)
{
    for (uint32_t rank = 0; rank < engine->ranks->carrier->rank_count; rank++)
        if (rank != from && wants(engine, rank, output))
            return true;
    return false;
}

/* Sends the output's values from rank `from` to all ranks that have an array for the output. The other ranks do
 * nothing. */
static bg_status share_of_rank(bgi_engine *engine, uint32_t output, uint32_t from, uint64_t count, bg_error *error)
{
    stretch s = {.output = output, .rank = from, .count = count};
    const uint64_t bytes = count_bytes(engine, &s);
    const size_t room_bytes = bytes < ROUND_BYTES ? (size_t)bytes : ROUND_BYTES;
    const uint32_t own = engine->ranks->carrier->rank;
    char *room;
    bg_status status;

    if (bytes == 0 || !(own == from ? others_want(engine, from, output) : wants(engine, own, output)))
        return BG_OK;
    room = malloc(room_bytes);
    if (room == NULL)
        return bgi_error_memory(error, engine->plan->outputs[output].name, room_bytes);
    status = share_rounds(engine, &s, bytes, room, error);
    free(room);
    return status;
}

/* Rejects a rank that computes an output without having an array for it, when another rank has one. All ranks return
 * the same result. */
static bg_status check_arrays(const bgi_engine *engine, uint32_t output, bg_error *error)
{
    for (uint32_t replica = 0; replica < engine->plan->replicas; replica++)
        for (uint32_t to = 0; to < engine->ranks->carrier->rank_count; to++) {
            const uint32_t from = owner_of(engine, output, replica);
            if (wants(engine, to, output) && !wants(engine, from, output))
                return bg_error_set(error, BG_ERROR_INVALID,
                                    "output `%s`: rank %u has an array for it, but rank %u, which computes it, has "
                                    "none; pass an array there too",
                                    engine->plan->outputs[output].name, to, from);
        }
    return BG_OK;
}

bg_status bgi_ranks_share_outputs(bgi_engine *engine, uint64_t iterations, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < plan->output_count; i++) {
        const uint64_t count = count_values(plan, &plan->outputs[i], iterations);
        BGI_TRY(check_arrays(engine, i, error));
        for (uint32_t from = 0; from < engine->ranks->carrier->rank_count; from++)
            BGI_TRY(share_of_rank(engine, i, from, count, error));
    }
    return BG_OK;
}
