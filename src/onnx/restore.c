/*
 * restore.c: separates initializers that PyTorch's exporter has joined, before the file is checked further.
 *
 * The first kind is initializers of equal values. An export for evaluation keeps one of several equal initializers, and
 * Identity nodes whose outputs have the names of the others. All weights of untrained norms thus become one parameter.
 * A parameter that modules share has one name and needs no such node, so each output of such a node becomes a separate
 * initializer:
 *
 *     bn1.weight --Identity--> bn2.weight      becomes      bn1.weight, bn2.weight
 *
 * Names that the exporter made ("onnx::MatMul_15") belong to values that it has computed, mostly transposes. Such
 * values stay joined if one module reads both, because then the module was called twice.
 *
 * The second kind is the table of an embedding that is also a head's weight. If constants were folded, the head has the
 * table's transpose in a separate initializer. If the numbers are equal, the initializer is the same parameter and
 * becomes a transpose of the table.
 *
 * Nothing is copied: the new tensors share the values of the file's tensors.
 */
#include "onnx/onnx.h"

#include <string.h>

static const char made_prefix[] = "onnx::";
/* The limit on the bytes that the separation adds, unless they are at most 64 times those of the file's initializers,
 * so that a small file cannot make the reader allocate arbitrary memory. */
static const uint64_t most_bytes = UINT64_C(1) << 30;
enum { MOST_COMPARISONS = 256 };

typedef struct restore {
    bg_onnx *onnx;
    BgiOnnx__Graph *graph;
    bgi_names tensors;             /* initializers, by index in the graph */
    bgi_names read;                /* the names that nodes read */
    bgi_names outputs;             /* of the model */
    const BgiOnnx__Node **readers; /* by number in `read`: the first reader that is not an Identity, or NULL */
    size_t *uses;                  /* by number in `read`: the number of operands with this name */
    bool *is_table;                /* by initializer: an embedding reads it */
    uint64_t bytes, added_bytes;
    uint32_t comparisons;
} restore;

static bool is_made(const char *name)
{
    return strncmp(name, made_prefix, sizeof made_prefix - 1) == 0;
}

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Numbers the names, and records which nodes read them. Returns false if memory runs out or the file is damaged; in the
 * second case sets *is_whole to false. */
static bool collect(restore *r, bool *is_whole)
{
    const BgiOnnx__Graph *graph = r->graph;
    size_t operands = 0;

    for (size_t i = 0; i < graph->n_initializer && *is_whole; i++) {
        const char *name = graph->initializer[i]->name;

        *is_whole = has_text(name) && bgi_names_find(&r->tensors, name) == BGI_NAMES_NONE;
        if (*is_whole && bgi_names_add(&r->tensors, name) == BGI_NAMES_NONE)
            return false;
    }
    for (size_t i = 0; i < graph->n_output && *is_whole; i++)
        if (has_text(graph->output[i]->name) && bgi_names_add(&r->outputs, graph->output[i]->name) == BGI_NAMES_NONE)
            return false;
    for (size_t i = 0; i < graph->n_node; i++)
        operands += graph->node[i]->n_input;
    r->readers = bgi_arena_allocate(&r->onnx->arena, operands, sizeof *r->readers);
    r->uses = bgi_arena_allocate(&r->onnx->arena, operands, sizeof *r->uses);
    r->is_table = bgi_arena_allocate(&r->onnx->arena, graph->n_initializer, sizeof *r->is_table);
    if (r->readers == NULL || r->uses == NULL || r->is_table == NULL)
        return false;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++) {
            const uint32_t number = bgi_names_add(&r->read, graph->node[i]->input[k]);
            const uint32_t tensor = bgi_names_find(&r->tensors, graph->node[i]->input[k]);

            if (number == BGI_NAMES_NONE)
                return false;
            if (r->readers[number] == NULL && !bgi_onnx_is_standard(graph->node[i], "Identity"))
                r->readers[number] = graph->node[i];
            r->uses[number]++;
            if (k == 0 && tensor != BGI_NAMES_NONE && bgi_onnx_is_standard(graph->node[i], "Gather"))
                r->is_table[tensor] = !is_made(graph->node[i]->input[0]);
        }
    return *is_whole;
}

