/*
 * table.c: the rows of options.def, and functions for all rows: defaults, copies, equality, ranges, keys. The kind of
 * an option determines how its bytes are copied, compared and written. Some options are arrays of structs, whose
 * members have rows too and are handled in the same way.
 */
#include "options/table.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "options/choices.h"

/* Values of enumerations are ints in memory. */
_Static_assert(sizeof(bg_strategy) == sizeof(int) && sizeof(bg_output_mode) == sizeof(int) &&
                   sizeof(bg_dtype) == sizeof(int),
               "enumerators are ints");

/* ---- members of records ---- */

#define MEMBER(type, member, option_kind, ...)                                                                         \
    {                                                                                                                  \
        .name = #member, .kind = BGI_OPTION_##option_kind, .offset = offsetof(type, member), .shapes_plan = true,      \
        __VA_ARGS__                                                                                                    \
    }
#define RECORD(label, type)                                                                                            \
    static const bgi_record label##_record = {sizeof(type), label##_members,                                           \
                                              sizeof label##_members / sizeof label##_members[0]};
#define TIME(type, member)                                                                                             \
    MEMBER(type, member, REAL, .is_bounded = true, .maximum = DBL_MAX, .rule = "times must be at least 0")

static const bgi_option device_members[] = {
    MEMBER(bg_device_model, speed, REAL, .is_bounded = true, .is_above = true, .maximum = DBL_MAX,
           .rule = "it must be above 0 (1 is the usual speed)"),
    MEMBER(bg_device_model, memory_bytes, SIZE, .unit = "bytes"),
};
RECORD(device, bg_device_model)

static const bgi_option stage_cost_members[] = {
    TIME(bg_stage_cost, forward_ns), TIME(bg_stage_cost, backward_ns),  TIME(bg_stage_cost, weights_ns),
    TIME(bg_stage_cost, update_ns),  TIME(bg_stage_cost, recompute_ns),
};
RECORD(stage_cost, bg_stage_cost)

static const bgi_option block_cost_members[] = {
    MEMBER(bg_block_cost, name, TEXT, .is_bounded = true, .rule = "it must name a block of the graph"),
    TIME(bg_block_cost, forward_ns),
    TIME(bg_block_cost, backward_ns),
    TIME(bg_block_cost, weights_ns),
};
RECORD(block_cost, bg_block_cost)

static const bgi_option request_members[] = {
    MEMBER(bg_output_request, output, TEXT, .is_bounded = true, .rule = "it must name an output or an op of the graph"),
    MEMBER(bg_output_request, name, TEXT, .rule = NULL),
    MEMBER(bg_output_request, mode, CHOICE, .choices = &bgi_output_mode_choices,
           .rule = "it must be one of the bg_output_mode values"),
    MEMBER(bg_output_request, period, COUNT, .rule = NULL),
};
RECORD(request, bg_output_request)

static const bgi_option rule_members[] = {
    MEMBER(bg_location_rule, classes, COUNT, .is_bounded = true, .minimum = 1, .maximum = (1u << BG_LOCATION_COUNT) - 1,
           .rule = "it must be bits 1 << bg_location_class"),
    MEMBER(bg_location_rule, pattern, TEXT, .is_bounded = true,
           .rule = "it must be a pattern; \"*\" matches every name"),
    MEMBER(bg_location_rule, location.place, CHOICE, .choices = &bgi_place_choices,
           .rule = "it must be BG_PLACE_DEFAULT, _DEVICE or _REMOTE"),
    MEMBER(bg_location_rule, location.sharded, BOOL, .rule = NULL),
    MEMBER(bg_location_rule, location.minimum_elements_remote, SIZE, .rule = NULL),
    MEMBER(bg_location_rule, location.minimum_elements_sharded, SIZE, .rule = NULL),
    MEMBER(bg_location_rule, location.on_demand, BOOL, .rule = NULL),
};
RECORD(rule, bg_location_rule)

/* ---- the table ---- */

#define KEY   true
#define FREE  false
#define MNIST BGI_COMMAND_MNIST
#define GPT   BGI_COMMAND_GPT
#define OPTION(option_group, label, member, option_kind, value, key, ...)                                              \
    {.name = label,                                                                                                    \
     .group = BGI_OPTIONS_##option_group,                                                                              \
     .kind = BGI_OPTION_##option_kind,                                                                                 \
     .path = #member,                                                                                                  \
     .offset = offsetof(bg_options, member),                                                                           \
     .standard = (double)(value),                                                                                      \
     .shapes_plan = key,                                                                                               \
     .what = __VA_ARGS__},
