/*
 * index_page.c: makes the tables of docs/ops.md. The program reads the page and writes it with new tables, each between
 * `<!-- ops: SECTION -->` and `<!-- end of ops -->`.
 *
 * The names of ops in other systems are in this file. To find an op's element types, its kernels and the operands that
 * get gradients, the program builds the op (zoo.h).
 *
 *     index_page PAGE >NEW; index_page --sections     the names of the sections
 */
#include "ops/zoo.h"

#include "kernels/cpu/variant.h"

typedef struct row {
    const char *section, *functions, *pytorch, *onnx;
    bg_value (*build)(zoo *z, int kind);
    int kind,
        last; /* the first and the last kind of the op; the table shows the types and gradients of the first kind */
} row;

static const row rows[] = {
    {"elementwise", "`bg_elementwise_unary`, `bg_elementwise_function`", "the functions below", "", unary, 0,
     BG_UNARY_COUNT - 1},
    {"elementwise",
     "`bg_elementwise_binary`: `BG_ADD`, `BG_SUBTRACT`, `BG_MULTIPLY`, `BG_DIVIDE`, `BG_MAXIMUM`, `BG_MINIMUM`; "
     "`bg_add`, `bg_subtract`, `bg_multiply`, `bg_divide`",
     "`+`, `-`, `*`, `/`, `maximum`, `minimum`", "Add, Sub, Mul, Div, Max, Min", binary, 0, BG_BINARY_COUNT - 1},
    {"elementwise", "`bg_scale`", "`alpha * x + beta`", "Mul, Add", elements, 0, 0},
    {"elementwise", "`bg_cast`; gradients flow from float to float", "`to`", "Cast", elements, 1, 1},
    {"elementwise", "`bg_standardize`; x may also be uint8", "`transforms.Normalize`", "", elements, 5, 5},
    {"elementwise",
     "`bg_compare`: `BG_LESS`, `BG_LESS_EQUAL`, `BG_EQUAL`, `BG_NOT_EQUAL`, `BG_GREATER`, `BG_GREATER_EQUAL`",
     "`lt`, `le`, `eq`, `ne`, `gt`, `ge`", "Less, LessOrEqual, Equal, Greater, GreaterOrEqual", elements, 8, 8},
    {"elementwise", "`bg_where`", "`where`", "Where", elements, 2, 2},
    {"elementwise", "`bg_logical`: `BG_LOGIC_AND`, `BG_LOGIC_OR`, `BG_LOGIC_XOR`",
     "`logical_and`, `logical_or`, `logical_xor`", "And, Or, Xor", elements, 9, 9},
    {"elementwise", "`bg_logical_not`", "`logical_not`", "Not", elements, 10, 10},
    {"elementwise", "`bg_prelu`", "`prelu`", "PRelu", elements, 3, 3},
    {"elementwise", "`bg_triangle`", "`tril`, `triu`", "Trilu", elements, 4, 4},

    {"products", "`bg_linear`", "`linear`", "Gemm", product, 0, 0},
    {"products", "`bg_matmul`", "`matmul`", "MatMul", product, 1, 2},
    {"products", "`bg_einsum`", "`einsum`", "Einsum", product, 3, 3},
    {"products", "`bg_conv2d`", "`conv2d`", "Conv", convolution, 0, 0},
    {"products", "`bg_conv`; in three dimensions it copies the planes of x once for each plane of the filter",
     "`conv1d`, `conv2d`, `conv3d`", "Conv", convolution, 1, 2},
    {"products", "`bg_conv_transpose`", "`conv_transpose1d`, `2d`, `3d`", "ConvTranspose", convolution, 3, 5},
    {"products", "`bg_max_pool2d`", "`max_pool2d`", "MaxPool", pool, 0, 0},
    {"products", "`bg_avg_pool2d`", "`avg_pool2d`", "AveragePool", pool, 1, 1},
    {"products", "`bg_max_pool`", "`max_pool1d`, `2d`, `3d`", "MaxPool", pool, 6, 6},
    {"products", "`bg_avg_pool`", "`avg_pool1d`, `2d`, `3d`", "AveragePool", pool, 5, 5},
    {"products", "`bg_adaptive_max_pool`", "`adaptive_max_pool1d`, `2d`, `3d`", "GlobalMaxPool", pool, 2, 2},
    {"products", "`bg_adaptive_avg_pool`", "`adaptive_avg_pool1d`, `2d`, `3d`", "GlobalAveragePool", pool, 3, 3},
    {"products",
     "`bg_interpolate`: `BG_INTERPOLATE_NEAREST`, `BG_INTERPOLATE_LINEAR`, `BG_INTERPOLATE_CUBIC`, "
     "`BG_INTERPOLATE_AREA`",
     "`interpolate`", "Resize, Upsample", interpolation, 0, BG_INTERPOLATION_COUNT - 1},

    {"shapes", "`bg_reshape`, `bg_flatten`", "`reshape`, `flatten`", "Reshape, Flatten, Squeeze, Unsqueeze", move, 4,
     4},
    {"shapes", "`bg_transpose`", "`permute`", "Transpose", move, 0, 0},
    {"shapes", "`bg_broadcast`", "`expand`", "Expand", move, 1, 1},
    {"shapes", "`bg_slice`; the gradients of slices that do not overlap are concatenated", "`x[a:b:c]`, `narrow`",
     "Slice, Split", move, 2, 2},
    {"shapes", "`bg_concat`", "`cat`", "Concat", move, 3, 3},
    {"shapes", "`bg_stack`", "`stack`", "Unsqueeze, Concat", move, 7, 7},
    {"shapes", "`bg_tile`", "`tile`", "Tile", move, 8, 8},
    {"shapes", "`bg_roll`", "`roll`", "Slice, Concat", move, 5, 5},
    {"shapes", "`bg_flip`", "`flip`", "Slice", move, 6, 6},
    {"shapes", "`bg_pad`: `BG_PAD_CONSTANT`, `BG_PAD_REFLECT`, `BG_PAD_REPLICATE`, `BG_PAD_CIRCULAR`", "`pad`", "Pad",
     move, 9, 9 + BG_PAD_MODE_COUNT - 1},
    {"shapes", "`bg_gather`; here and below, ids are I or uint8", "`index_select`, `x[ids]`", "Gather", index_of, 0, 0},
    {"shapes", "`bg_scatter_add`", "`index_add`", "", index_of, 1, 1},
    {"shapes", "`bg_gather_elements`", "`gather`", "GatherElements", index_of, 2, 2},
    {"shapes", "`bg_scatter_elements_add`", "`scatter_add`", "ScatterElements", index_of, 3, 3},
    {"shapes", "`bg_one_hot`", "`one_hot`", "OneHot", index_of, 5, 5},
    {"shapes", "`bg_top_k`", "`topk`", "TopK", index_of, 4, 4},
    {"shapes", "`bg_embedding`; ids int32", "`embedding`", "Gather", index_of, 6, 6},

    {"axes", "`bg_reduce`: `BG_REDUCE_SUM`, `BG_REDUCE_MEAN`, `BG_REDUCE_MAX`", "`sum`, `mean`, `amax`",
     "ReduceSum, ReduceMean, ReduceMax", along, 0, 2},
    {"axes", "`bg_argmax`", "`argmax`", "ArgMax", along, 6, 6},
    {"axes", "`bg_cumulative_sum`", "`cumsum`", "CumSum", along, 3, 3},
    {"axes", "`bg_softmax`", "`softmax`", "Softmax", along, 4, 4},
    {"axes", "`bg_log_softmax`", "`log_softmax`", "LogSoftmax", along, 5, 5},
    {"axes", "`bg_layer_norm`", "`layer_norm`", "LayerNormalization", norm, 0, 0},
    {"axes", "`bg_rms_norm`", "`RMSNorm`", "RMSNormalization", norm, 1, 1},
    {"axes", "`bg_group_norm`", "`group_norm`, `instance_norm`", "GroupNormalization, InstanceNormalization", norm, 2,
     2},
    {"axes", "`bg_batch_norm`; `bg_sync_batch_norm` has separate kernels of the same speed",
     "`batch_norm`, `SyncBatchNorm`", "BatchNormalization", norm, 3, 3},
    {"axes", "`bg_dropout`", "`dropout`", "Dropout", elements, 6, 6},
    {"axes", "`bg_attention`", "`scaled_dot_product_attention`", "Attention", attention, 0, 0},
    {"axes", "`bg_attention_cached`", "the same, with a cache", "", attention, 4, 4},
    {"axes",
     "`bg_dot_product_attention`: masks, biases, windows, shared heads of keys, ALiBi; a bias is uint8 (a mask) or F, "
     "and has a gradient",
     "`scaled_dot_product_attention`, `enable_gqa`", "Attention", attention, 2, 2},
    {"axes",
     "`bg_dot_product_attention_cached`: the next tokens of each sample, at separate positions, with a cache of "
     "keys and values",
     "the same, with a cache", "", attention, 6, 6},
    {"axes", "`bg_length_mask`; lengths int32 or int64", "`arange(T) < lengths`", "", attention, 5, 5},
    {"axes", "`bg_rotary`: halves or neighbors, scaled linearly, NTK, dynamic NTK, YaRN, Llama 3; positions int32", "",
     "RotaryEmbedding", attention, 3, 3},

    {"time", "`bg_lstm`", "`LSTM`, one layer and direction, without the product of its inputs",
     "LSTM, whose gates are i, o, f, c", recurrence, 0, 0},
    {"time", "`bg_gru`", "`GRU`, as for `LSTM`", "GRU with `linear_before_reset`, whose gates are z, r, h", recurrence,
     1, 1},
    {"time", "`bg_gru_reset_first`", "", "GRU without `linear_before_reset`", recurrence, 2, 2},
    {"time", "`bg_rnn`", "`RNN`, tanh or relu, as for `LSTM`", "RNN", recurrence, 3, 4},
    {"time", "`bg_scan`; this row is for a body with a sum and a product", "a loop over time", "", recurrence, 5, 5},
    {"time", "`bg_stop_gradient`", "`detach`", "Identity", elements, 7, 7},

    {"losses", "`bg_cross_entropy`; here and below, labels are int32 or uint8", "`cross_entropy`",
     "SoftmaxCrossEntropyLoss", loss, 0, 0},
    {"losses", "`bg_weighted_cross_entropy`", "`cross_entropy` with `weight`, `label_smoothing`",
     "SoftmaxCrossEntropyLoss", loss, 1, 1},
    {"losses", "`bg_nll_loss`", "`nll_loss`", "NegativeLogLikelihoodLoss", loss, 2, 2},
    {"losses", "`bg_ctc_loss`, computed in double; this row includes a `bg_log_softmax` before it",
     "`ctc_loss`, with the steps as the first dimension", "", loss, 3, 3},
    {"losses", "`bg_cosine_similarity`", "`cosine_similarity`", "", loss, 10, 10},
    {"losses", "`bg_cosine_embedding_loss`", "`cosine_embedding_loss`", "", loss, 4, 4},
    {"losses",
     "`bg_mse_loss`, `bg_pointwise_loss`: `BG_LOSS_SQUARED`, `BG_LOSS_ABSOLUTE`, `BG_LOSS_SMOOTH_L1`, "
     "`BG_LOSS_HUBER`",
     "`mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`", "", loss, 11 + BG_LOSS_SQUARED, 11 + BG_LOSS_SQUARED},
    {"losses", "`BG_LOSS_BINARY_LOGITS`, `BG_LOSS_BINARY`",
     "`binary_cross_entropy_with_logits`, `binary_cross_entropy`", "", loss, 11 + BG_LOSS_BINARY_LOGITS,
     11 + BG_LOSS_BINARY_LOGITS},
    {"losses", "`BG_LOSS_KL`, `BG_LOSS_KL_LOG`", "`kl_div`, without and with `log_target`", "", loss, 11 + BG_LOSS_KL,
     11 + BG_LOSS_KL},
    {"losses", "`bg_correct_count`", "`(argmax == y).sum()`", "", loss, 5, 5},
    {"losses", "`bg_top_k_correct_count`", "`(topk == y).sum()`", "", loss, 6, 6},
    {"losses", "`bg_class_counts`", "diagonal and sums of a confusion matrix", "", loss, 7, 7},
    {"losses", "`bg_binary_counts`", "the same for two classes", "", loss, 8, 8},
    {"losses", "`bg_likelihood_sums`", "`cross_entropy(reduction=\"sum\")`, and the number of labels", "", loss, 9, 9},
};
enum { ROWS = sizeof rows / sizeof *rows, ROUNDS = 4, MOST_KERNELS = 64 };

