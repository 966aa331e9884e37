/*
 * plan_check.c: symbolic execution of plans.
 */
#include "support/plan_check.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/linear/attributes.h"
#include "transform/transform.h"

#define LINE_BYTES 64
#define LINE_STEP  0x9e3779b97f4a7c15u

typedef struct lines {
    uint64_t *words;
    size_t count;
} lines;

typedef struct machine {
    const bg_plan *plan;
    const char *what;
    const bg_graph *graph; /* the graph that the reference runs; it shows which ops are transparent */
    lines *arenas, *remotes;
    uint64_t *produced, *consumed; /* by edge */
    uint32_t *positions;           /* for each device: the instruction */
    uint64_t *iterations;          /* for each device: the step */
    uint64_t *issued, *moved;      /* for each device: the transfers */
    const bgi_instruction **sums;  /* for each device: the REDUCE whose sum is in progress */
    bgi_test_turns turns;
    uint64_t *outputs; /* [output][step * micro-batches + micro-batch] */
    uint32_t steps;
    uint64_t garbage, random;
} machine;

/* ---- hashes ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

/* Returns the content of output `output` of an op that read these contents; larger numbers of outputs mean the operands
 * that the op changes in place. */
static uint64_t hash_op(const char *name, const char *block, uint32_t output, const uint64_t *inputs, uint32_t count)
{
    uint64_t hash = mix_text(mix_text(mix(1, output), name), block);

    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, inputs[i]);
    return hash;
}

static uint64_t hash_input(const char *name, uint64_t step, uint32_t micro_batch)
{
    return mix(mix(mix_text(2, name), step), micro_batch);
}

static uint64_t hash_variable(const char *name)
{
    return mix_text(3, name);
}

/* Returns the content of a constant: a hash of its bytes, because constants have no names in plans. */
static uint64_t hash_constant(const void *data, size_t size)
{
    uint64_t hash = 4;

    for (size_t i = 0; i < size; i++)
        hash = mix(hash, ((const unsigned char *)data)[i]);
    return hash;
}

/* ---- the reference: op by op over the graph ---- */

static bool is_transparent(const bg_op_type *type)
{
    return type->alias_input != BG_NO_OPERAND || type == &bgi_op_load;
}

/* Returns whether the op replaces an operand's previous content: the first micro-batch's gradient replaces the
 * accumulator's. */
static bool is_replaced(const bg_graph *graph, const bgi_op *op, uint32_t input, uint32_t micro_batch)
{
    const bgi_value *value = op != NULL ? bgi_graph_value(graph, op->inputs[input]) : NULL;

    return op != NULL && micro_batch == 0 && op->phase != BGI_PHASE_UPDATE && bgi_op_type_writes(op->type, input) &&
           value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_ACCUMULATOR;
}

static void walk_op(const bg_graph *graph, const bgi_op *op, uint32_t micro_batch, uint64_t *contents)
{
    uint64_t inputs[64];

    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = is_replaced(graph, op, i, micro_batch) ? 0 : contents[op->inputs[i].id];
    if (op->type == &bgi_op_store) {
        contents[op->inputs[0].id] = inputs[1];
        return;
    }
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i].id != 0)
            contents[op->outputs[i].id] =
                is_transparent(op->type) ? inputs[0]
                                         : hash_op(op->name, graph->blocks[op->block].name, i, inputs, op->input_count);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (bgi_op_type_writes(op->type, i))
            contents[op->inputs[i].id] =
                hash_op(op->name, graph->blocks[op->block].name, 64 + i, inputs, op->input_count);
}