static const BgiOnnx__Node *reader_of(const restore *r, const char *name)
{
    const uint32_t number = bgi_names_find(&r->read, name);

    return number != BGI_NAMES_NONE ? r->readers[number] : NULL;
}

/* Returns the length of the scope of a node's name: "/layers.0/linear1" of "/layers.0/linear1/MatMul". */
static size_t scope_length(const BgiOnnx__Node *node)
{
    const char *end = node != NULL && node->name != NULL ? strrchr(node->name, '/') : NULL;

    return end != NULL ? (size_t)(end - node->name) : 0;
}

static bool are_of_one_module(const restore *r, const char *a, const char *b)
{
    const BgiOnnx__Node *x = reader_of(r, a), *y = reader_of(r, b);
    const size_t length = scope_length(x);

    return length > 0 && length == scope_length(y) && strncmp(x->name, y->name, length) == 0;
}

static uint64_t bytes_of(const BgiOnnx__Tensor *tensor)
{
    uint64_t count = bgi_onnx_element_bytes(tensor->data_type);

    for (size_t i = 0; i < tensor->n_dims; i++)
        count = tensor->dims[i] > 0 && count <= most_bytes * 64 / (uint64_t)tensor->dims[i]
                    ? count * (uint64_t)tensor->dims[i]
                : tensor->dims[i] == 0 ? 0
                                       : most_bytes * 64;
    return count;
}

/* ---- equal initializers ---- */

/* Returns the tensor that an Identity copies; NULL if the node stays. */
static const BgiOnnx__Tensor *joined_by(const restore *r, const BgiOnnx__Node *node)
{
    const BgiOnnx__Tensor *tensor;
    uint32_t number;

    if (!bgi_onnx_is_standard(node, "Identity") || node->n_input != 1 || node->n_output != 1 ||
        !has_text(node->output[0]))
        return NULL;
    number = bgi_names_find(&r->tensors, node->input[0]);
    if (number == BGI_NAMES_NONE || bgi_names_find(&r->outputs, node->output[0]) != BGI_NAMES_NONE)
        return NULL;
    tensor = r->graph->initializer[number];
    if (!bgi_onnx_element_is_float(tensor->data_type) || node->output[0][0] == '/')
        return NULL;
    if (is_made(node->output[0]) && are_of_one_module(r, node->input[0], node->output[0]))
        return NULL;
    return tensor;
}

static bg_status separate(restore *r, BgiOnnx__Tensor **tensors, BgiOnnx__Node **nodes, size_t *node_count,
                          bg_error *error)
{
    const BgiOnnx__Graph *graph = r->graph;
    size_t count = graph->n_initializer;

    for (size_t i = 0; i < graph->n_node; i++) {
        BgiOnnx__Node *node = graph->node[i];
        const BgiOnnx__Tensor *source = joined_by(r, node);
        BgiOnnx__Tensor *made;

        if (source == NULL) {
            nodes[(*node_count)++] = node;
            continue;
        }
        r->added_bytes += bytes_of(source);
        if (r->added_bytes > most_bytes && r->added_bytes > 64 * r->bytes)
            return bg_error_set(
                error, BG_ERROR_UNSUPPORTED,
                "node `%s` (Identity): separating the initializers that the exporter joined needs more than 1 GiB",
                has_text(node->name) ? node->name : node->output[0]);
        made = bgi_arena_copy(&r->onnx->arena, source, sizeof *source);
        if (made == NULL)
            return bgi_error_memory(error, "an initializer", sizeof *made);
        made->name = node->output[0];
        tensors[count++] = made;
    }
    return BG_OK;
}

/* ---- embeddings that are heads ---- */

