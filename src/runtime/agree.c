/*
 * agree.c: compares options between ranks as text, and plans by a checksum. If either differs, finds the first
 * difference, for the error message.
 */
#include "runtime/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "core/error.h"
#include "core/isa.h"
#include "core/text.h"
#include "kernels/kernels.h"
#include "options/optimizer.h"
#include "options/table.h"

enum { WHY_BYTES = 512, VALUE_BYTES = 168 };

/* ---- compared values ---- */

static void add_number(bgi_crc64 *crc, uint64_t number)
{
    bgi_crc64_add(crc, &number, sizeof number);
}

static void add_text(bgi_crc64 *crc, const char *text)
{
    if (text != NULL)
        bgi_crc64_add(crc, text, strlen(text) + 1);
}

static void add_type(bgi_crc64 *crc, const bg_type *type)
{
    add_number(crc, (uint64_t)type->dtype);
    for (uint32_t i = 0; i < type->rank; i++)
        add_number(crc, (uint64_t)type->dims[i]);
}

static void add_operand(bgi_crc64 *crc, const bgi_operand *operand)
{
    add_number(crc, (uint64_t)operand->memory);
    add_number(crc, operand->edge);
    add_number(crc, operand->offset);
    add_number(crc, operand->stride);
}

static void add_instruction(bgi_crc64 *crc, const bgi_instruction *instruction)
{
    add_number(crc, (uint64_t)instruction->action.kind);
    add_number(crc, instruction->action.stage);
    add_number(crc, instruction->action.micro_batch);
    add_number(crc, instruction->action.index);
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        add_text(crc, call->name);
        add_text(crc, call->kernel.name);
        for (uint32_t o = 0; o < call->input_count + call->output_count; o++) {
            add_operand(crc, &call->operands[o]);
            add_type(crc, &call->types[o]);
        }
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        add_operand(crc, &instruction->copies[i].operand);
        add_number(crc, instruction->copies[i].size_bytes);
    }
    for (uint32_t i = 0; i < instruction->reduced_count; i++)
        add_operand(crc, &instruction->reduced[i].operand);
    add_number(crc, instruction->is_beside);
    add_number(crc, instruction->needs_sum);
}

/* Returns a checksum of the plan. The checksum includes the kernels' names, so that it differs between ranks that use
 * different instruction sets. */
static uint64_t sum_plan(const bg_plan *plan)
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    add_number(&crc, plan->replicas);
    add_number(&crc, plan->iterations);
    add_number(&crc, plan->micro_batches);
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        add_number(&crc, plan->edges[e].depth);
        add_number(&crc, plan->edges[e].slot_bytes);
        add_number(&crc, plan->edges[e].offset);
    }
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        add_text(&crc, plan->variables[v].name);
        add_type(&crc, &plan->variables[v].type);
    }
    for (uint32_t d = 0; d < plan->device_count; d++) {
        add_number(&crc, plan->devices[d].arena_bytes);
        add_number(&crc, plan->devices[d].remote_bytes);
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            add_instruction(&crc, &plan->devices[d].instructions[i]);
    }
    for (uint32_t o = 0; o < plan->output_count; o++)
        add_text(&crc, plan->outputs[o].name);
    return bgi_crc64_value(&crc);
}

/* Returns whether the option must be equal on all ranks: it shapes the plan, or it is in `others`. */
static bool is_of_all(const bgi_option *option)
{
    static const char *const others[] = {"seed", "layout", "memmap_dir", "memmap_mode"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(option->name, others[i]) == 0)
            return true;
    return option->shapes_plan;
}

/* Prints a number with the fewest digits that read back as the same number. */
static void add_real(bgi_string *text, const char *name, double value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%.15g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    bgi_string_add(text, "%s %s\n", name, digits);
}

/* Prints the optimizer's kind, and then the settings that this kind has. */
static void add_optimizer(bgi_string *text, const bg_optimizer *optimizer)
{
    char kind[BG_OPTIMIZER_STATE_TEXT_BYTES];

    bg_optimizer_describe_state(optimizer, kind);
    bgi_string_add(text, "optimizer %s\n", kind);
    add_real(text, "learning_rate", optimizer->learning_rate);
    for (uint32_t i = 0; bgi_setting_at(i) != NULL; i++)
        if (bgi_optimizer_has(optimizer->kind, bgi_setting_at(i), NULL))
            add_real(text, bgi_setting_at(i)->name, bgi_setting_get(bgi_setting_at(i), optimizer));
    bgi_string_add(text, "numbers %.17g %.17g %.17g\n", optimizer->numbers[0], optimizer->numbers[1],
                   optimizer->numbers[2]);
}

/* Prints a line "name value" for each option and setting that must be equal on all ranks. The library's version comes
 * first, because releases may round differently. */
static bg_status print_options(const bg_plan *plan, char **out, bg_error *error)
{
    const char *agreed = plan->options.execution.transport->agreed;
    bgi_string text = {0};

    bgi_string_add(&text, "build %s, %s\n%s", bg_version(), bgi_build_id(), agreed != NULL ? agreed : "");
    if (plan->training)
        add_optimizer(&text, &plan->optimizer);
    for (uint32_t i = 0; bgi_option_at(i) != NULL; i++) {
        const bgi_option *option = bgi_option_at(i);
        if (!bgi_option_has_text(option) || !is_of_all(option))
            continue;
        bgi_string_add(&text, "%s ", option->name);
        bgi_option_print(option, &plan->options, &text);
        bgi_string_add(&text, "\n");
    }
    return bgi_string_finish(&text, out, error);
}

