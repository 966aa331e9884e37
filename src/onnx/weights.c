/*
 * weights.c: determines which initializers are parameters, sets their values in a bg_weights, and writes the file again
 * with new values.
 *
 * The rule (brigade/onnx.h): whether floats are parameters depends on their uses. A number that determines the graph
 * (the scales of a Resize) is a constant. A scalar in arithmetic is a constant too; in PyTorch's files only if the
 * exporter made its name ("onnx::..."). Running statistics are buffers. Initializers without a gradient are constants,
 * and so are the buffers of PyTorch's modules that are recognized by their values or names.
 */
#include "onnx/onnx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/save.h"

/* ---- uses ---- */

/* The operands that determine the graph: bit i is operand i. */
static const struct {
    const char *op;
    uint32_t operands;
} structural[] = {
    {"Clip", 6},
    {"ConstantOfShape", 1},
    {"DequantizeLinear", 6},
    {"Dropout", 6},
    {"Expand", 2},
    {"NegativeLogLikelihoodLoss", 4},
    {"OneHot", 6},
    {"Pad", 14},
    {"QuantizeLinear", 6},
    {"Range", 7},
    {"Reshape", 2},
    {"Resize", 14},
    {"Tile", 2},
    {"Upsample", 2},
    {"SoftmaxCrossEntropyLoss", 4},
};

static bool is_structural(const BgiOnnx__Node *node, size_t input)
{
    for (size_t i = 0; i < sizeof structural / sizeof structural[0]; i++)
        if (strcmp(structural[i].op, node->op_type) == 0)
            return input < 32 && (structural[i].operands >> input & 1) != 0;
    return false;
}

static bool is_arithmetic(const BgiOnnx__Node *node)
{
    static const char *const ops[] = {"Add",         "Sub",  "Mul", "Div",  "Pow",     "Max",  "Min",
                                      "Where",       "Mod",  "Sum", "Mean", "Greater", "Less", "GreaterOrEqual",
                                      "LessOrEqual", "Equal"};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i], node->op_type) == 0)
            return true;
    return false;
}

/* Whether the op may be between a mask and the value to which the mask is added. */
static bool is_arrangement(const BgiOnnx__Node *node)
{
    static const char *const ops[] = {"Cast", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i], node->op_type) == 0)
            return true;
    return false;
}

/* Whether a node passes a gradient back to its operand. */
static bool has_gradient(const BgiOnnx__Node *node, size_t input)
{
    static const char *const without[] = {"And",   "ArgMax", "ArgMin", "Equal",       "Greater", "GreaterOrEqual",
                                          "IsInf", "IsNaN",  "Less",   "LessOrEqual", "NonZero", "Not",
                                          "Or",    "Shape",  "Size",   "Xor"};

    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (strcmp(without[i], node->op_type) == 0)
            return false;
    for (size_t i = 0; strcmp(node->op_type, "Cast") == 0 && i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, "to") == 0)
            return node->attribute[i]->i <= INT32_MAX && node->attribute[i]->i >= 0 &&
                   bgi_onnx_element_is_float((int32_t)node->attribute[i]->i);
    return !is_structural(node, input) && !(strcmp(node->op_type, "Where") == 0 && input == 0);
}

/* The uses of an initializer by nodes. */
typedef struct uses {
    bool has_gradient;
    bool as_weight, as_term, as_number, as_statistic,
        by_structure; /* as_term, as_number: an operand of arithmetic, possibly through other ops */
} uses;

static void count_uses(const bg_onnx *onnx, const BgiOnnx__Graph *graph, uses *found)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Node *node = graph->node[i];

        for (size_t k = 0; bgi_onnx_is_if(node) && k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                count_uses(onnx, node->attribute[k]->g, found);
        for (size_t k = 0; k < node->n_input; k++) {
            const uint32_t weight = bgi_names_find(&onnx->weight_names, node->input[k]);

            if (weight == BGI_NAMES_NONE)
                continue;
            if (strcmp(node->op_type, "BatchNormalization") == 0 && k >= 3)
                found[weight].as_statistic = true;
            else if (is_structural(node, k))
                found[weight].by_structure = true;
            else if (is_arithmetic(node) && onnx->weights[weight].type.rank == 0)
                found[weight].as_number = true;
            else if (is_arithmetic(node) || is_arrangement(node))
                found[weight].as_term = true;
            else
                found[weight].as_weight = true;
        }
    }
}

