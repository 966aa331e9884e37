/*
 * file.c: reads and checks an ONNX file. The content is not trusted. The nesting of the bytes is checked before
 * protobuf-c, which recurses, reads them. Then the assumptions of the other source files are checked: names are defined
 * once and before they are used (so there are no cycles), and tensors have the values that they declare.
 */
#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { NESTING_LIMIT = 48 };
/* Protobuf files have at most 2 GiB; weights beyond that are in other files. */
static const size_t file_limit = (size_t)1 << 31;

/* ---- the bytes ---- */

typedef struct reader {
    const unsigned char *at, *end;
} reader;

static bool read_varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        const unsigned char byte = *r->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Whether the fields of a message, which is at depth `depth`, are complete, and nested at most NESTING_LIMIT deep. If
 * not, *reason is the reason. */
static bool walk(reader r, const ProtobufCMessageDescriptor *message, unsigned depth, const char **reason)
{
    *reason = "is truncated, or is not a protobuf message";
    if (depth > NESTING_LIMIT) {
        *reason = "nests messages deeper than 48 levels";
        return false;
    }
    while (r.at < r.end) {
        const ProtobufCFieldDescriptor *field;
        uint64_t tag, length;

        if (!read_varint(&r, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
            return false;
        switch (tag & 7) {
        case 0:
            if (!read_varint(&r, &length))
                return false;
            continue;
        case 1:
            length = 8;
            break;
        case 5:
            length = 4;
            break;
        case 2:
            if (!read_varint(&r, &length))
                return false;
            break;
        default:
            return false;
        }
        if (length > (uint64_t)(r.end - r.at))
            return false;
        field = protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3));
        if ((tag & 7) == 2 && field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
            !walk((reader){r.at, r.at + length}, field->descriptor, depth + 1, reason))
            return false;
        r.at += length;
    }
    return true;
}

/* ---- names and scopes ---- */

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

const char *bgi_onnx_node_name(bgi_arena *arena, const BgiOnnx__Node *node)
{
    if (text_of(node->name)[0] != '\0')
        return node->name;
    return bgi_arena_format(arena, "%s:%s", text_of(node->op_type), node->n_output > 0 ? node->output[0] : "");
}

const char *bgi_onnx_scope(bgi_arena *arena, const BgiOnnx__Node *node, uint32_t depth)
{
    const char *name = text_of(node->name), *end;
    char *scope;

    name += strspn(name, "/");
    end = strrchr(name, '/');
    if (end == NULL || end == name)
        return "main";
    if (depth > 0) {
        const char *cut = name;

        for (uint32_t part = 0; part < depth && cut < end; part++) {
            cut += part > 0;
            cut += strcspn(cut, "/");
        }
        end = cut;
    }
    scope = bgi_arena_copy(arena, name, (size_t)(end - name) + 1);
    if (scope != NULL)
        scope[end - name] = '\0';
    return scope;
}

/* ---- checks of a model ---- */

static bg_status check_branch(const bg_onnx *onnx, const BgiOnnx__Graph *graph, bg_error *error);

static bg_status check_attributes(const bg_onnx *onnx, const BgiOnnx__Node *node, const char *name, bg_error *error)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const BgiOnnx__Attribute *attribute = node->attribute[i];
        bgi_tensor tensor;

        if (text_of(attribute->name)[0] == '\0')
            return bg_error_set(error, BG_ERROR_PARSE, "node `%s`: attribute %zu has no name", name, i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(node->attribute[k]->name, attribute->name) == 0)
                return bg_error_set(error, BG_ERROR_PARSE, "node `%s`: attribute `%s` occurs twice", name,
                                    attribute->name);
        if (attribute->t != NULL) {
            const bg_status status = bgi_onnx_tensor_check(onnx, attribute->t, &tensor, error);

            if (status != BG_OK)
                return bg_error_context(error, status, "node `%s`: attribute `%s`", name, attribute->name);
        }
        if (attribute->g != NULL && bgi_onnx_is_if(node)) {
            const bg_status status = check_branch(onnx, attribute->g, error);

            if (status != BG_OK)
                return bg_error_context(error, status, "node `%s`: attribute `%s`", name, attribute->name);
        }
    }
    return BG_OK;
}

