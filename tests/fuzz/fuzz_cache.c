/*
 * fuzz_cache.c: arbitrary files of cached plans: either any bytes, or the valid file of a small plan, changed at
 * positions that the input names, with a correct checksum. An accepted plan can be printed, and its programs access
 * only their devices' memory.
 *
 * Input: a byte. If it is even, the rest is a file. If it is odd, the rest is a list of changes of 3 bytes each: the
 * position, low byte first, and the new value.
 */
#include "plan/cache.h"

#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>

#include "core/crc64.h"

enum { HEAD_BYTES = 28, CHECKSUM_AT = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes a graph that covers most of a plan's content: two stages, layers sharded over a mesh, dropout, and an optimizer
 * with state. */
static bg_graph *make_graph(bg_value *loss)
{
    const bg_type image = bg_matrix(BG_FLOAT32, 2, 3), label = bg_vector(BG_INT32, 2);
    const bg_parallel_linear_options wide = bg_parallel_linear_defaults(BG_MESH_TENSOR_2);
    const bg_parallel_linear_options narrow = bg_parallel_linear_defaults(BG_MESH_TENSOR_1);
    bg_graph *graph = NULL;
    bg_value x, labels;

    if (bg_graph_create(&graph, NULL) != BG_OK)
        abort();
    bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 1});
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_graph_input(graph, "x", &image);
    x = bg_parallel_linear_layer(graph, "one", x, 4, &wide);
    x = bg_parallel_linear_layer(graph, "back", bg_sharded_dropout(graph, "drop", x, 0.25, BG_MESH_TENSOR_1), 4,
                                 &narrow);
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    labels = bg_graph_input(graph, "labels", &label);
    *loss = bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "two", x, 3, true), labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", *loss);
    bg_block_end(graph);
    return graph;
}

static void begin(const bgi_request *request, bg_plan **out)
{
    bg_plan *plan = calloc(1, sizeof *plan);

    if (plan == NULL)
        abort();
    plan->training = true;
    plan->options = *request->options;
    plan->options.files.cache_dir = NULL;
    plan->optimizer = *request->optimizer;
    plan->replicas = plan->input_group_size = plan->iterations = 1;
    plan->micro_batches = request->options->execution.gradient_accumulation;
    *out = plan;
}

static void describe(const bg_plan *plan)
{
    bg_status (*const prints[])(const bg_plan *, char **, bg_error *) = {
        bg_plan_print_memory, bg_plan_print_placement, bg_plan_print_timetable, bg_plan_print_program};

    for (size_t i = 0; i < sizeof prints / sizeof prints[0]; i++) {
        char *text = NULL;
        (void)prints[i](plan, &text, NULL);
        free(text);
    }
    if (bgi_plan_check(plan, NULL) != BG_OK)
        abort();
}

/* Changes only bytes after the key, because another key belongs to another plan. */
static void change(unsigned char *file, size_t file_bytes, size_t key_bytes, const uint8_t *changes, size_t size)
{
    const size_t content = file_bytes - HEAD_BYTES, first = HEAD_BYTES + key_bytes;
    bgi_crc64 crc;
    uint64_t value;

    for (size_t i = 0; i + 3 <= size; i += 3)
        file[first + (changes[i] + 256u * changes[i + 1]) % (file_bytes - first)] = changes[i + 2];
    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, file + HEAD_BYTES, content);
    value = bgi_crc64_value(&crc);
    for (unsigned i = 0; i < 8; i++)
        file[CHECKSUM_AT + i] = (unsigned char)(value >> 8 * i);
}

static void read_file(bgi_cache *cache, const void *file, size_t file_bytes, bool must_read)
{
    bg_plan *plan;
    bg_error error = {0};
    bg_status status;

    begin(cache->request, &plan);
    status = bgi_cache_read(cache, file, file_bytes, plan, &error);
    if (status == BG_OK)
        describe(plan);
    if ((status != BG_OK && (must_read || error.message[0] == '\0')) || (status != BG_OK && status != BG_ERROR_PARSE))
        abort();
    bg_plan_destroy(plan);
}

/* Returns a malloc'ed copy of the plan's valid file, which is made once. */
static unsigned char *write_file(bgi_cache *cache, size_t *out_bytes)
{
    static void *made;
    static size_t made_bytes;
    const bgi_request *request = cache->request;
    unsigned char *copy;

    if (made == NULL) {
        bg_options options = *request->options;
        bg_plan *plan = NULL;
        options.files.cache_dir = NULL;
        if (bg_plan_create_training(request->graph, request->loss, request->optimizer, &options, &plan, NULL) !=
                BG_OK ||
            bgi_cache_write(cache, plan, &made, &made_bytes, NULL) != BG_OK)
            abort();
        bg_plan_destroy(plan);
    }
    copy = malloc(made_bytes);
    if (copy == NULL)
        abort();
    memcpy(copy, made, made_bytes);
    *out_bytes = made_bytes;
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    bgi_request request = {.training = true, .optimizer = &optimizer, .options = &options};
    bgi_cache cache;
    bg_graph *graph;
    size_t file_bytes;

    options.execution.gradient_accumulation = 3;
    options.execution.stages = "B1|B2";
    options.replicas.count = 2;
    options.numerics.kernels = BG_KERNELS_REFERENCE;
    request.graph = graph = make_graph(&request.loss);
    options.files.cache_dir = "nowhere";
    if (bgi_cache_begin(&cache, &request, NULL) != BG_OK)
        abort();
    if (size > 0 && data[0] % 2 == 0) {
        read_file(&cache, data + 1, size - 1, false);
    } else if (size > 0) {
        unsigned char *file = write_file(&cache, &file_bytes);
        change(file, file_bytes, cache.key.size_bytes + 2, data + 1, size - 1);
        read_file(&cache, file, file_bytes, size == 1);
        free(file);
    }
    bgi_cache_end(&cache);
    bg_graph_destroy(graph);
    return 0;
}
