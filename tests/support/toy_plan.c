/*
 * toy_plan.c: the toy model as a plan and as loops.
 */
#include "support/toy_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/optimizer/attributes.h"

enum { LINE = 64, MOST_OPERANDS = 5, ROW_BYTES = TOY_WIDTH * sizeof(float) };

static const double learning_rate = 0.03125;

/* ---- the formulas, used by kernels and loops ---- */

static float forward(float x, float w, uint32_t stage, uint32_t micro_batch)
{
    return x * w + (float)(stage + 1) / 16.0f + (float)micro_batch / 64.0f;
}

static float update(float w, float a, double rate, uint64_t step, uint32_t sample_count)
{
    return w - (float)rate * (1.0f + (float)step / 8.0f) * a / (float)sample_count;
}

float toy_first_weight(uint32_t stage, uint32_t element)
{
    return 0.7f + 0.013f * (float)((stage * 7 + element * 3) % 31);
}

float toy_input(uint64_t micro_batch, uint32_t element)
{
    return 0.011f * (float)((micro_batch * 13 + element * 5) % 97) - 0.4f;
}

/* ---- kernels ---- */

typedef struct toy_stage {
    uint32_t stage;
    bool is_last;
    uint32_t part_count;
    uint32_t sample_count;
} toy_stage;

static void find_part(const toy_stage *stage, uint32_t part, uint32_t *first, uint32_t *end)
{
    *first = TOY_WIDTH / stage->part_count * part;
    *end = *first + TOY_WIDTH / stage->part_count;
}

/* Computes y and the stash from x and w. */
static void run_forward(const bg_kernel_call *call, uint32_t part)
{
    const toy_stage *stage = call->attributes;
    const float *x = call->operands[0], *w = call->operands[1];
    float *y = call->operands[2], *stash = call->output_count > 1 ? call->operands[3] : NULL;
    uint32_t first, end;

    find_part(stage, part, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const float value = forward(x[i], w[i], stage->stage, call->env->micro_batch);
        if (stash != NULL)
            stash[i] = x[i];
        if (stash != NULL && stage->is_last)
            stash[TOY_WIDTH + i] = value;
        y[i] = value;
    }
}

/* Computes dx (except in the first stage) from w and dy, and adds dy times the stashed x to a; in the last stage dy is
 * y. */
static void run_backward(const bg_kernel_call *call, uint32_t part)
{
    const toy_stage *stage = call->attributes;
    const float *x = call->operands[0], *w = call->operands[1];
    const float *dy = stage->is_last ? x + TOY_WIDTH : call->operands[3];
    float *a = call->operands[2], *dx = call->output_count > 0 ? call->operands[call->input_count] : NULL;
    uint32_t first, end;

    find_part(stage, part, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        if (dx != NULL)
            dx[i] = dy[i] * w[i];
        a[i] = call->env->accumulated == 0 ? dy[i] * x[i] : a[i] + dy[i] * x[i];
    }
}

/* Updates w from a and hyper. */
static void run_update(const bg_kernel_call *call, uint32_t part)
{
    const toy_stage *stage = call->attributes;
    const double *hyper = call->operands[2];
    const float *a = call->operands[1];
    float *w = call->operands[0];

    (void)part;
    for (int64_t i = 0; i < bg_type_element_count(&call->types[0]); i++)
        w[i] = update(w[i], a[i], hyper[BGI_HYPER_LEARNING_RATE], call->env->step, stage->sample_count);
}

/* ---- the same computation in loops ---- */

static void compute_micro_batch(const toy_options *options, uint64_t place, uint32_t micro_batch, bool is_first,
                                const float *weights, float *sums, float *y)
{
    float x[TOY_MOST_STAGES + 1][TOY_WIDTH], dy;

    for (uint32_t i = 0; i < TOY_WIDTH; i++) {
        x[0][i] = toy_input(place, i);
        for (uint32_t s = 0; s < options->stage_count; s++)
            x[s + 1][i] = forward(x[s][i], weights[s * TOY_WIDTH + i], s, micro_batch);
        dy = y[i] = x[options->stage_count][i];
        for (uint32_t s = options->stage_count; s-- > 0 && sums != NULL;) {
            float *sum = &sums[s * TOY_WIDTH + i];
            *sum = is_first ? dy * x[s][i] : *sum + dy * x[s][i];
            dy *= weights[s * TOY_WIDTH + i];
        }
    }
}