#define LIST(option_group, label, member, count_member, option_kind, key, ...)                                         \
    {.name = label,                                                                                                    \
     .group = BGI_OPTIONS_##option_group,                                                                              \
     .kind = BGI_OPTION_##option_kind,                                                                                 \
     .path = #member,                                                                                                  \
     .offset = offsetof(bg_options, member),                                                                           \
     .count_offset = offsetof(bg_options, count_member),                                                               \
     .count_name = #count_member,                                                                                      \
     .shapes_plan = key,                                                                                               \
     .what = __VA_ARGS__},
#define POINTER(option_group, label, member, key, sentence)                                                            \
    {.name = label,                                                                                                    \
     .group = BGI_OPTIONS_##option_group,                                                                              \
     .kind = BGI_OPTION_POINTER,                                                                                       \
     .path = #member,                                                                                                  \
     .offset = offsetof(bg_options, member),                                                                           \
     .shapes_plan = key,                                                                                               \
     .what = sentence},
/* The rows of the options for a class of tensors. */
#define LOCATION(label, tensors, class, is_on_demand, place_elsewhere, shard_elsewhere)                                \
    OPTION(MEMORY, "place_" label, memory.locations[class].place, CHOICE, BG_PLACE_DEFAULT, KEY,                       \
           "where " tensors " are stored", .choices = &bgi_place_choices, .flag = "offload", .commands = MNIST | GPT,  \
           .rule = "it must be BG_PLACE_DEFAULT, _DEVICE or _REMOTE",                                                  \
           .costs = "remote: transfers between the device and remote memory", .elsewhere = place_elsewhere)            \
    OPTION(MEMORY, "shard_" label, memory.locations[class].sharded, BOOL, false, KEY,                                  \
           "each replica keeps a piece of " tensors, .flag = "shard", .commands = MNIST | GPT,                         \
           .costs = "replicas exchange their pieces", .elsewhere = shard_elsewhere)                                    \
    OPTION(MEMORY, "minimum_remote_" label, memory.locations[class].minimum_elements_remote, SIZE, 2, KEY,             \
           "smaller " tensors " stay on the device", .unit = "elements", .flag = "offload-minimum", .commands = MNIST) \
    OPTION(MEMORY, "minimum_sharded_" label, memory.locations[class].minimum_elements_sharded, SIZE, 8192, KEY,        \
           "smaller " tensors " stay whole", .unit = "elements", .flag = "shard-minimum", .commands = MNIST)           \
    OPTION(MEMORY, "on_demand_" label, memory.locations[class].on_demand, BOOL, is_on_demand, KEY,                     \
           "remote " tensors " are loaded when they are needed instead of earlier, in parallel with other work",       \
           .costs = "devices wait for the loads")

static const bgi_option rows[] = {
#include "options/options.def"
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const bgi_option *bgi_option_at(uint32_t number)
{
    return number < ROW_COUNT ? &rows[number] : NULL;
}

uint32_t bgi_option_find(const char *name)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0 || (rows[i].poptorch != NULL && strcmp(rows[i].poptorch, name) == 0))
            return i;
    return UINT32_MAX;
}

uint32_t bgi_option_find_flag(const char *flag, bgi_command command)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].flag != NULL && (rows[i].commands & command) != 0 && strcmp(rows[i].flag, flag) == 0)
            return i;
    return UINT32_MAX;
}

bool bgi_option_has_text(const bgi_option *option)
{
    return option->kind != BGI_OPTION_RECORDS && option->kind != BGI_OPTION_POINTER && !option->is_for_c;
}

const char *bgi_option_group_name(bgi_option_group group)
{
    static const char *const names[] = {"execution", "memory", "replicas", "numerics", "files", "reporting"};

    return (uint32_t)group < BGI_OPTION_GROUPS ? names[group] : "none";
}

/* ---- members in memory ---- */

static const void *at_of(const bgi_option *option, const void *base)
{
    return (const char *)base + option->offset;
}

static uint32_t count_of(const bgi_option *option, const void *base)
{
    return *(const uint32_t *)(const void *)((const char *)base + option->count_offset);
}

