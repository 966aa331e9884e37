/*
 * fuzz_schedule.c: schedule text with arbitrary content. A valid input must print to text that reads back, and the
 * verifier, simulator and timetable must accept or reject it without a fault.
 */
#include <brigade/schedule.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(bg_schedule *schedule)
{
    static const uint32_t devices[] = {0, 1};
    bg_schedule_edge *edges = NULL;
    bg_schedule_problem problem;
    bg_schedule_timing timing = {0};
    char *text = NULL;

    problem = bg_schedule_problem_defaults();
    problem.stage_count = 2;
    problem.device_count = 2;
    problem.micro_batch_count = 2;
    problem.stage_devices = devices;
    if (bg_schedule_problem_chain(&problem, 8, &edges, NULL) != BG_OK)
        return;
    if (bg_schedule_verify(schedule, &problem, NULL) == BG_OK &&
        (bg_schedule_simulate(schedule, &problem, &timing, NULL) != BG_OK ||
         bg_schedule_timetable(schedule, &problem, &text, NULL) != BG_OK))
        abort();
    bg_schedule_timing_clear(&timing);
    free(text);
    free(edges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *printed = NULL, *again = NULL;
    bg_schedule *schedule = NULL, *copy = NULL;

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (bg_schedule_parse(text, "fuzz", &schedule, NULL) == BG_OK) {
        if (bg_schedule_print(schedule, &printed, NULL) != BG_OK ||
            bg_schedule_parse(printed, "printed", &copy, NULL) != BG_OK ||
            bg_schedule_print(copy, &again, NULL) != BG_OK || strcmp(printed, again) != 0)
            abort();
        judge(schedule);
    }
    bg_schedule_destroy(schedule);
    bg_schedule_destroy(copy);
    free(printed);
    free(again);
    free(text);
    return 0;
}