/* Whether `b` [n, m] is the transpose of `a` [m, n], whose numbers are not all equal. */
static bool is_transpose(const bgi_tensor *a, const bgi_tensor *b)
{
    const size_t size = bg_dtype_size_bytes(a->dtype);
    const char *from = a->data, *to = b->data;
    bool differ = false;

    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t k = 0; k < a->dims[1]; k++) {
            const char *here = from + (size_t)(i * a->dims[1] + k) * size;

            if (memcmp(here, to + (size_t)(k * a->dims[0] + i) * size, size) != 0)
                return false;
            differ = differ || memcmp(here, from, size) != 0;
        }
    return differ;
}

/* Sets *out to whether one tensor is the transpose of the other. Unreadable tensors count as different, because the
 * check of the file reports them. */
static bg_status compare(restore *r, const BgiOnnx__Tensor *a, const BgiOnnx__Tensor *b, bool *out, bg_error *error)
{
    const bgi_tensor *x = NULL, *y = NULL;
    bgi_arena arena = {0};
    bg_error own = {0};
    bg_status status;

    *out = false;
    if (a->n_dims != 2 || a->data_type != b->data_type || a->dims[0] != b->dims[1] || a->dims[1] != b->dims[0] ||
        r->comparisons++ >= MOST_COMPARISONS)
        return BG_OK;
    status = bgi_onnx_tensor_load(r->onnx, a, &arena, &x, &own);
    if (status == BG_OK)
        status = bgi_onnx_tensor_load(r->onnx, b, &arena, &y, &own);
    if (status == BG_OK)
        *out = is_transpose(x, y);
    bgi_arena_clear(&arena);
    return status == BG_ERROR_MEMORY ? bg_error_set(error, status, "%s", own.message) : BG_OK;
}

/* Finds the embedding's table whose transpose is the second operand of a product; sets NULL if there is no such
 * table. */
static bg_status find_table(restore *r, const BgiOnnx__Node *node, const BgiOnnx__Tensor **table, bg_error *error)
{
    const uint32_t number = bgi_onnx_is_standard(node, "MatMul") && node->n_input == 2 && is_made(node->input[1])
                                ? bgi_names_find(&r->tensors, node->input[1])
                                : BGI_NAMES_NONE;
    const BgiOnnx__Tensor *matrix = number != BGI_NAMES_NONE ? r->graph->initializer[number] : NULL;

    *table = NULL;
    if (matrix == NULL || matrix->n_dims != 2 || !bgi_onnx_element_is_float(matrix->data_type) ||
        r->uses[bgi_names_find(&r->read, matrix->name)] != 1)
        return BG_OK;
    for (size_t i = 0; i < r->tensors.count && *table == NULL; i++) {
        bool is_same = false;

        if (r->is_table[i])
            BGI_TRY(compare(r, r->graph->initializer[i], matrix, &is_same, error));
        *table = is_same ? r->graph->initializer[i] : NULL;
    }
    return BG_OK;
}

static BgiOnnx__Node *make_transpose(bgi_arena *arena, const BgiOnnx__Node *reader, const BgiOnnx__Tensor *table)
{
    static const int64_t permutation[] = {1, 0};
    BgiOnnx__Node *node = bgi_arena_allocate(arena, 1, sizeof *node);
    BgiOnnx__Attribute *attribute = bgi_arena_allocate(arena, 1, sizeof *attribute);
    char **names = bgi_arena_allocate(arena, 2, sizeof *names);
    BgiOnnx__Attribute **list = bgi_arena_allocate(arena, 1, sizeof(void *));

    if (node == NULL || attribute == NULL || names == NULL || list == NULL)
        return NULL;
    bgi_onnx__node__init(node);
    bgi_onnx__attribute__init(attribute);
    attribute->name = (char *)(uintptr_t) "perm";
    attribute->n_ints = 2;
    attribute->ints = (int64_t *)(uintptr_t)permutation;
    attribute->has_type = 1;
    attribute->type = 7; /* integers */
    list[0] = attribute;
    names[0] = table->name;
    names[1] = reader->input[1];
    node->op_type = (char *)(uintptr_t) "Transpose";
    node->name = bgi_arena_format(arena, "%s_transpose", has_text(reader->name) ? reader->name : "MatMul");
    node->n_input = node->n_output = 1;
    node->input = &names[0];
    node->output = &names[1];
    node->n_attribute = 1;
    node->attribute = list;
    return node->name != NULL ? node : NULL;
}