/* Checks a branch for errors that do not depend on its use; its names are checked when a node uses the branch. */
static bg_status check_branch(const bg_onnx *onnx, const BgiOnnx__Graph *graph, bg_error *error)
{
    bgi_tensor tensor;

    for (size_t i = 0; i < graph->n_initializer; i++) {
        BGI_TRY(bgi_onnx_tensor_check(onnx, graph->initializer[i], &tensor, error));
        if (text_of(graph->initializer[i]->name)[0] == '\0')
            return bg_error_set(error, BG_ERROR_PARSE, "initializer %zu has no name", i);
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Node *node = graph->node[i];

        if (text_of(node->op_type)[0] == '\0' || node->n_output == 0)
            return bg_error_set(error, BG_ERROR_PARSE, "node `%s` has no op_type, or no outputs", text_of(node->name));
        BGI_TRY(check_attributes(onnx, node, text_of(node->name), error));
    }
    for (size_t i = 0; i < graph->n_output; i++)
        if (text_of(graph->output[i]->name)[0] == '\0')
            return bg_error_set(error, BG_ERROR_PARSE, "output %zu has no name", i);
    return BG_OK;
}

static bg_status define(bgi_names *names, const char *name, const char *what, const char *who, bg_error *error)
{
    if (bgi_names_find(names, name) != BGI_NAMES_NONE)
        return bg_error_set(error, BG_ERROR_PARSE, "%s `%s`: the name `%s` is already used; give it a new one", what,
                            who, name);
    if (bgi_names_add(names, name) == BGI_NAMES_NONE)
        return bgi_error_memory(error, "names", names->count);
    return BG_OK;
}

/* Checks that every name is defined once, and before it is read. */
static bg_status check_nodes(bg_onnx *onnx, bgi_names *names, bg_error *error)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;

    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Node *node = graph->node[i];
        const char *name = onnx->nodes[i].name;

        if (text_of(node->op_type)[0] == '\0')
            return bg_error_set(error, BG_ERROR_PARSE, "node `%s` has no op_type", name);
        for (size_t k = 0; k < node->n_input; k++)
            if (node->input[k][0] != '\0' && bgi_names_find(names, node->input[k]) == BGI_NAMES_NONE)
                return bg_error_set(error, BG_ERROR_PARSE,
                                    "node `%s` (%s): input %zu is `%s`, which nothing before it makes: nodes must come "
                                    "in the order of their operands, without cycles",
                                    name, node->op_type, k, node->input[k]);
        if (node->n_output == 0)
            return bg_error_set(error, BG_ERROR_PARSE, "node `%s` (%s) has no outputs", name, node->op_type);
        for (size_t k = 0; k < node->n_output; k++)
            if (node->output[k][0] != '\0')
                BGI_TRY(define(names, node->output[k], "node", name, error));
        BGI_TRY(check_attributes(onnx, node, name, error));
    }
    for (size_t i = 0; i < graph->n_output; i++)
        if (bgi_names_find(names, text_of(graph->output[i]->name)) == BGI_NAMES_NONE)
            return bg_error_set(error, BG_ERROR_PARSE, "no node makes output `%s`", text_of(graph->output[i]->name));
    return BG_OK;
}

/* ---- contents ---- */

static bg_status out_of_memory(bg_error *error)
{
    return bgi_error_memory(error, "an ONNX file's contents", 0);
}

