/*
 * session.c: an engine with weights: values go to the devices before a run when somebody has changed them, and come
 * back when somebody asks.
 */
#include "runtime/session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "kernels/attributes.h"
#include "runtime/initialise.h"
#include "runtime/memmap.h"
#include "runtime/weights.h"

/* ---- variables ---- */

static bool is_shared(const bgi_plan_variable *variable)
{
    return variable->role == BG_ROLE_PARAMETER || variable->role == BG_ROLE_BUFFER || variable->role == BG_ROLE_STATE ||
           variable->role == BG_ROLE_TRAINING;
}

/* The part that the replica with data coordinate `place` keeps of what one without such pieces has, in bytes. */
typedef struct kept_part {
    size_t offset, size_bytes;
} kept_part;

static kept_part find_part(const bgi_plan_variable *variable, uint32_t place)
{
    const size_t whole = bg_type_size_bytes(&variable->type), piece = bgi_plan_variable_bytes(variable);
    const size_t before = variable->piece_count > 0 ? place * piece : 0;
    const size_t offset = before < whole ? before : whole;

    return (kept_part){offset, whole - offset < piece ? whole - offset : piece};
}

void bgi_session_upload(bg_session *session, const bgi_plan_variable *variable, const void *data)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;

    for (uint32_t t = 0; t < tensor; t++) {
        const bg_mesh at = bg_mesh_coordinates(&mesh, t);
        const char *of_replica = data;
        if (variable->shard != NULL) {
            bg_shard_cut(&mesh, variable->shard, &at, data, session->cut, NULL);
            of_replica = session->cut;
        }
        for (uint32_t place = 0; place < mesh.data; place++) {
            const kept_part part = find_part(variable, place);
            for (uint32_t i = 0; i < variable->place_count; i++)
                bgi_engine_write(session->engine, place * tensor + t, &variable->places[i], of_replica + part.offset,
                                 part.size_bytes);
        }
    }
}

/* What the replicas at one place of the tensor axes have, pieces put together. */
static void collect(const bg_session *session, const bgi_plan_variable *from, uint32_t t, char *data)
{
    const bg_mesh mesh = bgi_plan_mesh(session->plan);
    const uint32_t places = from->piece_count > 0 ? mesh.data : 1;

    for (uint32_t place = 0; place < places; place++) {
        const kept_part part = find_part(from, place);
        memcpy(data + part.offset,
               bgi_engine_address(session->engine, place * mesh.tensor_1 * mesh.tensor_2 + t, &from->places[0]),
               part.size_bytes);
    }
}

void bgi_session_download(const bg_session *session, uint32_t variable, void *data)
{
    const bgi_plan_variable *from = &session->plan->variables[variable];
    const bg_mesh mesh = bgi_plan_mesh(session->plan);

    if (from->shard == NULL)
        collect(session, from, 0, data);
    for (uint32_t t = 0; from->shard != NULL && t < mesh.tensor_1 * mesh.tensor_2; t++) {
        const bg_mesh at = bg_mesh_coordinates(&mesh, t);
        collect(session, from, t, session->cut);
        bg_shard_join(&mesh, from->shard, &at, session->cut, data, NULL);
    }
}

void *bgi_session_whole(const bg_session *session, uint32_t variable)
{
    const bgi_plan_variable *of = &session->plan->variables[variable];
    const bool is_cut = of->shard != NULL || (of->piece_count > 0 && bgi_plan_data_replicas(session->plan) > 1);

    return is_cut ? NULL : bgi_engine_address(session->engine, 0, &of->places[0]);
}

bg_status bgi_session_adopt(bg_session *session, uint32_t variable, const void *data, bg_error *error)
{
    BGI_TRY(bgi_memmap_begin(session->engine->memmap, error));
    bgi_session_upload(session, &session->plan->variables[variable], data);
    session->variables[variable].version = session->weights->items[session->variables[variable].weight].version;
    return BG_OK;
}