void toy_compute(const toy_options *options, uint64_t step, float *weights, float *outputs)
{
    const uint32_t count = options->stage_count * TOY_WIDTH;
    const uint32_t sample_count = options->micro_batches * options->replicas;
    float sums[TOY_MOST_STAGES * TOY_WIDTH], total[TOY_MOST_STAGES * TOY_WIDTH];

    for (uint32_t iteration = 0; iteration < options->iterations; iteration++, step++) {
        for (uint32_t replica = 0; replica < options->replicas; replica++) {
            for (uint32_t m = 0; m < options->micro_batches; m++) {
                const uint32_t number = m * options->replicas + replica;
                const uint64_t place = (uint64_t)iteration * sample_count + number;
                compute_micro_batch(options, place, number, m == 0, weights, options->inference ? NULL : sums,
                                    outputs + place * TOY_WIDTH);
            }
            for (uint32_t i = 0; i < count && !options->inference; i++)
                total[i] = replica == 0 ? sums[i] : total[i] + sums[i];
        }
        for (uint32_t i = 0; i < count && !options->inference; i++)
            weights[i] = update(weights[i], total[i], learning_rate, step, sample_count);
    }
}

/* ---- the plan ---- */

typedef struct builder {
    bg_plan *plan;
    const toy_options *options;
    bg_schedule_edge *edges;
    toy_stage *stages;
    bgi_operand x, y;
    bgi_operand *w, *a, *out, *back; /* values of each stage */
    bgi_place *hyper;
    bool failed;
} builder;

static void *take(builder *b, size_t count, size_t element_bytes)
{
    void *memory = bgi_arena_allocate(&b->plan->arena, count, element_bytes);

    if (memory == NULL)
        b->failed = true;
    return memory;
}

static bgi_operand place(builder *b, uint32_t device, size_t size_bytes)
{
    bgi_plan_device *on = &b->plan->devices[device];
    const bgi_operand operand = {.edge = BGI_NO_EDGE, .offset = on->arena_bytes};

    on->arena_bytes += (size_bytes + LINE - 1) / LINE * LINE;
    return operand;
}

/* Returns the number of elements of a replica's shard, or 0 if replicas update all elements. */
static uint32_t piece_count(const builder *b)
{
    const uint32_t replicas = b->options->replicas;

    return b->options->updates_pieces && replicas > 1 ? (TOY_WIDTH + replicas - 1) / replicas : 0;
}

/* Returns the operand of the edge's slots, which are in the memory of the reader's device. */
static bgi_operand in_edge(const builder *b, uint32_t edge)
{
    return (bgi_operand){.edge = edge, .offset = b->plan->edges[edge].offset};
}

static bgi_operand window(uint32_t edge)
{
    return (bgi_operand){.memory = BGI_MEMORY_WINDOW, .edge = edge};
}

static bool crosses(const builder *b, uint32_t edge)
{
    return b->plan->edges[edge].from_device != b->plan->edges[edge].to_device;
}

static uint32_t find_edge(const builder *b, bg_action_kind from, uint32_t from_stage, bg_action_kind to,
                          uint32_t to_stage)
{
    for (uint32_t i = 0; i < b->plan->edge_count; i++)
        if (b->edges[i].from_kind == from && b->edges[i].from_stage == from_stage && b->edges[i].to_kind == to &&
            b->edges[i].to_stage == to_stage)
            return i;
    return BGI_NO_EDGE;
}

