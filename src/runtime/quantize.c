/*
 * quantize.c: fills a session's buffers with the values of float32 parameters in 16, 8 or 4 bits. A parameter need not
 * be in the plan. The session finds the parameter by name among its weights, and rounds it again when its version has
 * changed.
 */
#include "runtime/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "runtime/initialize.h"
#include "runtime/weights.h"

/* The largest number of threads that round one matrix, and the number of weights that justifies a thread. */
enum { MOST_THREADS = 64, LEAST_WEIGHTS = 1 << 18 };

/* ---- one matrix ---- */

/* Panels first .. end - 1 of a matrix, which one thread rounds. */
typedef struct range {
    const bgi_quantized *quantized;
    const float *from;
    void *to;
    int64_t first, end;
    bgi_quantized_error error;
    bool is_good;
} range;

static void *quantize_range(void *argument)
{
    range *r = argument;

    r->is_good = bgi_quantize_panels(r->quantized, r->from, r->first, r->end, r->to, &r->error);
    return NULL;
}

static bool quantize_matrix(const bgi_quantized *q, const float *from, uint32_t threads, void *to,
                            bgi_quantized_error *error)
{
    const int64_t panels = bgi_quantized_panels(q->out), most = q->in * q->out / LEAST_WEIGHTS;
    int64_t parts = threads < most ? threads : most;
    range ranges[MOST_THREADS];
    pthread_t helpers[MOST_THREADS];
    bool is_helped[MOST_THREADS] = {false}, is_good = true;

    parts = parts < 1 ? 1 : parts > MOST_THREADS ? MOST_THREADS : parts;
    for (int64_t p = 0; p < parts; p++) {
        ranges[p] = (range){.quantized = q, .from = from, .to = to};
        ranges[p].first = panels * p / parts;
        ranges[p].end = panels * (p + 1) / parts;
        is_helped[p] = p > 0 && bgi_thread_create(&helpers[p], quantize_range, &ranges[p]) == 0;
    }
    for (int64_t p = 0; p < parts; p++)
        if (!is_helped[p])
            quantize_range(&ranges[p]);
    for (int64_t p = 0; p < parts; p++) {
        if (is_helped[p])
            pthread_join(helpers[p], NULL);
        is_good = is_good && ranges[p].is_good;
        error->largest = ranges[p].error.largest > error->largest ? ranges[p].error.largest : error->largest;
        error->bound = ranges[p].error.bound > error->bound ? ranges[p].error.bound : error->bound;
    }
    return is_good;
}

/* Sets the value of a weight from the parameter's value of version `version` (0: from the seed). */
static bg_status set_value(bg_session *session, uint32_t number, const float *from, uint64_t version, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const uint32_t index = session->variables[number].weight;
    const bg_type type = bgi_quantized_source(&variable->quantized);
    bgi_weight *weight = &session->weights->items[index];

    if (!bgi_weights_own(session->weights, index, false))
        return bgi_error_memory(error, weight->name, bg_type_size_bytes(&weight->type));
    weight->rounding = (bgi_quantized_error){0};
    if (!quantize_matrix(&variable->quantized, from, bgi_session_helpers(session), weight->data, &weight->rounding))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "weight `%.*s` has a value that is NaN, infinite or beyond 1e38, which cannot be rounded "
                            "to %u bits; look at the model, or use numerics.weights_type float",
                            (int)bgi_quantized_source_length(weight->name), weight->name, variable->quantized.bits);
    weight->is_quantized = true;
    weight->source_bytes = bg_type_size_bytes(&type);
    weight->source_version = version;
    weight->version++;
    session->weights->epoch++;
    return BG_OK;
}

/* ---- of a session ---- */

static bool has_quantized(const bg_plan *plan)
{
    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (plan->variables[i].quantized.bits != 0)
            return true;
    return false;
}