/* Adds all names that a branch reads, because each may have a gradient. */
static bool add_reads(const BgiOnnx__Graph *graph, bgi_names *live)
{
    bool is_well = true;

    for (size_t i = 0; i < graph->n_output; i++)
        is_well = is_well && bgi_names_add(live, graph->output[i]->name) != BGI_NAMES_NONE;
    for (size_t i = 0; i < graph->n_node; i++) {
        const BgiOnnx__Node *node = graph->node[i];

        for (size_t k = 0; k < node->n_input; k++)
            is_well = is_well && bgi_names_add(live, node->input[k]) != BGI_NAMES_NONE;
        for (size_t k = 0; bgi_onnx_is_if(node) && k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                is_well = is_well && add_reads(node->attribute[k]->g, live);
    }
    return is_well;
}

/* Finds the initializers that gradients reach, backward from the outputs. Returns false if memory runs out. */
static bool follow_gradients(const bg_onnx *onnx, uses *found)
{
    const BgiOnnx__Graph *graph = onnx->model->graph;
    bgi_names live = {0};
    bool is_well = true;

    for (size_t i = 0; i < graph->n_output; i++)
        is_well = is_well && bgi_names_add(&live, graph->output[i]->name) != BGI_NAMES_NONE;
    for (size_t i = graph->n_node; i-- > 0 && is_well;) {
        const BgiOnnx__Node *node = graph->node[i];
        bool is_live = false;

        for (size_t k = 0; k < node->n_output; k++)
            is_live = is_live || bgi_names_find(&live, node->output[k]) != BGI_NAMES_NONE;
        for (size_t k = 0; is_live && k < node->n_input; k++)
            if (has_gradient(node, k))
                is_well = is_well && bgi_names_add(&live, node->input[k]) != BGI_NAMES_NONE;
        for (size_t k = 0; is_live && bgi_onnx_is_if(node) && k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                is_well = is_well && add_reads(node->attribute[k]->g, &live);
    }
    for (uint32_t i = 0; i < onnx->contents.weight_count; i++)
        found[i].has_gradient = bgi_names_find(&live, onnx->weights[i].name) != BGI_NAMES_NONE;
    bgi_names_clear(&live);
    return is_well;
}

/* ---- buffers recognized by values or names ---- */

/* Whether the tensor is a mask: it has numbers that represent infinity, or only zeros and ones, as no parameter
 * does. */
static bool is_mask(const bgi_tensor *tensor)
{
    int64_t zeros = 0, ones = 0;

    for (int64_t i = 0; i < tensor->count; i++) {
        const double value = bgi_tensor_real(tensor, i);

        if (fabs(value) >= 1e4)
            return true;
        zeros += value == 0.0;
        ones += value == 1.0;
    }
    return zeros > 0 && ones > 0 && zeros + ones == tensor->count;
}

/* Whether each row has sines and cosines of the same angles, alternating or in halves, as a table of positions has. */
static bool are_waves(const bgi_tensor *tensor)
{
    const int64_t width = tensor->rank >= 2 ? tensor->dims[tensor->rank - 1] : 0;
    bool in_turn = true, in_halves = true, differ = false;

    if (width < 2 || width % 2 != 0 || tensor->count < 2 * width)
        return false;
    for (int64_t i = 0; i < tensor->count && (in_turn || in_halves); i += width)
        for (int64_t k = 0; k < width / 2; k++) {
            const double a = bgi_tensor_real(tensor, i + 2 * k), b = bgi_tensor_real(tensor, i + 2 * k + 1);
            const double c = bgi_tensor_real(tensor, i + k), d = bgi_tensor_real(tensor, i + k + width / 2);

            in_turn = in_turn && fabs(a * a + b * b - 1.0) < 1e-3;
            in_halves = in_halves && fabs(c * c + d * d - 1.0) < 1e-3;
            differ = differ || (i > 0 && bgi_tensor_real(tensor, k) != c);
        }
    return differ && (in_turn || in_halves);
}

/* Sets *is_buffer to whether the weight's values are those of a buffer. They are read only once. */
static bg_status look_at_values(bg_onnx *onnx, uint32_t weight, bool *is_buffer, bg_error *error)
{
    bgi_arena arena = {0};
    const bgi_tensor *tensor;
    bg_status status = BG_OK;

    if (onnx->values[weight] == BGI_VALUES_UNKNOWN) {
        status = bgi_onnx_tensor_load(onnx, onnx->model->graph->initializer[weight], &arena, &tensor, error);
        if (status == BG_OK)
            onnx->values[weight] = is_mask(tensor) || are_waves(tensor) ? BGI_VALUES_BUFFER : BGI_VALUES_ORDINARY;
        bgi_arena_clear(&arena);
    }
    *is_buffer = onnx->values[weight] == BGI_VALUES_BUFFER;
    return status;
}

/* Whether the weight's name is, or ends in, the name of a buffer in PyTorch's own modules or by convention. */
static bool is_named_buffer(const char *name)
{
    static const char *const endings[] = {".criterion.weight", ".inv_freq",     ".loss.weight", ".mask",
                                          ".pos_weight",       ".running_mean", ".running_var", "_mask"};
    const size_t length = strlen(name);

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t ending = strlen(endings[i]);

        if (strcmp(name, endings[i] + 1) == 0 || (length > ending && strcmp(name + length - ending, endings[i]) == 0))
            return true;
    }
    return false;
}

/* Whether a pattern with * and ? matches; backtracks only into the last star. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *kept = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            kept = name;
        } else if (*pattern == '?' || (*pattern != '\0' && *pattern == *name)) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++kept;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool matches_any(const char *const *patterns, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (matches(patterns[i], name))
            return true;
    return false;
}

static bg_status check_patterns(const bg_onnx *onnx, const char *const *patterns, uint32_t count, const char *option,
                                bg_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *other = NULL;
        bool found = false;

        BGI_TRY(bgi_require(patterns[i], option, "bg_onnx_build", error));
        for (uint32_t k = 0; k < onnx->contents.weight_count && !found; k++)
            if (bg_dtype_is_float(onnx->weights[k].type.dtype)) {
                found = matches(patterns[i], onnx->weights[k].name);
                other = other == NULL ? onnx->weights[k].name : other;
            }
        if (!found)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: the pattern \"%s\" matches no float initializer%s%s%s",
                                option, patterns[i],
                                other != NULL ? "; the first of them is `" : ", because the model has none",
                                other != NULL ? other : "", other != NULL ? "`" : "");
    }
    return BG_OK;
}

static bg_onnx_use use_of(const bg_onnx *onnx, const bg_onnx_weight *weight, const uses *found, bool is_buffer,
                          const bg_onnx_options *options)
{
    const bool is_of_pytorch = strncmp(onnx->contents.producer, "pytorch", 7) == 0;
    const bool is_asked = matches_any(options->train, options->train_count, weight->name);

    if (!bg_dtype_is_float(weight->type.dtype) || found->by_structure)
        return BG_ONNX_CONSTANT;
    if (found->as_statistic)
        return BG_ONNX_BUFFER;
    if (!found->as_weight && !found->as_term && !is_asked &&
        (!found->as_number || !is_of_pytorch || strncmp(weight->name, "onnx::", 6) == 0))
        return BG_ONNX_CONSTANT;
    if (!found->as_weight && !found->as_term && !found->as_number)
        return BG_ONNX_CONSTANT;
    if (!is_asked && (is_buffer || !found->has_gradient || (is_of_pytorch && is_named_buffer(weight->name))))
        return BG_ONNX_CONSTANT;
    return !is_asked && matches_any(options->freeze, options->freeze_count, weight->name) ? BG_ONNX_FROZEN
                                                                                          : BG_ONNX_PARAMETER;
}

bg_status bgi_onnx_classify(bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    uses *found;
    bg_status status = BG_OK;

    BGI_TRY(check_patterns(onnx, options->freeze, options->freeze_count,
                           options->freeze_option != NULL ? options->freeze_option : "options.freeze", error));
    BGI_TRY(check_patterns(onnx, options->train, options->train_count,
                           options->train_option != NULL ? options->train_option : "options.train", error));
    found = calloc(onnx->contents.weight_count + 1, sizeof *found);
    if (found == NULL)
        return bgi_error_memory(error, "uses of initializers", onnx->contents.weight_count * sizeof *found);
    count_uses(onnx, onnx->model->graph, found);
    if (!follow_gradients(onnx, found))
        status = bgi_error_memory(error, "uses of initializers", 0);
    for (uint32_t i = 0; i < onnx->contents.weight_count && status == BG_OK; i++) {
        const bg_onnx_weight *weight = &onnx->weights[i];
        bool is_buffer = false;

        if ((found[i].as_term || found[i].as_number) && !found[i].as_weight && bg_dtype_is_float(weight->type.dtype))
            status = look_at_values(onnx, i, &is_buffer, error);
        onnx->weights[i].use = use_of(onnx, weight, &found[i], is_buffer, options);
    }
    free(found);
    return status;
}

/* ---- values ---- */

bg_status bg_onnx_set_weights(const bg_onnx *onnx, bg_weights *weights, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(onnx, "onnx", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    if (!onnx->is_built)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: nothing was built yet; call bg_onnx_build first", onnx->path);
    for (uint32_t i = 0; i < onnx->contents.weight_count; i++) {
        bgi_arena arena = {0};
        const bgi_tensor *tensor;
        bg_status status;

        if (!onnx->is_variable[i])
            continue;
        status = bgi_onnx_tensor_load(onnx, onnx->model->graph->initializer[i], &arena, &tensor, error);
        if (status == BG_OK)
            status = bg_weights_set(weights, onnx->weights[i].name, &onnx->weights[i].type, tensor->data, error);
        bgi_arena_clear(&arena);
        if (status != BG_OK)
            return bg_error_context(error, status, "%s", onnx->path);
    }
    return BG_OK;
}

/* ---- writing the file ---- */

/* The replacement of an initializer while the file is written. */
typedef struct copy {
    BgiOnnx__Tensor tensor;
    void *bytes;
} copy;

static bg_status make_copy(const bg_onnx *onnx, uint32_t index, bg_weights *weights, copy *out, bg_error *error)
{
    const BgiOnnx__Tensor *old = onnx->model->graph->initializer[index];
    const bg_onnx_weight *weight = &onnx->weights[index];
    BgiOnnx__Tensor *made = &out->tensor;
    size_t size;

    bgi_onnx__tensor__init(made);
    made->n_dims = old->n_dims;
    made->dims = old->dims;
    made->has_data_type = old->has_data_type;
    made->data_type = old->data_type;
    made->name = old->name;
    made->doc_string = old->doc_string;
    if (onnx->is_variable[index]) {
        bg_weight value;

        BGI_TRY(bg_weights_find(weights, weight->name, &value, error));
        if (!bg_dtype_is_float(value.type.dtype) || value.type.rank != weight->type.rank ||
            memcmp(value.type.dims, weight->type.dims, sizeof value.type.dims) != 0) {
            char has[BG_TYPE_TEXT_BYTES], wants[BG_TYPE_TEXT_BYTES];
            return bg_error_set(error, BG_ERROR_SHAPE, "`%s` is %s but the file has %s", weight->name,
                                bg_type_text(&value.type, has), bg_type_text(&weight->type, wants));
        }
        BGI_TRY(bgi_onnx_tensor_bytes(old->data_type, value.type.dtype, value.data, bg_type_element_count(&value.type),
                                      &out->bytes, &size, error));
    } else {
        BGI_TRY(bgi_onnx_tensor_raw(onnx, old, &out->bytes, &size, error));
    }
    made->has_raw_data = 1;
    made->raw_data = (ProtobufCBinaryData){.len = size, .data = out->bytes};
    return BG_OK;
}

static uint64_t bytes_of_weights(const bg_onnx *onnx)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < onnx->contents.weight_count; i++)
        sum += bg_type_size_bytes(&onnx->weights[i].type);
    return sum;
}

