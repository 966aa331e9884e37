/*
 * gate.c: decides which iterations of a run begin. The first device that reaches an iteration asks whether it may
 * begin. If the conditions are not known yet, the thread that changes one of them evaluates the gate again. See feed.h.
 */
#include "runtime/engine.h"

/* With several ranks the gate grants this number of iterations before devices ask, because a request and its reply are
 * two messages. */
enum { AHEAD = 8 };

static uint32_t count_ranks(const bgi_engine *engine)
{
    return engine->ranks != NULL ? engine->ranks->carrier->rank_count : 1;
}

/* Whether another rank, rank 0, has the gate. */
static bool is_elsewhere(const bgi_engine *engine)
{
    return engine->ranks != NULL && engine->ranks->carrier->rank != 0;
}

static void tell_first(bgi_engine *engine, bgi_note_kind kind, uint64_t value, uint64_t more)
{
    const bgi_note note = {
        .kind = kind, .from = bgi_host_of(engine->ranks->carrier->rank), .value = value, .more = more};

    engine->transport->type->tell(engine->transport, bgi_host_of(0), &note);
}

void bgi_gate_begin(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;

    pthread_mutex_lock(&gate->mutex);
    gate->begun_at = engine->local_count > 0 ? atomic_load(&engine->local[0]->iteration) : 0;
    gate->end = UINT64_MAX;
    gate->next = gate->asked = gate->voted = gate->votes = 0;
    gate->wants_end = false;
    gate->is_on = true;
    for (uint32_t i = 0; i < engine->local_count; i++) {
        atomic_store(&engine->local[i]->end, UINT64_MAX);
        atomic_store(&engine->local[i]->granted.value, gate->begun_at);
    }
    for (uint32_t i = 0; gate->ready != NULL && i < count_ranks(engine); i++) {
        gate->ready[i] = 0;
        gate->ends[i] = UINT64_MAX;
    }
    pthread_mutex_unlock(&gate->mutex);
}

void bgi_gate_end(bgi_engine *engine)
{
    pthread_mutex_lock(&engine->gate.mutex);
    engine->gate.is_on = false;
    pthread_mutex_unlock(&engine->gate.mutex);
}

/* Returns whether the infeeds of other ranks have the data of iteration gate->next, may still get them, or have ended.
 */
static bgi_pass ask_others(const bgi_engine *engine)
{
    const bgi_gate *gate = &engine->gate;
    bgi_pass pass = BGI_PASS_GO;

    for (uint32_t i = 1; i < count_ranks(engine); i++) {
        if (gate->ends[i] <= gate->next)
            return BGI_PASS_OVER;
        if (gate->ready[i] <= gate->next)
            pass = BGI_PASS_WAIT;
    }
    return pass;
}

/* Returns whether iteration gate->next may begin, must wait, or is not part of the run. */
static bgi_pass decide(const bgi_engine *engine)
{
    const bgi_gate *gate = &engine->gate;
    const bgi_run *run = engine->run;
    bgi_pass others;
    uint64_t needed;

    if (gate->next >= run->limit || gate->wants_end)
        return BGI_PASS_OVER;
    if (bgi_run_voters(run) > 0 && gate->voted < gate->next)
        return BGI_PASS_WAIT;
    if (run->infeed == NULL || run->is_synthetic)
        return BGI_PASS_GO;
    needed = bgi_infeed_first(run->infeed) + (gate->next + 1) * bgi_infeed_elements(engine->plan);
    others = ask_others(engine);
    if (bgi_infeed_end(run->infeed) < needed || others == BGI_PASS_OVER)
        return BGI_PASS_OVER;
    return bgi_infeed_filled(run->infeed) >= needed ? others : BGI_PASS_WAIT;
}

/* Reports the progress of this rank's infeed to rank 0 when it has changed. */
static void report_data(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;
    const bgi_run *run = engine->run;
    uint64_t first, elements, ready, end;

    if (run->infeed == NULL || run->is_synthetic)
        return;
    first = bgi_infeed_first(run->infeed);
    elements = bgi_infeed_elements(engine->plan);
    ready = (bgi_infeed_filled(run->infeed) - first) / elements;
    end = bgi_infeed_end(run->infeed);
    end = end != UINT64_MAX ? (end - first) / elements : UINT64_MAX;
    if (ready == gate->ready[0] && end == gate->ends[0])
        return;
    gate->ready[0] = ready;
    gate->ends[0] = end;
    tell_first(engine, BGI_NOTE_READY, ready, end);
}