/* Brings the devices up to date with the weights. */
static bg_status pull_weights(bg_session *session, bg_error *error)
{
    bg_weights *weights = session->weights;

    if (session->epoch == weights->epoch)
        return BG_OK;
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        bgi_session_variable *variable = &session->variables[i];
        const bgi_weight *weight;
        const void *data = NULL;
        if (variable->weight == UINT32_MAX)
            continue;
        /* Whoever has a newer value, or has lost it, has raised the version. */
        weight = &weights->items[variable->weight];
        if (variable->version == weight->version)
            continue;
        BGI_TRY(bgi_weights_fetch(weights, variable->weight, &data, error));
        if (variable->version != weight->version) { /* it may have come home */
            BGI_TRY(bgi_memmap_begin(session->engine->memmap, error));
            bgi_session_upload(session, &session->plan->variables[i], data);
        }
        variable->version = weight->version;
    }
    session->epoch = weights->epoch;
    session->has_newest = false;
    return BG_OK;
}

/* After a run: the values on the devices are the newest, of all variables or (inference) of those that ops write. */
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
        if (weight->newest == session)
            continue;
        weight->newest = session;
        weight->newest_variable = i;
        variable->version = ++weight->version;
        claims = true;
    }
    if (claims)
        session->epoch = ++weights->epoch;
    session->has_newest = true;
}

/* What only a failed session had is gone. */
static void lose_weights(bg_session *session)
{
    bg_weights *weights = session->weights;

    for (uint32_t i = 0; i < weights->count; i++) {
        bgi_weight *weight = &weights->items[i];
        /* At home, what the run has begun to change was the only value there is. */
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

/* To weights that outlive the session. */
static void return_weights(bg_session *session)
{
    bg_weights *weights = session->weights;

    for (uint32_t i = 0; i < weights->count && weights->references > 1; i++)
        if (weights->items[i].home == session)
            bgi_weights_leave_home(weights, i);
        else if (weights->items[i].newest == session)
            bgi_weights_pull(weights, i, NULL);
}

/* Of a variable whose values are in files. */
static bool is_at_home(const bg_session *session, const bgi_plan_variable *variable)
{
    return session->engine->memmap != NULL && variable->places[0].is_remote;
}

/* All bits are 0. */
static bool is_zero(const bg_initialiser *initialiser)
{
    return initialiser->kind == BG_INITIALISE_CONSTANT && initialiser->a == 0.0 && !signbit(initialiser->a);
}

/* The first values of a new weight, from the seed. At home they are written where they stay. */
static bg_status initialise(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    bgi_weight *weight = &session->weights->items[index];
    void *data = weight->home != NULL ? bgi_session_whole(session, number) : weight->data;

    if (weight->home != NULL && is_zero(&variable->initialiser) && bgi_memmap_is_new(session->engine->memmap)) {
        session->variables[number].version = weight->version; /* a new file is zeros */
        return BG_OK;
    }
    if (data == NULL)
        BGI_TRY(bgi_weights_take_view(session->weights, index, &data, error));
    bgi_initialise(&weight->type, &variable->initialiser, session->plan->options.seed, variable->number,
                   session->engine->worker_count, data);
    if (weight->home != NULL) {
        bgi_session_upload(session, variable, data);
        session->variables[number].version = weight->version;
    }
    return BG_OK;
}

/* The values of a new weight as the files have them. What is at home is in its place already; other places that it has
 * (on devices that hold a copy) get it from there. */
static bg_status continue_weight(bg_session *session, uint32_t number, uint32_t index, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const void *data = NULL;

    BGI_TRY(bgi_memmap_index_take(bgi_memmap_found(session->engine->memmap), session->weights, index, error));
    if (session->weights->items[index].home == NULL)
        return BG_OK;
    session->variables[number].version = session->weights->items[index].version;
    if (variable->place_count > 1) {
        BGI_TRY(bgi_weights_fetch(session->weights, index, &data, error));
        bgi_session_upload(session, variable, data);
    }
    return BG_OK;
}

/* Finds or makes the weight of a variable. */
static bg_status attach(bg_session *session, uint32_t number, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const bg_type *type = bgi_plan_variable_whole(variable);
    bg_weights *weights = session->weights;
    char wanted[BG_TYPE_TEXT_BYTES], have[BG_TYPE_TEXT_BYTES];
    uint32_t index = bgi_weights_index(weights, variable->name);

    if (index != UINT32_MAX && !bg_type_equal(&weights->items[index].type, type))
        return bg_error_set(error, BG_ERROR_SHAPE, "variable `%s` is %s in the plan, %s in the weights", variable->name,
                            bg_type_text(type, wanted), bg_type_text(&weights->items[index].type, have));
    if (index != UINT32_MAX) {
        session->variables[number].weight = index;
        return BG_OK;
    }
    session->variables[number].weight = index = weights->count;
    BGI_TRY(bgi_weights_add(weights, variable->name, type, variable->role,
                            is_at_home(session, variable) ? session : NULL, number, error));
    if (bgi_memmap_found(session->engine->memmap) != NULL)
        return continue_weight(session, number, index, error);
    return initialise(session, number, index, error);
}

static bg_status attach_all(bg_session *session, bg_error *error)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        session->variables[i].weight = UINT32_MAX;
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (is_shared(&session->plan->variables[i]))
            BGI_TRY(attach(session, i, error));
    return BG_OK;
}

/* Weights that were given are at home here too, once nothing can fail any more. */
static void move_home(bg_session *session)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t index = session->variables[i].weight;
        if (index != UINT32_MAX && session->weights->items[index].home == NULL &&
            is_at_home(session, &session->plan->variables[i]))
            bgi_weights_move_home(session->weights, index, session, i);
    }
}

