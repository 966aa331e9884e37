/*
 * test_draw.c: the SVG of a schedule is well-formed for all titles, and boxes are placed by time and device. Input that
 * cannot be drawn is an error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"

#include <math.h>
#include <stdio.h>

/* Checks that tags are balanced, that every attribute has quotation marks, and that all characters are valid in XML.
 * The check covers the XML that such diagrams use and is independent of the drawing code. */
static void assert_well_formed(const char *text)
{
    char open[16][32];
    size_t depth = 0;

    for (const char *at = text; *at != '\0'; at++) {
        char name[32];
        size_t length, quotes = 0;
        const char *end;
        if (*at == '&')
            assert_true(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0);
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_int_not_equal(*at, '>');
        if (*at != '<')
            continue;
        end = strchr(at, '>');
        assert_non_null(end);
        at += at[1] == '/' ? 2 : 1;
        length = strcspn(at, " />");
        assert_in_range(length, 1, sizeof name - 1);
        memcpy(name, at, length);
        name[length] = '\0';
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        if (at[-1] == '/') {
            assert_true(depth > 0);
            assert_string_equal(name, open[--depth]);
        } else if (end[-1] != '/') {
            assert_in_range(depth, 0, 15);
            strcpy(open[depth++], name);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

typedef struct drawing {
    test_problem test;
    bg_schedule *schedule;
    bg_schedule_timing timing;
    char *text;
} drawing;

static void make(drawing *it, uint32_t stages, uint32_t devices, const bg_schedule_svg_options *options)
{
    bg_error error = {0};

    memset(it, 0, sizeof *it);
    assert_true(test_chain(&it->test, stages, 4, true));
    it->test.problem.device_count = devices;
    for (uint32_t stage = 0; stage < stages; stage++)
        it->test.devices[stage] = stage % devices;
    assert_int_equal(
        bg_schedule_create(&it->test.problem, bg_schedule_generator_find("grouped"), &it->schedule, &error), BG_OK);
    assert_int_equal(bg_schedule_simulate(it->schedule, &it->test.problem, &it->timing, &error), BG_OK);
    if (bg_schedule_draw_svg(&it->test.problem, &it->timing, options, &it->text, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_well_formed(it->text);
}

static void clear(drawing *it)
{
    free(it->text);
    bg_schedule_timing_clear(&it->timing);
    bg_schedule_destroy(it->schedule);
    test_problem_clear(&it->test);
}

static void test_a_box_for_each_action(void **state)
{
    drawing it;

    (void)state;
    make(&it, 3, 3, NULL);
    assert_int_equal(count(it.text, "<rect class=\"F"), 3 * 4 + 1); /* and one of the legend */
    assert_int_equal(count(it.text, "<rect class=\"B"), 3 * 4 + 1);
    assert_int_equal(count(it.text, "<rect class=\"W"), 0);
    assert_int_equal(count(it.text, ">device "), 3);
    assert_int_equal(count(it.text, "class=\"number\""), 2 * 3 * 4);
    assert_int_equal(count(it.text, "marker"), 0);
    clear(&it);
    make(&it, 4, 2, NULL);
    assert_non_null(strstr(it.text, ">3.2</text>")); /* stage.micro-batch */
    clear(&it);
}

/* Each message is an arrow from its SEND to its RECEIVE. */
static void test_messages_and_titles(void **state)
{
    const bg_schedule_svg_options options = {.title = "a < b & \"c\" > d\n\x01", .shows_messages = true};
    drawing it;

    (void)state;
    make(&it, 3, 3, &options);
    assert_int_equal(count(it.text, "<path class=\"message\" stroke-width"), 2 * 2 * 4);
    assert_int_equal(count(it.text, "a &lt; b &amp; \"c\" &gt; d  <"), 2);
    clear(&it);
}

static void test_small_boxes_have_no_numbers(void **state)
{
    const bg_schedule_svg_options options = {.width = 200};
    drawing it;

    (void)state;
    make(&it, 3, 3, &options);
    assert_int_equal(count(it.text, "class=\"number\""), 0);
    assert_non_null(strstr(it.text, "width=\"200\""));
    clear(&it);
}

static void test_refusals(void **state)
{
    const bg_schedule_svg_options wide = {.width = 1000000};
    drawing it;
    char *text = NULL;
    bg_error error = {0};

    (void)state;
    make(&it, 3, 3, NULL);
    assert_int_equal(bg_schedule_draw_svg(NULL, &it.timing, NULL, &text, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_schedule_draw_svg(&it.test.problem, NULL, NULL, &text, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_schedule_draw_svg(&it.test.problem, &it.timing, &wide, &text, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the width is 1000000 pixels; it must be at most"));
    bg_error_clear(&error);
    it.timing.events[3].action.stage = 7;
    assert_int_equal(bg_schedule_draw_svg(&it.test.problem, &it.timing, NULL, &text, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "event 3 (stage 7 on device"));
    it.timing.events[3].action.stage = 0;
    it.timing.events[3].end = NAN;
    assert_int_equal(bg_schedule_draw_svg(&it.test.problem, &it.timing, NULL, &text, NULL), BG_ERROR_INVALID);
    it.timing.makespan = INFINITY;
    assert_int_equal(bg_schedule_draw_svg(&it.test.problem, &it.timing, NULL, &text, NULL), BG_ERROR_INVALID);
    assert_null(text);
    clear(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_box_for_each_action),
        cmocka_unit_test(test_messages_and_titles),
        cmocka_unit_test(test_small_boxes_have_no_numbers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
