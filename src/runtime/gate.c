/*
 * gate.c: which iterations of a run begin. The first device that comes to an iteration asks; when the answer is not
 * known yet, whoever changes what it depends on looks again. See feed.h.
 */
#include "runtime/engine.h"

void bgi_gate_begin(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;

    pthread_mutex_lock(&gate->mutex);
    gate->begun_at = atomic_load(&engine->devices[0].iteration);
    gate->next = gate->asked = gate->voted = gate->votes = 0;
    gate->wants_end = false;
    gate->is_on = true;
    atomic_store(&gate->end, UINT64_MAX);
    atomic_store(&gate->granted.value, gate->begun_at);
    pthread_mutex_unlock(&gate->mutex);
}

void bgi_gate_end(bgi_engine *engine)
{
    pthread_mutex_lock(&engine->gate.mutex);
    engine->gate.is_on = false;
    pthread_mutex_unlock(&engine->gate.mutex);
}

/* Whether iteration gate->next may begin. */
static bgi_pass decide(const bgi_engine *engine)
{
    const bgi_gate *gate = &engine->gate;
    const bgi_run *run = engine->run;
    uint64_t needed;

    if (gate->next >= run->limit || gate->wants_end)
        return BGI_PASS_OVER;
    if (bgi_run_voters(run) > 0 && gate->voted < gate->next)
        return BGI_PASS_WAIT;
    if (run->infeed == NULL || run->is_synthetic)
        return BGI_PASS_GO;
    needed = bgi_infeed_first(run->infeed) + (gate->next + 1) * bgi_infeed_elements(engine->plan);
    if (bgi_infeed_end(run->infeed) < needed)
        return BGI_PASS_OVER;
    return bgi_infeed_filled(run->infeed) >= needed ? BGI_PASS_GO : BGI_PASS_WAIT;
}

/* Answers the question that was asked, if it can be answered; true when it was. Under the mutex. */
static bool answer(bgi_engine *engine)
{
    bgi_gate *gate = &engine->gate;
    bgi_pass pass;

    if (!gate->is_on || gate->asked <= gate->next || atomic_load(&gate->end) != UINT64_MAX)
        return false;
    pass = decide(engine);
    if (pass == BGI_PASS_WAIT)
        return false;
    if (pass == BGI_PASS_OVER) {
        atomic_store(&gate->end, gate->next);
        atomic_store(&gate->granted.value, UINT64_MAX);
    } else {
        atomic_store(&gate->granted.value, gate->begun_at + ++gate->next);
    }
    return true;
}

void bgi_gate_look(bgi_engine *engine)
{
    bool has_answer;

    pthread_mutex_lock(&engine->gate.mutex);
    has_answer = answer(engine);
    pthread_mutex_unlock(&engine->gate.mutex);
    if (has_answer)
        bgi_event_count_notify_all(&engine->events);
}

void bgi_gate_stop(bgi_engine *engine)
{
    pthread_mutex_lock(&engine->gate.mutex);
    engine->gate.wants_end = true; /* forgotten when the next run begins */
    pthread_mutex_unlock(&engine->gate.mutex);
    bgi_gate_look(engine);
}

void bgi_gate_vote(bgi_engine *engine, bool goes_on)
{
    bgi_gate *gate = &engine->gate;

    pthread_mutex_lock(&gate->mutex);
    gate->wants_end |= !goes_on;
    if (++gate->votes == engine->plan->replicas * bgi_run_voters(engine->run)) {
        gate->votes = 0;
        gate->voted++;
    }
    pthread_mutex_unlock(&gate->mutex);
    bgi_gate_look(engine);
}

bgi_pass bgi_gate_pass(bgi_device *device)
{
    bgi_engine *engine = device->engine;
    bgi_gate *gate = &engine->gate;
    const uint64_t iteration = atomic_load_explicit(&device->iteration, memory_order_relaxed);

    if (atomic_load(&gate->granted.value) <= iteration) {
        pthread_mutex_lock(&gate->mutex);
        if (gate->asked < device->run_iteration + 1)
            gate->asked = device->run_iteration + 1;
        pthread_mutex_unlock(&gate->mutex);
        bgi_gate_look(engine);
        if (!bgi_device_reached(device, &gate->granted, iteration + 1))
            return BGI_PASS_WAIT;
    }
    return device->run_iteration < atomic_load(&gate->end) ? BGI_PASS_GO : BGI_PASS_OVER;
}