/* Runs all steps of the graph; outputs are stored as in the machine. Returns the content of each value, by value id. */
static uint64_t *walk_graph(const bg_graph *graph, const bg_plan *plan, uint32_t steps, uint64_t *outputs)
{
    uint64_t *contents = calloc(graph->value_count, sizeof *contents);
    const uint32_t micro_batches = plan->micro_batches;

    assert_non_null(contents);
    for (size_t v = 1; v < graph->value_count; v++)
        contents[v] = graph->values[v].kind == BGI_VALUE_CONSTANT
                          ? hash_constant(graph->values[v].data, bg_type_size_bytes(&graph->values[v].type))
                          : hash_variable(graph->values[v].name);
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t m = 0; m < micro_batches; m++) {
            for (size_t v = 1; v < graph->value_count; v++)
                if (graph->values[v].kind == BGI_VALUE_INPUT)
                    contents[v] = hash_input(graph->values[v].name, step, m);
            for (size_t o = 0; o < graph->op_count; o++)
                if (graph->ops[o].phase != BGI_PHASE_UPDATE)
                    walk_op(graph, &graph->ops[o], m, contents);
            for (uint32_t i = 0; i < plan->output_count; i++)
                for (size_t k = 0; k < graph->output_count; k++)
                    if (strcmp(graph->outputs[k].name, plan->outputs[i].name) == 0)
                        outputs[((size_t)i * steps + step) * micro_batches + m] = contents[graph->outputs[k].value.id];
        }
        for (size_t o = 0; o < graph->op_count; o++)
            if (graph->ops[o].phase == BGI_PHASE_UPDATE)
                walk_op(graph, &graph->ops[o], 0, contents);
    }
    return contents;
}

/* ---- memory ---- */

static uint64_t next_random(machine *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return m->random >> 33;
}