static void add_variable(builder *b, const char *name, uint32_t stage, bg_variable_role role, bgi_operand at)
{
    bgi_plan_variable *variable = &b->plan->variables[b->plan->variable_count];
    bgi_place *places = take(b, 1, sizeof *places);

    if (places == NULL)
        return;
    *places = (bgi_place){b->plan->stage_devices[stage], at};
    *variable = (bgi_plan_variable){.name = bgi_arena_format(&b->plan->arena, "%s%u", name, stage),
                                    .type = role == BG_ROLE_HYPER ? bg_vector(BG_FLOAT64, BGI_HYPER_COUNT)
                                                                  : bg_vector(BG_FLOAT32, TOY_WIDTH),
                                    .role = role,
                                    .number = b->plan->variable_count,
                                    .place_count = 1,
                                    .places = places};
    variable->initializer = (bg_initializer){BG_INITIALIZE_UNIFORM, -0.5, 0.5};
    b->plan->variable_count++;
}

static void lay_out(builder *b, const bg_schedule *schedule)
{
    bg_plan *plan = b->plan;
    const size_t pieces = piece_count(b) * sizeof(float) * plan->replicas;
    const size_t row_bytes = pieces > ROW_BYTES ? pieces : ROW_BYTES; /* with the padding of the last shards */

    for (uint32_t i = 0; i < plan->edge_count; i++) {
        bgi_plan_edge *edge = &plan->edges[i];
        edge->from_device = plan->stage_devices[b->edges[i].from_stage];
        edge->to_device = plan->stage_devices[b->edges[i].to_stage];
        edge->depth = bg_schedule_edge_depth(schedule, i);
        edge->is_stash = b->edges[i].from_stage == b->edges[i].to_stage;
        edge->payload_bytes =
            edge->is_stash && b->edges[i].from_stage + 1 == plan->stage_count ? 2 * ROW_BYTES : ROW_BYTES;
        edge->slot_bytes = edge->payload_bytes;
        edge->offset = place(b, edge->to_device, edge->depth * edge->slot_bytes).offset;
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint32_t device = plan->stage_devices[s];
        b->w[s] = place(b, device, row_bytes);
        b->a[s] = place(b, device, row_bytes);
        b->hyper[s] = (bgi_place){device, place(b, device, BGI_HYPER_COUNT * sizeof(double))};
        b->out[s] = place(b, device, ROW_BYTES);
        b->back[s] = place(b, device, ROW_BYTES);
        add_variable(b, "w", s, BG_ROLE_PARAMETER, b->w[s]);
        if (!b->options->inference)
            add_variable(b, "a", s, BG_ROLE_ACCUMULATOR, b->a[s]);
    }
    b->x = place(b, plan->stage_devices[0], ROW_BYTES);
    b->y = b->out[plan->stage_count - 1];
}

/* Adds one variable of the optimizer's settings, with a place on the device of each stage. */
static void add_hyper(builder *b)
{
    bg_plan *plan = b->plan;

    plan->hyper_variable = UINT32_MAX;
    if (b->options->inference)
        return;
    plan->hyper_variable = plan->variable_count;
    add_variable(b, "hyper", 0, BG_ROLE_HYPER, b->hyper[0].operand);
    plan->variables[plan->hyper_variable].places = b->hyper;
    plan->variables[plan->hyper_variable].place_count = plan->stage_count;
}

/* Returns the location to which an action writes the values of edge `edge`. */
static bgi_operand destination(const builder *b, uint32_t edge, bgi_operand local)
{
    if (!crosses(b, edge))
        return in_edge(b, edge);
    return b->options->copies_sends ? local : window(edge);
}