static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16, BG_FLOAT64, BG_INT32, BG_INT64, BG_UINT8};
enum { DTYPES = 7, FAST_TYPES = 3 }; /* the first three have fast kernels */

static int find_animal(const row *r)
{
    int a = 0;

    while (animals[a].build != r->build)
        a++;
    return a;
}

/* ---- types and gradients ---- */

static bool takes(const row *r, bg_dtype dtype)
{
    bg_value value;
    const zoo z = create_graph(find_animal(r), r->kind, dtype, 1, &value);
    const bool is_taken = bg_graph_check(z.graph, NULL) == BG_OK;

    bg_graph_destroy(z.graph);
    return is_taken;
}

static void print_types(const bool *taken)
{
    const bool floats = taken[0] && taken[1] && taken[2] && taken[3], integers = taken[4] && taken[5];
    const char *separator = "";

    if (floats && integers && taken[6]) {
        printf("any");
        return;
    }
    if (floats)
        printf("%sF", separator), separator = ", ";
    if (integers)
        printf("%sI", separator), separator = ", ";
    for (int d = 0; d < DTYPES; d++)
        if (taken[d] && !(d < 4 && floats) && !((d == 4 || d == 5) && integers))
            printf("%s%s", separator, bg_dtype_name(dtypes[d])), separator = ", ";
}