static const char *elements_of(const bgi_option *option, const void *base)
{
    return *(const char *const *)at_of(option, base);
}

static bool is_list(const bgi_option *option)
{
    return option->kind == BGI_OPTION_COUNTS || option->kind == BGI_OPTION_REALS || option->kind == BGI_OPTION_RECORDS;
}

static bool is_text(const bgi_option *option)
{
    return option->kind == BGI_OPTION_TEXT || option->kind == BGI_OPTION_SCHEDULE;
}

static size_t element_bytes(const bgi_option *option)
{
    return option->kind == BGI_OPTION_COUNTS  ? sizeof(uint32_t)
           : option->kind == BGI_OPTION_REALS ? sizeof(double)
                                              : option->record->size_bytes;
}

/* Makes a row that describes one element of a list. */
static bgi_option element_row(const bgi_option *list)
{
    bgi_option element = *list;

    element.kind = list->kind == BGI_OPTION_COUNTS ? BGI_OPTION_COUNT : BGI_OPTION_REAL;
    element.offset = 0;
    return element;
}

static size_t value_bytes(const bgi_option *option)
{
    switch (option->kind) {
    case BGI_OPTION_BOOL:
        return sizeof(bool);
    case BGI_OPTION_COUNT:
        return sizeof(uint32_t);
    case BGI_OPTION_SIZE:
        return sizeof(size_t);
    case BGI_OPTION_SEED:
        return sizeof(uint64_t);
    case BGI_OPTION_INTEGER:
        return sizeof(int32_t);
    case BGI_OPTION_REAL:
        return sizeof(double);
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        return sizeof(int);
    default:
        return sizeof(void *);
    }
}

void bgi_option_copy(const bgi_option *option, const bg_options *from, bg_options *to)
{
    memcpy((char *)to + option->offset, at_of(option, from), value_bytes(option));
    if (is_list(option))
        memcpy((char *)to + option->count_offset, (const char *)from + option->count_offset, sizeof(uint32_t));
}

/* ---- defaults ---- */

static void set_standard(const bgi_option *option, bg_options *options)
{
    void *at = (char *)options + option->offset;

    switch (option->kind) {
    case BGI_OPTION_BOOL:
        *(bool *)at = option->standard > 0;
        break;
    case BGI_OPTION_COUNT:
        *(uint32_t *)at = (uint32_t)option->standard;
        break;
    case BGI_OPTION_SIZE:
        *(size_t *)at = (size_t)option->standard;
        break;
    case BGI_OPTION_SEED:
        *(uint64_t *)at = (uint64_t)option->standard;
        break;
    case BGI_OPTION_INTEGER:
        *(int32_t *)at = (int32_t)option->standard;
        break;
    case BGI_OPTION_REAL:
        *(double *)at = option->standard;
        break;
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        *(int *)at = (int)option->standard;
        break;
    default:
        break;
    }
}

void bg_options_init(bg_options *options, size_t struct_bytes)
{
    bg_options made = {.struct_bytes = struct_bytes};

    for (uint32_t i = 0; i < ROW_COUNT; i++)
        set_standard(&rows[i], &made);
    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

bg_status bgi_options_check_made(const bg_options *options, bg_error *error)
{
    if (options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "options: the pointer is NULL; begin with bg_options_defaults()");
    if (options->struct_bytes != sizeof *options)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: the struct has %zu bytes, but in release %s of the library it has %zu; begin "
                            "with bg_options_defaults(), and compile the program for the library that it runs "
                            "with",
                            options->struct_bytes, bg_version(), sizeof *options);
    return BG_OK;
}

/* ---- copies ---- */

static bg_status copy_member(bgi_arena *arena, const bgi_option *option, void *base, bg_error *error);

static bg_status copy_text(bgi_arena *arena, const char **text, bg_error *error)
{
    if (*text == NULL)
        return BG_OK;
    *text = bgi_arena_string(arena, *text);
    return *text != NULL ? BG_OK : bgi_error_memory(error, "options", 0);
}

