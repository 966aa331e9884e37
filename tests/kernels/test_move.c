/*
 * test_move.c: compares copies, transposition, broadcasting, embedding, dropout, slices and pooling with the reference.
 */
#include "kernels/dropout/attributes.h"
#include "kernels/embedding/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/pool/attributes.h"
#include "kernels/reshape/attributes.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static bg_dtype draw_type(random_state *random)
{
    return (bg_dtype)draw_between(random, BG_FLOAT32, BG_UINT8);
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static void test_copy(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bg_dtype dtype = draw_type(&random);
        const int64_t count = i % 4 ? draw_between(&random, 1, 300) : draw_between(&random, 300000, 700000);
        kernel_case c = {.id = BGI_KERNEL_COPY};

        case_input(&c, bg_vector(dtype, count), &random, 0, 200);
        case_output(&c, bg_vector(dtype, count));
        finish_case(&c);
    }
}

static void shuffle(random_state *random, uint32_t *values, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t j = (uint32_t)draw_between(random, 0, i - 1), other = values[j];

        values[j] = values[i - 1];
        values[i - 1] = other;
    }
}

static void test_transpose(void **state)
{
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(120); i++) {
        const uint32_t rank = (uint32_t)draw_between(&random, 1, 5);
        const bg_dtype dtype = draw_type(&random);
        bgi_transpose_attributes attributes = {{0, 1, 2, 3, 4}};
        kernel_case c = {.id = BGI_KERNEL_TRANSPOSE, .attributes = &attributes};
        int64_t dims[5], permuted[5];

        shuffle(&random, attributes.permutation, rank);
        for (uint32_t d = 0; d < rank; d++)
            dims[d] = draw_between(&random, 1, rank < 3 ? 200 : rank < 4 ? 40 : 9);
        for (uint32_t d = 0; d < rank; d++)
            permuted[d] = dims[attributes.permutation[d]];
        case_input(&c, bg_type_make(dtype, rank, dims), &random, 0, 200);
        case_output(&c, bg_type_make(dtype, rank, permuted));
        finish_case(&c);
    }
}

static void test_slices(void **state)
{
    random_state random = {18};

    (void)state;
    for (int i = 0; i < rounds(120); i++) {
        const bg_dtype dtype = draw_type(&random);
        const uint32_t rank = (uint32_t)draw_between(&random, 1, 4),
                       axis = (uint32_t)draw_between(&random, 0, rank - 1);
        bgi_slice_backward_attributes slice = {.slice = {.axis = axis, .step = draw_between(&random, 1, 3)}};
        const bgi_axis_attributes concat = {axis};
        kernel_case c = {.id = BGI_KERNEL_SLICE, .attributes = &slice};
        kernel_case back = {.id = BGI_KERNEL_SLICE_BACKWARD, .attributes = &slice};
        kernel_case joined = {.id = BGI_KERNEL_CONCAT, .attributes = &concat};
        int64_t dims[4], whole[4], total = 0;

        for (uint32_t d = 0; d < rank; d++)
            whole[d] = dims[d] = draw_between(&random, 1, i % 5 == 0 ? 60 : 9);
        if (i % 10 == 0)
            whole[0] = dims[0] = draw_between(&random, 1000, 3000);
        slice.size = whole[axis];
        slice.slice.start = draw_between(&random, 0, whole[axis] - 1);
        slice.slice.stop = draw_between(&random, slice.slice.start + 1, whole[axis]);
        dims[axis] = (slice.slice.stop - slice.slice.start - 1) / slice.slice.step + 1;
        case_input(&c, bg_type_make(dtype, rank, whole), &random, 0, 200);
        case_output(&c, bg_type_make(dtype, rank, dims));
        finish_case(&c);

        case_input(&back, bg_type_make(dtype, rank, dims), &random, 0, 200);
        case_output(&back, bg_type_make(dtype, rank, whole));
        finish_case(&back);

        for (int64_t input = draw_between(&random, 1, 4); input > 0; input--, total += whole[axis]) {
            whole[axis] = draw_between(&random, 1, 9);
            case_input(&joined, bg_type_make(dtype, rank, whole), &random, 0, 200);
        }
        whole[axis] = total;
        case_output(&joined, bg_type_make(dtype, rank, whole));
        finish_case(&joined);
    }
}

