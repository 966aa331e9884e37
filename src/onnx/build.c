/*
 * build.c: maps the nodes of a file, one after another, to ops of a graph. Known values are computed during the mapping
 * and add no op. After an unsupported node the mapping continues, so that the final error lists all such nodes.
 */
#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "graph/graph.h"
#include "ops/evaluate.h"

/* ---- the sizes of inputs ---- */

/* Returns the size that options give for dimension `dim` of an input as "INPUT:dim", or 0. */
static int64_t size_by_place(const bg_onnx_options *options, const char *input, uint32_t dim)
{
    const size_t length = strlen(input);

    for (uint32_t i = 0; i < options->size_count; i++) {
        const char *text = options->sizes[i].symbol;
        char *end;

        if (strncmp(text, input, length) != 0 || text[length] != ':' || text[length + 1] < '0' ||
            text[length + 1] > '9')
            continue;
        if (strtoul(text + length + 1, &end, 10) == dim && *end == '\0')
            return options->sizes[i].size;
    }
    return 0;
}

static int64_t size_by_symbol(const bg_onnx_options *options, const char *symbol)
{
    for (uint32_t i = 0; i < options->size_count; i++)
        if (symbol != NULL && strcmp(options->sizes[i].symbol, symbol) == 0)
            return options->sizes[i].size;
    return 0;
}

static const bg_onnx_fixed *find_fixed(const bg_onnx_options *options, const char *name)
{
    for (uint32_t i = 0; i < options->value_count; i++)
        if (strcmp(options->values[i].input, name) == 0)
            return &options->values[i];
    return NULL;
}

/* Returns the number of dimensions: that of the file, or the number of consecutive dimensions in the options. */
static uint32_t rank_of(const bg_onnx_port *port, const bg_onnx_options *options)
{
    uint32_t rank = 0;

    if (port->has_shape)
        return port->rank;
    while (rank < BG_MAX_RANK && size_by_place(options, port->name, rank) > 0)
        rank++;
    return rank;
}

/* Finds the dimension's size; an unknown size is 0 and is added to the missing sizes. */
static bg_status bind_dim(const bg_onnx_port *port, uint32_t dim, const bg_onnx_options *options, bgi_string *missing,
                          int64_t *out, bg_error *error)
{
    const bg_onnx_dim *said = port->has_shape ? &port->dims[dim] : NULL;
    int64_t size = size_by_place(options, port->name, dim);

    if (said != NULL && said->size >= 0) {
        if (size > 0 && size != said->size)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "options.sizes: dimension %u of input `%s` is %" PRId64
                                ": the file fixes it to %" PRId64,
                                dim, port->name, size, said->size);
        *out = said->size;
        return BG_OK;
    }
    if (size == 0 && said != NULL)
        size = size_by_symbol(options, said->symbol);
    if (size == 0 && dim == 0)
        size = options->batch_size;
    if (size == 0)
        bgi_string_add(missing, "%s`%s` (dimension %u of input `%s`)", missing->length > 0 ? ", " : "",
                       said != NULL && said->symbol != NULL ? said->symbol : "no name", dim, port->name);
    *out = size;
    return BG_OK;
}

static bg_status bind_input(bg_onnx_port *port, const bg_onnx_options *options, bgi_string *missing, bg_error *error)
{
    const bg_onnx_fixed *fixed = find_fixed(options, port->name);
    const uint32_t rank = rank_of(port, options);
    int64_t dims[BG_MAX_RANK] = {0};

    if (fixed != NULL) {
        port->type = fixed->type;
        return BG_OK;
    }
    port->type = (bg_type){0};
    if (rank > BG_MAX_RANK || port->dtype == BG_DTYPE_NONE)
        return BG_OK; /* refused when a node uses the input */
    for (uint32_t i = 0; i < rank; i++)
        BGI_TRY(bind_dim(port, i, options, missing, &dims[i], error));
    port->type = bg_type_make(port->dtype, rank, dims);
    return BG_OK;
}

/* Reports a batch size that is the first dimension of no input. */
static bg_status check_batch(const bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    const bg_onnx_port *first = NULL;

    for (uint32_t i = 0; i < onnx->contents.input_count && options->batch_size > 0; i++) {
        const bg_onnx_port *port = &onnx->inputs[i];

        if (find_fixed(options, port->name) != NULL || port->type.rank == 0)
            continue;
        if (port->type.dims[0] == options->batch_size)
            return BG_OK;
        first = first != NULL ? first : port;
    }
    if (first == NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "options.batch_size is %" PRId64 ": the first dimension of input `%s` is %" PRId64
                        " in the file; export the model with a dynamic first dimension",
                        options->batch_size, first->name, first->type.dims[0]);
}