/* ---- kernels ---- */

typedef struct kernel_list {
    const bg_op_type *types[MOST_KERNELS];
    bool is_plain[MOST_KERNELS], is_plain_for_integers[MOST_KERNELS];
    size_t count;
} kernel_list;

static size_t find_kernel(kernel_list *list, const bg_op_type *type)
{
    size_t k = 0;

    while (k < list->count && list->types[k] != type)
        k++;
    if (k == list->count) {
        assert_true(k < MOST_KERNELS);
        list->types[list->count++] = type;
    }
    return k;
}

static bool has_floats(const bg_graph *graph, const bgi_op *op)
{
    for (uint32_t i = 0; i < op->input_count; i++)
        if (bg_dtype_is_float(bg_graph_type(graph, op->inputs[i]).dtype))
            return true;
    return bg_dtype_is_float(bg_graph_type(graph, op->outputs[0]).dtype);
}

/* Adds the kernels of a graph; integer kernels count only for integer rows. `met` gets the kernels of the graph, and
 * `fast` those that have a fast body for some shape. */
static void note_kernels(const bg_graph *graph, kernel_list *list, int dtype, bool met[DTYPES][MOST_KERNELS],
                         bool fast[DTYPES][MOST_KERNELS])
{
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        const int d = has_floats(graph, op) ? dtype : DTYPES - 1;

        if (op->type->alias_input == BG_NO_OPERAND) {
            const size_t k = find_kernel(list, op->type);

            met[d][k] = true;
            fast[d][k] = fast[d][k] || is_fast(graph, op, BG_KERNELS_PORTABLE, ".portable");
        }
    }
}