static bg_status describe_port(bg_onnx *onnx, const BgiOnnx__ValueInfo *info, bg_onnx_port *port, bg_error *error)
{
    const BgiOnnx__TensorType *type = info->type != NULL ? info->type->tensor_type : NULL;
    bg_onnx_dim *dims;

    *port = (bg_onnx_port){.name = text_of(info->name), .element = ""};
    if (port->name[0] == '\0')
        return bg_error_set(error, BG_ERROR_PARSE, "an input or output of the model has no name");
    if (type == NULL)
        return BG_OK;
    if (type->has_elem_type && type->elem_type != 0) {
        port->element = bgi_onnx_element_name(type->elem_type);
        port->dtype = bgi_onnx_element_dtype(type->elem_type);
    }
    if (type->shape == NULL)
        return BG_OK;
    dims = bgi_arena_allocate(&onnx->arena, type->shape->n_dim, sizeof *dims);
    if (dims == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < type->shape->n_dim; i++) {
        const BgiOnnx__Dimension *dim = type->shape->dim[i];
        const bool has_symbol = text_of(dim->dim_param)[0] != '\0';

        dims[i].size = dim->has_dim_value && dim->dim_value >= 0 && !has_symbol ? dim->dim_value : -1;
        dims[i].symbol = dims[i].size < 0 && has_symbol ? dim->dim_param : NULL;
    }
    port->has_shape = true;
    port->rank = (uint32_t)type->shape->n_dim;
    port->dims = dims;
    return BG_OK;
}

static bg_status describe_symbols(bg_onnx *onnx, bg_error *error)
{
    bgi_names symbols = {0};
    const char **names;

    for (uint32_t i = 0; i < onnx->contents.input_count; i++)
        for (uint32_t k = 0; k < onnx->inputs[i].rank; k++)
            if (onnx->inputs[i].dims[k].symbol != NULL &&
                bgi_names_add(&symbols, onnx->inputs[i].dims[k].symbol) == BGI_NAMES_NONE) {
                bgi_names_clear(&symbols);
                return out_of_memory(error);
            }
    names = bgi_arena_allocate(&onnx->arena, symbols.count, sizeof *names);
    if (names != NULL && symbols.count > 0)
        memcpy(names, symbols.names, symbols.count * sizeof *names);
    onnx->contents.symbols = names;
    onnx->contents.symbol_count = (uint32_t)symbols.count;
    bgi_names_clear(&symbols);
    return names != NULL ? BG_OK : out_of_memory(error);
}

static bg_status describe_weights(bg_onnx *onnx, bg_error *error)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;

    onnx->weights = bgi_arena_allocate(&onnx->arena, graph->n_initializer, sizeof *onnx->weights);
    onnx->is_variable = bgi_arena_allocate(&onnx->arena, graph->n_initializer, sizeof *onnx->is_variable);
    onnx->values = bgi_arena_allocate(&onnx->arena, graph->n_initializer, sizeof *onnx->values);
    if (onnx->weights == NULL || onnx->is_variable == NULL || onnx->values == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < graph->n_initializer; i++) {
        bg_onnx_weight *weight = &onnx->weights[i];
        bgi_tensor tensor;

        BGI_TRY(bgi_onnx_tensor_check(onnx, graph->initializer[i], &tensor, error));
        weight->name = text_of(graph->initializer[i]->name);
        weight->element = bgi_onnx_element_name(tensor.element);
        weight->use = BG_ONNX_CONSTANT;
        if (weight->name[0] == '\0')
            return bg_error_set(error, BG_ERROR_PARSE, "initializer %zu has no name", i);
        BGI_TRY(define(&onnx->weight_names, weight->name, "initializer", weight->name, error));
        if (tensor.dtype != BG_DTYPE_NONE && !bgi_tensor_type(&tensor, &weight->type))
            weight->type = (bg_type){0};
    }
    onnx->contents.weights = onnx->weights;
    onnx->contents.weight_count = (uint32_t)graph->n_initializer;
    return BG_OK;
}

/* Describes the inputs and outputs. Inputs with an initializer are left out, because older files list weights as inputs
 * too. */
static bg_status describe_ports(bg_onnx *onnx, bgi_names *names, bg_error *error)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;
    bg_onnx_contents *contents = &onnx->contents;

    onnx->inputs = bgi_arena_allocate(&onnx->arena, graph->n_input, sizeof *onnx->inputs);
    onnx->outputs = bgi_arena_allocate(&onnx->arena, graph->n_output, sizeof *onnx->outputs);
    if (onnx->inputs == NULL || onnx->outputs == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < graph->n_input; i++) {
        if (bgi_names_find(&onnx->weight_names, text_of(graph->input[i]->name)) != BGI_NAMES_NONE)
            continue;
        BGI_TRY(describe_port(onnx, graph->input[i], &onnx->inputs[contents->input_count], error));
        BGI_TRY(define(names, onnx->inputs[contents->input_count].name, "input", graph->input[i]->name, error));
        contents->input_count++;
    }
    for (size_t i = 0; i < graph->n_output; i++)
        BGI_TRY(describe_port(onnx, graph->output[i], &onnx->outputs[i], error));
    contents->inputs = onnx->inputs;
    contents->outputs = onnx->outputs;
    contents->output_count = (uint32_t)graph->n_output;
    return describe_symbols(onnx, error);
}