static bg_status bind_inputs(bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    bgi_string missing = {0};
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < onnx->contents.input_count && status == BG_OK; i++)
        status = bind_input(&onnx->inputs[i], options, &missing, error);
    if (status == BG_OK && missing.failed)
        status = bgi_error_memory(error, "a message", missing.length);
    if (status == BG_OK && missing.length > 0)
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "dimensions without a size: %s: give each by its name, or as \"INPUT:DIMENSION\"",
                              missing.data);
    bgi_string_clear(&missing);
    return status == BG_OK ? check_batch(onnx, options, error) : status;
}

/* ---- items ---- */

static bgi_item *find_item(bgi_onnx_build *b, const char *name)
{
    const uint32_t number = bgi_names_find(&b->names, name);

    return number != BGI_NAMES_NONE && b->items[number].kind != BGI_ITEM_NONE ? &b->items[number] : NULL;
}

static bgi_item *add_item(bgi_onnx_build *b, const char *name, bgi_item_kind kind)
{
    const uint32_t number = bgi_names_add(&b->names, name);

    if (number == BGI_NAMES_NONE)
        return NULL;
    b->items[number] = (bgi_item){.name = name, .kind = kind};
    return &b->items[number];
}

static bg_status add_fixed(bgi_onnx_build *b, bgi_item *item, const bg_onnx_fixed *fixed, int32_t element,
                           bg_error *error)
{
    bgi_tensor *tensor = bgi_tensor_make(&b->arena, element, fixed->type.rank, fixed->type.dims);

    if (tensor == NULL)
        return bgi_error_memory(error, fixed->input, bg_type_size_bytes(&fixed->type));
    if (tensor->count > 0) {
        BGI_TRY(bgi_require(fixed->data, "options.values", "bg_onnx_build", error));
        memcpy(tensor->data, fixed->data, (size_t)tensor->count * bg_dtype_size_bytes(tensor->dtype));
    }
    item->kind = BGI_ITEM_KNOWN;
    item->known = tensor;
    return BG_OK;
}

static bg_status add_inputs(bgi_onnx_build *b, bg_error *error)
{
    bg_onnx *onnx = b->onnx;
    uint32_t port = 0;

    for (size_t i = 0; i < onnx->model->graph->n_input; i++) {
        const BgiOnnx__ValueInfo *info = onnx->model->graph->input[i];
        const bg_onnx_fixed *fixed;
        bgi_item *item;

        if (bgi_names_find(&onnx->weight_names, info->name) != BGI_NAMES_NONE)
            continue;
        item = add_item(b, info->name, BGI_ITEM_INPUT);
        if (item == NULL)
            return bgi_error_memory(error, "the inputs of a model", sizeof *item);
        item->index = port++;
        item->element = info->type != NULL && info->type->tensor_type != NULL ? info->type->tensor_type->elem_type : 0;
        fixed = find_fixed(b->options, info->name);
        if (fixed != NULL)
            BGI_TRY(add_fixed(b, item, fixed, item->element, error));
    }
    return BG_OK;
}

static bg_status add_weights(bgi_onnx_build *b, bg_error *error)
{
    bg_onnx *onnx = b->onnx;

    for (uint32_t i = 0; i < onnx->contents.weight_count; i++) {
        const BgiOnnx__Tensor *tensor = onnx->model->graph->initializer[i];
        bgi_item *item = add_item(b, onnx->weights[i].name, BGI_ITEM_WEIGHT);

        if (item == NULL)
            return bgi_error_memory(error, "the weights of a model", sizeof *item);
        item->index = i;
        item->element = tensor->data_type;
        onnx->is_variable[i] = false;
        if (onnx->weights[i].use == BG_ONNX_CONSTANT && bgi_onnx_element_dtype(tensor->data_type) != BG_DTYPE_NONE) {
            item->kind = BGI_ITEM_KNOWN;
            BGI_TRY(bgi_onnx_tensor_load(onnx, tensor, &b->arena, &item->known, error));
        }
    }
    return BG_OK;
}

/* ---- blocks ---- */

