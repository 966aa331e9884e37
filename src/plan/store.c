/*
 * store.c: visits the parts of a plan for a bgi_archive; the same functions write and read.
 *
 *     plan -> schedule problem, schedule, edges, variables, constants, inputs, outputs, blocks     (store_tables.c)
 *          -> device -> instruction -> calls, copies, lists of edges     (shared by the micro-batches: written once)
 *
 * Addresses are not written. An op type is written once: as the name of a library type, or as the number of an op of
 * the caller's graph. The common part of equal layers (type, operand types, attributes, kernel, cost) is a form, which
 * is written once. A reader selects the form's kernel again, which must need the same number of bytes of scratch
 * memory. Instructions do not repeat their actions, which are in the schedule.
 */
#include "plan/store.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/compile.h"
#include "plan/op_types.h"
#include "plan/store_tables.h"

enum { MOST_OPERANDS = 64 };

/* Element types of arrays that instructions share. */
enum { CALLS = 1, NUMBERS, COPIES, REDUCED };

/* The common part of the calls of equal layers. */
typedef struct form {
    const bg_op_type *type; /* NULL: a copy between slots */
    uint32_t input_count, output_count;
    const bg_type *types;
    const void *attributes;
    size_t scratch_limit; /* the limit of scratch memory of the device that runs the calls */
    bg_kernel kernel;
    bg_cost cost;
    uint64_t hash; /* only when writing */
} form;

/* The arrays are malloc'ed; their elements are in the order of their first visit. */
typedef struct store {
    bgi_archive *archive;
    bg_plan *plan;
    const bg_graph *graph;
    const bg_op_type **types;
    size_t type_count, type_capacity;
    form *forms;
    size_t form_count, form_capacity;
    bg_kernel *kernels; /* only when reading */
    size_t kernel_count, kernel_capacity;
    const char *last_block;
    size_t scratch_limit;      /* the limit of scratch memory of the device that is being visited */
    const bg_op_type *unknown; /* when writing: an op type that a reader could not find again */
} store;

static void visit_shared_numbers(bgi_archive *a, const uint32_t **numbers, uint32_t *count)
{
    const void *array = *numbers;
    const bool is_new = bgi_archive_shared(a, &array, count, NUMBERS, sizeof **numbers);
    uint32_t *visited = (uint32_t *)array;

    for (uint32_t i = 0; is_new && i < *count; i++)
        bgi_archive_u32(a, &visited[i]);
    *numbers = array;
}

/* ---- op types ---- */

/* Finds the op of the caller's graph that has the type, or whose type has this type as its accumulating form. */
static uint32_t find_user(const bg_graph *graph, const bg_op_type *type, bool *out_accumulates)
{
    for (uint32_t o = 0; o < graph->op_count; o++) {
        *out_accumulates = graph->ops[o].type != type;
        if (graph->ops[o].type == type || graph->ops[o].type->accumulating == type)
            return o;
    }
    return UINT32_MAX;
}

/* Visits a type of the caller's graph, as the op's number and whether the type is the accumulating form. */
static void visit_own_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    bool accumulates = false;
    uint32_t op = a->is_reading ? 0 : find_user(s->graph, *type, &accumulates);

    if (op == UINT32_MAX || (!a->is_reading && !bgi_op_type_is_kept(s->graph->ops[op].type))) {
        s->unknown = *type;
        bgi_archive_fail(a);
        return;
    }
    bgi_archive_below(a, &op, (uint32_t)s->graph->op_count);
    bgi_archive_bool(a, &accumulates);
    if (a->is_reading && !a->has_failed)
        *type = accumulates ? s->graph->ops[op].type->accumulating : s->graph->ops[op].type;
}