/* The plan knows a weight's role better than the file it was read from. */
static void name_roles(bg_session *session)
{
    for (uint32_t i = 0; i < session->plan->variable_count; i++)
        if (session->variables[i].weight != UINT32_MAX)
            session->weights->items[session->variables[i].weight].role = session->plan->variables[i].role;
}

/* ---- the optimiser's numbers ---- */

static void upload_optimiser(bg_session *session)
{
    const bg_optimiser *optimiser = &session->optimiser;
    double hyper[BGI_HYPER_COUNT] = {0};

    if (session->plan->hyper_variable == UINT32_MAX)
        return;
    hyper[BGI_HYPER_LEARNING_RATE] = optimiser->learning_rate;
    hyper[BGI_HYPER_WEIGHT_DECAY] = optimiser->weight_decay;
    hyper[BGI_HYPER_EPSILON] = optimiser->epsilon;
    if (optimiser->kind == BG_SGD) {
        hyper[BGI_HYPER_MOMENTUM] = optimiser->momentum;
        hyper[BGI_HYPER_DAMPENING] = optimiser->dampening;
        hyper[BGI_HYPER_VELOCITY_SCALING] = optimiser->velocity_scaling;
    } else if (optimiser->kind == BG_RMSPROP || optimiser->kind == BG_ADAGRAD || optimiser->kind == BG_ADADELTA) {
        hyper[BGI_HYPER_MOMENTUM] = optimiser->momentum;
        hyper[BGI_HYPER_ALPHA] = optimiser->alpha;
    } else {
        hyper[BGI_HYPER_BETA1] = optimiser->beta1;
        hyper[BGI_HYPER_BETA2] = optimiser->beta2;
        hyper[BGI_HYPER_MAX_WEIGHT_NORM] = optimiser->max_weight_norm;
    }
    bgi_session_upload(session, &session->plan->variables[session->plan->hyper_variable], hyper);
}