static bg_status tie(restore *r, bg_error *error)
{
    BgiOnnx__Graph *graph = r->graph;
    BgiOnnx__Node **nodes = bgi_arena_allocate(&r->onnx->arena, 2 * graph->n_node, sizeof *nodes);
    bool *is_gone = bgi_arena_allocate(&r->onnx->arena, graph->n_initializer, sizeof *is_gone);
    size_t count = 0, tensor_count = 0;

    if (nodes == NULL || is_gone == NULL)
        return bgi_error_memory(error, "the nodes of a model", 2 * graph->n_node * sizeof *nodes);
    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Tensor *table;

        BGI_TRY(find_table(r, graph->node[i], &table, error));
        if (table != NULL) {
            nodes[count] = make_transpose(&r->onnx->arena, graph->node[i], table);
            if (nodes[count++] == NULL)
                return bgi_error_memory(error, "a node", sizeof **nodes);
            is_gone[bgi_names_find(&r->tensors, graph->node[i]->input[1])] = true;
        }
        nodes[count++] = graph->node[i];
    }
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (!is_gone[i])
            graph->initializer[tensor_count++] = graph->initializer[i];
    graph->n_initializer = tensor_count;
    graph->node = nodes;
    graph->n_node = count;
    return BG_OK;
}

/* ---- a file ---- */

static bg_status restore_graph(restore *r, bg_error *error)
{
    BgiOnnx__Graph *graph = r->graph;
    bgi_arena *arena = &r->onnx->arena;
    BgiOnnx__Tensor **tensors = bgi_arena_allocate(arena, graph->n_initializer + graph->n_node, sizeof *tensors);
    BgiOnnx__Node **nodes = bgi_arena_allocate(arena, graph->n_node, sizeof *nodes);
    size_t node_count = 0;
    bool is_whole = true;

    if (tensors == NULL || nodes == NULL)
        return bgi_error_memory(error, "the nodes of a model", graph->n_node * sizeof *nodes);
    if (!collect(r, &is_whole))
        return is_whole ? bgi_error_memory(error, "the names of a model", 0) : BG_OK;
    memcpy(tensors, graph->initializer, graph->n_initializer * sizeof *tensors);
    for (size_t i = 0; i < graph->n_initializer; i++)
        r->bytes += bytes_of(graph->initializer[i]);
    BGI_TRY(separate(r, tensors, nodes, &node_count, error));
    graph->n_initializer += graph->n_node - node_count;
    graph->initializer = tensors;
    graph->n_node = node_count;
    graph->node = nodes;
    return tie(r, error);
}

bg_status bgi_onnx_restore(bg_onnx *onnx, bg_error *error)
{
    BgiOnnx__Graph *graph = onnx->model->graph;
    const char *producer = onnx->model->producer_name;
    restore r = {.onnx = onnx, .graph = graph};
    bg_status status;

    if (producer == NULL || strncmp(producer, "pytorch", 7) != 0 || graph->n_initializer == 0)
        return BG_OK;
    onnx->unpacked = *graph;
    onnx->is_restored = true;
    status = restore_graph(&r, error);
    bgi_names_clear(&r.tensors);
    bgi_names_clear(&r.read);
    bgi_names_clear(&r.outputs);
    return status;
}

void bgi_onnx_forget_restored(bg_onnx *onnx)
{
    if (onnx->is_restored)
        *onnx->model->graph = onnx->unpacked;
}