static bg_status describe_nodes(bg_onnx *onnx, bg_error *error)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;

    onnx->nodes = bgi_arena_allocate(&onnx->arena, graph->n_node, sizeof *onnx->nodes);
    if (onnx->nodes == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < graph->n_node; i++) {
        bg_onnx_node *node = &onnx->nodes[i];

        node->name = bgi_onnx_node_name(&onnx->arena, graph->node[i]);
        node->op = text_of(graph->node[i]->op_type);
        node->domain = text_of(graph->node[i]->domain);
        if (strcmp(node->domain, "ai.onnx") == 0)
            node->domain = "";
        node->block = bgi_onnx_scope(&onnx->arena, graph->node[i], 0);
        if (node->name == NULL || node->block == NULL)
            return out_of_memory(error);
    }
    onnx->contents.nodes = onnx->nodes;
    onnx->contents.node_count = (uint32_t)graph->n_node;
    return BG_OK;
}

static bg_status describe_model(bg_onnx *onnx, bg_error *error)
{
    const BgiOnnx__Model *model = onnx->model;
    bg_onnx_contents *contents = &onnx->contents;
    const char *version = text_of(model->producer_version);

    contents->path = onnx->path;
    contents->producer =
        bgi_arena_format(&onnx->arena, "%s%s%s", text_of(model->producer_name), version[0] != '\0' ? " " : "", version);
    contents->graph_name = text_of(model->graph->name);
    contents->ir_version = model->ir_version;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = text_of(model->opset_import[i]->domain);

        if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
            contents->opset = model->opset_import[i]->version;
        else if (contents->opset == 0)
            contents->opset = BGI_ONNX_NEWEST; /* all nodes belong to other domains */
    }
    if (contents->producer == NULL)
        return out_of_memory(error);
    if (contents->opset == 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "the file imports no opset of ONNX; it must import one from %d to %d", BGI_ONNX_OLDEST,
                            BGI_ONNX_NEWEST);
    return BG_OK;
}

/* Whether the nodes have the same meaning in opset 6 as in the opsets before. */
static bool are_unchanged(const BgiOnnx__Graph *graph)
{
    static const char *const ops[] = {"Constant",      "Conv",     "ConvTranspose", "Flatten",  "GlobalAveragePool",
                                      "GlobalMaxPool", "Identity", "LRN",           "Not",      "Shape",
                                      "Size",          "Softplus", "Softsign",      "Transpose"};

    for (size_t i = 0; i < graph->n_node; i++) {
        bool is_found = false;

        for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
            is_found = is_found || strcmp(graph->node[i]->op_type, ops[k]) == 0;
        if (!is_found)
            return false;
    }
    return true;
}

static bg_status describe(bg_onnx *onnx, bg_error *error)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;
    const bg_onnx_options options = bg_onnx_defaults();
    bgi_names names = {0};
    bg_status status;

    if (graph == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "the file has no graph: it is not an ONNX model");
    if (graph->n_sparse_initializer > 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "the file has sparse initializers; only dense ones are supported");
    if (graph->n_node > INT32_MAX || graph->n_initializer > INT32_MAX)
        return bg_error_set(error, BG_ERROR_PARSE, "the file has more than 2^31 nodes or tensors");
    BGI_TRY(describe_model(onnx, error));
    BGI_TRY(bgi_onnx_restore(onnx, error));
    BGI_TRY(describe_weights(onnx, error));
    BGI_TRY(describe_nodes(onnx, error));
    status = describe_ports(onnx, &names, error);
    for (size_t i = 0; status == BG_OK && i < graph->n_initializer; i++)
        status = define(&names, onnx->weights[i].name, "initializer", onnx->weights[i].name, error);
    if (status == BG_OK)
        status = check_nodes(onnx, &names, error);
    bgi_names_clear(&names);
    BGI_TRY(status);
    if ((onnx->contents.opset < BGI_ONNX_OLDEST && (onnx->contents.opset < 1 || !are_unchanged(graph))) ||
        onnx->contents.opset > BGI_ONNX_NEWEST)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "the file has opset %" PRId64 " but only %d to %d are supported", onnx->contents.opset,
                            BGI_ONNX_OLDEST, BGI_ONNX_NEWEST);
    return bgi_onnx_classify(onnx, &options, error);
}