static bool open_block(bgi_onnx_build *b, uint32_t node)
{
    const BgiOnnx__Node *proto = b->onnx->model->graph->node[node];
    const char *scope = bgi_onnx_scope(&b->onnx->built, proto, b->options->block_depth);

    if (scope == NULL)
        return false;
    if (b->scope == NULL || strcmp(b->scope, scope) != 0) {
        const char *block = scope;

        for (uint32_t times = 2; block != NULL && bgi_names_find(&b->blocks, block) != BGI_NAMES_NONE; times++)
            block = bgi_arena_format(&b->onnx->built, "%s.%u", scope, times);
        if (block == NULL || bgi_names_add(&b->blocks, block) == BGI_NAMES_NONE)
            return false;
        if (b->scope != NULL)
            bg_block_end(b->graph);
        bg_block_begin(b->graph, block, BG_DEVICE_NONE);
        b->scope = scope;
        b->block = block;
    }
    b->onnx->nodes[node].block = b->block;
    return true;
}

/* ---- folding ---- */

/* Runs the small graph of a node, and stores the results as known values. */
static bg_status evaluate(bgi_onnx_build *b, bgi_mapper *m, bg_error *error)
{
    const bg_kernel_env env = {0};
    uint64_t bytes = 0;
    void **buffers;
    bg_status status;

    BGI_TRY(bg_graph_check(m->graph, error));
    for (size_t i = 1; i < m->graph->value_count; i++) {
        bytes += bg_type_size_bytes(&m->graph->values[i].type);
        if (bytes > BGI_ONNX_KNOWN_LIMIT - b->known_bytes)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "its results would exceed the 1 GiB that may be computed while the graph is built");
    }
    b->known_bytes += bytes;
    BGI_TRY(bgi_evaluate_create_buffers(m->graph, &buffers, error));
    status = bgi_evaluate(m->graph, 0, bg_graph_op_count(m->graph), &env, buffers, error);
    for (uint32_t i = 0; i < m->result_count && status == BG_OK; i++) {
        bgi_item *result = &m->results[i];
        bg_type type;
        bgi_tensor *tensor;

        if (result->kind != BGI_ITEM_VALUE)
            continue;
        type = bg_graph_type(m->graph, result->value);
        tensor = bgi_tensor_make(&b->arena, result->element, type.rank, type.dims);
        if (tensor == NULL || tensor->dtype != type.dtype) {
            status = tensor == NULL ? bgi_error_memory(error, m->name, bg_type_size_bytes(&type))
                                    : bg_error_set(error, BG_ERROR_INTERNAL, "node `%s` made %s for an output of %s",
                                                   m->name, bg_dtype_name(type.dtype), bg_dtype_name(tensor->dtype));
        } else {
            memcpy(tensor->data, buffers[result->value.id], bg_type_size_bytes(&type));
            result->kind = BGI_ITEM_KNOWN;
            result->known = tensor;
            result->value = (bg_value){0};
            result->transpose_of = (bg_value){0};
        }
    }
    bgi_evaluate_destroy_buffers(m->graph, buffers);
    return status;
}

static bg_status fold(bgi_onnx_build *b, bgi_mapper *m, const bgi_mapping *mapping, bool *is_mapped, bg_error *error)
{
    bg_error own = {0};
    bg_status status;

    BGI_TRY(bg_graph_create(&m->graph, error));
    bg_block_begin(m->graph, "folded", BG_DEVICE_NONE);
    m->is_folding = true;
    *is_mapped = mapping->map(m);
    bg_block_end(m->graph);
    status = m->is_out_of_memory ? BG_ERROR_MEMORY : BG_OK;
    if (status == BG_OK && *is_mapped) {
        status = evaluate(b, m, &own);
        if (status != BG_OK && status != BG_ERROR_MEMORY) { /* shapes do not fit */
            bgi_map_refuse(m, "%s", own.message);
            *is_mapped = false;
            status = BG_OK;
        }
    } else if (status == BG_OK && bg_graph_check(m->graph, &own) != BG_OK) {
        bgi_map_refuse(m, "%s", own.message);
    }
    bg_graph_destroy(m->graph);
    return status == BG_OK ? BG_OK : bgi_error_memory(error, m->name, 0);
}

/* ---- mapping the nodes ---- */

/* The refused nodes. */
typedef struct problems {
    bg_onnx_problem *list;
    size_t count, capacity;
    bg_status status; /* status of the first problem */
} problems;