static void fill_call(builder *b, const bg_action *action, bgi_call *call, bgi_operand *operands, bg_type *types)
{
    const uint32_t s = action->stage, last = b->plan->stage_count - 1;
    const bg_type stash = bg_vector(BG_FLOAT32, s == last ? 2 * TOY_WIDTH : TOY_WIDTH);
    const toy_options *options = b->options;

    for (uint32_t i = 0; i < MOST_OPERANDS; i++)
        types[i] = bg_vector(BG_FLOAT32, TOY_WIDTH);
    call->attributes = &b->stages[s];
    call->operands = operands;
    call->types = types;
    call->name = bgi_arena_format(&b->plan->arena, "op%s%u", bg_action_kind_name(action->kind), s);
    call->block = "toy";
    call->traced_as = action->kind;
    call->cost = (bg_cost){.flops = 2 * TOY_WIDTH, .bytes_read = 3 * ROW_BYTES, .bytes_written = 2 * ROW_BYTES};
    call->kernel = (bg_kernel){.part_count = b->options->part_count, .state = options->state};
    if (action->kind == BG_ACTION_FORWARD) {
        call->kernel.name = "toy.forward";
        call->kernel.run = options->forward != NULL ? options->forward : run_forward;
        operands[0] = s == 0 ? b->x : in_edge(b, find_edge(b, BG_ACTION_FORWARD, s - 1, BG_ACTION_FORWARD, s));
        operands[1] = b->w[s];
        operands[2] =
            s == last ? b->y : destination(b, find_edge(b, BG_ACTION_FORWARD, s, BG_ACTION_FORWARD, s + 1), b->out[s]);
        call->input_count = 2;
        call->output_count = 1;
        types[3] = stash;
        if (!options->inference)
            operands[2 + call->output_count++] = in_edge(b, find_edge(b, BG_ACTION_FORWARD, s, BG_ACTION_BACKWARD, s));
    } else if (action->kind == BG_ACTION_BACKWARD) {
        call->kernel.name = "toy.backward";
        call->kernel.run = options->backward != NULL ? options->backward : run_backward;
        operands[0] = in_edge(b, find_edge(b, BG_ACTION_FORWARD, s, BG_ACTION_BACKWARD, s));
        types[0] = stash;
        operands[1] = b->w[s];
        operands[2] = b->a[s];
        call->input_count = 3;
        if (s < last)
            operands[call->input_count++] = in_edge(b, find_edge(b, BG_ACTION_BACKWARD, s + 1, BG_ACTION_BACKWARD, s));
        if (s > 0)
            operands[call->input_count + call->output_count++] =
                destination(b, find_edge(b, BG_ACTION_BACKWARD, s, BG_ACTION_BACKWARD, s - 1), b->back[s]);
    } else {
        call->kernel.name = "toy.update";
        call->kernel.run = run_update;
        call->kernel.part_count = 1;
        operands[0] = b->w[s];
        operands[1] = b->a[s];
        operands[2] = b->hyper[s].operand;
        types[2] = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
        call->input_count = 3;
        for (uint32_t i = 0; piece_count(b) > 0 && i < 2; i++) {
            types[i] = bg_vector(BG_FLOAT32, piece_count(b));
            operands[i].stride = piece_count(b) * sizeof(float);
        }
    }
}

/* Sets the edges to and from other devices that the action is the first to write or the last to read. */
static void fill_credits(builder *b, const bg_action *action, bgi_instruction *instruction)
{
    uint32_t *acquires = take(b, b->plan->edge_count + 1, sizeof *acquires);
    uint32_t *releases = take(b, b->plan->edge_count + 1, sizeof *releases);

    for (uint32_t e = 0; acquires != NULL && releases != NULL && e < b->plan->edge_count; e++) {
        const bg_schedule_edge *edge = &b->edges[e];
        if (!crosses(b, e))
            continue;
        if (edge->from_kind == action->kind && edge->from_stage == action->stage)
            acquires[instruction->acquire_count++] = e;
        if (edge->last_kind == action->kind && edge->to_stage == action->stage)
            releases[instruction->release_count++] = e;
    }
    instruction->acquires = acquires;
    instruction->releases = releases;
}

static void fill_copy(builder *b, const bg_action *action, bgi_instruction *instruction)
{
    bgi_copy *copy = take(b, 1, sizeof *copy);

    if (copy == NULL)
        return;
    copy->size_bytes = ROW_BYTES;
    copy->operand = action->kind == BG_ACTION_HOST_IN ? b->x : b->y;
    instruction->copies = copy;
    if (action->kind == BG_ACTION_HOST_IN || action->kind == BG_ACTION_HOST_OUT) {
        instruction->copy_count = 1;
    } else if (action->kind == BG_ACTION_SEND && b->options->copies_sends) {
        instruction->copy_count = 1;
        copy->operand =
            b->edges[action->index].from_kind == BG_ACTION_FORWARD ? b->out[action->stage] : b->back[action->stage];
        copy->to = window(action->index);
    }
}