static bg_status check_hyper(const bg_plan *plan, bg_error *error)
{
    const bgi_plan_variable *variable;

    if (plan->hyper_variable == UINT32_MAX)
        return BG_OK;
    variable = plan->hyper_variable < plan->variable_count ? &plan->variables[plan->hyper_variable] : NULL;
    if (variable == NULL || variable->type.dtype != BG_FLOAT64 ||
        bg_type_element_count(&variable->type) != BGI_HYPER_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "plan: the optimiser's numbers are not float64[%d]",
                            BGI_HYPER_COUNT);
    return BG_OK;
}

bg_status bg_session_set_optimiser(bg_session *session, const bg_optimiser *optimiser, bg_error *error)
{
    const bg_optimiser *planned = &session->plan->optimiser;

    if (!session->plan->training)
        return bg_error_set(error, BG_ERROR_INVALID, "a session for inference has no optimiser");
    BGI_TRY(bg_optimiser_validate(optimiser, error));
    if (optimiser->kind != planned->kind || optimiser->nesterov != planned->nesterov ||
        optimiser->combined != planned->combined || optimiser->uncorrected != planned->uncorrected ||
        optimiser->centred != planned->centred || optimiser->tf_variant != planned->tf_variant ||
        optimiser->decay_matrices_only != planned->decay_matrices_only)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the kind of optimiser, its variant, and which parameters decay are part of the plan; make "
                            "a new plan");
    if (optimiser->combined && optimiser->velocity_scaling != planned->velocity_scaling)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "velocity_scaling %g: the velocities are scaled by %g, as the plan says; make a new plan",
                            optimiser->velocity_scaling, planned->velocity_scaling);
    if (optimiser->momentum != 0.0 && planned->momentum == 0.0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "momentum %g: the plan was made without momentum and keeps no velocities; make a new plan",
                            optimiser->momentum);
    session->optimiser = *optimiser;
    upload_optimiser(session);
    return BG_OK;
}

bg_status bg_session_set_learning_rate(bg_session *session, double learning_rate, bg_error *error)
{
    bg_optimiser optimiser = session->optimiser;

    optimiser.learning_rate = learning_rate;
    return bg_session_set_optimiser(session, &optimiser, error);
}

/* ---- life ---- */

/* Room for what one replica has of a variable that the mesh cuts. */
static bg_status take_cut(bg_session *session, bg_error *error)
{
    size_t most = 0;

    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const bgi_plan_variable *variable = &session->plan->variables[i];
        const size_t size = variable->shard != NULL ? bg_type_size_bytes(&variable->type) : 0;
        most = size > most ? size : most;
    }
    if (most > 0)
        session->cut = malloc(most);
    return most == 0 || session->cut != NULL ? BG_OK : bgi_error_memory(error, "pieces of variables", most);
}

/* How far the training is whose files this session goes on with. */
static bg_status take_note(bg_session *session, bool weights_are_new, bg_error *error)
{
    const bgi_memmap_index *found = bgi_memmap_found(session->engine->memmap);
    char text[192];

    if (found == NULL)
        return BG_OK;
    session->note = strdup(found->note);
    if (session->note == NULL)
        return bgi_error_memory(error, "a note", strlen(found->note));
    if (weights_are_new)
        session->weights->step = found->step;
    if (found->seed != session->plan->options.seed) {
        snprintf(text, sizeof text,
                 "memmap_dir: the files were made with seed %" PRIu64 ", this session has %" PRIu64
                 "; random numbers (dropout) go on from the session's",
                 found->seed, session->plan->options.seed);
        bgi_say(&session->plan->options, BG_LOG_WARNING, text);
    }
    bgi_memmap_forget(session->engine->memmap);
    return BG_OK;
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
    BGI_TRY(bgi_engine_create(plan, &session->engine, error));
    /* Versions begin at 1, so everything is uploaded. */
    status = attach_all(session, error);
    if (status == BG_OK)
        status = pull_weights(session, error);
    if (status != BG_OK) {
        bgi_weights_truncate(session->weights, weight_count);
        return status;
    }
    name_roles(session);
    upload_optimiser(session);
    if (plan->condition != NULL) {
        session->condition_memory = bgi_interpret_memory(plan->condition);
        if (session->condition_memory == NULL)
            return bgi_error_memory(error, "a loop's condition", plan->condition->devices[0].arena_bytes);
    }
    BGI_TRY(take_note(session, weight_count == 0, error));
    move_home(session);
    return BG_OK;
}

