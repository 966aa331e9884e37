/*
 * csv.c: reads and writes schedules in the CSV of PyTorch's torch.distributed.pipelining (_dump_csv, _load_csv), to
 * exchange schedules with it. A row is a rank, and a cell is a time step:
 *
 *     0F0,0F1,,0B0,,0B1          F forward, B backward, I and W its two halves; stage before, micro-batch behind
 *     ,1F0,1B0,1F1,1B1           an empty cell is idle
 *
 * PyTorch's runtime form has more actions. UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, SEND_B and RECV_B are
 * skipped, because Brigade derives messages and sums of gradients from the problem and has no sharded weights to
 * gather. "(0F1;1B0)OVERLAP_F_B" is two actions that PyTorch may overlap; here they run one after the other.
 *
 * PyTorch writes a full backward as B even where other backwards of the file are I and W. A problem of Brigade splits
 * either all weights or none. So in a file with I or W, each full backward B is read as an I followed by its W, and is
 * written in this form. Before PyTorch had I, a B whose W was in the file was the half for the inputs, and a full
 * backward was BW. So a B is read as such a half if the file has a W of its stage and micro-batch.
 *
 * PyTorch's simple runtime derives messages from the neighbors' actions in the same cell. So idle cells are written,
 * and a value is read in a later cell than the one that makes it.
 */
#include "schedule/steps.h"
#include "schedule/verify.h"

#include "core/error.h"
#include "core/text.h"
#include "schedule/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum csv_kind { CSV_FORWARD, CSV_INPUTS, CSV_WEIGHTS, CSV_FULL, CSV_SKIPPED } csv_kind;

static const struct {
    const char *name;
    csv_kind kind;
    bool needs_micro_batch;
} csv_kinds[] = {
    {"F", CSV_FORWARD, true},        {"I", CSV_INPUTS, true},         {"B", CSV_FULL, true},
    {"BW", CSV_FULL, true},          {"W", CSV_WEIGHTS, true},        {"SEND_F", CSV_SKIPPED, true},
    {"RECV_F", CSV_SKIPPED, true},   {"SEND_B", CSV_SKIPPED, true},   {"RECV_B", CSV_SKIPPED, true},
    {"UNSHARD", CSV_SKIPPED, false}, {"RESHARD", CSV_SKIPPED, false}, {"REDUCE_GRAD", CSV_SKIPPED, false},
};

enum { CSV_KIND_COUNT = sizeof csv_kinds / sizeof csv_kinds[0] };

typedef struct csv_reader {
    bgi_reader in;
    /* Has F, B and W in the order of the cells. Until the whole file is read, a backward that is or may be a full one
     * is stored as R, with index 1 if it cannot be a half. */
    bg_schedule *schedule;
    bool has_halves;
    uint64_t skipped;
} csv_reader;

/* The kind of a backward that may be a full one, until it is known whether the file has halves. */
#define FULL_BACKWARD BG_ACTION_RECOMPUTE

static void skip_blanks(bgi_reader *in)
{
    while (*in->at == ' ' || *in->at == '\t' || *in->at == '\r')
        in->at++;
}