static void test_roll(void **state)
{
    random_state random = {19};

    (void)state;
    for (int i = 0; i < rounds(80); i++) {
        const uint32_t rank = (uint32_t)draw_between(&random, 1, 4);
        bgi_roll_attributes attributes = {.axis = (uint32_t)draw_between(&random, 0, rank - 1)};
        kernel_case c = {.id = BGI_KERNEL_ROLL, .attributes = &attributes};
        int64_t dims[4];
        bg_type type;

        for (uint32_t d = 0; d < rank; d++)
            dims[d] = draw_between(&random, 1, 9);
        if (i % 8 == 0) /* several parts */
            dims[draw_between(&random, 0, rank - 1)] = draw_between(&random, 50000, 90000);
        type = bg_type_make(i % 8 ? draw_type(&random) : BG_FLOAT64, i % 8 ? rank : rank < 2 ? rank : 2, dims);
        attributes.axis = attributes.axis < type.rank ? attributes.axis : 0;
        attributes.first = draw_between(&random, 0, type.dims[attributes.axis] - 1);
        case_input(&c, type, &random, 0, 200);
        case_output(&c, type);
        finish_case(&c);
    }
}

static void test_broadcast(void **state)
{
    random_state random = {3};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t dims[4] = {draw_between(&random, 1, 5), draw_between(&random, 1, 9), draw_between(&random, 1, 40),
                                 draw_between(&random, 1, 90)};
        const uint32_t first = (uint32_t)draw_between(&random, 0, 4), last = (uint32_t)draw_between(&random, first, 4);
        kernel_case c = {.id = BGI_KERNEL_BROADCAST};
        int64_t own[4];

        for (uint32_t d = 0; d < 4; d++)
            own[d] = i % 2 ? (draw_between(&random, 0, 1) ? dims[d] : 1) : d >= first && d < last ? dims[d] : 1;
        case_input(&c, i % 2 ? bg_type_make(dtype, 4, own) : bg_type_make(dtype, 4 - first, own + first), &random, -3,
                   3);
        case_output(&c, bg_type_make(dtype, 4, dims));
        finish_case(&c);
    }
}

static void test_add_n(void **state)
{
    random_state random = {4};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t count = i % 4 ? draw_between(&random, 1, 700) : draw_between(&random, 30000, 90000);
        kernel_case c = {.id = BGI_KERNEL_ADD_N, .relative = 2 * unit_of(dtype), .absolute = 1e-6};

        for (int64_t input = draw_between(&random, 1, 5); input > 0; input--)
            case_input(&c, bg_vector(dtype, count), &random, -1, 1);
        case_output(&c, bg_vector(dtype, count));
        finish_case(&c);
    }
}

static void test_embedding(void **state)
{
    random_state random = {5};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t height = draw_between(&random, 1, i % 4 ? 40 : 900), width = draw_between(&random, 1, 200);
        const int64_t rows = draw_between(&random, 1, 9), columns = draw_between(&random, 1, i % 4 ? 9 : 300);
        const bgi_embedding_backward_attributes attributes = {
            .forward = {.padding_index = i % 2 ? -1 : height / 2, .axis = BG_MESH_TENSOR_1}};
        const bg_kernel_env env = {.place.tensor_1 =
                                       i % 3 ? 0 : 1}; /* in this case the first half belongs to another replica */
        kernel_case c = {.id = BGI_KERNEL_EMBEDDING, .attributes = &attributes, .env = env};
        kernel_case back = {.id = BGI_KERNEL_EMBEDDING_BACKWARD,
                            .attributes = &attributes,
                            .env = env,
                            .relative = dtype == BG_FLOAT32 ? 1e-6 : unit_of(dtype),
                            .absolute = sum_tolerance((double)(rows * columns))};

        case_input(&c, bg_matrix(dtype, height, width), &random, -1, 1);
        case_input(&c, bg_matrix(BG_INT32, rows, columns), &random, -1,
                   (double)(env.place.tensor_1 ? 2 * height : height));
        case_output(&c, bg_tensor3(dtype, rows, columns, width));
        finish_case(&c);

        case_input(&back, bg_tensor3(dtype, rows, columns, width), &random, -1, 1);
        case_input(&back, bg_matrix(BG_INT32, rows, columns), &random, -1,
                   (double)(env.place.tensor_1 ? 2 * height : height));
        case_output(&back, bg_matrix(dtype, height, width));
        finish_case(&back);
    }
}

