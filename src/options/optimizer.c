/*
 * optimizer.c: the rows of optimizers.def, and functions for them: optimizers with their defaults, range checks,
 * conversion from and to strings, and the meaning of their state.
 */
#include "options/optimizer.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

/* ---- the table ---- */

#define NOT_NEGATIVE        .minimum = 0, .maximum = DBL_MAX
#define ABOVE_0             .minimum = 0, .is_above = true, .maximum = DBL_MAX
#define ABOVE_0_OR_INFINITE .minimum = 0, .is_above = true, .maximum = INFINITY
#define FINITE              .minimum = -DBL_MAX, .maximum = DBL_MAX
#define SHARE               .minimum = 0, .maximum = 1, .is_below = true
#define FINITE_RULE         "it must be a finite number of at least 0"
#define SHARE_RULE          "as the decay of a running mean it must be at least 0 and below 1"

#define AT(place)             .element = BGI_HYPER_##place
#define AT_WITH_STATE(place)  AT(place), .makes_state = true
#define AT_FIXED(place, flag) AT(place), .is_fixed = true, .with = offsetof(bg_optimizer, flag)

enum {
#define NUMBER(member, ...) NUMBER_OF_##member,
#define FLAG(member, ...)   NUMBER_OF_##member,
#include "options/optimizers.def"
#undef NUMBER
#undef FLAG
    SETTING_COUNT
};