static bool overlap(size_t a, size_t a_size, size_t b, size_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

static uint64_t *find_lines(machine *m, uint32_t device, bool is_remote, size_t offset, size_t size, const char *who)
{
    lines *memory = is_remote ? &m->remotes[device] : &m->arenas[device];

    if (offset % LINE_BYTES != 0 || (offset + size + LINE_BYTES - 1) / LINE_BYTES > memory->count)
        fail_msg("%s: `%s` touches %zu bytes at %zu on device %u, which has %zu", m->what, who, size, offset, device,
                 memory->count * LINE_BYTES);
    if (!is_remote && m->sums[device] != NULL)
        for (uint32_t i = 0; i < m->sums[device]->reduced_count; i++) {
            const bgi_reduced *reduced = &m->sums[device]->reduced[i];
            if (overlap(reduced->operand.offset, (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype),
                        offset, size))
                fail_msg("%s: `%s` touches what is being summed on device %u", m->what, who, device);
        }
    return memory->words + offset / LINE_BYTES;
}

static void put(uint64_t *words, size_t size, uint64_t hash)
{
    for (size_t i = 0; i < (size + LINE_BYTES - 1) / LINE_BYTES; i++)
        words[i] = hash + i * LINE_STEP;
}

/* Returns the device whose memory has an operand of `device`; here, windows are the receiver's slots. */
static uint32_t owner_of(const machine *m, uint32_t device, const bgi_operand *operand)
{
    return operand->memory == BGI_MEMORY_WINDOW ? m->plan->edges[operand->edge].to_device : device;
}

static size_t place_of(const machine *m, uint32_t device, const bgi_operand *operand, uint32_t micro_batch)
{
    const bgi_plan_edge *edge;
    uint64_t sequence;

    if (operand->edge == BGI_NO_EDGE)
        return operand->offset;
    edge = &m->plan->edges[operand->edge];
    sequence = edge->is_ring    ? micro_batch
               : edge->per_step ? m->iterations[device]
                                : m->iterations[device] * m->plan->micro_batches + micro_batch;
    return (operand->memory == BGI_MEMORY_WINDOW ? edge->offset : 0) + operand->offset +
           sequence % edge->depth * edge->slot_bytes;
}

static void write_operand(machine *m, uint32_t device, const bgi_operand *operand, uint32_t micro_batch, size_t size,
                          uint64_t hash, const char *who)
{
    put(find_lines(m, owner_of(m, device, operand), operand->memory == BGI_MEMORY_REMOTE,
                   place_of(m, device, operand, micro_batch), size, who),
        size, hash);
}

static uint64_t read_operand(machine *m, uint32_t device, const bgi_operand *operand, uint32_t micro_batch, size_t size,
                             const char *who)
{
    const uint64_t *words = find_lines(m, owner_of(m, device, operand), operand->memory == BGI_MEMORY_REMOTE,
                                       place_of(m, device, operand, micro_batch), size, who);

    for (size_t i = 0; i < (size + LINE_BYTES - 1) / LINE_BYTES; i++)
        if (words[i] != words[0] + i * LINE_STEP)
            fail_msg("%s: `%s` reads a value at %zu of device %u that was partly overwritten", m->what, who,
                     operand->offset, owner_of(m, device, operand));
    return words[0];
}

/* ---- instructions ---- */

/* Checks that outputs do not overlap each other, scratch or inputs; but an output may have exactly the memory of an
 * input.
 */
static void check_overlaps(machine *m, uint32_t device, uint32_t micro_batch, const bgi_call *call)
{
    const uint32_t count = call->input_count + call->output_count;

    for (uint32_t a = 0; a < count; a++) {
        const size_t a_place = place_of(m, device, &call->operands[a], micro_batch);
        const size_t a_size = bg_type_size_bytes(&call->types[a]);
        if (call->operands[a].memory == BGI_MEMORY_REMOTE)
            continue;
        if (call->operands[a].memory == BGI_MEMORY_ARENA &&
            overlap(a_place, a_size, call->scratch_offset, call->kernel.scratch_bytes))
            fail_msg("%s: operand %u of `%s` meets its scratch", m->what, a, call->name);
        for (uint32_t b = call->input_count > a + 1 ? call->input_count : a + 1; b < count; b++) {
            const size_t b_place = place_of(m, device, &call->operands[b], micro_batch);
            const size_t b_size = bg_type_size_bytes(&call->types[b]);
            const bool is_same = a_place == b_place && a_size == b_size && a < call->input_count;
            if (owner_of(m, device, &call->operands[b]) == owner_of(m, device, &call->operands[a]) &&
                overlap(a_place, a_size, b_place, b_size) && !is_same)
                fail_msg("%s: operands %u and %u of `%s` meet", m->what, a, b, call->name);
        }
    }
}

static const bgi_op *find_op(const machine *m, const char *name)
{
    for (size_t o = 0; o < m->graph->op_count; o++)
        if (strcmp(m->graph->ops[o].name, name) == 0)
            return &m->graph->ops[o];
    return NULL;
}

/* Runs a fused product, whose name joins the names of the represented ops by +; it writes the same contents as these
 * ops. */
static void run_fused_product(machine *m, uint32_t device, uint32_t micro_batch, const bgi_call *call,
                              const uint64_t *inputs)
{
    const bgi_fused_product_attributes *attributes = call->attributes;
    const uint32_t product_inputs = bgi_fused_product_inputs(attributes, call->input_count);
    const uint64_t other = inputs[call->input_count - 1];
    const size_t size = bg_type_size_bytes(&call->types[call->input_count]);
    char names[256], *rest = NULL;
    uint64_t sum;

    assert_true(strlen(call->name) < sizeof names);
    strcpy(names, call->name);
    sum = hash_op(strtok_r(names, "+", &rest), call->block, 0, inputs, product_inputs);
    if (bgi_fused_product_adds(attributes, call->input_count))
        sum = hash_op(strtok_r(NULL, "+", &rest), call->block, 0, (uint64_t[]){sum, other}, 2);
    if (attributes->keeps_sum)
        write_operand(m, device, &call->operands[call->input_count + 1], micro_batch, size, sum, call->name);
    if (attributes->follows == BGI_FOLLOWS_FUNCTION)
        sum = hash_op(strtok_r(NULL, "+", &rest), call->block, 0, (uint64_t[]){sum}, 1);
    else if (attributes->follows == BGI_FOLLOWS_DERIVATIVE)
        sum = hash_op(strtok_r(NULL, "+", &rest), call->block, 0, (uint64_t[]){sum, other, other}, 3);
    assert_null(strtok_r(NULL, "+", &rest));
    write_operand(m, device, &call->operands[call->input_count], micro_batch, size, sum, call->name);
}

static void run_call(machine *m, uint32_t device, uint32_t micro_batch, const bgi_call *call)
{
    const bool is_refresh = strcmp(call->kernel.name, "store") == 0;
    const bgi_op *op = find_op(m, call->name);
    const bool copies = strcmp(call->block, "") == 0 && strcmp(call->kernel.name, "copy") == 0 &&
                        call->kernel.scratch_bytes == 0 && call->input_count == 1;
    uint64_t inputs[64];

    check_overlaps(m, device, micro_batch, call);
    if (call->kernel.scratch_bytes > 0)
        put(find_lines(m, device, false, call->scratch_offset, call->kernel.scratch_bytes, call->name),
            call->kernel.scratch_bytes, m->garbage += 12345);
    for (uint32_t i = 0; i < call->input_count; i++)
        inputs[i] = is_replaced(m->graph, copies ? NULL : op, i, micro_batch)
                        ? 0
                        : read_operand(m, device, &call->operands[i], micro_batch, bg_type_size_bytes(&call->types[i]),
                                       call->name);
    if (is_refresh) {
        write_operand(m, device, &call->operands[0], micro_batch, bg_type_size_bytes(&call->types[0]), inputs[1],
                      call->name);
        return;
    }
    if (call->type != NULL && strcmp(call->type->name, "fused_product") == 0) {
        run_fused_product(m, device, micro_batch, call, inputs);
        return;
    }
    if (!copies && op == NULL)
        fail_msg("%s: no op `%s` in the graph", m->what, call->name);
    for (uint32_t i = 0; i < call->output_count; i++) {
        const bool is_copy = copies || is_transparent(op->type);
        const uint64_t hash = is_copy ? inputs[0] : hash_op(call->name, call->block, i, inputs, call->input_count);
        write_operand(m, device, &call->operands[call->input_count + i], micro_batch,
                      bg_type_size_bytes(&call->types[call->input_count + i]), hash, call->name);
    }
    for (uint32_t i = 0; op != NULL && !copies && i < call->input_count; i++)
        if (bgi_op_type_writes(op->type, i))
            write_operand(m, device, &call->operands[i], micro_batch, bg_type_size_bytes(&call->types[i]),
                          hash_op(call->name, call->block, 64 + i, inputs, call->input_count), call->name);
}

static uint64_t sequence_of(const machine *m, uint32_t device, uint32_t edge, uint32_t micro_batch)
{
    return m->plan->edges[edge].per_step ? m->iterations[device]
                                         : m->iterations[device] * m->plan->micro_batches + micro_batch;
}

static bool may_start(const machine *m, uint32_t device, const bgi_instruction *instruction)
{
    const bg_action *action = &instruction->action;

    if (action->kind == BG_ACTION_RECEIVE)
        return m->produced[action->index] > sequence_of(m, device, action->index, action->micro_batch);
    for (uint32_t i = 0; i < instruction->acquire_count; i++) {
        const uint32_t edge = instruction->acquires[i];
        if (sequence_of(m, device, edge, action->micro_batch) >= m->consumed[edge] + m->plan->edges[edge].depth)
            return false;
    }
    return true;
}

static void run_copies(machine *m, uint32_t device, const bgi_instruction *instruction)
{
    const bg_action *action = &instruction->action;

    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        const bgi_copy *copy = &instruction->copies[i];
        const char *who = bg_action_kind_name(action->kind);
        const uint32_t micro_batch = action->micro_batch;
        if (action->kind == BG_ACTION_HOST_IN)
            write_operand(m, device, &copy->operand, micro_batch, copy->size_bytes,
                          hash_input(m->plan->inputs[copy->stream].name, m->iterations[device], micro_batch), who);
        else if (action->kind == BG_ACTION_SEND)
            write_operand(m, device, &copy->to, micro_batch, copy->size_bytes,
                          read_operand(m, device, &copy->operand, micro_batch, copy->size_bytes, who), who);
        else
            m->outputs[((size_t)copy->stream * m->steps + m->iterations[device]) * m->plan->micro_batches +
                       micro_batch] = read_operand(m, device, &copy->operand, micro_batch, copy->size_bytes, who);
    }
}