/* Runs a kernel of that instruction set on unchanged operands; returns false if it declines. */
static bool run_kernel(bgi_kernel_id id, bgi_isa isa, const void *attributes, const bg_kernel_env *env, bg_type *types,
                       void *const *operands, uint32_t inputs, uint32_t outputs)
{
    const bgi_kernel_request request = {id, types, inputs, outputs, attributes, BG_DTYPE_NONE, 0};
    bg_kernel_call call = {.types = types,
                           .operands = operands,
                           .input_count = inputs,
                           .output_count = outputs,
                           .attributes = attributes,
                           .env = env};
    bg_kernel kernel;

    if (isa == REFERENCE)
        assert_int_equal(bgi_kernel_select(&request, BG_KERNELS_REFERENCE, &kernel, NULL), BG_OK);
    else if (!bgi_cpu_select(&request, isa, &kernel))
        return false;
    if (kernel.scratch_bytes > 0)
        assert_int_equal(posix_memalign(&call.scratch, 64, kernel.scratch_bytes), 0);
    if (kernel.prepare)
        kernel.prepare(&call);
    case_run_parts(kernel.run, kernel.part_count, &call, 2);
    free(call.scratch);
    return true;
}

/* Runs the instruction set's kernel if it takes the case, otherwise the reference. */
static void run_either(bgi_kernel_id id, bgi_isa isa, const void *attributes, const bg_kernel_env *env, bg_type *types,
                       void *const *operands, uint32_t inputs, uint32_t outputs)
{
    if (!run_kernel(id, isa, attributes, env, types, operands, inputs, outputs))
        assert_true(run_kernel(id, REFERENCE, attributes, env, types, operands, inputs, outputs));
}

/* Checks, in three steps of some micro-batches, that gradients as rows, which are added to another gradient at the end,
 * are bit-identical to dense ones. */