/* ---- in and out ---- */

/* Allocates memory for protobuf-c, and records a failure in *is_out, because the unpacker does not report whether the
 * content or memory was the cause. protobuf-c frees the memory with its default allocator, which also uses malloc and
 * free. */
static void *allocate(void *is_out, size_t size_bytes)
{
    void *memory = malloc(size_bytes);

    if (memory == NULL)
        *(bool *)is_out = true;
    return memory;
}

static void release(void *is_out, void *memory)
{
    (void)is_out;
    free(memory);
}

bg_status bgi_onnx_parse(const char *name, const char *folder, const void *content, size_t size_bytes, bg_onnx **out,
                         bg_error *error)
{
    bool is_out = false;
    ProtobufCAllocator allocator = {.alloc = allocate, .free = release, .allocator_data = &is_out};
    const char *reason;
    bg_onnx *onnx;
    bg_status status;

    if (!walk((reader){content, (const unsigned char *)content + size_bytes}, &bgi_onnx__model__descriptor, 0, &reason))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: not an ONNX model, because the content %s", name, reason);
    onnx = calloc(1, sizeof *onnx);
    if (onnx == NULL)
        return bgi_error_memory(error, "an ONNX file", sizeof *onnx);
    onnx->path = bgi_arena_string(&onnx->arena, name);
    onnx->folder = folder != NULL ? bgi_arena_string(&onnx->arena, folder) : NULL;
    if (onnx->path == NULL || (folder != NULL && onnx->folder == NULL)) {
        bg_onnx_destroy(onnx);
        return out_of_memory(error);
    }
    onnx->model = bgi_onnx__model__unpack(&allocator, size_bytes, content);
    if (onnx->model == NULL && is_out)
        status = bgi_error_memory(error, "an ONNX model", size_bytes);
    else if (onnx->model == NULL)
        status = bg_error_set(error, BG_ERROR_PARSE, "not an ONNX model, because a field has the wrong type");
    else
        status = describe(onnx, error);
    if (status != BG_OK) {
        bg_error_context(error, status, "%s", name);
        bg_onnx_destroy(onnx);
        return status;
    }
    *out = onnx;
    return BG_OK;
}

bg_status bg_onnx_open(const char *path, bg_onnx **out, bg_error *error)
{
    bg_error_clear(error);

    const char *slash;
    char *content, *folder;
    size_t size;
    bg_status status;

    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_file_load(path, file_limit, &content, &size, error));
    slash = strrchr(path, '/');
    folder = calloc((slash != NULL ? (size_t)(slash - path) : 0) + 2, 1);
    if (folder == NULL) {
        status = bgi_error_memory(error, "a path", strlen(path));
    } else {
        if (slash == NULL)
            folder[0] = '.';
        else
            memcpy(folder, path, slash == path ? 1 : (size_t)(slash - path));
        status = bgi_onnx_parse(path, folder, content, size, out, error);
    }
    free(folder);
    free(content);
    return status;
}

void bg_onnx_destroy(bg_onnx *onnx)
{
    if (onnx == NULL)
        return;
    if (onnx->model != NULL) {
        bgi_onnx_forget_restored(onnx);
        bgi_onnx__model__free_unpacked(onnx->model, NULL);
    }
    bgi_names_clear(&onnx->weight_names);
    bgi_arena_clear(&onnx->built);
    bgi_arena_clear(&onnx->arena);
    free(onnx);
}

const bg_onnx_contents *bg_onnx_contents_of(const bg_onnx *onnx)
{
    return onnx != NULL ? &onnx->contents : NULL;
}