static bg_status copy_list(bgi_arena *arena, const bgi_option *option, void *base, bg_error *error)
{
    const size_t size_bytes = count_of(option, base) * element_bytes(option);
    const char *from = elements_of(option, base);
    char *copy;

    if (from == NULL)
        return BG_OK;
    copy = bgi_arena_copy(arena, from, size_bytes);
    if (copy == NULL)
        return bgi_error_memory(error, "options", size_bytes);
    *(const void **)(void *)((char *)base + option->offset) = copy;
    for (uint32_t i = 0; option->kind == BGI_OPTION_RECORDS && i < count_of(option, base); i++)
        for (uint32_t m = 0; m < option->record->member_count; m++)
            BGI_TRY(copy_member(arena, &option->record->members[m], copy + i * option->record->size_bytes, error));
    return BG_OK;
}

static bg_status copy_member(bgi_arena *arena, const bgi_option *option, void *base, bg_error *error)
{
    if (is_text(option))
        return copy_text(arena, (const char **)(void *)((char *)base + option->offset), error);
    return is_list(option) ? copy_list(arena, option, base, error) : BG_OK;
}

bg_status bgi_options_copy(bgi_arena *arena, const bg_options *from, bg_options *out, bg_error *error)
{
    bg_options made = *from;

    for (uint32_t i = 0; i < ROW_COUNT; i++)
        BGI_TRY(copy_member(arena, &rows[i], &made, error));
    *out = made;
    return BG_OK;
}

/* ---- equality ---- */

static bool are_equal(const bgi_option *option, const void *a, const void *b);

static bool are_texts_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool are_lists_equal(const bgi_option *option, const void *a, const void *b)
{
    const char *elements_a = elements_of(option, a), *elements_b = elements_of(option, b);
    const uint32_t count = elements_a != NULL ? count_of(option, a) : 0;
    const size_t size_bytes = element_bytes(option);

    if (count != (elements_b != NULL ? count_of(option, b) : 0))
        return false;
    if (option->kind != BGI_OPTION_RECORDS)
        return count == 0 || memcmp(elements_a, elements_b, count * size_bytes) == 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t m = 0; m < option->record->member_count; m++)
            if (!are_equal(&option->record->members[m], elements_a + i * size_bytes, elements_b + i * size_bytes))
                return false;
    return true;
}

static bool are_equal(const bgi_option *option, const void *a, const void *b)
{
    if (is_text(option))
        return are_texts_equal(elements_of(option, a), elements_of(option, b));
    if (is_list(option))
        return are_lists_equal(option, a, b);
    return memcmp(at_of(option, a), at_of(option, b), value_bytes(option)) == 0;
}

bool bgi_option_is_equal(const bgi_option *option, const bg_options *a, const bg_options *b)
{
    return are_equal(option, a, b);
}

bool bgi_options_equal(const bg_options *a, const bg_options *b)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (!are_equal(&rows[i], a, b))
            return false;
    return true;
}

/* ---- keys ---- */

static void put_u64(bgi_archive *key, uint64_t value)
{
    bgi_archive_u64(key, &value);
}

static void write_member(bgi_archive *key, const bgi_option *option, const void *base)
{
    const char *elements;
    uint32_t count;
    double real;

    if (is_text(option)) {
        elements = elements_of(option, base);
        bgi_archive_text(key, &elements);
        return;
    }
    switch (option->kind) {
    case BGI_OPTION_BOOL:
        put_u64(key, *(const bool *)at_of(option, base));
        break;
    case BGI_OPTION_COUNT:
        put_u64(key, *(const uint32_t *)at_of(option, base));
        break;
    case BGI_OPTION_SIZE:
        put_u64(key, *(const size_t *)at_of(option, base));
        break;
    case BGI_OPTION_SEED:
        put_u64(key, *(const uint64_t *)at_of(option, base));
        break;
    case BGI_OPTION_INTEGER:
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        put_u64(key, (uint64_t) * (const int32_t *)at_of(option, base));
        break;
    case BGI_OPTION_REAL:
        real = *(const double *)at_of(option, base);
        bgi_archive_double(key, &real);
        break;
    default:
        count = option->kind == BGI_OPTION_POINTER ? 0 : count_of(option, base);
        elements = count > 0 ? elements_of(option, base) : NULL;
        put_u64(key, count);
        for (uint32_t i = 0; i < count; i++) {
            const bgi_option element = option->kind == BGI_OPTION_RECORDS ? *option : element_row(option);
            if (option->kind != BGI_OPTION_RECORDS)
                write_member(key, &element, elements + i * element_bytes(option));
            for (uint32_t m = 0; option->kind == BGI_OPTION_RECORDS && m < option->record->member_count; m++)
                write_member(key, &option->record->members[m], elements + i * option->record->size_bytes);
        }
    }
}