static bg_status add_problem(bgi_onnx_build *b, problems *p, uint32_t node, bg_status status, const char *reason,
                             bg_error *error)
{
    bg_onnx_problem problem = {.node = node,
                               .op = node != UINT32_MAX ? b->onnx->nodes[node].op : "",
                               .reason = bgi_arena_string(&b->onnx->built, reason)};

    if (problem.reason == NULL || !bgi_array_reserve((void **)&p->list, &p->capacity, p->count + 1, sizeof *p->list))
        return bgi_error_memory(error, "the problems of a model", sizeof *p->list);
    if (p->count == 0)
        p->status = status;
    p->list[p->count++] = problem;
    return BG_OK;
}

/* Counts the ops that the node added to the graph, and their FLOPs. */
static void count_ops(bgi_onnx_build *b, uint32_t node, uint32_t first)
{
    bg_onnx_node *out = &b->onnx->nodes[node];

    out->ops += bg_graph_op_count(b->graph) - first;
    for (uint32_t i = first; i < bg_graph_op_count(b->graph); i++) {
        const bgi_op *op = &b->graph->ops[i];
        bg_type types[64];
        bg_op_signature signature;

        if (op->type->cost == NULL || bgi_op_operand_count(op) > 64)
            continue;
        signature = bgi_op_signature(b->graph, op, types);
        out->flops += op->type->cost(&signature).flops;
    }
}

static bool all_known(const bgi_mapper *m)
{
    for (uint32_t i = 0; i < m->input_count; i++)
        if (m->inputs[i] != NULL && m->inputs[i]->kind != BGI_ITEM_KNOWN)
            return false;
    return true;
}

static bool any_refused(const bgi_mapper *m)
{
    for (uint32_t i = 0; i < m->input_count; i++)
        if (m->inputs[i] != NULL && m->inputs[i]->kind == BGI_ITEM_REFUSED)
            return true;
    return false;
}

static const char *reason_of(const bgi_mapper *m)
{
    return m->reason[0] != '\0' ? m->reason : "the library cannot express it";
}

/* Reports a node that cannot be mapped. A node of a branch is reported under the node that has the branch. */
static bg_status refuse_node(bgi_onnx_build *b, problems *p, uint32_t number, const BgiOnnx__Node *node,
                             bg_status status, const char *reason, bg_error *error)
{
    char text[BGI_REASON_BYTES + 200];

    if (node == b->onnx->model->graph->node[number])
        return add_problem(b, p, number, status, reason, error);
    snprintf(text, sizeof text, "node `%.80s` (%.60s) of its branch: %.400s", node->name != NULL ? node->name : "",
             node->op_type, reason);
    return add_problem(b, p, number, status, text, error);
}

/* Folds a node whose operands are all known; maps any other node. */
static bg_status map_node(bgi_onnx_build *b, uint32_t node, bgi_mapper *m, const bgi_mapping *mapping, problems *p,
                          bool *is_mapped, bg_error *error)
{
    const uint32_t first = bg_graph_op_count(b->graph);
    bg_error own = {0};

    if (all_known(m)) {
        BGI_TRY(fold(b, m, mapping, is_mapped, error));
    } else {
        if (!open_block(b, node))
            return bgi_error_memory(error, "a block", 0);
        m->graph = b->graph;
        *is_mapped = mapping->map(m);
        if (m->is_out_of_memory)
            return bgi_error_memory(error, m->name, 0);
        count_ops(b, node, first);
        if (bg_graph_check(b->graph, &own) != BG_OK) {
            *is_mapped = false;
            return own.status == BG_ERROR_MEMORY ? bg_error_set(error, own.status, "%s", own.message)
                                                 : refuse_node(b, p, node, m->node, own.status, own.message, error);
        }
    }
    for (uint32_t i = 0; *is_mapped && i < m->result_count; i++)
        if (m->results[i].kind == BGI_ITEM_NONE && bgi_map_wants(m, i)) {
            bgi_map_refuse(m, "output %u (`%s`) cannot be made", i, m->node->output[i]);
            *is_mapped = false;
        }
    return *is_mapped ? BG_OK : refuse_node(b, p, node, m->node, BG_ERROR_UNSUPPORTED, reason_of(m), error);
}

static bg_status walk_if(bgi_onnx_build *b, uint32_t number, const BgiOnnx__Node *node, problems *p, bg_error *error);

