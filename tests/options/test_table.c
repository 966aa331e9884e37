/*
 * test_table.c: tests the table of options. Every member of bg_options has one row, rows are complete, and everything
 * derived from them (defaults, copies, equality, keys, text) treats all options in the same way.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/table.h"

static size_t value_bytes(const bgi_option *option)
{
    switch (option->kind) {
    case BGI_OPTION_BOOL:
        return sizeof(bool);
    case BGI_OPTION_COUNT:
    case BGI_OPTION_INTEGER:
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        return 4;
    default:
        return 8;
    }
}

static bool is_list(const bgi_option *option)
{
    return option->kind == BGI_OPTION_COUNTS || option->kind == BGI_OPTION_REALS || option->kind == BGI_OPTION_RECORDS;
}

/* ---- rows ---- */

/* No byte of the struct is in two rows, and bytes in no row are padding: fewer than 8 in succession. A bool between
 * other members could be mistaken for padding, so the test also checks the total. */
static void test_every_member_has_one_row(void **state)
{
    enum { PADDING = 159 };
    unsigned char uses[sizeof(bg_options)] = {0};
    const bgi_option *option;
    size_t unused = 0, run = 0;

    (void)state;
#if UINTPTR_MAX == UINT64_MAX
    memset(uses + offsetof(bg_options, struct_bytes), 1, sizeof(size_t));
    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++) {
        for (size_t b = 0; b < value_bytes(option); b++)
            uses[option->offset + b]++;
        for (size_t b = 0; is_list(option) && b < sizeof(uint32_t); b++)
            uses[option->count_offset + b]++;
    }
    for (size_t b = 0; b < sizeof uses; b++) {
        if (uses[b] > 1)
            fail_msg("byte %zu of bg_options is in %u rows", b, uses[b]);
        unused += uses[b] == 0;
        run = uses[b] == 0 ? run + 1 : 0;
        if (run >= 8)
            fail_msg("bytes %zu to %zu of bg_options are in no row of options.def", b - 7, b);
    }
    if (unused != PADDING)
        fail_msg("%zu bytes of bg_options are in no row; %d are padding: a new member needs a row of options.def",
                 unused, PADDING);
#else
    (void)uses, (void)option, (void)unused, (void)run;
    skip();
#endif
}

static void test_rows_are_whole(void **state)
{
    const bgi_option *option;

    (void)state;
    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++) {
        assert_int_equal(bgi_option_find(option->name), i);
        if (option->poptorch != NULL)
            assert_int_equal(bgi_option_find(option->poptorch), i);
        assert_true(strlen(option->what) > 10);
        assert_true(option->what[strlen(option->what) - 1] != '.');
        assert_true((uint32_t)option->group < BGI_OPTION_GROUPS);
        if (option->kind == BGI_OPTION_CHOICE || option->kind == BGI_OPTION_DTYPE)
            assert_non_null(option->choices);
        if (option->kind == BGI_OPTION_RECORDS)
            assert_non_null(option->record);
        if (option->is_bounded) {
            assert_non_null(option->rule);
            assert_true(option->minimum <= option->maximum);
        }
        assert_int_equal(option->flag != NULL, option->commands != 0);
        assert_non_null(option->path);
        if (option->flag != NULL) {
            assert_null(strchr(option->flag, '_'));
            assert_true(bgi_option_find_flag(option->flag, (bgi_command)option->commands) <= i);
        }
        for (uint32_t j = 0; j < i; j++)
            assert_true(bgi_option_at(j)->group <= option->group);
    }
    assert_null(bgi_option_at(UINT32_MAX));
    assert_int_equal(bgi_option_find("no such option"), UINT32_MAX);
}

/* ---- text ---- */