static void fill_reduced(builder *b, const bg_action *action, bgi_instruction *instruction)
{
    const bool is_whole = action->kind == BG_ACTION_REDUCE && b->options->reduces_whole;
    bgi_reduced *reduced = take(b, 1, sizeof *reduced);

    if (reduced == NULL)
        return;
    *reduced = (bgi_reduced){.operand = action->kind == BG_ACTION_REDUCE ? b->a[action->stage] : b->w[action->stage],
                             .dtype = BG_FLOAT32,
                             .element_count = TOY_WIDTH,
                             .piece_count = is_whole ? 0 : piece_count(b)};
    instruction->reduced = reduced;
    instruction->reduced_count = 1;
}

static void fill_instruction(builder *b, const bg_action *action, bgi_instruction *instruction)
{
    instruction->action = *action;
    switch (action->kind) {
    case BG_ACTION_FORWARD:
    case BG_ACTION_BACKWARD:
    case BG_ACTION_UPDATE: {
        bgi_call *call = take(b, 1, sizeof *call);
        bgi_operand *operands = take(b, MOST_OPERANDS, sizeof *operands);
        bg_type *types = take(b, MOST_OPERANDS, sizeof *types);
        if (call == NULL || operands == NULL || types == NULL)
            return;
        fill_call(b, action, call, operands, types);
        instruction->calls = call;
        instruction->call_count = 1;
        fill_credits(b, action, instruction);
        break;
    }
    case BG_ACTION_REDUCE:
    case BG_ACTION_GATHER:
        fill_reduced(b, action, instruction);
        break;
    default:
        fill_copy(b, action, instruction);
    }
}

static void fill_program(builder *b, const bg_schedule *schedule, uint32_t device)
{
    const uint32_t count = bg_schedule_action_count(schedule, device);
    bgi_instruction *instructions = take(b, count + 1, sizeof *instructions);

    for (uint32_t i = 0; instructions != NULL && i < count; i++)
        fill_instruction(b, &bg_schedule_actions(schedule, device)[i], &instructions[i]);
    b->plan->devices[device].instructions = instructions;
    b->plan->devices[device].instruction_count = count;
}

static void fill_streams(builder *b)
{
    bg_plan *plan = b->plan;

    plan->inputs = take(b, 1, sizeof *plan->inputs);
    plan->outputs = take(b, 1, sizeof *plan->outputs);
    if (b->failed)
        return;
    plan->input_count = plan->output_count = 1;
    plan->inputs[0] = (bgi_plan_input){"x", bg_vector(BG_FLOAT32, TOY_WIDTH)};
    plan->outputs[0] = (bgi_plan_output){.name = "y",
                                         .type = bg_vector(BG_FLOAT32, TOY_WIDTH),
                                         .mode = b->options->output_mode,
                                         .period = b->options->output_period};
}

static void take_tables(builder *b)
{
    bg_plan *plan = b->plan;
    const uint32_t stage_count = plan->stage_count;

    plan->devices = take(b, plan->device_count, sizeof *plan->devices);
    plan->edges = take(b, plan->edge_count + 1, sizeof *plan->edges);
    plan->variables = take(b, 2 * stage_count + 1, sizeof *plan->variables);
    b->stages = take(b, stage_count, sizeof *b->stages);
    b->w = take(b, stage_count, sizeof *b->w);
    b->a = take(b, stage_count, sizeof *b->a);
    b->hyper = take(b, stage_count, sizeof *b->hyper);
    b->out = take(b, stage_count, sizeof *b->out);
    b->back = take(b, stage_count, sizeof *b->back);
    if (b->failed)
        return;
    for (uint32_t s = 0; s < stage_count; s++)
        b->stages[s] = (toy_stage){.stage = s,
                                   .is_last = s + 1 == stage_count,
                                   .part_count = b->options->part_count,
                                   .sample_count = plan->micro_batches * plan->replicas};
}