/* Maps a node. `number` is the index of the node or, for a node of a branch, of the node that has the branch. */
static bg_status walk_node(bgi_onnx_build *b, uint32_t number, const BgiOnnx__Node *node, problems *p, bg_error *error)
{
    const char *domain = node->domain != NULL && strcmp(node->domain, "ai.onnx") != 0 ? node->domain : "";
    const bgi_mapping *mapping = bgi_onnx_find_mapping(domain, node->op_type);
    bgi_arena arena = {0};
    bgi_mapper m = {.build = b,
                    .node = node,
                    .name = bgi_onnx_node_name(&b->onnx->built, node),
                    .opset = b->opset,
                    .mapping = mapping,
                    .input_count = (uint32_t)node->n_input,
                    .result_count = (uint32_t)node->n_output};
    bool is_mapped = false;
    bg_status status = BG_OK;

    if (bgi_onnx_is_if(node))
        return walk_if(b, number, node, p, error);
    m.inputs = bgi_arena_allocate(&arena, node->n_input, sizeof(bgi_item *));
    m.results = bgi_arena_allocate(&arena, node->n_output, sizeof *m.results);
    if (m.name == NULL || m.inputs == NULL || m.results == NULL) {
        bgi_arena_clear(&arena);
        return bgi_error_memory(error, "a node's operands", node->n_input * sizeof(bgi_item *));
    }
    for (size_t i = 0; i < node->n_input; i++)
        m.inputs[i] = node->input[i][0] != '\0' ? find_item(b, node->input[i]) : NULL;
    if (mapping == NULL && domain[0] != '\0' && strcmp(domain, "ai.onnx.ml") != 0) {
        bgi_map_refuse(&m, "its domain is \"%s\" but only ops of ONNX itself are known", domain);
        status = refuse_node(b, p, number, node, BG_ERROR_UNSUPPORTED, m.reason, error);
    } else if (mapping == NULL) {
        status = refuse_node(b, p, number, node, BG_ERROR_UNSUPPORTED, bgi_onnx_why_unknown(node->op_type), error);
    } else if (!any_refused(&m) && bg_graph_check(b->graph, NULL) == BG_OK) {
        status = map_node(b, number, &m, mapping, p, &is_mapped, error);
    }
    for (uint32_t i = 0; i < m.result_count && status == BG_OK; i++) {
        bgi_item *item = node->output[i][0] != '\0' ? add_item(b, node->output[i], BGI_ITEM_REFUSED) : NULL;

        if (item == NULL)
            continue;
        if (is_mapped) {
            m.results[i].name = node->output[i];
            *item = m.results[i];
        }
    }
    bgi_arena_clear(&arena);
    return status;
}

/* ---- branches ---- */

/* Returns the branch that a known condition selects; NULL, with the reason, when the condition is not known. */
static const BgiOnnx__Graph *choose_branch(bgi_onnx_build *b, const BgiOnnx__Node *node, char *reason, size_t size)
{
    const bgi_item *condition = node->n_input == 1 ? find_item(b, node->input[0]) : NULL;
    const BgiOnnx__Graph *branch = NULL;
    const char *wanted;

    if (condition == NULL || condition->kind != BGI_ITEM_KNOWN || condition->known->count != 1) {
        snprintf(reason, size,
                 "its condition must be known when the graph is built; where it is an input of the model, fix its "
                 "value");
        return NULL;
    }
    wanted = bgi_tensor_real(condition->known, 0) != 0.0 ? "then_branch" : "else_branch";
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, wanted) == 0)
            branch = node->attribute[i]->g;
    if (branch == NULL || branch->n_output != node->n_output) {
        snprintf(reason, size, "attribute `%s` is missing, or the outputs of its graph differ from those of the node",
                 wanted);
        return NULL;
    }
    return branch;
}

/* Whether the names that a node of a branch defines are new, and the names that it reads exist. */
static bool check_names(bgi_onnx_build *b, const BgiOnnx__Node *node, char *reason, size_t size)
{
    for (size_t i = 0; i < node->n_input; i++)
        if (node->input[i][0] != '\0' && find_item(b, node->input[i]) == NULL) {
            snprintf(reason, size, "nothing before it makes its input `%.200s`", node->input[i]);
            return false;
        }
    for (size_t i = 0; i < node->n_output; i++)
        if (node->output[i][0] != '\0' && find_item(b, node->output[i]) != NULL) {
            snprintf(reason, size, "the name `%.200s` is already used", node->output[i]);
            return false;
        }
    return true;
}