/* Lists the kernels of the row's ops. Also counts the operands of a float32 graph in *out_operands, and those that get
 * gradients in *out_gradients. */
static void find_kernels(const row *r, const bool *taken, kernel_list *list, uint32_t *out_operands,
                         uint32_t *out_gradients)
{
    bool met[DTYPES][MOST_KERNELS] = {{false}}, fast[DTYPES][MOST_KERNELS] = {{false}};

    for (int d = 0; d < DTYPES; d++)
        for (int kind = r->kind; taken[d] && kind <= r->last; kind++)
            for (uint64_t round = 1; round <= ROUNDS; round++) {
                bg_value value, seed, gradients[MOST_PARAMETERS] = {{0}};
                zoo z = create_graph(find_animal(r), kind, dtypes[d], round, &value);
                const bool derives = dtypes[d] != BG_FLOAT64 && derive(&z, value, &seed, gradients);

                if (bg_graph_check(z.graph, NULL) == BG_OK && dtypes[d] != BG_FLOAT64)
                    note_kernels(z.graph, list, d, met, fast);
                if (d == 0 && kind == r->kind && round == 1) {
                    *out_operands = z.count;
                    for (uint32_t p = 0; derives && p < z.count; p++)
                        *out_gradients += !bg_value_is_null(gradients[p]);
                }
                bg_graph_destroy(z.graph);
            }
    for (size_t k = 0; k < list->count; k++)
        for (int d = 0; d < DTYPES; d++)
            if (met[d][k] && !fast[d][k])
                *(d < FAST_TYPES ? &list->is_plain[k] : &list->is_plain_for_integers[k]) = true;
}