/* A printed default can be parsed. Another value changes the struct, which then compares unequal. */
static void test_text_goes_both_ways(void **state)
{
    static const char *const others[] = {[BGI_OPTION_BOOL] = NULL,        [BGI_OPTION_COUNT] = "7",
                                         [BGI_OPTION_SIZE] = "12345",     [BGI_OPTION_SEED] = "18446744073709551615",
                                         [BGI_OPTION_INTEGER] = "3",      [BGI_OPTION_REAL] = "0.75",
                                         [BGI_OPTION_SCHEDULE] = "gpipe", [BGI_OPTION_TEXT] = "a b",
                                         [BGI_OPTION_COUNTS] = "0,1,1,0", [BGI_OPTION_REALS] = "0.5,0.25"};
    const bg_options defaults = bg_options_defaults();
    const bgi_option *option;
    bgi_arena arena = {0};
    uint32_t count = 0;

    (void)state;
    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++) {
        bg_options options = defaults;
        bgi_string before = {0}, after = {0};
        bg_error error = {0};
        const char *other = (uint32_t)option->kind < sizeof others / sizeof others[0] ? others[option->kind] : NULL;

        if (!bgi_option_has_text(option)) {
            assert_int_equal(bgi_option_set(option, &options, &arena, "1", &error), BG_ERROR_UNSUPPORTED);
            continue;
        }
        bgi_option_print(option, &defaults, &before);
        assert_int_equal(bgi_option_set(option, &options, &arena, before.data != NULL ? before.data : "", &error),
                         BG_OK);
        assert_true(bgi_options_equal(&options, &defaults));
        if (option->kind == BGI_OPTION_BOOL)
            other = strcmp(before.data, "true") == 0 ? "false" : "true";
        for (uint32_t v = 0; other == NULL && v < option->choices->count; v++)
            if (option->choices->names[v] != NULL && strcmp(option->choices->names[v], before.data) != 0)
                other = option->choices->names[v];
        assert_int_equal(bgi_option_set(option, &options, &arena, other, &error), BG_OK);
        bgi_option_print(option, &options, &after);
        assert_string_equal(after.data, other);
        if (bgi_options_equal(&options, &defaults))
            fail_msg("`%s` = %s makes no difference", option->name, other);
        bgi_string_clear(&before);
        bgi_string_clear(&after);
        count++;
    }
    assert_true(count > 60);
    bgi_arena_clear(&arena);
}

/* Other programs' names of a value are accepted, and the value is printed with Brigade's name. */
static void test_other_names_are_understood(void **state)
{
    static const char *const names[][2] = {
        {"32-true", "32"}, {"16", "16-mixed"}, {"bf16", "bf16-mixed"}, {"BF16-True", "bf16-true"}};
    const bgi_option *option = bgi_option_at(bgi_option_find("precision"));
    bgi_arena arena = {0};

    (void)state;
    assert_non_null(option);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        bgi_string text = {0};

        assert_int_equal(bgi_option_set(option, &options, &arena, names[i][0], &error), BG_OK);
        bgi_option_print(option, &options, &text);
        assert_string_equal(text.data, names[i][1]);
        bgi_string_clear(&text);
        assert_int_equal(bgi_option_set(option, &options, &arena, "64", &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, "32, bf16-mixed, 16-mixed, bf16-true, 16-true"));
    }
    bgi_arena_clear(&arena);
}

static void test_wrong_text_is_refused(void **state)
{
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"replicas", "-1", "option `replicas` is `-1`; it must be a whole number below 2^32"},
        {"replicas", "4294967296", "below 2^32"},
        {"seed", "18446744073709551616", "below 2^64"},
        {"io_threads", "x", "a whole number"},
        {"loss_scaling", "nan", "a number"},
        {"loss_scaling", "0x10", "a number"},
        {"trace", "yes", "true or false"},
        {"strategy", "piped", "single, sharded, pipelined, phased"},
        {"accumulator_type", "callback", "default, same, given"},
        {"schedule", "zigzag", "a schedule's name"},
        {"log_dir", "\xff", "UTF-8"},
        {"device_mapping", "0,x", "a list of whole numbers"},
        {"matmul_proportions", "0.5,", NULL},
    };
    bgi_arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = bg_options_defaults();
        const bgi_option *option = bgi_option_at(bgi_option_find(cases[i].name));
        bg_error error = {0};
        const bg_status status = bgi_option_set(option, &options, &arena, cases[i].text, &error);

        assert_int_equal(status, cases[i].words == NULL ? BG_OK : BG_ERROR_INVALID);
        if (cases[i].words != NULL && strstr(error.message, cases[i].words) == NULL)
            fail_msg("`%s` instead of `%s`", error.message, cases[i].words);
    }
    bgi_arena_clear(&arena);
}

/* ---- copies, equality, keys ---- */

typedef struct filled {
    bg_options options;
    uint32_t mapping[2];
    bg_device_model devices[2];
    bg_block_cost costs[1];
    bg_output_request requests[1];
    bg_location_rule rules[1];
    char stages[8], block[8], output[8], pattern[8];
} filled;

