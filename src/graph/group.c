/*
 * group.c: sets training options of the parameters that a pattern of names selects.
 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "core/initializer.h"
#include "core/text.h"

/* Returns the first parameter after value `after` that matches, or 0. */
static uint32_t find_next(const bg_graph *graph, const char *pattern, uint32_t after)
{
    for (uint32_t v = after + 1; v < graph->value_count; v++) {
        const bgi_value *value = &graph->values[v];

        if (value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER &&
            bgi_text_matches(pattern, value->name))
            return v;
    }
    return 0;
}

/* Returns the first parameter that matches; returns 0, and the graph fails, if no parameter matches. */
static uint32_t find_first(bg_graph *graph, const char *pattern)
{
    const uint32_t first = pattern != NULL ? find_next(graph, pattern, 0) : 0;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return 0;
    if (first == 0)
        bg_graph_fail(graph, BG_ERROR_NOT_FOUND,
                      "no parameter has a name like `%s`; choose parameters after they were added",
                      pattern != NULL ? pattern : "");
    return first;
}

void bg_graph_freeze(bg_graph *graph, const char *pattern)
{
    for (uint32_t v = find_first(graph, pattern); v != 0; v = find_next(graph, pattern, v))
        graph->values[v].is_frozen = true;
}

void bg_graph_set_factors(bg_graph *graph, const char *pattern, double rate_factor, double decay_factor)
{
    if (!(rate_factor >= 0.0 && decay_factor >= 0.0 && isfinite(rate_factor) && isfinite(decay_factor)))
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "factors of learning rate and weight decay are %g and %g; they must be finite and at least 0",
                      rate_factor, decay_factor);
    for (uint32_t v = find_first(graph, pattern); v != 0; v = find_next(graph, pattern, v)) {
        graph->values[v].has_factors = true;
        graph->values[v].rate_factor = rate_factor;
        graph->values[v].decay_factor = decay_factor;
    }
}

/* ---- first values ---- */

typedef struct initialize_rule {
    const char *name;
    bg_initializer_kind kind;
    enum { FIXED, NUMBER, XAVIER, KAIMING_IN, KAIMING_OUT } fan;
    double number; /* NUMBER: the value to use instead of the caller's numbers */
} initialize_rule;

static const initialize_rule rules[] = {
    {"constant", BG_INITIALIZE_CONSTANT, FIXED, 0.0},
    {"uniform", BG_INITIALIZE_UNIFORM, FIXED, 0.0},
    {"normal", BG_INITIALIZE_NORMAL, FIXED, 0.0},
    {"truncated_normal", BG_INITIALIZE_TRUNCATED_NORMAL, FIXED, 0.0},
    {"zeros", BG_INITIALIZE_CONSTANT, NUMBER, 0.0},
    {"ones", BG_INITIALIZE_CONSTANT, NUMBER, 1.0},
    {"eye", BG_INITIALIZE_EYE, NUMBER, 0.0},
    {"orthogonal", BG_INITIALIZE_ORTHOGONAL, FIXED, 0.0},
    {"dirac", BG_INITIALIZE_DIRAC, FIXED, 0.0},
    {"sparse", BG_INITIALIZE_SPARSE, FIXED, 0.0},
    {"xavier_uniform", BG_INITIALIZE_UNIFORM, XAVIER, 0.0},
    {"xavier_normal", BG_INITIALIZE_NORMAL, XAVIER, 0.0},
    {"kaiming_uniform", BG_INITIALIZE_UNIFORM, KAIMING_IN, 0.0},
    {"kaiming_normal", BG_INITIALIZE_NORMAL, KAIMING_IN, 0.0},
    {"kaiming_uniform_out", BG_INITIALIZE_UNIFORM, KAIMING_OUT, 0.0},
    {"kaiming_normal_out", BG_INITIALIZE_NORMAL, KAIMING_OUT, 0.0},
};
enum { RULES = sizeof rules / sizeof *rules };

/* Returns the deviation for a weight [out, in, ...]; the other dimensions multiply both `out` and `in`. */
static double find_deviation(const initialize_rule *rule, const bg_type *type, double gain)
{
    const double places = (double)bg_type_element_count(type) / (double)(type->dims[0] * type->dims[1]);
    const double in = (double)type->dims[1] * places, out = (double)type->dims[0] * places;

    return gain * (rule->fan == XAVIER ? sqrt(2.0 / (in + out)) : sqrt(1.0 / (rule->fan == KAIMING_IN ? in : out)));
}

static bg_initializer make_initializer(const initialize_rule *rule, const bg_type *type, double a, double b)
{
    double deviation;

    if (rule->fan == FIXED)
        return (bg_initializer){.kind = rule->kind, .a = a, .b = b};
    if (rule->fan == NUMBER)
        return (bg_initializer){.kind = rule->kind, .a = rule->number};
    deviation = find_deviation(rule, type, a);
    return rule->kind == BG_INITIALIZE_NORMAL
               ? (bg_initializer){.kind = rule->kind, .b = deviation}
               : (bg_initializer){.kind = rule->kind, .a = -sqrt(3.0) * deviation, .b = sqrt(3.0) * deviation};
}

static const bg_type *find_whole(const bgi_value *value)
{
    return value->section != NULL ? &value->section->whole : value->shard != NULL ? &value->shard->whole : &value->type;
}

static const initialize_rule *find_rule(bg_graph *graph, const char *name)
{
    for (int r = 0; name != NULL && r < RULES; r++)
        if (strcmp(rules[r].name, name) == 0)
            return &rules[r];
    bg_graph_fail(
        graph, BG_ERROR_INVALID,
        "there is no rule `%s` for first values; the rules are constant, uniform, normal, truncated_normal, zeros, "
        "ones, eye, orthogonal, dirac, sparse, xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal, "
        "kaiming_uniform_out, "
        "kaiming_normal_out",
        name != NULL ? name : "");
    return NULL;
}

void bg_graph_initialize(bg_graph *graph, const char *pattern, const char *name, double a, double b)
{
    const initialize_rule *rule = find_rule(graph, name);

    if (!isfinite(a) || !isfinite(b))
        bg_graph_fail(graph, BG_ERROR_INVALID, "the numbers for first values are %g and %g; they must be finite", a, b);
    for (uint32_t v = find_first(graph, pattern); v != 0 && rule != NULL; v = find_next(graph, pattern, v)) {
        bgi_value *value = &graph->values[v];
        const bg_type *whole = find_whole(value);
        char text[BG_TYPE_TEXT_BYTES];

        if (rule->fan >= XAVIER && whole->rank < 2) {
            bg_graph_fail(graph, BG_ERROR_SHAPE,
                          "first values of `%s`, %s, by %s: the parameter must have two dimensions or more",
                          value->name, bg_type_text(whole, text), name);
            return;
        }
        value->initializer = make_initializer(rule, whole, a, b);
        if (bgi_initializer_check(&value->initializer, whole, value->name, &graph->error) != BG_OK)
            return;
    }
}