/* ---- transfers ---- */

static void move_until(machine *m, uint32_t device, uint64_t target)
{
    const bgi_plan_device *on = &m->plan->devices[device];

    if (target > m->issued[device])
        fail_msg("%s: device %u waits for transfer %llu of %llu", m->what, device, (unsigned long long)target,
                 (unsigned long long)m->issued[device]);
    for (; m->moved[device] < target; m->moved[device]++) {
        const bgi_transfer *transfer = &on->transfers[m->moved[device] % on->transfer_count];
        const bool is_load = transfer->action.kind == BG_ACTION_LOAD;
        const size_t size = transfer->size_bytes, count = (size + LINE_BYTES - 1) / LINE_BYTES;
        uint64_t *near = find_lines(m, device, false, transfer->arena_offset, size, "a transfer");
        uint64_t *far = find_lines(m, device, true, transfer->remote_offset, size, "a transfer");
        memcpy(is_load ? near : far, is_load ? far : near, count * sizeof *near);
    }
}

/* Issues transfers, which may run at once, or only when a device waits for them. */
static void issue(machine *m, uint32_t device, uint32_t count)
{
    m->issued[device] += count;
    if (m->turns == BGI_TEST_TURNS_LAST)
        move_until(m, device, m->issued[device]);
    if (m->turns == BGI_TEST_TURNS_RANDOM)
        move_until(m, device, m->issued[device] - next_random(m) % (m->issued[device] - m->moved[device] + 1));
}