/* Writes the value behind the name in `line`, for a message; writes "the default" if the value is empty. */
static void copy_value(const char *line, size_t length, char value[VALUE_BYTES])
{
    const size_t name = strcspn(line, " ") + 1;

    if (length > name)
        snprintf(value, VALUE_BYTES, "`%.*s`", (int)(length - name < VALUE_BYTES - 4 ? length - name : VALUE_BYTES - 4),
                 line + name);
    else
        snprintf(value, VALUE_BYTES, "the default");
}

/* The properties that must be equal on rank 0 and this rank. */
typedef struct compared {
    const char *text;
    bgi_isa isa; /* the instruction sets that kernels may use */
} compared;

/* Writes to `why` how a line of rank 0 differs from the line of this rank. */
static void describe_lines(const char *first, size_t first_length, const char *own, size_t own_length, uint32_t rank,
                           char why[WHY_BYTES])
{
    const int name_length = (int)strcspn(first, " ");
    char of_first[VALUE_BYTES], of_own[VALUE_BYTES];

    copy_value(first, first_length, of_first);
    copy_value(own, own_length, of_own);
    if (strncmp(first, "build ", 6) == 0)
        snprintf(why, WHY_BYTES, "rank 0 has Brigade %s and rank %u has %s: install the same build everywhere",
                 of_first, rank, of_own);
    else
        snprintf(why, WHY_BYTES, "option %.*s is %s on rank 0 and %s on rank %u", name_length, first, of_first, of_own,
                 rank);
}

/* Writes to `why` that the plans differ although their options are equal. */
static void describe_plans(bgi_isa first, bgi_isa own, uint32_t rank, char why[WHY_BYTES])
{
    if (first == own)
        snprintf(why, WHY_BYTES,
                 "the plans of rank 0 and rank %u differ although their options are equal: give all ranks the same "
                 "model",
                 rank);
    else
        snprintf(why, WHY_BYTES,
                 "kernels use %s on rank 0 and %s on rank %u, whose processors differ: set option kernels to `%s` on "
                 "all ranks",
                 bgi_isa_name(first), bgi_isa_name(own), rank, bgi_isa_name(bgi_isa_common(first, own)));
}

/* Writes the first difference between rank 0 and this rank to `why`. */
static void find_difference(const compared *first, const compared *own, uint32_t rank, char why[WHY_BYTES])
{
    const char *a = first->text, *b = own->text;

    while (*a != '\0' && *b != '\0') {
        const size_t a_length = strcspn(a, "\n"), b_length = strcspn(b, "\n");
        if (a_length != b_length || memcmp(a, b, a_length) != 0) {
            describe_lines(a, a_length, b, b_length, rank, why);
            return;
        }
        a += a_length + (a[a_length] == '\n');
        b += b_length + (b[b_length] == '\n');
    }
    describe_plans(first->isa, own->isa, rank, why);
}

/* ---- the meeting ---- */

typedef struct head {
    uint64_t sum, text_bytes, isa;
} head;

/* Compares rank 0's properties with this rank's; writes "" to `why` when they are equal. */
static bg_status compare(const bg_plan *plan, bgi_transport *transport, const char *own_text, char why[WHY_BYTES],
                         bg_error *error)
{
    const uint32_t rank = transport->setup.ranks->carrier->rank;
    const uint64_t own_sum = sum_plan(plan);
    const compared own = {own_text, bgi_kernel_isa(plan->options.numerics.kernels)};
    head first = {own_sum, strlen(own_text) + 1, (uint64_t)own.isa};
    char *text;
    bg_status status;

    BGI_TRY(bgi_ranks_share(transport, 0, &first, sizeof first, error));
    text = malloc((size_t)first.text_bytes);
    if (text == NULL)
        return bgi_error_memory(error, "the options of rank 0", (size_t)first.text_bytes);
    if (rank == 0)
        memcpy(text, own_text, (size_t)first.text_bytes);
    status = bgi_ranks_share(transport, 0, text, (size_t)first.text_bytes, error);
    if (status == BG_OK && (strcmp(text, own_text) != 0 || first.sum != own_sum))
        find_difference(&(compared){text, (bgi_isa)first.isa}, &own, rank, why);
    free(text);
    return status;
}

/* Sets `words`, on all ranks, to the first difference that a rank has reported, or to "" when there is none. */
static bg_status take_first(bgi_transport *transport, char words[WHY_BYTES], bg_error *error)
{
    const bg_transport *carrier = transport->setup.ranks->carrier;
    char of_rank[WHY_BYTES];

    for (uint32_t i = 1; i < carrier->rank_count; i++) {
        memcpy(of_rank, words, sizeof of_rank);
        BGI_TRY(bgi_ranks_hand(transport, i, 0, of_rank, sizeof of_rank, error));
        if (carrier->rank == 0 && words[0] == '\0')
            memcpy(words, of_rank, sizeof of_rank);
    }
    return bgi_ranks_share(transport, 0, words, WHY_BYTES, error);
}

bg_status bgi_ranks_agree(const bg_plan *plan, bgi_transport *transport, bg_error *error)
{
    char why[WHY_BYTES] = "", *text = NULL;
    bg_status status;

    BGI_TRY(print_options(plan, &text, error));
    status = compare(plan, transport, text, why, error);
    free(text);
    BGI_TRY(status);
    BGI_TRY(take_first(transport, why, error));
    return why[0] == '\0' ? BG_OK : bg_error_set(error, BG_ERROR_INVALID, "the ranks do not agree: %s", why);
}