/* The macros in `range` and `place` each set several members of the struct. */
#define NUMBER(member, range, broken, place, sentence)                                                                 \
    {.name = #member, .offset = offsetof(bg_optimizer, member), range, .rule = broken, place, .what = sentence},
#define FLAG(member, sentence)                                                                                         \
    {.name = #member, .offset = offsetof(bg_optimizer, member), .is_flag = true, .maximum = 1, .what = sentence},
static const bgi_setting settings[] = {
#include "options/optimizers.def"
};
#undef NUMBER
#undef FLAG

static const bgi_setting learning_rate = {.name = "learning_rate",
                                          .offset = offsetof(bg_optimizer, learning_rate),
                                          NOT_NEGATIVE,
                                          .rule = FINITE_RULE,
                                          AT(LEARNING_RATE)};

typedef struct optimizer_row {
    const char *name, *what;
    const char *state[4]; /* kinds of state: plain, with momentum, centered, and centered with momentum */
    struct {
        bool has;
        double standard;
    } settings[SETTING_COUNT];
} optimizer_row;

#define STATE(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define HAS(member, value) [NUMBER_OF_##member] = {true, value}
#define OPTIMIZER(kind, label, sentence, kept, ...)                                                                    \
    [kind] = {.name = label, .what = sentence, .state = kept, .settings = {__VA_ARGS__}},
static const optimizer_row rows[] = {
#include "options/optimizers.def"
};
#undef OPTIMIZER

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const bgi_setting *bgi_setting_at(uint32_t number)
{
    return number < SETTING_COUNT ? &settings[number] : NULL;
}

const bgi_setting *bgi_setting_find(const char *name)
{
    for (uint32_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

double bgi_setting_get(const bgi_setting *setting, const bg_optimizer *optimizer)
{
    const void *at = (const char *)optimizer + setting->offset;

    return setting->is_flag ? (*(const bool *)at ? 1.0 : 0.0) : *(const double *)at;
}

void bgi_setting_set(const bgi_setting *setting, bg_optimizer *optimizer, double value)
{
    void *at = (char *)optimizer + setting->offset;

    if (setting->is_flag)
        *(bool *)at = value > 0;
    else
        *(double *)at = value;
}

const char *bg_optimizer_name(bg_optimizer_kind kind)
{
    return (unsigned)kind < ROW_COUNT ? rows[kind].name : NULL;
}

const char *bgi_optimizer_sentence(bg_optimizer_kind kind)
{
    return (unsigned)kind < ROW_COUNT ? rows[kind].what : NULL;
}

bool bgi_optimizer_has(bg_optimizer_kind kind, const bgi_setting *setting, double *standard)
{
    const ptrdiff_t number = setting - settings;

    if ((unsigned)kind >= ROW_COUNT || !rows[kind].settings[number].has)
        return false;
    if (standard != NULL)
        *standard = rows[kind].settings[number].standard;
    return true;
}

/* ---- optimizers ---- */

void bg_optimizer_init(bg_optimizer *optimizer, size_t struct_bytes, bg_optimizer_kind kind, double rate)
{
    bg_optimizer made = {.struct_bytes = struct_bytes, .kind = kind, .learning_rate = rate};

    for (uint32_t i = 0; (unsigned)kind < ROW_COUNT && i < SETTING_COUNT; i++)
        if (rows[kind].settings[i].has)
            bgi_setting_set(&settings[i], &made, rows[kind].settings[i].standard);
    bgi_struct_fill(optimizer, struct_bytes, &made, sizeof made);
}

/* ---- numbers ---- */

/* Whether the setting has an effect; some settings need a flag. */
static bool counts(const bgi_setting *setting, const bg_optimizer *optimizer)
{
    return setting->with == 0 || *(const bool *)((const char *)optimizer + setting->with);
}

void bgi_optimizer_write_numbers(const bg_optimizer *optimizer, double *out)
{
    memset(out, 0, BGI_OPTIMIZER_NUMBERS * sizeof *out);
    out[learning_rate.element] = optimizer->learning_rate;
    if (optimizer->kind == BG_CUSTOM) {
        out[BG_UPDATE_DECAY] = optimizer->weight_decay;
        memcpy(out + BG_UPDATE_OWN, optimizer->numbers, sizeof optimizer->numbers);
    }
    for (uint32_t i = 0; i < SETTING_COUNT; i++)
        if (!settings[i].is_flag && bgi_optimizer_has(optimizer->kind, &settings[i], NULL))
            out[settings[i].element] = bgi_setting_get(&settings[i], optimizer);
}

static bg_status check_setting(const bgi_setting *setting, const bg_optimizer *planned, const bg_optimizer *next,
                               bg_error *error)
{
    const double before = bgi_setting_get(setting, planned), now = bgi_setting_get(setting, next);

    if (before == now || !counts(setting, next))
        return BG_OK;
    if (setting->is_flag)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimizer: %s is %s, but the plan was made with it %s, and the setting is part of the "
                            "plan: make a new plan",
                            setting->name, now > 0 ? "on" : "off", before > 0 ? "on" : "off");
    if (setting->is_fixed || (setting->makes_state && before == 0.0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimizer: %s is %g, but the plan was made with %g%s: make a new plan", setting->name, now,
                            before,
                            setting->is_fixed ? ", and the setting is part of the plan" : " and keeps no state for it");
    return BG_OK;
}

static const char *print_kind(const bg_optimizer *optimizer, char *text)
{
    const char *name = bg_optimizer_name(optimizer->kind);

    bg_optimizer_describe_state(optimizer, text);
    return name != NULL ? name : text;
}

bg_status bgi_optimizer_check_change(const bg_optimizer *planned, const bg_optimizer *next, bg_error *error)
{
    if (next->kind != planned->kind || next->rule != planned->rule) {
        char now[BG_OPTIMIZER_STATE_TEXT_BYTES], before[BG_OPTIMIZER_STATE_TEXT_BYTES];
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimizer: it is %s, but the plan trains with %s: make a new plan", print_kind(next, now),
                            print_kind(planned, before));
    }
    if (next->kind == BG_CUSTOM && next->decay_matrices_only != planned->decay_matrices_only)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "optimizer: decay_matrices_only has changed, but the setting is part of the plan: make a new plan");
    if (next->kind == BG_CUSTOM)
        return BG_OK;
    /* Flags are compared first, because they decide which numbers have an effect. */
    for (uint32_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].is_flag)
            BGI_TRY(check_setting(&settings[i], planned, next, error));
    for (uint32_t i = 0; i < SETTING_COUNT; i++)
        if (!settings[i].is_flag && rows[planned->kind].settings[i].has)
            BGI_TRY(check_setting(&settings[i], planned, next, error));
    return BG_OK;
}

/* ---- ranges ---- */

static bg_status check_range(const bgi_setting *setting, const bg_optimizer *optimizer, bg_error *error)
{
    const double value = bgi_setting_get(setting, optimizer);

    if ((setting->is_above ? value > setting->minimum : value >= setting->minimum) &&
        (setting->is_below ? value < setting->maximum : value <= setting->maximum))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "optimizer: %s is %g; %s", setting->name, value, setting->rule);
}