static void wait_for_transfers(machine *m, uint32_t device, uint32_t io_wait)
{
    const uint64_t count = m->plan->devices[device].transfer_count;
    const uint64_t target = m->iterations[device] * count + io_wait;

    if (io_wait > 0 && target > count && target - count > m->moved[device])
        move_until(m, device, target - count);
}

static void run_instruction(machine *m, uint32_t device, const bgi_instruction *instruction)
{
    const bg_action *action = &instruction->action;

    wait_for_transfers(m, device, instruction->io_wait);
    if (instruction->needs_sum)
        m->sums[device] = NULL;
    if (instruction->is_beside)
        m->sums[device] = instruction;
    if (instruction->issues > 0)
        issue(m, device, instruction->issues);
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        if (instruction->calls[i].is_transfer) {
            issue(m, device, 1);
            continue;
        }
        if (instruction->call_waits != NULL)
            wait_for_transfers(m, device, instruction->call_waits[i]);
        run_call(m, device, action->micro_batch, &instruction->calls[i]);
    }
    run_copies(m, device, instruction);
    if (action->kind == BG_ACTION_SEND)
        assert_int_equal(m->produced[action->index]++, sequence_of(m, device, action->index, action->micro_batch));
    for (uint32_t i = 0; i < instruction->release_count; i++)
        assert_int_equal(m->consumed[instruction->releases[i]]++,
                         sequence_of(m, device, instruction->releases[i], action->micro_batch));
    if (++m->positions[device] == m->plan->devices[device].instruction_count) {
        m->positions[device] = 0;
        m->iterations[device]++;
    }
}

/* Runs one instruction of some device; returns false if all instructions are done. */
static bool take_turn(machine *m, bgi_test_turns turns)
{
    const uint32_t devices = m->plan->device_count, begin = (uint32_t)(next_random(m) % devices);
    bool is_done = true;

    for (uint32_t i = 0; i < devices; i++) {
        const uint32_t device = turns == BGI_TEST_TURNS_FIRST  ? i
                                : turns == BGI_TEST_TURNS_LAST ? devices - 1 - i
                                                               : (begin + i) % devices;
        if (m->iterations[device] == m->steps || m->plan->devices[device].instruction_count == 0)
            continue;
        is_done = false;
        if (may_start(m, device, &m->plan->devices[device].instructions[m->positions[device]])) {
            run_instruction(m, device, &m->plan->devices[device].instructions[m->positions[device]]);
            return true;
        }
    }
    if (!is_done)
        fail_msg("%s: deadlock", m->what);
    return false;
}

/* ---- whole plans ---- */

static void *take(size_t count, size_t bytes)
{
    void *taken = calloc(count + 1, bytes);

    assert_non_null(taken);
    return taken;
}