bg_status bgi_session_check_quantized(const bg_session *session, bg_error *error)
{
    if (!has_quantized(session->plan))
        return BG_OK;
    if (session->owners != NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "numerics.weights_type rounds weights in one process, but %u ranks share the devices; run "
                            "the plan in one process, or use float weights",
                            session->plan->options.execution.transport->rank_count);
    if (session->reading != NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "a reader computes with published values in place, which numerics.weights_type would "
                            "round; use bg_session_create, or float weights");
    if (session->memmap != NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "numerics.weights_type rounds weights in memory, but files.memmap_dir keeps them in files; "
                            "use one of the two");
    return BG_OK;
}

bg_status bgi_session_find_source(bg_session *session, uint32_t number, bool *out_found, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const bg_weights *weights = session->weights;
    const bg_type wanted = bgi_quantized_source(&variable->quantized);
    const size_t length = bgi_quantized_source_length(variable->name);
    char text[BG_TYPE_TEXT_BYTES], have[BG_TYPE_TEXT_BYTES];

    session->variables[number].source = UINT32_MAX;
    for (uint32_t i = 0; i < weights->count; i++) {
        const bgi_weight *weight = &weights->items[i];

        if (weight->is_gone || strncmp(weight->name, variable->name, length) != 0 || weight->name[length] != '\0')
            continue;
        if (!bg_type_equal(&weight->type, &wanted))
            return bg_error_set(error, BG_ERROR_SHAPE, "variable `%s` is %s in the plan, but %s in the weights",
                                weight->name, bg_type_text(&wanted, text), bg_type_text(&weight->type, have));
        session->variables[number].source = i;
    }
    *out_found = session->variables[number].source != UINT32_MAX;
    return BG_OK;
}

bg_status bgi_session_make_quantized(bg_session *session, uint32_t number, bg_error *error)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];
    const bg_type type = bgi_quantized_source(&variable->quantized);
    bool is_found;
    bg_status status;
    float *made;

    /* The session may have added the parameter itself. */
    BGI_TRY(bgi_session_find_source(session, number, &is_found, error));
    if (is_found)
        return BG_OK; /* bgi_session_quantize rounds the values */
    made = malloc(bg_type_size_bytes(&type));
    if (made == NULL)
        return bgi_error_memory(error, variable->name, bg_type_size_bytes(&type));
    status = bgi_initialize(&type, &variable->initializer, variable->name, session->plan->options.numerics.seed,
                            variable->number, bgi_session_helpers(session), made, error);
    if (status == BG_OK)
        status = set_value(session, number, made, 0, error);
    free(made);
    return status;
}

bg_status bgi_session_quantize(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;

    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const uint32_t source = session->variables[i].source;
        const void *data = NULL;

        if (plan->variables[i].quantized.bits == 0 || source == UINT32_MAX ||
            session->weights->items[session->variables[i].weight].source_version ==
                session->weights->items[source].version)
            continue;
        BGI_TRY(bgi_weights_fetch(session->weights, source, &data, error));
        BGI_TRY(set_value(session, i, data, session->weights->items[source].version, error));
    }
    return BG_OK;
}

/* ---- rounding errors ---- */

bg_status bg_weights_quantized(bg_weights *weights, bg_quantized *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_quantized", error));

    bg_quantized sum = {0};

    for (uint32_t i = 0; i < weights->count; i++) {
        const bgi_weight *weight = &weights->items[i];

        if (weight->is_gone || !weight->is_quantized)
            continue;
        sum.count++;
        sum.bytes += bg_type_size_bytes(&weight->type);
        sum.float_bytes += weight->source_bytes;
        sum.largest_error = weight->rounding.largest > sum.largest_error ? weight->rounding.largest : sum.largest_error;
        sum.largest_bound = weight->rounding.bound > sum.largest_bound ? weight->rounding.bound : sum.largest_bound;
    }
    *out = sum;
    bgi_weights_leave(weights);
    return BG_OK;
}