/* Checks settings that need other settings. In an optimizer without such a setting its value is 0. */
static bg_status check_together(const bg_optimizer *optimizer, bg_error *error)
{
    if (optimizer->nesterov && (optimizer->momentum <= 0.0 || optimizer->dampening != 0.0))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "optimizer: nesterov is set with momentum %g and dampening %g but needs a momentum above 0 (0.9 is usual) "
            "and dampening 0",
            optimizer->momentum, optimizer->dampening);
    if (optimizer->combined && !(optimizer->momentum > 0.0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimizer: combined is set with momentum %g but needs a momentum above 0 (0.9 is usual)",
                            optimizer->momentum);
    return BG_OK;
}

/* ---- the caller's own ---- */

_Static_assert((int)BG_UPDATE_RATE == (int)BGI_HYPER_LEARNING_RATE &&
                   (int)BG_UPDATE_DECAY == (int)BGI_HYPER_WEIGHT_DECAY && (int)BG_UPDATE_SKIP == (int)BGI_HYPER_SKIP &&
                   (int)BG_UPDATE_SKIPPED == (int)BGI_HYPER_SKIPPED && (int)BG_UPDATE_NUMBERS == (int)BGI_HYPER_COUNT &&
                   (int)BG_UPDATE_OWN + 3 == (int)BG_UPDATE_SKIP,
               "custom updates read the same numbers as the library's");

enum { MOST_STATES = 3, MOST_NAME = 40, FIRST_STATE = 4 };

/* Counts the names in a string of ascending names, which consist of letters, digits and _ and are separated by one
 * space; returns UINT32_MAX for other strings. */
static uint32_t count_words(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *before = "";
    size_t before_length = 0;
    uint32_t words = 0;

    while (*text != '\0') {
        const size_t length = strspn(text, letters), least = length < before_length ? length : before_length;
        const int order = memcmp(before, text, least);

        if (length == 0 || length > MOST_NAME || order > 0 || (order == 0 && length <= before_length) ||
            (text[length] == ' ' ? text[length + 1] == '\0' : text[length] != '\0'))
            return UINT32_MAX;
        words++;
        before = text, before_length = length;
        text += length + (text[length] == ' ');
    }
    return words;
}

static const char *find_fault(const bg_update_rule *rule)
{
    const bg_op_type *update = rule->update;
    uint32_t states;

    if (rule->name == NULL || count_words(rule->name) != 1)
        return "its name must consist of at most 40 letters, digits and _";
    if (update == NULL || update->infer == NULL || update->kernel == NULL)
        return "its update must be an op type with a shape rule and a kernel";
    if (rule->attributes == NULL && update->attributes_bytes > 0)
        return "its update has attributes, but the rule gives none";
    states = rule->states != NULL ? count_words(rule->states) : 0;
    if (states > MOST_STATES)
        return "its states must be at most 3 sorted names of letters, digits and _, separated by spaces";
    if (update->minimum_inputs > FIRST_STATE + states || update->maximum_inputs < FIRST_STATE + states ||
        update->output_count != 0)
        return "its update must take four operands and its states, and have no outputs";
    if (update->written_inputs != (1u | ((1u << states) - 1) << FIRST_STATE))
        return "its update must write operand 0, the parameter, and its states, from operand 4 on, and no other";
    return NULL;
}

static bg_status check_custom(const bg_optimizer *optimizer, bg_error *error)
{
    const char *fault;

    if (optimizer->rule == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "optimizer: it is custom, but has no rule; begin with bg_custom");
    fault = find_fault(optimizer->rule);
    if (fault != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "optimizer: %.60s: %s",
                            optimizer->rule->name != NULL ? optimizer->rule->name : "a rule without a name", fault);
    BGI_TRY(check_range(&learning_rate, optimizer, error));
    BGI_TRY(check_range(&settings[NUMBER_OF_weight_decay], optimizer, error));
    for (size_t i = 0; i < sizeof optimizer->numbers / sizeof *optimizer->numbers; i++)
        if (!isfinite(optimizer->numbers[i]))
            return bg_error_set(error, BG_ERROR_INVALID, "optimizer: number %zu of %s is %g; it must be finite", i,
                                optimizer->rule->name, optimizer->numbers[i]);
    return BG_OK;
}