static void fill_leaves(machine *m)
{
    const bg_plan *plan = m->plan;

    for (uint32_t d = 0; d < plan->device_count; d++) {
        for (size_t i = 0; i < m->arenas[d].count; i++)
            m->arenas[d].words[i] = m->garbage += 977;
        for (size_t i = 0; i < m->remotes[d].count; i++)
            m->remotes[d].words[i] = m->garbage += 977;
    }
    for (uint32_t v = 0; v < plan->variable_count; v++)
        for (uint32_t p = 0; p < plan->variables[v].place_count; p++)
            write_operand(m, plan->variables[v].places[p].device, &plan->variables[v].places[p].operand, 0,
                          bg_type_size_bytes(&plan->variables[v].type), hash_variable(plan->variables[v].name),
                          "upload");
}

static void fill_constants(machine *m)
{
    for (uint32_t i = 0; i < m->plan->constant_count; i++) {
        const bgi_plan_constant *constant = &m->plan->constants[i];
        write_operand(m, constant->place.device, &constant->place.operand, 0, constant->size_bytes,
                      hash_constant(constant->data, constant->size_bytes), "upload");
    }
}

static void compare(machine *m, const uint64_t *contents, const uint64_t *outputs)
{
    const bg_plan *plan = m->plan;

    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const bgi_plan_variable *variable = &plan->variables[v];
        const bg_value value = bg_graph_find_variable(m->graph, variable->name);
        if (variable->role == BG_ROLE_ACCUMULATOR && variable->places[0].operand.memory == BGI_MEMORY_REMOTE)
            continue; /* the value is not needed after the step */
        for (uint32_t p = 0; p < variable->place_count; p++)
            if (read_operand(m, variable->places[p].device, &variable->places[p].operand, 0,
                             bg_type_size_bytes(&variable->type), variable->name) != contents[value.id])
                fail_msg("%s: variable `%s` (place %u) is not what the graph says", m->what, variable->name, p);
    }
    for (uint32_t i = 0; i < plan->output_count; i++)
        for (size_t n = 0; n < (size_t)m->steps * plan->micro_batches; n++)
            if (m->outputs[i * (size_t)m->steps * plan->micro_batches + n] !=
                outputs[i * (size_t)m->steps * plan->micro_batches + n])
                fail_msg("%s: output `%s`, micro-batch %zu is not what the graph says", m->what, plan->outputs[i].name,
                         n);
}

static void run_machine(const bg_plan *plan, const bg_graph *graph, const uint64_t *contents, const uint64_t *outputs,
                        uint32_t steps, bgi_test_turns turns, uint64_t seed, const char *what)
{
    machine m = {
        .plan = plan, .what = what, .graph = graph, .steps = steps, .random = seed, .garbage = 5, .turns = turns};

    m.arenas = take(plan->device_count, sizeof *m.arenas);
    m.remotes = take(plan->device_count, sizeof *m.remotes);
    m.produced = take(plan->edge_count, sizeof *m.produced);
    m.consumed = take(plan->edge_count, sizeof *m.consumed);
    m.positions = take(plan->device_count, sizeof *m.positions);
    m.iterations = take(plan->device_count, sizeof *m.iterations);
    m.issued = take(plan->device_count, sizeof *m.issued);
    m.moved = take(plan->device_count, sizeof *m.moved);
    m.sums = (const bgi_instruction **)take(plan->device_count, sizeof *m.sums);
    m.outputs = take((size_t)plan->output_count * steps * plan->micro_batches, sizeof *m.outputs);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        m.arenas[d].count = plan->devices[d].arena_bytes / LINE_BYTES;
        m.remotes[d].count = plan->devices[d].remote_bytes / LINE_BYTES;
        m.arenas[d].words = take(m.arenas[d].count, sizeof(uint64_t));
        m.remotes[d].words = take(m.remotes[d].count, sizeof(uint64_t));
    }
    fill_leaves(&m);
    fill_constants(&m);
    while (take_turn(&m, turns))
        ;
    for (uint32_t d = 0; d < plan->device_count; d++)
        move_until(&m, d, m.issued[d]);
    compare(&m, contents, outputs);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        free(m.arenas[d].words);
        free(m.remotes[d].words);
    }
    free(m.arenas), free(m.remotes), free(m.produced), free(m.consumed), free(m.positions), free(m.iterations);
    free(m.outputs), free(m.issued), free(m.moved), free((void *)m.sums);
}

