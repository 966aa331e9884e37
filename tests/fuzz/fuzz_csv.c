/*
 * fuzz_csv.c: PyTorch's schedule CSV with arbitrary content. A problem can be inferred from a valid input. If the
 * verifier accepts the schedule, its text reads back to the same schedule.
 */
#include <brigade/schedule.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_again(bg_schedule *schedule, const bg_schedule_problem *problem)
{
    char *csv = NULL, *before = NULL, *after = NULL;
    bg_schedule *again = NULL;
    bg_error error = {0};

    if (bg_schedule_print_csv(schedule, problem, &csv, NULL) != BG_OK ||
        bg_schedule_parse_csv(csv, "printed", &again, NULL, &error) != BG_OK ||
        bg_schedule_print(schedule, &before, NULL) != BG_OK || bg_schedule_print(again, &after, NULL) != BG_OK ||
        strcmp(before, after) != 0)
        abort();
    bg_schedule_destroy(again);
    free(after);
    free(before);
    free(csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    bg_schedule *schedule = NULL;
    bg_schedule_problem problem;
    bg_error error = {0};

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (bg_schedule_parse_csv(text, "fuzz", &schedule, NULL, &error) == BG_OK) {
        if (bg_schedule_problem_infer(schedule, 0, &problem, NULL) != BG_OK)
            abort();
        if (bg_schedule_verify(schedule, &problem, NULL) == BG_OK)
            print_again(schedule, &problem);
        bg_schedule_problem_free(&problem);
    } else if (error.message[0] == '\0' || strchr(error.message, '\n') != NULL) {
        abort();
    }
    bg_schedule_destroy(schedule);
    free(text);
    return 0;
}
