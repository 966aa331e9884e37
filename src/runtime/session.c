/*
 * session.c: implements sessions, which are engines with weights: their creation, end and runs.
 */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/launcher.h"
#include "options/optimizer.h"
#include "options/table.h"
#include "runtime/agree.h"
#include "runtime/initialize.h"
#include "runtime/layout.h"
#include "runtime/memmap.h"
#include "runtime/quantize.h"
#include "runtime/weights.h"

enum { LEAST_TAGS = 32768, LEAST_MESSAGE_BYTES = 4096 };

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
        session->carried[i] = bgi_take_pages(1, size + 1);
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
    if (session->owners == NULL) /* this process has all devices */
        BGI_TRY(bgi_in_place_choose(plan, &session->in_place, error));
    BGI_TRY(open_engine(session, error));
    BGI_TRY(bgi_session_check_quantized(session, error));
    /* The weights' versions begin at 1, so all values are copied to the devices. */
    status = bgi_session_attach(session, error);
    if (status == BG_OK)
        status = bgi_session_refresh(session, error);
    if (status != BG_OK) {
        bgi_weights_truncate(session->weights, weight_count);
        return status;
    }
    bgi_session_name_roles(session);
    upload_optimizer(session);
    if (plan->condition != NULL) {
        session->condition_memory = bgi_interpret_memory(plan->condition);
        if (session->condition_memory == NULL)
            return bgi_error_memory(error, "a loop's condition", plan->condition->devices[0].arena_bytes);
    }
    BGI_TRY(take_note(session, weight_count == 0, error));
    bgi_session_move_home(session);
    bgi_weights_drop_pieces(session->weights);
    return BG_OK;
}

/* Frees the session, but not its reference to the weights. If there are weights, the thread has entered them. */
static void close_session(bg_session *session)
{
    bg_plan *own_plan = session->own_plan;

    if (session->weights != NULL && session->engine != NULL)
        bgi_session_return(session);
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
    bg_session *session = bgi_take_pages(1, sizeof *session);
    bg_status status;

    if (session == NULL)
        return bgi_error_memory(error, "a session", sizeof *session);
    session->plan = plan;
    session->makes_values = makes_values;
    session->optimizer = plan->optimizer;
    session->weights = weights;
    session->reading = reading;
    weights->holder = &bgi_session_holder;
    if (progress.call != NULL)
        progress.total = bgi_session_count_creation(session);
    session->progress = &progress;
    status = open_session(session, error);
    session->progress = NULL;
    if (status == BG_OK)
        *out = session;
    else
        close_session(session);
    return status;
}

/* Warns if a launcher has started several processes that train alone: each would train the whole model, and they would
 * write the same files. Later sessions with the same weights do not repeat the warning. */
static void warn_of_launcher(const bg_plan *plan, const bg_weights *weights)
{
    const bgi_launcher *launcher = bgi_launcher_find();
    const uint64_t count = launcher != NULL && launcher->size != NULL ? bgi_launcher_number(launcher->size) : 1;
    const char *named = getenv("BRIGADE_MPI");
    char text[320];

    if (!plan->training || plan->options.execution.transport != NULL || weights->holder != NULL || count <= 1 ||
        (named != NULL && strcmp(named, "none") == 0))
        return;
    snprintf(text, sizeof text,
             "%s has started %" PRIu64
             " processes, but options.execution.transport is NULL: each process trains the whole model alone. Set it "
             "to divide the devices among them (bg_transport_mpi_create), or BRIGADE_MPI=none in the environment if "
             "this is intended",
             launcher->name, count);
    bgi_log(&plan->options, BG_LOG_WARNING, text);
}

bg_status bg_session_create(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (plan == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the session has no plan");
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
        warn_of_launcher(plan, weights);
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
        BGI_TRY(bgi_session_refresh(session, error));
    BGI_TRY(bgi_memmap_begin(session->memmap, error));
    bgi_memmap_keep(session->memmap);
    run->step = session->weights->step;
    run->optimizer_step = find_optimizer_step(session);
    status = run_timed(session, run, out_iterations, error);
    if (status == BG_OK && session->engine->has_refused) {
        bgi_session_claim(session);
        return report_refused(session, run, out_iterations, error);
    }
    if (run->scalars != NULL)
        upload_optimizer(session); /* restores the values that were set */
    if (status != BG_OK) {
        bgi_session_lose(session);
        return status;
    }
    bgi_session_claim(session);
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