static void build(builder *b, bg_schedule_problem *problem)
{
    bg_plan *plan = b->plan;
    bg_error error = {0};

    if (bg_schedule_problem_chain(problem, 2 * ROW_BYTES, &b->edges, &error) != BG_OK ||
        bg_schedule_create(problem, bg_schedule_generator_find(b->options->generator), &plan->schedule, &error) !=
            BG_OK) {
        fprintf(stderr, "toy plan: %s\n", error.message);
        b->failed = true;
        return;
    }
    plan->edge_count = problem->edge_count;
    take_tables(b);
    if (b->failed)
        return;
    lay_out(b, plan->schedule);
    add_hyper(b);
    fill_streams(b);
    for (uint32_t d = 0; d < plan->device_count; d++)
        fill_program(b, plan->schedule, d);
    if (bg_schedule_device_count(plan->schedule) != plan->device_count)
        b->failed = true;
}

toy_options toy_defaults(void)
{
    return (toy_options){.generator = "interleaved",
                         .stage_count = 4,
                         .device_count = 4,
                         .micro_batches = 8,
                         .iterations = 1,
                         .replicas = 1,
                         .part_count = 1,
                         .cores = 2,
                         .wait_limit_s = 20.0,
                         .output_mode = BG_OUTPUT_ALL,
                         .output_period = 1};
}

bg_plan *toy_plan_create(const toy_options *options)
{
    bg_plan *plan = calloc(1, sizeof *plan);
    builder b = {.plan = plan, .options = options};
    bg_schedule_problem problem;
    uint32_t *stage_devices;
    bool *stage_gathers;

    if (plan == NULL)
        return NULL;
    stage_devices = take(&b, options->stage_count, sizeof *stage_devices);
    stage_gathers = take(&b, options->stage_count, sizeof *stage_gathers);
    if (stage_devices == NULL || stage_gathers == NULL) {
        toy_plan_destroy(plan);
        return NULL;
    }
    for (uint32_t s = 0; s < options->stage_count; s++) {
        stage_devices[s] = s % options->device_count;
        stage_gathers[s] = options->updates_pieces && options->replicas > 1;
    }
    plan->options = (bg_options){.execution.cores = options->cores,
                                 .replicas.count = options->replicas,
                                 .numerics.seed = 42,
                                 .execution.wait_limit_s = options->wait_limit_s,
                                 .reporting.trace = options->trace,
                                 .reporting.trace_events = 4096,
                                 .numerics.initialize_missing = true};
    plan->input_group_size = 1;
    plan->training = !options->inference;
    plan->optimizer = bg_sgd(learning_rate);
    plan->stage_count = options->stage_count;
    plan->stage_devices = stage_devices;
    plan->device_count = options->device_count;
    plan->replicas = options->replicas;
    plan->micro_batches = options->micro_batches;
    plan->iterations = options->iterations;
    problem = bg_schedule_problem_defaults();
    problem.stage_count = options->stage_count;
    problem.device_count = options->device_count;
    problem.stage_devices = stage_devices;
    problem.micro_batch_count = options->micro_batches;
    problem.training = !options->inference;
    problem.reduces_gradients = !options->inference && options->replicas > 1;
    problem.stage_gathers = stage_gathers;
    build(&b, &problem);
    free(b.edges);
    if (b.failed) {
        toy_plan_destroy(plan);
        return NULL;
    }
    return plan;
}

void toy_plan_destroy(bg_plan *plan)
{
    if (plan == NULL)
        return;
    bg_schedule_destroy(plan->schedule);
    bgi_arena_clear(&plan->arena);
    free(plan);
}

/* Returns writable instructions; the builder allocated them as such. */
bgi_instruction *toy_instructions(bg_plan *plan, uint32_t device)
{
    return (bgi_instruction *)plan->devices[device].instructions;
}