bg_status bg_optimizer_validate(const bg_optimizer *optimizer, bg_error *error)
{
    bg_error_clear(error);

    bg_optimizer own;

    if (optimizer == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimizer: it is missing; training needs one, such as bg_adamw(0.001)");
    BGI_TRY(bgi_struct_check(optimizer->struct_bytes, sizeof *optimizer, "bg_optimizer",
                             "bg_sgd(), bg_adamw() or a similar function", error));
    if (optimizer->kind == BG_CUSTOM)
        return check_custom(optimizer, error);
    if ((unsigned)optimizer->kind >= ROW_COUNT)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "optimizer: kind %d is not one of bg_optimizer_kind; begin with a function such as bg_sgd or bg_adamw",
            (int)optimizer->kind);
    own = bg_optimizer_make(optimizer->kind, optimizer->learning_rate);
    BGI_TRY(check_range(&learning_rate, &own, error));
    for (uint32_t i = 0; i < SETTING_COUNT; i++) {
        if (!rows[optimizer->kind].settings[i].has)
            continue;
        bgi_setting_set(&settings[i], &own, bgi_setting_get(&settings[i], optimizer));
        if (counts(&settings[i], optimizer))
            BGI_TRY(check_range(&settings[i], &own, error));
    }
    return check_together(&own, error);
}

/* ---- state ---- */

static bool has_velocity(const bg_optimizer *optimizer)
{
    return rows[optimizer->kind].settings[NUMBER_OF_momentum].has && optimizer->momentum != 0.0;
}

static bool has_flag(const bg_optimizer *optimizer, uint32_t number)
{
    return rows[optimizer->kind].settings[number].has && bgi_setting_get(&settings[number], optimizer) > 0;
}

void bg_optimizer_describe_state(const bg_optimizer *optimizer, char *text)
{
    static const uint32_t flags[] = {NUMBER_OF_combined, NUMBER_OF_centered, NUMBER_OF_tf_variant};
    const char *separator = ":";
    size_t length;

    if (optimizer->kind == BG_CUSTOM && optimizer->rule != NULL) {
        snprintf(text, BG_OPTIMIZER_STATE_TEXT_BYTES, "custom:%.40s", optimizer->rule->name);
        return;
    }
    if ((unsigned)optimizer->kind >= ROW_COUNT) {
        snprintf(text, BG_OPTIMIZER_STATE_TEXT_BYTES, "?");
        return;
    }
    length = (size_t)snprintf(text, BG_OPTIMIZER_STATE_TEXT_BYTES, "%s", rows[optimizer->kind].name);
    if (has_velocity(optimizer)) {
        length += (size_t)snprintf(text + length, BG_OPTIMIZER_STATE_TEXT_BYTES - length, ":momentum");
        separator = ",";
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const bool is_combined = flags[i] == NUMBER_OF_combined;
        if (!has_flag(optimizer, flags[i]) || (is_combined && !has_velocity(optimizer)))
            continue;
        length += (size_t)snprintf(text + length, BG_OPTIMIZER_STATE_TEXT_BYTES - length, "%s%s", separator,
                                   settings[flags[i]].name);
        if (is_combined)
            length += (size_t)snprintf(text + length, BG_OPTIMIZER_STATE_TEXT_BYTES - length, ",velocity_scaling=%.9g",
                                       optimizer->velocity_scaling);
        separator = ",";
    }
}

const char *bg_optimizer_state_kinds(const bg_optimizer *optimizer)
{
    const optimizer_row *row;
    uint32_t variant;

    if (optimizer->kind == BG_CUSTOM && optimizer->rule != NULL && optimizer->rule->states != NULL)
        return optimizer->rule->states;
    if ((unsigned)optimizer->kind >= ROW_COUNT)
        return "";
    row = &rows[optimizer->kind];
    variant = (has_velocity(optimizer) ? 1u : 0u) | (has_flag(optimizer, NUMBER_OF_centered) ? 2u : 0u);
    return row->state[variant] != NULL ? row->state[variant] : row->state[0];
}

bool bgi_optimizer_variant(uint32_t number, bg_optimizer *out)
{
    enum { MOMENTUM = 1, COMBINED = 2, CENTERED = 4, TF_VARIANT = 8, CHOICES = 16 };

    for (uint32_t kind = 0; kind < ROW_COUNT; kind++)
        for (uint32_t choice = 0; choice < CHOICES; choice++) {
            bg_optimizer optimizer = bg_optimizer_make((bg_optimizer_kind)kind, 1.0);
            optimizer.momentum = (choice & MOMENTUM) != 0 ? 0.9 : 0.0;
            optimizer.combined = (choice & COMBINED) != 0;
            optimizer.centered = (choice & CENTERED) != 0;
            optimizer.tf_variant = (choice & TF_VARIANT) != 0;
            if (((choice & MOMENTUM) != 0 && !rows[kind].settings[NUMBER_OF_momentum].has) ||
                ((choice & COMBINED) != 0 &&
                 !(rows[kind].settings[NUMBER_OF_combined].has && has_velocity(&optimizer))) ||
                ((choice & CENTERED) != 0 && !rows[kind].settings[NUMBER_OF_centered].has) ||
                ((choice & TF_VARIANT) != 0 && !rows[kind].settings[NUMBER_OF_tf_variant].has))
                continue;
            if (number-- > 0)
                continue;
            *out = optimizer;
            return true;
        }
    return false;
}