static bg_status add_branch_constants(bgi_onnx_build *b, const BgiOnnx__Graph *branch, bool *is_well, char *reason,
                                      size_t size, bg_error *error)
{
    for (size_t i = 0; i < branch->n_initializer; i++) {
        const BgiOnnx__Tensor *tensor = branch->initializer[i];
        bgi_item *item;

        if (find_item(b, tensor->name) != NULL || bgi_onnx_element_dtype(tensor->data_type) == BG_DTYPE_NONE) {
            snprintf(reason, size,
                     "initializer `%.200s` of its branch: the name is already used, or graphs do not have its type",
                     tensor->name);
            *is_well = false;
            return BG_OK;
        }
        item = add_item(b, tensor->name, BGI_ITEM_KNOWN);
        if (item == NULL)
            return bgi_error_memory(error, "the values of a branch", sizeof *item);
        item->element = tensor->data_type;
        BGI_TRY(bgi_onnx_tensor_load(b->onnx, tensor, &b->arena, &item->known, error));
    }
    return BG_OK;
}

/* Makes a result of the branch a result of the node, under the name `to`. */
static bg_status take_outcome(bgi_onnx_build *b, uint32_t number, const char *from, const char *to, char *reason,
                              size_t size, bg_error *error)
{
    bgi_item *source = find_item(b, from), *item;
    bgi_mapper m = {.build = b, .graph = b->graph, .name = to, .inputs = &source, .input_count = 1};

    if (source == NULL)
        snprintf(reason, size, "its branch does not make its output `%.200s`", from);
    else if (source->kind != BGI_ITEM_KNOWN && source->kind != BGI_ITEM_REFUSED) {
        if (!open_block(b, number))
            return bgi_error_memory(error, "a block", 0);
        bgi_map_in(&m, 0); /* adds the value to the graph, if it is not there yet */
        if (m.is_out_of_memory)
            return bgi_error_memory(error, to, 0);
        snprintf(reason, size, "%s", m.reason);
    }
    item = to[0] != '\0' ? add_item(b, to, BGI_ITEM_REFUSED) : NULL;
    if (item != NULL && source != NULL && reason[0] == '\0') {
        *item = *source;
        item->name = to;
    }
    return BG_OK;
}

/* Removes the names of a branch, which are not visible outside, so the next branch may use them again. */
static void forget_branch(bgi_onnx_build *b, const BgiOnnx__Graph *branch, size_t node_count)
{
    for (size_t i = 0; i < branch->n_initializer; i++)
        b->items[bgi_names_find(&b->names, branch->initializer[i]->name)].kind = BGI_ITEM_NONE;
    for (size_t i = 0; i < node_count; i++)
        for (size_t k = 0; k < branch->node[i]->n_output; k++)
            if (branch->node[i]->output[k][0] != '\0')
                b->items[bgi_names_find(&b->names, branch->node[i]->output[k])].kind = BGI_ITEM_NONE;
}

/* Replaces an If with the nodes of the branch that its condition selects. The condition must be known while the graph
 * is built. */
static bg_status walk_if(bgi_onnx_build *b, uint32_t number, const BgiOnnx__Node *node, problems *p, bg_error *error)
{
    const bgi_item *condition = node->n_input == 1 ? find_item(b, node->input[0]) : NULL;
    const bool is_refused = condition != NULL && condition->kind == BGI_ITEM_REFUSED;
    char reason[BGI_REASON_BYTES] = "";
    const BgiOnnx__Graph *branch = is_refused ? NULL : choose_branch(b, node, reason, sizeof reason);
    bool is_well = branch != NULL;
    size_t done = 0;

    if (is_well)
        BGI_TRY(add_branch_constants(b, branch, &is_well, reason, sizeof reason, error));
    for (; is_well && done < branch->n_node; done++) {
        is_well = check_names(b, branch->node[done], reason, sizeof reason);
        if (!is_well) {
            BGI_TRY(refuse_node(b, p, number, branch->node[done], BG_ERROR_PARSE, reason, error));
            reason[0] = '\0'; /* the inner error is reported */
            break;
        }
        BGI_TRY(walk_node(b, number, branch->node[done], p, error));
    }
    if (!is_well && reason[0] != '\0')
        BGI_TRY(refuse_node(b, p, number, node, BG_ERROR_UNSUPPORTED, reason, error));
    for (size_t i = 0; i < node->n_output; i++) {
        char own[BGI_REASON_BYTES] = "";

        if (is_well)
            BGI_TRY(take_outcome(b, number, branch->output[i]->name, node->output[i], own, sizeof own, error));
        else if (node->output[i][0] != '\0')
            add_item(b, node->output[i], BGI_ITEM_REFUSED);
        if (own[0] != '\0')
            BGI_TRY(refuse_node(b, p, number, node, BG_ERROR_PARSE, own, error));
    }
    if (is_well)
        forget_branch(b, branch, done);
    return BG_OK;
}