void bgi_options_write_key(const bg_options *options, bgi_archive *key)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].shapes_plan)
            write_member(key, &rows[i], options);
}

/* ---- ranges ---- */

typedef struct range_check {
    void (*report)(void *user, const char *line);
    void *user;
} range_check;

static void refuse(const range_check *check, const char *place, const bgi_option *option, const char *value)
{
    char line[BG_ERROR_MESSAGE_BYTES];

    snprintf(line, sizeof line, "%s is %s; %s", place, value,
             option->rule != NULL ? option->rule : "the value is out of range");
    check->report(check->user, line);
}

static bool is_inside(const bgi_option *option, double value)
{
    return (option->is_above ? value > option->minimum : value >= option->minimum) && value <= option->maximum;
}

static void check_choice(const range_check *check, const char *place, const bgi_option *option, int value)
{
    char text[24];

    if (value >= 0 && (uint32_t)value < option->choices->count &&
        (option->choices->names[value] != NULL || option->kind == BGI_OPTION_CHOICE))
        return;
    snprintf(text, sizeof text, "%d", value);
    refuse(check, place, option, option->kind == BGI_OPTION_DTYPE ? bg_dtype_name((bg_dtype)value) : text);
}

static void check_member(const range_check *check, const char *place, const bgi_option *option, const void *base);

static void check_list(const range_check *check, const bgi_option *option, const void *base)
{
    const char *elements = elements_of(option, base);
    const uint32_t count = count_of(option, base);
    char place[96], line[256];

    if (elements == NULL && count > 0) {
        snprintf(line, sizeof line, "%s is %u but %s is NULL; give both or neither", option->count_name, count,
                 option->name);
        check->report(check->user, line);
    }
    if (elements != NULL && count == 0 && !option->may_be_empty) {
        snprintf(line, sizeof line, "%s is 0 but %s is given; give both or neither", option->count_name, option->name);
        check->report(check->user, line);
    }
    for (uint32_t i = 0; elements != NULL && i < count; i++) {
        const char *element = elements + i * element_bytes(option);
        if (option->kind != BGI_OPTION_RECORDS) {
            const bgi_option row = element_row(option);
            snprintf(place, sizeof place, "%s[%u]", option->name, i);
            check_member(check, place, &row, element);
        }
        for (uint32_t m = 0; option->kind == BGI_OPTION_RECORDS && m < option->record->member_count; m++) {
            const bgi_option *member = &option->record->members[m];
            snprintf(place, sizeof place, "%s[%u].%s", option->name, i, member->name);
            check_member(check, place, member, element);
        }
    }
}

static void check_member(const range_check *check, const char *place, const bgi_option *option, const void *base)
{
    const void *at = at_of(option, base);
    double value = 0.0;
    char text[32];

    if (is_list(option)) {
        check_list(check, option, base);
        return;
    }
    if (option->kind == BGI_OPTION_CHOICE || option->kind == BGI_OPTION_DTYPE) {
        check_choice(check, place, option, *(const int *)at);
        return;
    }
    if (!option->is_bounded)
        return;
    if (is_text(option)) {
        if (elements_of(option, base) == NULL || elements_of(option, base)[0] == '\0')
            refuse(check, place, option, elements_of(option, base) == NULL ? "NULL" : "\"\"");
        return;
    }
    if (option->kind == BGI_OPTION_COUNT)
        value = *(const uint32_t *)at;
    else if (option->kind == BGI_OPTION_INTEGER)
        value = *(const int32_t *)at;
    else if (option->kind == BGI_OPTION_REAL)
        value = *(const double *)at;
    if (is_inside(option, value))
        return;
    snprintf(text, sizeof text, "%g", value);
    if (option->kind == BGI_OPTION_COUNT)
        snprintf(text, sizeof text, "%u", *(const uint32_t *)at);
    refuse(check, place, option, text);
}

void bgi_options_check_ranges(const bg_options *options, void (*report)(void *user, const char *line), void *user)
{
    const range_check check = {report, user};

    for (uint32_t i = 0; i < ROW_COUNT; i++)
        check_member(&check, rows[i].name, &rows[i], options);
}