void bgi_gate_ready(bgi_engine *engine, uint32_t rank, uint64_t ready, uint64_t end)
{
    pthread_mutex_lock(&engine->gate.mutex);
    engine->gate.ready[rank] = ready;
    engine->gate.ends[rank] = end;
    pthread_mutex_unlock(&engine->gate.mutex);
    bgi_gate_look(engine);
}

void bgi_gate_granted(bgi_engine *engine, uint64_t end)
{
    if (is_elsewhere(engine) && end != UINT64_MAX)
        engine->gate.end = end;
}

/* Sends the granted iterations to all devices; called under the mutex, so that grants leave in order. */
static void tell_all(bgi_engine *engine)
{
    const bgi_gate *gate = &engine->gate;
    const bgi_note note = {.kind = BGI_NOTE_GRANT,
                           .from = BGI_HOST,
                           .value = gate->end != UINT64_MAX ? UINT64_MAX : gate->begun_at + gate->next,
                           .more = gate->end};

    for (uint32_t i = 0; i < engine->device_count; i++)
        engine->transport->type->tell(engine->transport, i, &note);
}

/* Grants iterations as far as the conditions are known. */
static void answer(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;
    const uint64_t ahead = engine->ranks != NULL && bgi_run_voters(engine->run) == 0 ? AHEAD : 0;
    bgi_pass pass = BGI_PASS_GO;
    bool has_answered = false;

    while (pass == BGI_PASS_GO && gate->asked > 0 && gate->asked + ahead > gate->next && gate->end == UINT64_MAX) {
        pass = decide(engine);
        if (pass == BGI_PASS_OVER)
            gate->end = gate->next;
        else if (pass == BGI_PASS_GO)
            gate->next++;
        has_answered |= pass != BGI_PASS_WAIT;
    }
    if (has_answered)
        tell_all(engine);
}

void bgi_gate_look(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;

    pthread_mutex_lock(&gate->mutex);
    if (gate->is_on && is_elsewhere(engine))
        report_data(engine);
    else if (gate->is_on)
        answer(engine);
    pthread_mutex_unlock(&gate->mutex);
}

void bgi_gate_ask(bgi_engine *engine, uint64_t iteration)
{
    bgi_gate *gate = &engine->gate;

    pthread_mutex_lock(&gate->mutex);
    if (iteration >= gate->begun_at && gate->asked < iteration - gate->begun_at + 1) {
        gate->asked = iteration - gate->begun_at + 1;
        if (is_elsewhere(engine))
            tell_first(engine, BGI_NOTE_ASK, 0, iteration);
    }
    pthread_mutex_unlock(&gate->mutex);
    bgi_gate_look(engine);
}

void bgi_gate_stop(bgi_engine *engine)
{
    pthread_mutex_lock(&engine->gate.mutex);
    engine->gate.wants_end = true; /* the next run clears it when it begins */
    if (is_elsewhere(engine) && engine->gate.is_on)
        tell_first(engine, BGI_NOTE_STOP, 0, 0);
    pthread_mutex_unlock(&engine->gate.mutex);
    bgi_gate_look(engine);
}

void bgi_gate_vote(bgi_engine *engine, uint64_t iteration, bool goes_on)
{
    bgi_gate *gate = &engine->gate;

    if (is_elsewhere(engine)) {
        tell_first(engine, BGI_NOTE_VOTE, goes_on, iteration);
        return;
    }
    pthread_mutex_lock(&gate->mutex);
    if (iteration < gate->begun_at || !gate->is_on) {
        pthread_mutex_unlock(&gate->mutex);
        return;
    }
    gate->wants_end |= !goes_on;
    if (++gate->votes == engine->plan->replicas * bgi_run_voters(engine->run)) {
        gate->votes = 0;
        gate->voted++;
    }
    pthread_mutex_unlock(&gate->mutex);
    bgi_gate_look(engine);
}

bgi_pass bgi_gate_pass(bgi_runner *runner)
{
    const uint64_t iteration = atomic_load_explicit(&runner->iteration, memory_order_relaxed);

    if (atomic_load(&runner->granted.value) <= iteration) {
        bgi_runner_tell(runner, BGI_HOST, BGI_NOTE_ASK, 0);
        if (!bgi_runner_reached(runner, &runner->granted, iteration + 1))
            return BGI_PASS_WAIT;
    }
    return runner->run_iteration < atomic_load(&runner->end) ? BGI_PASS_GO : BGI_PASS_OVER;
}