static void compare_rows(random_state *random, bgi_isa isa, bg_dtype dtype)
{
    const int64_t height = draw_between(random, 1, 60), width = draw_between(random, 1, 1100);
    const int32_t ids_count = (int32_t)draw_between(random, 1, 30), micro_batches = (int32_t)draw_between(random, 1, 4);
    const bgi_embedding_backward_attributes attributes = {
        .forward = {.padding_index = draw(random) % 2 ? -1 : height / 2, .axis = BG_MESH_TENSOR_1},
        .result = bg_matrix(dtype, height, width)};
    bg_kernel_env env = {.place.tensor_1 = draw(random) % 2, .training = true};
    const bg_type dense = bg_matrix(BG_FLOAT32, height, width), ids_type = bg_vector(BG_INT32, ids_count);
    kernel_case c = {.id = BGI_KERNEL_EMBEDDING_ROWS}; /* operands alone */
    bg_type slots_types[] = {ids_type, bg_vector(BG_INT32, 2 * height + 1), bg_matrix(BG_INT32, 2, ids_count)};
    bg_type rows_types[] = {bg_matrix(dtype, ids_count, width), slots_types[2],
                            bg_matrix(BG_FLOAT32, ids_count * micro_batches, width)};
    bg_type add_types[] = {dense, rows_types[2], slots_types[1]};
    bg_type backward_types[] = {rows_types[0], ids_type, attributes.result};
    bg_type accumulate_types[] = {dense, attributes.result}, sum_types[] = {dense, dense, dense};
    void *slots, *uses, *rows, *dtable, *dense_sum, *other, *total;

    case_output(&c, slots_types[1]), slots = c.initial[0];
    case_output(&c, slots_types[2]), uses = c.initial[1];
    case_output(&c, rows_types[2]), rows = c.initial[2];
    case_output(&c, attributes.result), dtable = c.initial[3];
    case_output(&c, dense), dense_sum = c.initial[4];
    case_output(&c, dense), other = c.initial[5];
    case_output(&c, dense), total = c.initial[6];
    for (int step = 0; step < 3; step++) {
        for (env.accumulated = 0; env.accumulated < (uint32_t)micro_batches; env.accumulated++) {
            kernel_case data = {.id = BGI_KERNEL_EMBEDDING_ROWS};
            void *const ids = case_input(&data, ids_type, random, -1, (double)(2 * height));
            void *const dy = case_input(&data, rows_types[0], random, -1, 1);

            run_either(BGI_KERNEL_EMBEDDING_SLOTS, isa, &attributes.forward, &env, slots_types,
                       (void *const[]){ids, slots, uses}, 2, 1);
            run_either(BGI_KERNEL_EMBEDDING_ROWS, isa, NULL, &env, rows_types, (void *const[]){dy, uses, rows}, 3, 0);
            run_either(BGI_KERNEL_EMBEDDING_BACKWARD, isa, &attributes, &env, backward_types,
                       (void *const[]){dy, ids, dtable}, 2, 1);
            run_either(BGI_KERNEL_ACCUMULATE, isa, NULL, &env, accumulate_types, (void *const[]){dense_sum, dtable}, 2,
                       0);
            case_clear(&data);
        }
        for (int64_t e = 0; e < height * width; e++)
            ((float *)other)[e] = e % 5 == 0 ? -0.0f : (float)draw_real(random, -1, 1);
        run_either(BGI_KERNEL_ADD_N, isa, NULL, &env, sum_types, (void *const[]){dense_sum, other, total}, 2, 1);
        run_either(BGI_KERNEL_EMBEDDING_ROWS_ADD, isa, NULL, &env, add_types, (void *const[]){other, rows, slots}, 3,
                   0);
        assert_memory_equal(other, total, bg_type_size_bytes(&dense));
    }
    case_clear(&c);
}

static void test_embedding_rows(void **state)
{
    random_state random = {15};

    (void)state;
    for (int i = 0; i < rounds(30); i++)
        for (int isa = (int)REFERENCE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
            compare_rows(&random, (bgi_isa)isa, draw_float(&random));
}

static void test_dropout(void **state)
{
    random_state random = {6};
    static const double probabilities[] = {0.0, 0.1, 0.5, 0.9999, 1.0};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bgi_dropout_attributes attributes = {.probability = probabilities[i % 5],
                                                   .random_id = draw(&random),
                                                   .axis = BG_MESH_TENSOR_2,
                                                   .pieces = i % 2 ? 1 + draw(&random) % 4 : 0};
        const bg_type type = i % 3 ? bg_tensor3(dtype, draw_between(&random, 1, 9), draw_between(&random, 1, 30),
                                                draw_between(&random, 1, 30))
                                   : bg_matrix(dtype, 3, draw_between(&random, 1, 40000));
        kernel_case c = {.id = BGI_KERNEL_DROPOUT,
                         .attributes = &attributes,
                         .env = {.seed = (uint64_t)draw(&random) << 32 | draw(&random),
                                 .step = (uint64_t)draw(&random) << 20,
                                 .micro_batch = draw(&random) % 100,
                                 .place.tensor_2 = attributes.pieces > 1 ? draw(&random) % attributes.pieces : 0,
                                 .training = i % 7 != 6},
                         .relative = dtype == BG_FLOAT32 ? 2e-7 : 1.0 / 128};

        case_input(&c, type, &random, -1, 1);
        case_output(&c, type);
        finish_case(&c);
    }
}