bg_status bg_session_create(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error)
{
    bg_session *session;
    bg_status status;

    if (plan == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a session without a plan");
    if (plan->options.compile_only)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan was made with options.compile_only, to be looked at, and cannot run; make it "
                            "again with compile_only false");
    session = calloc(1, sizeof *session);

    if (session == NULL)
        return bgi_error_memory(error, "a session", sizeof *session);
    session->plan = plan;
    session->optimiser = plan->optimiser;
    session->weights = weights;
    if (weights != NULL)
        weights->references++;
    else
        BGI_TRY_CLEANUP(bg_weights_create(&session->weights, error));
    BGI_TRY_CLEANUP(open_session(session, error));
    *out = session;
    return BG_OK;
cleanup:
    bg_session_destroy(session);
    return status;
}

void bg_session_destroy(bg_session *session)
{
    if (session == NULL)
        return;
    if (session->weights != NULL && session->engine != NULL)
        return_weights(session);
    bgi_engine_destroy(session->engine);
    for (bg_outfeed *outfeed = session->outfeeds, *next; outfeed != NULL; outfeed = next) {
        next = outfeed->next;
        bgi_outfeed_close(outfeed);
    }
    bg_infeed_destroy(session->iterator);
    free(session->condition_memory);
    free(session->cut);
    free(session->note);
    bg_weights_destroy(session->weights);
    free(session->variables);
    free(session);
}

bg_weights *bg_session_weights(bg_session *session)
{
    return session->weights;
}

uint64_t bg_session_step(const bg_session *session)
{
    return session->weights->step;
}

void bg_session_set_step(bg_session *session, uint64_t step)
{
    session->weights->step = step;
}

/* ---- files ---- */

bool bg_session_is_continued(const bg_session *session)
{
    return bgi_memmap_is_continued(session->engine->memmap);
}

const char *bg_session_note(const bg_session *session)
{
    return session->note != NULL ? session->note : "";
}

bg_status bg_session_flush(bg_session *session, const char *note, bg_error *error)
{
    bgi_memmap *memmap = session->engine->memmap;

    if (memmap == NULL || bgi_memmap_is_private(memmap))
        return BG_OK;
    if (session->engine->is_dead)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "memmap_dir: a run of this session failed, so what the files hold is of no one step");
    return bgi_memmap_finish(memmap, session, note != NULL ? note : "", error);
}

/* ---- streams ---- */

uint32_t bg_session_input_count(const bg_session *session)
{
    return session->plan->input_count;
}

uint32_t bg_session_output_count(const bg_session *session)
{
    return session->plan->output_count;
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
    const bg_plan *plan = session->plan;

    if (index >= plan->input_count)
        return bg_error_set(error, BG_ERROR_INVALID, "input %u of %u", index, plan->input_count);
    *out = make_stream(bgi_plan_input_rows(plan), plan->inputs[index].name, &plan->inputs[index].type,
                       bgi_stream_input_count(plan));
    return BG_OK;
}