static void fill(filled *f)
{
    memset(f, 0, sizeof *f);
    f->options = bg_options_defaults();
    strcpy(f->stages, "A|B");
    strcpy(f->block, "A");
    strcpy(f->output, "y");
    strcpy(f->pattern, "w*");
    f->mapping[1] = 1;
    f->devices[0].speed = f->devices[1].speed = 2.0;
    f->costs[0] = (bg_block_cost){.name = f->block, .forward_ns = 3.0};
    f->requests[0] = (bg_output_request){.output = f->output, .mode = BG_OUTPUT_ALL};
    f->rules[0] = (bg_location_rule){.classes = 2, .pattern = f->pattern, .location = {.place = BG_PLACE_REMOTE}};
    f->options.execution.stages = f->stages;
    f->options.execution.device_mapping = f->mapping;
    f->options.execution.device_mapping_count = 2;
    f->options.execution.devices = f->devices;
    f->options.execution.device_model_count = 2;
    f->options.execution.block_costs = f->costs;
    f->options.execution.block_cost_count = 1;
    f->options.reporting.output_requests = f->requests;
    f->options.reporting.output_request_count = 1;
    f->options.memory.location_rules = f->rules;
    f->options.memory.location_rule_count = 1;
}

static size_t key_of(const bg_options *options, unsigned char **out)
{
    bgi_archive key;
    size_t size_bytes;

    bgi_archive_begin_writing(&key);
    bgi_options_write_key(options, &key);
    size_bytes = key.size_bytes;
    *out = malloc(size_bytes);
    assert_non_null(*out);
    memcpy(*out, key.data, size_bytes);
    bgi_archive_end(&key);
    return size_bytes;
}

static bool has_same_key(const bg_options *a, const bg_options *b)
{
    unsigned char *key_a, *key_b;
    const size_t size_a = key_of(a, &key_a), size_b = key_of(b, &key_b);
    const bool is_same = size_a == size_b && memcmp(key_a, key_b, size_a) == 0;

    free(key_a);
    free(key_b);
    return is_same;
}

/* A copy does not change when everything that the original points to changes. */
static void test_copies_are_deep(void **state)
{
    filled original, same;
    bgi_arena arena = {0};
    bg_options copy;

    (void)state;
    fill(&original);
    fill(&same);
    assert_int_equal(bgi_options_copy(&arena, &original.options, &copy, NULL), BG_OK);
    assert_true(bgi_options_equal(&copy, &same.options));
    assert_true(has_same_key(&copy, &same.options));
    strcpy(original.stages, "B|A");
    strcpy(original.block, "Z");
    strcpy(original.output, "z");
    strcpy(original.pattern, "b*");
    original.mapping[1] = 0;
    original.devices[1].memory_bytes = 5;
    original.costs[0].forward_ns = 4.0;
    assert_true(bgi_options_equal(&copy, &same.options));
    assert_false(bgi_options_equal(&original.options, &same.options));
    bgi_arena_clear(&arena);
}

/* Each array or string that the options point to affects equality and the key. */
static void test_what_is_pointed_to_counts(void **state)
{
    filled a, b;

    (void)state;
#define EXPECT_DIFFERENT(change)                                                                                       \
    fill(&a);                                                                                                          \
    fill(&b);                                                                                                          \
    assert_true(bgi_options_equal(&a.options, &b.options) && has_same_key(&a.options, &b.options));                    \
    change;                                                                                                            \
    assert_false(bgi_options_equal(&a.options, &b.options));                                                           \
    assert_false(has_same_key(&a.options, &b.options))
    EXPECT_DIFFERENT(strcpy(b.stages, "A|C"));
    EXPECT_DIFFERENT(b.options.execution.stages = NULL);
    EXPECT_DIFFERENT(b.mapping[0] = 1);
    EXPECT_DIFFERENT(b.options.execution.device_mapping_count = 1);
    EXPECT_DIFFERENT(b.devices[1].speed = 3.0);
    EXPECT_DIFFERENT(strcpy(b.block, "C"));
    EXPECT_DIFFERENT(b.costs[0].weights_ns = 1.0);
    EXPECT_DIFFERENT(b.requests[0].period = 2);
    EXPECT_DIFFERENT(b.requests[0].name = b.block);
    EXPECT_DIFFERENT(strcpy(b.pattern, "w?"));
    EXPECT_DIFFERENT(b.rules[0].location.on_demand = true);
#undef EXPECT_DIFFERENT
    /* Options that do not affect the plan are not in the key. */
    fill(&a);
    fill(&b);
    b.options.numerics.seed = 9;
    assert_false(bgi_options_equal(&a.options, &b.options));
    assert_true(has_same_key(&a.options, &b.options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_member_has_one_row),   cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_text_goes_both_ways),        cmocka_unit_test(test_wrong_text_is_refused),
        cmocka_unit_test(test_other_names_are_understood), cmocka_unit_test(test_copies_are_deep),
        cmocka_unit_test(test_what_is_pointed_to_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