static void visit_new_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    const char *name = a->is_reading ? NULL : (*type)->name;
    bool is_own = !a->is_reading && bgi_op_type_find(name) != *type;

    bgi_store_name(a, &name);
    bgi_archive_bool(a, &is_own);
    if (is_own)
        visit_own_type(s, type);
    else if (a->is_reading)
        *type = bgi_op_type_find(name);
    if (!a->has_failed && (*type == NULL || strcmp((*type)->name, name) != 0))
        bgi_archive_fail(a);
    if (a->has_failed)
        return;
    if (!bgi_array_reserve((void **)&s->types, &s->type_capacity, s->type_count + 1, sizeof *s->types)) {
        a->out_of_memory = true;
        bgi_archive_fail(a);
        return;
    }
    s->types[s->type_count++] = *type;
}

/* Visits an op type by number. 0 means none; types that were visited before have numbers, and the next number means a
 * new type. */
static void visit_op_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    uint32_t number = 0;

    if (!a->is_reading && *type != NULL)
        for (number = 1; number <= s->type_count && s->types[number - 1] != *type;)
            number++;
    bgi_archive_u32(a, &number);
    if (a->is_reading)
        *type = NULL;
    if (number == 0 || a->has_failed)
        return;
    if (number > s->type_count + 1)
        bgi_archive_fail(a);
    else if (number == s->type_count + 1)
        visit_new_type(s, type);
    else
        *type = s->types[number - 1];
}

/* ---- forms ---- */

/* Checks types and attributes with the shape rule, so that kernels stay inside their operands. */
static bool is_well_typed(const form *f)
{
    bg_type outputs[MOST_OPERANDS];
    const bg_op_signature signature = {
        .name = "", .types = f->types, .input_count = f->input_count, .attributes = f->attributes};

    if (f->type == NULL)
        return f->input_count == 1 && f->output_count == 1 && bg_type_equal(&f->types[0], &f->types[1]);
    if (f->input_count < f->type->minimum_inputs || f->input_count > f->type->maximum_inputs ||
        f->output_count > f->type->output_count || f->type->output_count > MOST_OPERANDS)
        return false;
    for (uint32_t i = 0; i < f->type->minimum_inputs; i++)
        if (f->types[i].dtype == BG_DTYPE_NONE)
            return false;
    memset(outputs, 0, sizeof outputs);
    if (f->type->infer(&signature, outputs, NULL) != BG_OK)
        return false;
    for (uint32_t i = 0; i < f->type->output_count; i++) /* absent outputs are not among the operands */
        if (i < f->output_count ? !bg_type_equal(&outputs[i], &f->types[f->input_count + i])
                                : outputs[i].dtype != BG_DTYPE_NONE)
            return false;
    return true;
}

/* Selects the kernel as the compiler did; the plan destroys it. */
static bool select_kernel(store *s, form *f)
{
    const bg_options *options = &s->plan->options;
    const bg_op_signature signature = {.name = f->type != NULL ? f->type->name : "copy",
                                       .types = f->types,
                                       .input_count = f->input_count,
                                       .output_count = f->output_count,
                                       .attributes = f->attributes,
                                       .partials = options->numerics.partials,
                                       .scratch_limit = f->scratch_limit};

    if (!is_well_typed(f))
        return false;
    if (f->type == NULL || f->type->is_collective) {
        f->kernel = f->type == NULL ? bgi_slot_copy_kernel() : (bg_kernel){.name = f->type->name};
        return true;
    }
    if (!bgi_array_reserve((void **)&s->kernels, &s->kernel_capacity, s->kernel_count + 1, sizeof *s->kernels) ||
        f->type->kernel == NULL || f->type->kernel(&signature, options->numerics.kernels, &f->kernel, NULL) != BG_OK)
        return false;
    s->kernels[s->kernel_count++] = f->kernel;
    return true;
}