static bg_status give_outputs(bgi_onnx_build *b, problems *p, bg_error *error)
{
    for (uint32_t i = 0; i < b->onnx->contents.output_count; i++) {
        bg_onnx_port *port = &b->onnx->outputs[i];
        bgi_item *item = find_item(b, port->name);
        bgi_mapper m = {.build = b, .graph = b->graph, .name = port->name, .inputs = &item, .input_count = 1};

        if (item == NULL || item->kind == BGI_ITEM_REFUSED)
            continue;
        port->value = bgi_map_in(&m, 0);
        if (m.is_out_of_memory)
            return bgi_error_memory(error, port->name, 0);
        if (bg_value_is_null(port->value)) {
            char reason[BGI_REASON_BYTES + 128];

            snprintf(reason, sizeof reason, "output `%.80s`: %s", port->name, reason_of(&m));
            BGI_TRY(add_problem(b, p, UINT32_MAX, BG_ERROR_UNSUPPORTED, reason, error));
            continue;
        }
        port->type = bg_graph_type(b->graph, port->value);
        port->element = bgi_onnx_element_name(item->element);
        port->dtype = port->type.dtype;
    }
    return BG_OK;
}

/* Reports the number of problems, and as many of them as fit in the message. */
static bg_status report(const bgi_onnx_build *b, const problems *p, bg_error *error)
{
    bgi_string text = {0};
    size_t told = 0;
    bg_status status = BG_ERROR_UNSUPPORTED;

    if (p->count == 1)
        status = p->status;
    for (; told < p->count && text.length < 3000; told++) {
        const bg_onnx_problem *problem = &p->list[told];

        if (problem->node == UINT32_MAX)
            bgi_string_add(&text, "%s%s", told > 0 ? "; " : "", problem->reason);
        else
            bgi_string_add(&text, "%snode `%s` (%s): %s", told > 0 ? "; " : "", b->onnx->nodes[problem->node].name,
                           problem->op, problem->reason);
    }
    if (told < p->count)
        bgi_string_add(&text, "; and %zu more", p->count - told);
    if (p->count == 1)
        bg_error_set(error, status, "%s: %s", b->onnx->path, text.data != NULL ? text.data : "");
    else
        bg_error_set(error, status, "%s: %zu nodes cannot be expressed: %s", b->onnx->path, p->count,
                     text.data != NULL ? text.data : "");
    bgi_string_clear(&text);
    return status;
}

static bg_status walk(bgi_onnx_build *b, bg_error *error)
{
    const BgiOnnx__Graph *graph = b->onnx->model->graph;
    problems p = {0};
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < graph->n_node && status == BG_OK; i++)
        status = walk_node(b, i, graph->node[i], &p, error);
    if (b->scope != NULL && bg_graph_check(b->graph, NULL) == BG_OK)
        bg_block_end(b->graph);
    b->scope = NULL;
    if (status == BG_OK && bg_graph_check(b->graph, NULL) == BG_OK)
        status = give_outputs(b, &p, error);
    if (status == BG_OK && p.count > 0) {
        bg_onnx_problem *kept = bgi_arena_copy(&b->onnx->built, p.list, p.count * sizeof *p.list);

        b->onnx->contents.problems = kept;
        b->onnx->contents.problem_count = kept != NULL ? (uint32_t)p.count : 0;
        status = report(b, &p, error);
    }
    if (status == BG_OK)
        status = bg_graph_check(b->graph, error);
    free(p.list);
    return status;
}