static void test_max_pool(void **state)
{
    random_state random = {7};

    (void)state;
    for (int i = 0; i < rounds(100); i++) {
        const bg_dtype dtype = draw_float(&random);
        bgi_pool2d_backward_attributes attributes = {0};
        bg_pool2d_options *o = &attributes.forward.options;
        int64_t size[2], pooled[2];
        kernel_case c = {.id = BGI_KERNEL_MAX_POOL2D, .attributes = &attributes};
        kernel_case back = {.id = BGI_KERNEL_MAX_POOL2D_BACKWARD,
                            .attributes = &attributes,
                            .relative = dtype == BG_FLOAT32 ? 0 : 2 * unit_of(dtype),
                            .absolute = 2e-6};
        const int64_t n = draw_between(&random, 1, 3), planes = draw_between(&random, 1, 5);
        int32_t *where;
        float *x;

        for (int d = 0; d < 2; d++) {
            o->kernel[d] = draw_between(&random, 1, 4);
            o->stride[d] = draw_between(&random, 1, 3);
            o->padding[d] = draw_between(&random, 0, o->kernel[d] / 2);
            o->dilation[d] = draw_between(&random, 0, 2) ? 1 : 2;
            size[d] =
                o->dilation[d] * (o->kernel[d] - 1) + 1 + draw_between(&random, 0, d == 1 && i % 3 == 0 ? 70 : 12);
            pooled[d] = (size[d] + 2 * o->padding[d] - o->dilation[d] * (o->kernel[d] - 1) - 1) / o->stride[d] + 1;
        }
        x = case_input(&c, bg_tensor4(dtype, n, planes, size[0], size[1]), &random, -1, 1);
        if (dtype == BG_FLOAT32)
            x[0] = x[size[0] * size[1] / 2] = NAN;
        case_output(&c, bg_tensor4(dtype, n, planes, pooled[0], pooled[1]));
        case_output(&c, bg_tensor4(BG_INT32, n, planes, pooled[0], pooled[1]));
        finish_case(&c);

        /* the reference reads only inside the window, so it gets valid indices */
        case_input(&back, bg_tensor4(dtype, n, planes, pooled[0], pooled[1]), &random, -1, 1);
        where = case_input(&back, bg_tensor4(BG_INT32, n, planes, pooled[0], pooled[1]), &random, 0, 0);
        for (int64_t e = 0; e < n * planes * pooled[0] * pooled[1]; e++) {
            const int64_t h = e / pooled[1] % pooled[0] * o->stride[0] - o->padding[0];
            const int64_t w = e % pooled[1] * o->stride[1] - o->padding[1];
            const int64_t first_h = h < 0 ? (-h + o->dilation[0] - 1) / o->dilation[0] * o->dilation[0] + h : h;
            const int64_t first_w = w < 0 ? (-w + o->dilation[1] - 1) / o->dilation[1] * o->dilation[1] + w : w;

            where[e] = (int32_t)(first_h * size[1] + first_w);
        }
        case_output(&back, bg_tensor4(dtype, n, planes, size[0], size[1]));
        finish_case(&back);
    }
}

/* Windows have different sizes, and there may be more windows than elements. Inputs are few different numbers, so that
 * some elements are equal, and NaN. */