/* Visits the properties of the kernel that the plan relies on. */
static void visit_kernel(store *s, form *f)
{
    bgi_archive *a = s->archive;
    const char *name = f->kernel.name;
    uint32_t part_count = f->kernel.part_count;
    size_t scratch_bytes = f->kernel.scratch_bytes;

    bgi_archive_text(a, &name);
    bgi_archive_u32(a, &part_count);
    bgi_archive_size(a, &scratch_bytes);
    if (!a->is_reading || a->has_failed)
        return;
    if (!select_kernel(s, f) || f->kernel.part_count != part_count || f->kernel.scratch_bytes != scratch_bytes ||
        (name == NULL) != (f->kernel.name == NULL) || (name != NULL && strcmp(name, f->kernel.name) != 0))
        bgi_archive_fail(a);
}

static void visit_new_form(store *s, form *f)
{
    bgi_archive *a = s->archive;
    bg_type *types;
    uint32_t count;

    visit_op_type(s, &f->type);
    bgi_archive_below(a, &f->input_count, MOST_OPERANDS + 1);
    bgi_archive_below(a, &f->output_count, MOST_OPERANDS + 1 - f->input_count);
    count = f->input_count + f->output_count;
    f->types = types = bgi_archive_table(a, f->types, count, sizeof *types);
    if (types == NULL) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        bgi_store_type(a, &types[i]);
    if (f->type != NULL && f->type->attributes_bytes > 0)
        bgi_archive_bytes(a, &f->attributes, f->type->attributes_bytes);
    bgi_archive_double(a, &f->cost.flops);
    bgi_archive_double(a, &f->cost.bytes_read);
    bgi_archive_double(a, &f->cost.bytes_written);
    visit_kernel(s, f);
}

static uint64_t hash_form(const form *f)
{
    uint64_t hash = (uint64_t)(uintptr_t)f->type + f->input_count;

    for (uint32_t i = 0; i < f->input_count + f->output_count; i++)
        for (uint32_t dim = 0; dim < f->types[i].rank; dim++)
            hash = (hash ^ (uint64_t)f->types[i].dims[dim]) * 0x100000001b3u;
    return hash;
}

static bool is_same_form(const form *a, const form *b)
{
    if (a->hash != b->hash || a->type != b->type || a->scratch_limit != b->scratch_limit ||
        a->input_count != b->input_count || a->output_count != b->output_count || a->kernel.run != b->kernel.run ||
        a->kernel.part_count != b->kernel.part_count || a->kernel.scratch_bytes != b->kernel.scratch_bytes ||
        memcmp(&a->cost, &b->cost, sizeof a->cost) != 0)
        return false;
    for (uint32_t i = 0; i < a->input_count + a->output_count; i++)
        if (!bg_type_equal(&a->types[i], &b->types[i]))
            return false;
    return a->type == NULL || a->type->attributes_bytes == 0 ||
           memcmp(a->attributes, b->attributes, a->type->attributes_bytes) == 0;
}

/* Returns the number of the form when it was visited before; otherwise the next number. */
static uint32_t find_form(const store *s, const form *wanted)
{
    uint32_t number = 0;

    while (number < s->form_count && !is_same_form(&s->forms[number], wanted))
        number++;
    return number;
}

static void visit_form(store *s, form *f)
{
    bgi_archive *a = s->archive;
    uint32_t number;

    f->hash = a->is_reading ? 0 : hash_form(f);
    number = a->is_reading ? 0 : find_form(s, f);
    bgi_archive_u32(a, &number);
    if (number > s->form_count)
        bgi_archive_fail(a);
    if (a->has_failed)
        return;
    if (number < s->form_count) {
        *f = s->forms[number];
        return;
    }
    visit_new_form(s, f);
    if (a->has_failed)
        return;
    if (bgi_array_reserve((void **)&s->forms, &s->form_capacity, s->form_count + 1, sizeof *s->forms)) {
        s->forms[s->form_count++] = *f;
        return;
    }
    a->out_of_memory = true;
    bgi_archive_fail(a);
}

/* ---- calls ---- */

/* Visits the name of a call's block, in one byte if the previous call is of the same block. */
static void visit_block_name(store *s, const char **block)
{
    bgi_archive *a = s->archive;
    bool is_last = !a->is_reading && s->last_block != NULL && strcmp(s->last_block, *block) == 0;

    bgi_archive_bool(a, &is_last);
    if (!is_last)
        bgi_store_name(a, block);
    else if (a->is_reading)
        *block = s->last_block != NULL ? s->last_block : "";
    s->last_block = *block;
}