bg_status bg_session_output(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error)
{
    const bg_plan *plan = session->plan;

    if (index >= plan->output_count)
        return bg_error_set(error, BG_ERROR_INVALID, "output %u of %u", index, plan->output_count);
    *out = make_stream(plan->replicas, plan->outputs[index].name, &plan->outputs[index].type,
                       bgi_stream_output_count(plan, &plan->outputs[index]));
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
    for (uint32_t i = 0; i < session->plan->output_count; i++)
        if (strcmp(session->plan->outputs[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- runs ---- */

/* Weight updates that the optimiser's state has seen; 0 when there is none. */
static uint64_t find_optimiser_step(const bg_session *session)
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
        if (session->plan->variables[i].role == BG_ROLE_STATE && session->variables[i].weight != UINT32_MAX)
            session->weights->items[session->variables[i].weight].updates += iterations;
}

/* Times a run if that is asked for; otherwise no clock is read. */
static bg_status run_timed(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    const bg_options *options = &session->plan->options;
    const uint64_t start_ns = options->log_cycles ? bgi_clock_ns() : 0;
    char text[64];

    session->cycles = 0;
    BGI_TRY(bgi_engine_run(session->engine, run, out_iterations, error));
    if (!options->log_cycles)
        return BG_OK;
    session->cycles = bgi_clock_ns() - start_ns;
    snprintf(text, sizeof text, "run took %" PRIu64 " cycles", session->cycles);
    bgi_say(options, BG_LOG_INFO, text);
    return BG_OK;
}

uint64_t bg_session_cycles(const bg_session *session)
{
    return session->cycles;
}

bg_status bgi_session_run(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    const bg_plan *plan = session->plan;
    bg_status status;

    BGI_TRY(pull_weights(session, error));
    BGI_TRY(bgi_memmap_begin(session->engine->memmap, error));
    bgi_memmap_keep(session->engine->memmap);
    run->step = session->weights->step;
    run->optimiser_step = find_optimiser_step(session);
    status = run_timed(session, run, out_iterations, error);
    if (run->learning_rates != NULL)
        upload_optimiser(session); /* what was set holds again */
    if (status != BG_OK) {
        lose_weights(session);
        return status;
    }
    claim_weights(session);
    if (plan->training)
        count_updates(session, *out_iterations);
    return BG_OK;
}

/* ---- looking inside ---- */

bg_status bg_session_print_workers(const bg_session *session, char **out_text, bg_error *error)
{
    bgi_text text = {0};

    for (uint32_t i = 0; i < session->engine->worker_count; i++) {
        const bgi_worker *worker = &session->engine->workers[i];
        if (worker->does_io)
            bgi_text_add(&text, "worker %u on any core, for loads and stores\n", worker->number);
        else if (worker->cpu == BGI_NO_CPU)
            bgi_text_add(&text, "worker %u on any core\n", worker->number);
        else
            bgi_text_add(&text, "worker %u on core %u\n", worker->number, worker->cpu);
    }
    return bgi_text_finish(&text, out_text, error);
}

static bgi_device *find_device(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bg_plan *plan = session->plan;

    if (replica >= plan->replicas || device >= plan->device_count)
        return NULL;
    return &session->engine->devices[replica * plan->device_count + device];
}

size_t bg_session_device_bytes(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_device *found = find_device(session, replica, device);
    size_t touched;

    if (found == NULL)
        return 0;
    if (!bgi_trace_is_on(found))
        return found->program->arena_bytes;
    touched = found->touched_bytes > found->io_touched_bytes ? found->touched_bytes : found->io_touched_bytes;
    return (touched + BGI_CACHE_LINE_BYTES - 1) / BGI_CACHE_LINE_BYTES * BGI_CACHE_LINE_BYTES;
}

static uint32_t count_events(const bgi_trace_ring *ring)
{
    return ring->count < ring->capacity ? (uint32_t)ring->count : ring->capacity;
}

uint32_t bg_session_trace_count(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_device *found = find_device(session, replica, device);

    if (found == NULL || !bgi_trace_is_on(found))
        return 0;
    return count_events(&found->trace) + count_events(&found->io_trace);
}

/* The program's events, then those of transfers. */
bg_status bg_session_trace_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                                 bg_trace_event *out, bg_error *error)
{
    const uint32_t total = bg_session_trace_count(session, replica, device);
    const bgi_device *found = find_device(session, replica, device);
    const bgi_trace_ring *ring;
    uint32_t count;

    if (index >= total)
        return bg_error_set(error, BG_ERROR_INVALID, "event %u of %u of replica %u, device %u%s", index, total, replica,
                            device, session->plan->options.trace ? "" : "; the plan's options do not ask for a trace");
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