static void print_kernels(const kernel_list *list)
{
    bool is_plain_for_integers = false;

    if (list->count == 0)
        printf("none: the same memory");
    for (size_t k = 0; k < list->count; k++) {
        printf("%s`%s`%s", k > 0 ? ", " : "", list->types[k]->name, list->is_plain[k] ? " (plain)" : "");
        is_plain_for_integers = is_plain_for_integers || (list->is_plain_for_integers[k] && !list->is_plain[k]);
    }
    if (is_plain_for_integers)
        printf("; I plain");
}

static void print_row(const row *r)
{
    bool taken[DTYPES];
    kernel_list list = {0};
    uint32_t operands = 0, gradients = 0;

    for (int d = 0; d < DTYPES; d++)
        taken[d] = takes(r, dtypes[d]);
    find_kernels(r, taken, &list, &operands, &gradients);
    printf("| %s | %s | %s | ", r->functions, r->pytorch, r->onnx);
    print_types(taken);
    printf(" | %s | ", gradients == 0 ? "none" : operands == 1 ? "x" : gradients == operands ? "all" : "some");
    print_kernels(&list);
    printf(" |\n");
}

/* ---- the page ---- */

static void print_section(const char *section)
{
    int count = 0;

    printf("\n| Function | PyTorch | ONNX | Types | Gradient | Kernels |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].section, section) == 0) {
            print_row(&rows[i]);
            count++;
        }
    printf("\n");
    if (count > 0)
        return;
    fprintf(stderr, "index_page: there is no section `%s`\n", section);
    exit(1);
}

int main(int argc, char **argv)
{
    char line[4096], section[64];
    FILE *page = argc == 2 ? fopen(argv[1], "r") : NULL;
    bool skips = false;

    if (argc == 2 && strcmp(argv[1], "--sections") == 0) {
        for (int i = 0; i < ROWS; i++)
            if (i == 0 || strcmp(rows[i].section, rows[i - 1].section) != 0)
                puts(rows[i].section);
        return 0;
    }
    if (page == NULL) {
        fprintf(stderr, "usage: index_page PAGE | --sections\n");
        return 2;
    }
    while (fgets(line, sizeof line, page) != NULL) {
        if (strcmp(line, "<!-- end of ops -->\n") == 0)
            skips = false;
        if (!skips)
            fputs(line, stdout);
        if (sscanf(line, "<!-- ops: %63s -->", section) == 1) {
            print_section(section);
            skips = true;
        }
    }
    return fclose(page) == 0 && fflush(stdout) == 0 && !skips ? 0 : 1;
}