static void visit_call(store *s, bgi_call *call)
{
    bgi_archive *a = s->archive;
    form f = {.type = call->type,
              .input_count = call->input_count,
              .output_count = call->output_count,
              .types = call->types,
              .attributes = call->attributes,
              .scratch_limit = s->scratch_limit,
              .kernel = call->kernel,
              .cost = call->cost};
    bgi_operand *operands;
    uint32_t count;

    visit_form(s, &f);
    bgi_store_name(a, &call->name);
    visit_block_name(s, &call->block);
    count = f.input_count + f.output_count;
    call->operands = operands = bgi_archive_table(a, call->operands, count, sizeof *operands);
    if (operands == NULL) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        bgi_store_operand(a, &operands[i]);
    bgi_archive_size(a, &call->scratch_offset);
    BGI_ARCHIVE_ENUM(a, call->traced_as, BG_ACTION_KIND_COUNT);
    if (!a->is_reading)
        return;
    call->type = f.type;
    call->input_count = f.input_count;
    call->output_count = f.output_count;
    call->types = f.types;
    call->attributes = f.attributes;
    call->kernel = f.kernel;
    call->cost = f.cost;
    call->is_transfer = bgi_op_type_is_transfer(f.type);
    call->is_collective = f.type != NULL && f.type->is_collective;
}

static void visit_calls(store *s, const bgi_call **calls, uint32_t *count)
{
    bgi_archive *a = s->archive;
    const void *array = *calls;
    const bool is_new = bgi_archive_shared(a, &array, count, CALLS, sizeof **calls);
    bgi_call *visited = (bgi_call *)array;

    for (uint32_t i = 0; is_new && i < *count && !a->has_failed; i++)
        visit_call(s, &visited[i]);
    *calls = array;
}

/* ---- programs ---- */

static void visit_copies(bgi_archive *a, const bgi_copy **copies, uint32_t *count)
{
    const void *array = *copies;
    const bool is_new = bgi_archive_shared(a, &array, count, COPIES, sizeof **copies);
    bgi_copy *visited = (bgi_copy *)array;

    for (uint32_t i = 0; is_new && i < *count; i++) {
        bgi_store_operand(a, &visited[i].operand);
        bgi_store_operand(a, &visited[i].to);
        bgi_archive_u32(a, &visited[i].stream);
        bgi_archive_size(a, &visited[i].size_bytes);
    }
    *copies = array;
}

static void visit_reduced(bgi_archive *a, const bgi_reduced **reduced, uint32_t *count)
{
    const void *array = *reduced;
    const bool is_new = bgi_archive_shared(a, &array, count, REDUCED, sizeof **reduced);
    bgi_reduced *visited = (bgi_reduced *)array;

    for (uint32_t i = 0; is_new && i < *count; i++) {
        bgi_store_operand(a, &visited[i].operand);
        BGI_ARCHIVE_ENUM(a, visited[i].dtype, BG_DTYPE_COUNT);
        bgi_archive_i64(a, &visited[i].element_count);
        bgi_archive_i64(a, &visited[i].piece_count);
    }
    *reduced = array;
}

/* Returns 1 + the number of the last earlier uncut instruction whose calls include those of `part`, or 0 if there is no
 * such instruction. */
static uint32_t find_whole(const bgi_instruction *instructions, uint32_t part)
{
    const bgi_call *calls = instructions[part].calls;

    for (uint32_t i = part; i > 0; i--)
        if (!instructions[i - 1].is_part && instructions[i - 1].call_count > 0 && calls >= instructions[i - 1].calls &&
            calls < instructions[i - 1].calls + instructions[i - 1].call_count)
            return i;
    return 0;
}