static void test_adaptive_max_pool(void **state)
{
    random_state random = {20};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t planes = draw_between(&random, 1, i % 9 ? 5 : 60), h = draw_between(&random, 1, 40);
        const int64_t w = draw_between(&random, 1, 70), oh = draw_between(&random, 1, 9),
                      ow = draw_between(&random, 1, 9);
        const bg_type x = bg_tensor4(dtype, 1, planes, h, w), y = bg_tensor4(dtype, 1, planes, oh, ow);
        const bg_type where = bg_tensor4(BG_INT32, 1, planes, oh, ow);
        const bgi_pool2d_backward_attributes attributes = {
            .forward = {.options = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}}, .sizes = {oh, ow}}};
        kernel_case c = {.id = BGI_KERNEL_MAX_POOL2D, .attributes = &attributes};
        kernel_case back = {.id = BGI_KERNEL_MAX_POOL2D_BACKWARD,
                            .attributes = &attributes,
                            .absolute = 1e-6,
                            .relative = dtype == BG_FLOAT32 ? 1e-6 : 1.0 / 64};
        void *data = case_input(&c, x, &random, -4, 4), *places;

        for (int64_t e = 0; e < bg_type_element_count(&x); e++)
            bgi_store(dtype, data, e, draw_between(&random, 0, 40) ? rint(bgi_load(dtype, data, e)) : (double)NAN);
        case_output(&c, y);
        case_output(&c, where);
        finish_case(&c);

        case_input(&back, y, &random, -1, 1);
        places = case_input(&back, where, &random, 0, 0);
        for (int64_t e = 0; e < bg_type_element_count(&where); e++) {
            int64_t h0, h1, w0, w1;

            bgi_pool_window(h, oh, e / ow % oh, &h0, &h1);
            bgi_pool_window(w, ow, e % ow, &w0, &w1);
            ((int32_t *)places)[e] =
                (int32_t)(draw_between(&random, h0, h1 - 1) * w + draw_between(&random, w0, w1 - 1));
        }
        case_output(&back, x);
        finish_case(&back);
    }
}

static void draw_average(random_state *random, int round, bg_pool2d_options *o, int64_t size[2], int64_t pooled[2])
{
    o->count_include_pad = draw_between(random, 0, 1);
    for (int d = 0; d < 2; d++) {
        o->kernel[d] = draw_between(random, 1, 5);
        o->stride[d] = draw_between(random, 1, 4);
        o->padding[d] = draw_between(random, 0, o->kernel[d] / 2);
        o->dilation[d] = 1;
        size[d] = o->kernel[d] + draw_between(random, 0, d == 1 && round % 5 == 0 ? 60 : 14);
        if (round % 4 == 0) { /* one window */
            size[d] = o->kernel[d] = draw_between(random, 1, 13);
            o->padding[d] = 0;
        }
        pooled[d] = (size[d] + 2 * o->padding[d] - o->kernel[d]) / o->stride[d] + 1;
        if (round % 3 == 0 && pooled[d] * o->stride[d] < size[d] + o->padding[d]) { /* begins inside */
            o->ceil_mode = true;
            pooled[d]++;
        }
    }
}

static void test_average_pool(void **state)
{
    random_state random = {17};

    (void)state;
    for (int i = 0; i < rounds(150); i++) {
        const bg_dtype dtype = draw_float(&random);
        bgi_pool2d_backward_attributes attributes = {0};
        bg_pool2d_options *o = &attributes.forward.options;
        int64_t size[2], pooled[2];
        kernel_case c = {.id = BGI_KERNEL_AVG_POOL2D, .attributes = &attributes};
        kernel_case back = {.id = BGI_KERNEL_AVG_POOL2D_BACKWARD, .attributes = &attributes};
        const int64_t n = draw_between(&random, 1, 3), planes = draw_between(&random, 1, i % 7 ? 5 : 300);

        draw_average(&random, i, o, size, pooled);
        c.relative = back.relative = sum_relative(dtype, (double)(o->kernel[0] * o->kernel[1]));
        c.absolute = back.absolute = 1e-6;
        case_input(&c, bg_tensor4(dtype, n, planes, size[0], size[1]), &random, -1, 1);
        case_output(&c, bg_tensor4(dtype, n, planes, pooled[0], pooled[1]));
        finish_case(&c);

        case_input(&back, bg_tensor4(dtype, n, planes, pooled[0], pooled[1]), &random, -1, 1);
        case_output(&back, bg_tensor4(dtype, n, planes, size[0], size[1]));
        finish_case(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy),           cmocka_unit_test(test_transpose),
                                       cmocka_unit_test(test_slices),         cmocka_unit_test(test_broadcast),
                                       cmocka_unit_test(test_add_n),          cmocka_unit_test(test_embedding),
                                       cmocka_unit_test(test_embedding_rows), cmocka_unit_test(test_dropout),
                                       cmocka_unit_test(test_max_pool),       cmocka_unit_test(test_adaptive_max_pool),
                                       cmocka_unit_test(test_roll),           cmocka_unit_test(test_average_pool)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