static bg_status save_with(const bg_onnx *onnx, bg_weights *weights, const char *path, copy *copies,
                           BgiOnnx__Tensor **tensors, bgi_arena *arena, bg_error *error)
{
    const bool is_outside = bytes_of_weights(onnx) > BGI_ONNX_INSIDE_LIMIT;
    BgiOnnx__Graph graph = *onnx->model->graph;
    BgiOnnx__Model model = *onnx->model;
    bgi_onnx_outside outside = {0};
    bg_status status = BG_OK;

    if (is_outside)
        status = bgi_onnx_outside_begin(&outside, path, arena, error);
    for (uint32_t i = 0; i < onnx->contents.weight_count && status == BG_OK; i++) {
        tensors[i] = graph.initializer[i];
        if (!onnx->is_variable[i] && !bgi_onnx_tensor_is_external(tensors[i]))
            continue;
        status = make_copy(onnx, i, weights, &copies[i], error);
        tensors[i] = &copies[i].tensor;
        if (status != BG_OK || !is_outside)
            continue;
        if (!bgi_onnx_outside_put(&outside, tensors[i], arena))
            status = bgi_error_memory(error, onnx->weights[i].name, 0);
        free(copies[i].bytes);
        copies[i].bytes = NULL;
    }
    graph.initializer = tensors;
    model.graph = &graph;
    if (status == BG_OK && is_outside)
        status = bgi_onnx_outside_commit(&outside, error);
    else if (is_outside)
        bgi_onnx_outside_abandon(&outside, error);
    return status == BG_OK ? bgi_onnx_write(&model, path, error) : status;
}

bg_status bg_onnx_save_weights(const bg_onnx *onnx, bg_weights *weights, const char *path, bg_error *error)
{
    bg_error_clear(error);

    BgiOnnx__Tensor **tensors;
    bgi_arena arena = {0};
    copy *copies;
    bg_status status;

    BGI_TRY(bgi_require(onnx, "onnx", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));
    if (!onnx->is_built)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: nothing was built yet; call bg_onnx_build first", onnx->path);
    tensors = calloc(onnx->contents.weight_count + 1, sizeof *tensors);
    copies = calloc(onnx->contents.weight_count + 1, sizeof *copies);
    if (tensors == NULL || copies == NULL)
        status = bgi_error_memory(error, "the tensors of a file", onnx->contents.weight_count * sizeof *copies);
    else
        status = save_with(onnx, weights, path, copies, tensors, &arena, error);
    for (uint32_t i = 0; copies != NULL && i < onnx->contents.weight_count; i++)
        free(copies[i].bytes);
    free(copies);
    free(tensors);
    bgi_arena_clear(&arena);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", path);
}