static bg_status read_kind(bgi_reader *in, size_t *out)
{
    const size_t length = strspn(in->at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    for (size_t i = 0; i < CSV_KIND_COUNT; i++)
        if (strlen(csv_kinds[i].name) == length && memcmp(csv_kinds[i].name, in->at, length) == 0) {
            in->at += length;
            *out = i;
            return BG_OK;
        }
    return bgi_reader_reject(in, in->at,
                             "F, B, I, W, BW, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD or REDUCE_GRAD");
}

/* Reads "0F1": stage, kind, micro-batch. */
static bg_status read_action(csv_reader *csv, uint32_t rank)
{
    static const bg_action_kind actions[] = {[CSV_FORWARD] = BG_ACTION_FORWARD,
                                             [CSV_INPUTS] = BG_ACTION_BACKWARD,
                                             [CSV_WEIGHTS] = BG_ACTION_WEIGHTS,
                                             [CSV_FULL] = FULL_BACKWARD};
    bgi_reader *in = &csv->in;
    bg_action action = {0};
    size_t kind = 0;

    BGI_TRY(bgi_reader_number(in, "a stage number, an action such as 0F1, or an empty cell", &action.stage));
    BGI_TRY(read_kind(in, &kind));
    if (csv_kinds[kind].needs_micro_batch || (*in->at >= '0' && *in->at <= '9'))
        BGI_TRY(bgi_reader_number(in, "a micro-batch number", &action.micro_batch));
    if (csv_kinds[kind].kind == CSV_SKIPPED) {
        csv->skipped++;
        return BG_OK;
    }
    csv->has_halves |= csv_kinds[kind].kind == CSV_INPUTS || csv_kinds[kind].kind == CSV_WEIGHTS;
    action.kind = actions[csv_kinds[kind].kind];
    action.index = strcmp(csv_kinds[kind].name, "BW") == 0;
    return bg_schedule_emit(csv->schedule, rank, action, in->error);
}

/* Reads "(0F1;1B0)OVERLAP_F_B" after its first bracket. */
static bg_status read_overlapped(csv_reader *csv, uint32_t rank)
{
    static const char tail[] = "OVERLAP_F_B";
    bgi_reader *in = &csv->in;

    for (;;) {
        skip_blanks(in);
        BGI_TRY(read_action(csv, rank));
        skip_blanks(in);
        if (*in->at != ';')
            break;
        in->at++;
    }
    if (*in->at != ')')
        return bgi_reader_reject(in, in->at, "';' and an action, or ')'");
    in->at++;
    if (strncmp(in->at, tail, sizeof tail - 1) != 0)
        return bgi_reader_reject(in, in->at, tail);
    in->at += sizeof tail - 1;
    return BG_OK;
}

/* Reads a cell, which is empty or has an action or overlapped actions, with or without quotation marks. */
static bg_status read_cell(csv_reader *csv, uint32_t rank)
{
    bgi_reader *in = &csv->in;
    bool is_quoted;

    skip_blanks(in);
    is_quoted = *in->at == '"';
    if (is_quoted) {
        in->at++;
        skip_blanks(in);
    }
    if (*in->at == '(') {
        in->at++;
        BGI_TRY(read_overlapped(csv, rank));
    } else if (*in->at != ',' && *in->at != '\n' && *in->at != '\0' && *in->at != '"') {
        BGI_TRY(read_action(csv, rank));
    }
    skip_blanks(in);
    if (is_quoted) {
        if (*in->at != '"')
            return bgi_reader_reject(in, in->at, "'\"' at the end of the cell");
        in->at++;
        skip_blanks(in);
    }
    if (*in->at != ',' && *in->at != '\n' && *in->at != '\0')
        return bgi_reader_reject(in, in->at, "',' after the action");
    return BG_OK;
}

static bg_status read_row(csv_reader *csv, uint32_t rank)
{
    bgi_reader *in = &csv->in;

    BGI_TRY(read_cell(csv, rank));
    while (*in->at == ',') {
        in->at++;
        BGI_TRY(read_cell(csv, rank));
    }
    if (*in->at == '\n')
        bgi_reader_end_line(in);
    return BG_OK;
}

enum { LARGEST_ROW_COUNT = 1 << 20 };

/* Counts the rows, because the schedule needs the number of devices before the first action. */
static bg_status count_rows(const bgi_reader *in, uint32_t *out)
{
    uint32_t count = 0;

    for (const char *text = in->at; *text != '\0'; count++) {
        if (count == LARGEST_ROW_COUNT)
            return bg_error_set(in->error, BG_ERROR_PARSE, "%s: there are more than %d rows; each row is a device",
                                in->file_name, LARGEST_ROW_COUNT);
        text += strcspn(text, "\n");
        text += *text == '\n' ? 1 : 0;
    }
    *out = count;
    return BG_OK;
}

/* Combines stage and micro-batch into one number. */
static uint64_t key_of(const bg_action *action)
{
    return (uint64_t)action->stage << 32 | action->micro_batch;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

/* Lists the stage and micro-batch of each W of a device, ascending; the caller frees *out. */
static bg_status find_weights(const bgi_schedule_list *list, uint64_t **out, size_t *out_count, bg_error *error)
{
    uint64_t *keys = malloc((list->count + 1) * sizeof *keys);
    size_t count = 0;

    if (keys == NULL)
        return bgi_error_memory(error, "the actions of a device", (list->count + 1) * sizeof *keys);
    for (size_t i = 0; i < list->count; i++)
        if (list->actions[i].kind == BG_ACTION_WEIGHTS)
            keys[count++] = key_of(&list->actions[i]);
    qsort(keys, count, sizeof *keys, compare_keys);
    *out = keys;
    *out_count = count;
    return BG_OK;
}

/* Copies the actions of a rank, and converts each backward to what it is in this file: a half, a B with its W or, in a
 * file without halves, a full backward. */
static bg_status settle_rank(const bgi_schedule_list *list, uint32_t rank, bool has_halves, bg_schedule *out,
                             bg_error *error)
{
    uint64_t *keys = NULL;
    size_t count = 0;
    bg_status status = find_weights(list, &keys, &count, error);

    for (size_t i = 0; status == BG_OK && i < list->count; i++) {
        bg_action action = list->actions[i];
        const uint64_t key = key_of(&action);
        const bool is_full = action.kind == FULL_BACKWARD, is_written_full = action.index != 0;
        action.kind = is_full ? BG_ACTION_BACKWARD : action.kind;
        action.index = 0;
        status = bg_schedule_emit(out, rank, action, error);
        action.kind = BG_ACTION_WEIGHTS;
        if (status == BG_OK && is_full && has_halves &&
            (is_written_full || bsearch(&key, keys, count, sizeof *keys, compare_keys) == NULL))
            status = bg_schedule_emit(out, rank, action, error);
    }
    free(keys);
    return status;
}

static bg_status settle_backwards(const bg_schedule *read, bool has_halves, bg_schedule *out, bg_error *error)
{
    for (uint32_t rank = 0; rank < read->device_count; rank++)
        BGI_TRY(settle_rank(&read->lists[rank], rank, has_halves, out, error));
    return BG_OK;
}

/* Adds messages and updates, which CSV files lack. */
static bg_status add_the_rest(bg_schedule *schedule, bg_error *error)
{
    bg_schedule_problem problem;
    bg_status status;

    BGI_TRY(bg_schedule_problem_infer(schedule, 0, &problem, error));
    status = bgi_schedule_emit_updates(&problem, schedule, error);
    if (status == BG_OK)
        status = bgi_schedule_complete(schedule, &problem, error);
    bg_schedule_problem_free(&problem);
    return status;
}

bg_status bg_schedule_parse_csv(const char *text, const char *file_name, bg_schedule **out, uint64_t *out_skipped,
                                bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    csv_reader csv = {.in = bgi_reader_begin(text, file_name, error), .schedule = NULL};
    bg_schedule *schedule = NULL;
    uint32_t row_count = 0;
    bg_status status;

    if (text == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the text of a schedule is NULL");
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte-order mark, as spreadsheets write */
        csv.in.at += 3;
    BGI_TRY(count_rows(&csv.in, &row_count));
    BGI_TRY(bgi_schedule_create(row_count, &csv.schedule, error));
    for (uint32_t rank = 0; *csv.in.at != '\0'; rank++)
        BGI_TRY_CLEANUP(read_row(&csv, rank));
    BGI_TRY_CLEANUP(bgi_schedule_create(csv.schedule->device_count, &schedule, error));
    BGI_TRY_CLEANUP(settle_backwards(csv.schedule, csv.has_halves, schedule, error));
    status = add_the_rest(schedule, error);
    if (status != BG_OK) {
        bg_error_context(error, status, "%s", csv.in.file_name);
        goto cleanup;
    }
    bg_schedule_destroy(csv.schedule);
    *out = schedule;
    if (out_skipped != NULL)
        *out_skipped = csv.skipped;
    return BG_OK;

cleanup:
    bg_schedule_destroy(csv.schedule);
    bg_schedule_destroy(schedule);
    return status;
}

/* ---- writing ---- */

static void print_row(const bgi_schedule_facts *facts, const bgi_schedule_list *list, const uint32_t *steps,
                      bgi_string *text)
{
    const bgi_schedule_layout *layout = &facts->layout;
    uint32_t next = 0, row;

    for (size_t i = 0; i < list->count; i++) {
        const bg_action *action = &list->actions[i];
        char kind;
        if (!bgi_schedule_layout_find(layout, action, &row) || !bgi_schedule_row_has_steps(&layout->rows[row]))
            continue;
        /* Cell n of a row has n commas before it. */
        for (; next < steps[layout->rows[row].first + action->micro_batch]; next++)
            bgi_string_add(text, ",");
        kind = action->kind == BG_ACTION_FORWARD   ? 'F'
               : action->kind == BG_ACTION_WEIGHTS ? 'W'
               : layout->problem->splits_weights   ? 'I'
                                                   : 'B';
        bgi_string_add(text, "%" PRIu32 "%c%" PRIu32, action->stage, kind, action->micro_batch);
    }
    bgi_string_add(text, "\n");
}

bg_status bg_schedule_print_csv(const bg_schedule *schedule, const bg_schedule_problem *problem, char **out_text,
                                bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_schedule_facts facts;
    bgi_arena scratch = {0};
    bgi_string text = {0};
    uint32_t *steps;
    bg_status status;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    steps = bgi_arena_allocate(&scratch, facts.layout.instance_count, sizeof *steps);
    if (steps == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a timetable", facts.layout.instance_count * sizeof *steps));
    BGI_TRY_CLEANUP(bgi_schedule_steps(&facts.layout, schedule, facts.records, facts.record_count, BGI_PICTURE_SINGLE,
                                       false, steps, error));
    for (uint32_t device = 0; device < schedule->device_count; device++)
        print_row(&facts, &schedule->lists[device], steps, &text);
    status = bgi_string_finish(&text, out_text, error);

cleanup:
    bgi_arena_clear(&scratch);
    bgi_schedule_facts_clear(&facts);
    return status;
}