static void forget_build(bg_onnx *onnx)
{
    onnx->is_built = false;
    onnx->contents.problems = NULL;
    onnx->contents.problem_count = 0;
    for (uint32_t i = 0; i < onnx->contents.node_count; i++) {
        onnx->nodes[i].block = "main"; /* until a block is opened for the node */
        onnx->nodes[i].ops = 0;
        onnx->nodes[i].flops = 0.0;
    }
    for (uint32_t i = 0; i < onnx->contents.input_count; i++)
        onnx->inputs[i].value = (bg_value){0};
    for (uint32_t i = 0; i < onnx->contents.output_count; i++) {
        onnx->outputs[i].value = (bg_value){0};
        onnx->outputs[i].type = (bg_type){0};
    }
    bgi_arena_clear(&onnx->built);
}

/* Collects the names that are read, and counts the names that are defined, in the graph and its branches. */
static bool find_used(bgi_onnx_build *b, const BgiOnnx__Graph *graph, size_t *count)
{
    bool is_well = true;

    *count += graph->n_input + graph->n_initializer;
    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Node *node = graph->node[i];

        *count += node->n_output;
        for (size_t k = 0; k < node->n_input; k++)
            is_well =
                is_well && (node->input[k][0] == '\0' || bgi_names_add(&b->used, node->input[k]) != BGI_NAMES_NONE);
        for (size_t k = 0; bgi_onnx_is_if(node) && k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                is_well = find_used(b, node->attribute[k]->g, count) && is_well;
    }
    for (size_t i = 0; i < graph->n_output; i++)
        is_well = is_well && bgi_names_add(&b->used, graph->output[i]->name) != BGI_NAMES_NONE;
    return is_well;
}

static bg_status build(bgi_onnx_build *b, bg_error *error)
{
    size_t count = 0;

    if (!find_used(b, b->onnx->model->graph, &count))
        return bgi_error_memory(error, "the names of a model", 0);
    for (size_t i = 0; i < b->onnx->model->graph->n_node; i++)
        b->has_training_norms =
            b->has_training_norms || bgi_onnx_is_training_norm(b->onnx->model->graph->node[i], b->opset);
    b->items = calloc(count + 1, sizeof *b->items);
    if (b->items == NULL)
        return bgi_error_memory(error, "the values of a model", count * sizeof *b->items);
    BGI_TRY(bgi_onnx_classify(b->onnx, b->options, error));
    BGI_TRY(bind_inputs(b->onnx, b->options, error));
    BGI_TRY(add_inputs(b, error));
    BGI_TRY(add_weights(b, error));
    return walk(b, error);
}

bg_status bg_onnx_build(bg_onnx *onnx, const bg_onnx_options *options, bg_graph *graph, bg_error *error)
{
    bg_error_clear(error);

    const bg_onnx_options defaults = bg_onnx_defaults();
    bgi_onnx_build b = {.onnx = onnx, .options = options != NULL ? options : &defaults, .graph = graph};
    bg_status status;

    BGI_TRY(bgi_require(onnx, "onnx", __func__, error));
    BGI_TRY(bgi_require(graph, "graph", __func__, error));
    BGI_TRY(bgi_onnx_check_options(onnx, b.options, error));
    BGI_TRY(bg_graph_check(graph, error));
    b.opset = onnx->contents.opset;
    forget_build(onnx);
    status = build(&b, error);
    onnx->is_built = status == BG_OK;
    free(b.items);
    bgi_names_clear(&b.names);
    bgi_names_clear(&b.used);
    bgi_names_clear(&b.blocks);
    bgi_arena_clear(&b.arena);
    return status;
}

bg_status bg_onnx_load(const char *path, const bg_onnx_options *options, bg_graph **out_graph, bg_weights **out_weights,
                       bg_onnx **out, bg_error *error)
{
    bg_error_clear(error);

    bg_onnx *onnx = NULL;
    bg_graph *graph = NULL;
    bg_weights *weights = NULL;
    bg_status status;

    BGI_TRY(bgi_require(out_graph, "out_graph", __func__, error));
    BGI_TRY(bgi_require(out_weights, "out_weights", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY_CLEANUP(bg_onnx_open(path, &onnx, error));
    BGI_TRY_CLEANUP(bg_graph_create(&graph, error));
    BGI_TRY_CLEANUP(bg_weights_create(&weights, error));
    BGI_TRY_CLEANUP(bg_onnx_build(onnx, options, graph, error));
    BGI_TRY_CLEANUP(bg_onnx_set_weights(onnx, weights, error));
    *out_graph = graph;
    *out_weights = weights;
    *out = onnx;
    return BG_OK;
cleanup:
    bg_weights_destroy(weights);
    bg_graph_destroy(graph);
    bg_onnx_destroy(onnx);
    return status;
}