/* Visits the calls of an instruction that is a part of its action. If an earlier micro-batch has the whole action, they
 * are a range of its calls. */
static void visit_part(store *s, bgi_instruction *instructions, uint32_t part)
{
    bgi_archive *a = s->archive;
    bgi_instruction *instruction = &instructions[part];
    uint32_t whole = a->is_reading ? 0 : find_whole(instructions, part), first = 0;

    bgi_archive_u32(a, &whole);
    if (whole == 0) {
        visit_calls(s, &instruction->calls, &instruction->call_count);
        return;
    }
    if (!a->is_reading)
        first = (uint32_t)(instruction->calls - instructions[whole - 1].calls);
    bgi_archive_u32(a, &first);
    bgi_archive_u32(a, &instruction->call_count);
    if (whole > part || first > instructions[whole - 1].call_count ||
        instruction->call_count > instructions[whole - 1].call_count - first)
        bgi_archive_fail(a);
    else
        instruction->calls = instructions[whole - 1].calls + first;
}

static void visit_instruction(store *s, bgi_instruction *instructions, uint32_t number)
{
    bgi_archive *a = s->archive;
    bgi_instruction *instruction = &instructions[number];
    bool waits = instruction->call_waits != NULL;
    uint32_t wait_count = instruction->call_count;

    bgi_archive_bool(a, &instruction->is_part);
    if (instruction->is_part)
        visit_part(s, instructions, number);
    else
        visit_calls(s, &instruction->calls, &instruction->call_count);
    visit_shared_numbers(a, &instruction->acquires, &instruction->acquire_count);
    visit_shared_numbers(a, &instruction->releases, &instruction->release_count);
    visit_copies(a, &instruction->copies, &instruction->copy_count);
    visit_reduced(a, &instruction->reduced, &instruction->reduced_count);
    bgi_archive_bool(a, &instruction->is_beside);
    bgi_archive_bool(a, &instruction->needs_sum);
    bgi_archive_u32(a, &instruction->after_calls);
    bgi_archive_u32(a, &instruction->turn);
    bgi_archive_size(a, &instruction->transient_bytes);
    bgi_archive_u32(a, &instruction->issues);
    bgi_archive_u32(a, &instruction->io_wait);
    bgi_archive_bool(a, &waits);
    if (!waits)
        return;
    visit_shared_numbers(a, &instruction->call_waits, &wait_count);
    if (wait_count != instruction->call_count)
        bgi_archive_fail(a);
}

static void visit_transfer(bgi_archive *a, bgi_transfer *transfer)
{
    bgi_store_action(a, &transfer->action);
    bgi_archive_size(a, &transfer->arena_offset);
    bgi_archive_size(a, &transfer->remote_offset);
    bgi_archive_size(a, &transfer->size_bytes);
    BGI_ARCHIVE_ENUM(a, transfer->location_class, BG_LOCATION_COUNT);
    bgi_archive_size(a, &transfer->piece_bytes);
    bgi_archive_bool(a, &transfer->is_own);
    bgi_archive_u32(a, &transfer->piece_axes);
    bgi_archive_u32(a, &transfer->peer_wait);
}

/* Visits an instruction's action as its number in the device's schedule. The number is that of the preceding
 * instruction plus 1, except in actions that final.c has cut. *at is the number of the preceding instruction's action.
 */
static void visit_action(store *s, uint32_t device, bg_action *action, uint32_t *at)
{
    const uint32_t count = bg_schedule_action_count(s->plan->schedule, device);
    const bg_action *actions = bg_schedule_actions(s->plan->schedule, device);
    uint32_t found = 0;

    if (!s->archive->is_reading)
        while (found < count && !bgi_same_action(&actions[(*at + 1 + found) % count], action))
            found++;
    if (!s->archive->is_reading && found < count)
        *at = (*at + 1 + found) % count;
    bgi_archive_u32(s->archive, at);
    if (*at >= count || (!s->archive->is_reading && found == count)) {
        bgi_archive_fail(s->archive);
        return;
    }
    *action = actions[*at];
}