static void check_classes(const bg_plan *plan, const char *what)
{
    for (uint32_t d = 0; d < plan->device_count; d++) {
        size_t sum = 0;
        for (int k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
            if (k != BG_MEMORY_REMOTE)
                sum += bg_plan_memory_bytes(plan, d, (bg_memory_class)k);
        if (sum != bg_plan_device_bytes(plan, d) ||
            bg_plan_memory_bytes(plan, d, BG_MEMORY_REMOTE) != plan->devices[d].remote_bytes)
            fail_msg("%s: the classes of device %u add up to %zu bytes, its arena has %zu", what, d, sum,
                     bg_plan_device_bytes(plan, d));
    }
}

/* Checks that the memory of a phase is part of its device's memory, which also includes the values that are live inside
 * phases. */
static void check_phases(const bg_plan *plan, const char *what)
{
    for (uint32_t d = 0; d < plan->device_count; d++) {
        size_t most = 0;
        for (uint32_t i = 0; i < plan->phase_count; i++) {
            const bgi_plan_phase *phase = &plan->phases[i];
            size_t sum = 0;
            for (int k = 0; phase->device == d && k < BG_MEMORY_CLASS_COUNT; k++)
                sum += phase->class_bytes[k];
            if (sum > bg_plan_device_bytes(plan, d))
                fail_msg("%s: %s of stage %u has %zu bytes, its device %zu", what, bg_action_kind_name(phase->kind),
                         phase->stage, sum, bg_plan_device_bytes(plan, d));
            if (phase->device == d && phase->class_bytes[BG_MEMORY_TRANSIENT] > most)
                most = phase->class_bytes[BG_MEMORY_TRANSIENT];
        }
        if (most != bg_plan_memory_bytes(plan, d, BG_MEMORY_TRANSIENT))
            fail_msg("%s: phases of device %u have %zu bytes inside them, the device %zu", what, d, most,
                     bg_plan_memory_bytes(plan, d, BG_MEMORY_TRANSIENT));
    }
}

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s: %s", what, bg_status_name(status), error->message);
}

void bgi_test_check_plan(const bg_plan *plan, const bg_graph *graph, bg_value loss, uint32_t steps, uint64_t seed,
                         const char *what)
{
    bg_graph *reference = NULL, *pruned = NULL;
    bg_error error = {0};
    uint64_t *contents, *outputs = take((size_t)plan->output_count * steps * plan->micro_batches, sizeof *outputs);

    if (!plan->training)
        require(bgi_prune(graph, NULL, 0, &pruned, &error), &error, what);
    require(bgi_fuse(pruned != NULL ? pruned : graph, NULL, &loss, &reference, &error), &error, what);
    for (size_t o = 0; o < reference->op_count; o++)
        if (reference->ops[o].block == BGI_BLOCK_NONE)
            reference->ops[o].block = 0;
    if (plan->training) {
        require(bgi_fuse_norms(&reference, &loss, &error), &error, what);
        require(bgi_make_training(reference, loss, &plan->optimizer, &plan->options, &error), &error, what);
        require(bgi_fuse_accumulation(&reference, &error), &error, what);
    }
    check_classes(plan, what);
    check_phases(plan, what);
    contents = walk_graph(reference, plan, steps, outputs);
    for (int turns = 0; turns < BGI_TEST_TURNS_COUNT; turns++)
        run_machine(plan, reference, contents, outputs, steps, (bgi_test_turns)turns, seed, what);
    free(contents);
    free(outputs);
    bg_graph_destroy(pruned);
    bg_graph_destroy(reference);
}

void bgi_test_check_training(const bg_graph *graph, bg_value loss, const bg_options *options, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_plan *plan = NULL;
    bg_error error = {0};

    require(bg_plan_create_training(graph, loss, &optimizer, options, &plan, &error), &error, what);
    bgi_test_check_plan(plan, graph, loss, 3, 7, what);
    bg_plan_destroy(plan);
}

void bgi_test_check_inference(const bg_graph *graph, const bg_options *options, const char *what)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    require(bg_plan_create_inference(graph, options, &plan, &error), &error, what);
    bgi_test_check_plan(plan, graph, (bg_value){0}, 3, 7, what);
    bg_plan_destroy(plan);
}