/* ---- as text ---- */

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

static bg_status refuse_kind(const char *text, size_t length, bg_error *error)
{
    const char *known[ROW_COUNT], *nearest;
    char names[128] = "", wrong[65], lower[65];

    for (size_t i = 0; i < ROW_COUNT; i++) {
        known[i] = rows[i].name;
        strcat(names, i > 0 ? ", " : "");
        strcat(names, rows[i].name);
    }
    snprintf(wrong, sizeof wrong, "%.*s", (int)(length < 64 ? length : 64), text);
    memcpy(lower, wrong, strlen(wrong) + 1);
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strncmp(wrong, known[i], strlen(known[i])) == 0 && wrong[strlen(known[i])] == ',')
            return bg_error_set(error, BG_ERROR_INVALID,
                                "optimizer: there is no `%s`; settings follow a colon: `%s:%s`", wrong, known[i],
                                wrong + strlen(known[i]) + 1);
    for (size_t i = 0; lower[i] != '\0'; i++)
        lower[i] = (char)(lower[i] >= 'A' && lower[i] <= 'Z' ? lower[i] - 'A' + 'a' : lower[i]);
    nearest = bgi_text_nearest(lower, known, ROW_COUNT);
    return bg_error_set(error, BG_ERROR_INVALID, "optimizer: there is no `%s`; the optimizers are %s%s%s%s", wrong,
                        names, nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "`?" : "");
}

static bg_status refuse_field(const char *text, size_t length, bg_optimizer_kind kind, bg_error *error)
{
    char names[256] = "";

    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (rows[kind].settings[i].has) {
            strcat(names, names[0] != '\0' ? ", " : "");
            strcat(names, settings[i].name);
        }
    return bg_error_set(error, BG_ERROR_INVALID, "optimizer: %s has no setting `%.*s`; it has %s", rows[kind].name,
                        (int)(length < 64 ? length : 64), text, names);
}

/* Reads "momentum=0.9" or "nesterov". */
static bg_status read_field(const char *text, size_t length, bg_optimizer *optimizer, bg_error *error)
{
    const char *equals = memchr(text, '=', length);
    const size_t name = equals != NULL ? (size_t)(equals - text) : length;
    const bgi_setting *field = settings;
    char *end = NULL;
    double value;

    while (field < settings + SETTING_COUNT &&
           (!is_word(text, name, field->name) || !bgi_optimizer_has(optimizer->kind, field, NULL)))
        field++;
    if (field == settings + SETTING_COUNT)
        return refuse_field(text, name, optimizer->kind, error);
    if (field->is_flag && equals == NULL) {
        bgi_setting_set(field, optimizer, 1.0);
        return BG_OK;
    }
    value = equals != NULL ? bgi_text_real(equals + 1, &end) : 0.0;
    if (field->is_flag || equals == NULL || equals + 1 == text + length || end != text + length)
        return bg_error_set(error, BG_ERROR_INVALID, "optimizer: `%.*s`; %s", (int)(length < 64 ? length : 64), text,
                            field->is_flag ? "it is a flag without a value" : "it needs a number: name=number");
    bgi_setting_set(field, optimizer, value);
    return BG_OK;
}

bg_status bg_optimizer_parse(const char *text, double rate, bg_optimizer *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(text, "text", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    size_t length = strcspn(text, ":"), kind = 0;
    bg_optimizer optimizer;

    while (kind < ROW_COUNT && !is_word(text, length, rows[kind].name))
        kind++;
    if (kind == ROW_COUNT)
        return refuse_kind(text, length, error);
    optimizer = bg_optimizer_make((bg_optimizer_kind)kind, rate);
    for (text += length; *text != '\0'; text += length) {
        text++;
        length = strcspn(text, ",");
        BGI_TRY(read_field(text, length, &optimizer, error));
    }
    BGI_TRY(bg_optimizer_validate(&optimizer, error));
    *out = optimizer;
    return BG_OK;
}