static void visit_device(store *s, uint32_t number)
{
    bgi_archive *a = s->archive;
    bgi_plan_device *device = &s->plan->devices[number];
    uint32_t at = UINT32_MAX;
    bgi_instruction *instructions;
    bgi_transfer *transfers;

    s->scratch_limit = bgi_options_scratch(&s->plan->options, number);
    bgi_archive_size(a, &device->arena_bytes);
    bgi_archive_size(a, &device->remote_bytes);
    for (uint32_t i = 0; i < BG_MEMORY_CLASS_COUNT; i++)
        bgi_archive_size(a, &device->class_bytes[i]);
    for (uint32_t i = 0; i < BG_LOCATION_COUNT; i++)
        bgi_archive_size(a, &device->remote_class_bytes[i]);
    bgi_archive_u32(a, &device->piece_axes);
    device->transfers = transfers = bgi_archive_list(a, device->transfers, &device->transfer_count, sizeof *transfers);
    for (uint32_t i = 0; i < device->transfer_count; i++)
        visit_transfer(a, &transfers[i]);
    device->instructions = instructions =
        bgi_archive_list(a, device->instructions, &device->instruction_count, sizeof *instructions);
    for (uint32_t i = 0; i < device->instruction_count && !a->has_failed; i++) {
        visit_action(s, number, &instructions[i].action, &at);
        visit_instruction(s, instructions, i);
    }
}

static void visit_devices(store *s)
{
    bgi_archive *a = s->archive;
    bg_plan *plan = s->plan;

    plan->devices = bgi_archive_table(a, plan->devices, plan->device_count, sizeof *plan->devices);
    if (plan->devices == NULL)
        bgi_archive_fail(a);
    for (uint32_t d = 0; d < plan->device_count && !a->has_failed; d++)
        visit_device(s, d);
}

/* ---- the whole plan ---- */

static bg_status finish(const store *s, bg_error *error)
{
    const bgi_archive *a = s->archive;
    bg_status status;

    if (s->unknown != NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "ops of type `%s` could not be found again in a stored plan; give the type a revision",
                            s->unknown->name);
    if (a->out_of_memory)
        return bgi_error_memory(error, "a cached plan", a->size_bytes);
    if (!a->is_reading)
        return BG_OK;
    if (!bgi_archive_is_read(a))
        return bg_error_set(error, BG_ERROR_PARSE, "the bytes are not a stored plan");
    status = bgi_plan_check(s->plan, error);
    return status == BG_OK || status == BG_ERROR_MEMORY ? status : BG_ERROR_PARSE;
}

/* Makes the plan the owner of the kernels, also after an error. */
static void hand_over_kernels(store *s)
{
    bg_plan *plan = s->plan;

    if (!s->archive->is_reading)
        return;
    plan->kernels = bgi_arena_copy(&plan->arena, s->kernels, s->kernel_count * sizeof *s->kernels);
    if (plan->kernels != NULL) {
        plan->kernel_count = (uint32_t)s->kernel_count;
        return;
    }
    for (size_t i = 0; i < s->kernel_count; i++)
        if (s->kernels[i].destroy != NULL)
            s->kernels[i].destroy(s->kernels[i].state);
    s->archive->out_of_memory = true;
    bgi_archive_fail(s->archive);
}

bg_status bgi_plan_visit(bgi_archive *archive, bg_plan *plan, const bg_graph *graph, bg_error *error)
{
    store s = {.archive = archive, .plan = plan, .graph = graph};
    bg_status status = bgi_store_tables(archive, plan, error);

    if (status == BG_OK && !archive->has_failed)
        visit_devices(&s);
    hand_over_kernels(&s);
    if (status == BG_OK)
        status = finish(&s, error);
    free(s.types);
    free(s.forms);
    free(s.kernels);
    return archive->is_reading && status != BG_OK && status != BG_ERROR_MEMORY ? BG_ERROR_PARSE : status;
}
