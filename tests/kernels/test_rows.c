/*
 * test_rows.c: compares softmax, norms and reductions with the reference.
 */
#include "kernels/cosine/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/norm/attributes.h"
#include "kernels/reduce/attributes.h"
#include "kernels/reshape/attributes.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static bg_type draw_rows(random_state *random, bg_dtype dtype)
{
    return draw_between(random, 0, 5)
               ? bg_tensor3(dtype, draw_between(random, 1, 4), draw_between(random, 1, 9), draw_between(random, 1, 70))
               : bg_matrix(dtype, draw_between(random, 20, 90), draw_between(random, 700, 900));
}

static void test_softmax(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bg_type type = draw_rows(&random, dtype);
        const bgi_axis_attributes attributes = {type.rank - 1};
        const bool is_log = i % 2;
        kernel_case c = {.id = is_log ? BGI_KERNEL_LOG_SOFTMAX : BGI_KERNEL_SOFTMAX,
                         .attributes = &attributes,
                         .relative = dtype == BG_FLOAT32 ? 3e-6 : 1.0 / 128,
                         .absolute = is_log ? 2e-6 : 1e-37};
        kernel_case back = {.id = is_log ? BGI_KERNEL_LOG_SOFTMAX_BACKWARD : BGI_KERNEL_SOFTMAX_BACKWARD,
                            .attributes = &attributes,
                            .relative = dtype == BG_FLOAT32 ? 3e-6 : 1.0 / 128,
                            .absolute = 3e-5};
        float *x = case_input(&c, type, &random, -8, 8);

        if (dtype == BG_FLOAT32 && i % 3 == 0)
            x[0] = i % 2 ? NAN : -INFINITY;
        case_output(&c, type);
        finish_case(&c);

        case_input(&back, type, &random, -1, 1);
        case_input(&back, type, &random, is_log ? -4 : 0, is_log ? 0 : 1);
        case_output(&back, type);
        finish_case(&back);
    }
}

static void test_softmax_declines_other_axes(void **state)
{
    random_state random = {2};
    const bgi_axis_attributes attributes = {0};
    kernel_case c = {.id = BGI_KERNEL_SOFTMAX, .attributes = &attributes};

    (void)state;
    case_input(&c, bg_matrix(BG_FLOAT32, 3, 4), &random, -1, 1);
    case_output(&c, bg_matrix(BG_FLOAT32, 3, 4));
    assert_int_equal(case_check(&c, 0), 0);
    case_clear(&c);
}

static bg_type drop_last(const bg_type *type, bg_dtype dtype)
{
    return bg_type_make(dtype, type->rank - 1, type->dims);
}

static void check_layer_norm(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_rows(random, dtype), row = bg_vector(dtype, type.dims[type.rank - 1]);
    const bg_type statistics = drop_last(&type, BG_FLOAT32);
    const bgi_norm_attributes attributes = {.epsilon = 1e-5};
    const bool is_affine = draw_between(random, 0, 2) > 0;
    kernel_case c = {.id = BGI_KERNEL_LAYER_NORM,
                     .attributes = &attributes,
                     .relative = dtype == BG_FLOAT32 ? 2e-5 : 1.0 / 128,
                     .absolute = 3e-5};
    kernel_case back = c;

    back.id = BGI_KERNEL_LAYER_NORM_BACKWARD;
    case_input(&c, type, random, 1, 3);
    if (is_affine) {
        case_input(&c, row, random, -1, 1);
        case_input(&c, row, random, -1, 1);
    }
    case_output(&c, type);
    case_output(&c, statistics);
    case_output(&c, statistics);
    if (row.dims[0] == 1) /* without variance rstd is 1 / sqrt(epsilon), which multiplies rounding errors */
        c.absolute = 1e-3;
    finish_case(&c);

    case_input(&back, type, random, -1, 1);
    case_input(&back, type, random, 1, 3);
    case_input(&back, statistics, random, 1.5, 2.5);
    case_input(&back, statistics, random, 0.5, 2);
    if (is_affine)
        case_input(&back, row, random, -1, 1);
    case_output(&back, type);
    if (is_affine) {
        case_output(&back, row);
        case_output(&back, row);
    }
    finish_case(&back);
}

static void test_layer_norm(void **state)
{
    random_state random = {3};

    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_layer_norm(&random);
}

static void check_group_norm(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const int64_t groups = draw_between(random, 1, 4), c = groups * draw_between(random, 1, 5);
    const int64_t inner = draw_between(random, 0, 3) ? draw_between(random, 2, 90) : 1;
    const bg_type x = bg_tensor4(dtype, draw_between(random, 1, 4), c, 1, inner), row = bg_vector(dtype, c);
    const bg_type statistics = bg_matrix(BG_FLOAT32, x.dims[0], groups);
    const bgi_group_norm_attributes attributes = {.epsilon = 1e-2, .groups = groups};
    kernel_case norm = {.id = BGI_KERNEL_GROUP_NORM,
                        .attributes = &attributes,
                        .relative = dtype == BG_FLOAT32 ? 2e-5 : 1.0 / 128,
                        .absolute = 3e-5};
    kernel_case back = norm;

    back.id = BGI_KERNEL_GROUP_NORM_BACKWARD;
    case_input(&norm, x, random, 1, 3);
    case_input(&norm, row, random, -1, 1);
    case_input(&norm, row, random, -1, 1);
    case_output(&norm, x);
    case_output(&norm, statistics);
    case_output(&norm, statistics);
    finish_case(&norm);

    back.absolute = dtype == BG_FLOAT32 ? 2e-4 : 1e-1;
    case_input(&back, x, random, -1, 1);
    case_input(&back, x, random, 1, 3);
    case_input(&back, statistics, random, 1.5, 2.5);
    case_input(&back, statistics, random, 0.5, 2);
    case_input(&back, row, random, -1, 1);
    case_output(&back, x);
    case_output(&back, row);
    case_output(&back, row);
    finish_case(&back);
}

static void check_cosine(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const uint32_t axis = (uint32_t)draw_between(random, 0, 2);
    const int64_t d[3] = {draw_between(random, 1, 9), draw_between(random, 1, 150),
                          draw_between(random, 0, 2) ? draw_between(random, 1, 150) : draw_between(random, 900, 1300)};
    const bg_type x = bg_type_make(dtype, 3, d);
    const bg_type y = bg_matrix(BG_FLOAT32, d[axis == 0 ? 1 : 0], d[axis == 2 ? 1 : 2]);
    const bgi_cosine_attributes attributes = {.epsilon = draw_between(random, 0, 3) ? 1e-4 : 3.0, .axis = axis};
    kernel_case c = {.id = BGI_KERNEL_COSINE, .attributes = &attributes, .relative = 1e-4, .absolute = 1e-5};
    kernel_case back = {.id = BGI_KERNEL_COSINE_BACKWARD,
                        .attributes = &attributes,
                        .relative = dtype == BG_FLOAT32 ? 1e-5 : 1.0 / 64,
                        .absolute = dtype == BG_FLOAT32 ? 1e-5 : 1e-2};

    case_input(&c, x, random, -1, 1);
    case_input(&c, x, random, -1, 1);
    for (int i = 0; i < 3; i++)
        case_output(&c, y);
    finish_case(&c);

    case_input(&back, y, random, -1, 1);
    case_input(&back, x, random, -1, 1);
    case_input(&back, x, random, -1, 1);
    for (int i = 0; i < 3; i++)
        case_input(&back, y, random, -1, 1);
    case_output(&back, x);
    case_output(&back, x);
    finish_case(&back);
}

static void test_cosine(void **state)
{
    random_state random = {32};

    (void)state;
    for (int i = 0; i < rounds(40); i++)
        check_cosine(&random);
}

static void test_group_norm(void **state)
{
    random_state random = {31};

    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_group_norm(&random);
}

/* Checks norms of rows that are shards of rows `pieces` times as wide. */
static void check_sharded_norm(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_rows(random, dtype), row = bg_vector(dtype, type.dims[type.rank - 1]);
    const bg_type statistics = drop_last(&type, BG_FLOAT32);
    const int64_t pieces = draw_between(random, 1, 4), width = row.dims[0] * pieces;
    const bgi_sharded_norm_attributes attributes = {.epsilon = 1e-5, .width = width};
    bg_type pair = type;
    kernel_case sums = {.id = BGI_KERNEL_NORM_SUMS, .relative = 1e-14};
    kernel_case norm = {.id = BGI_KERNEL_SHARDED_NORM,
                        .attributes = &attributes,
                        .relative = dtype == BG_FLOAT32 ? 2e-6 : 1.0 / 128,
                        .absolute = 2e-6};
    kernel_case gradient_sums = {.id = BGI_KERNEL_NORM_GRADIENT_SUMS,
                                 .attributes = &attributes,
                                 .relative = sum_relative(BG_FLOAT32, (double)row.dims[0]),
                                 .absolute = 2 * sum_tolerance((double)row.dims[0])};
    kernel_case back = norm;
    double *totals;

    pair.dtype = BG_FLOAT64;
    pair.dims[pair.rank - 1] = 2;

    case_input(&sums, type, random, 1, 3);
    case_output(&sums, pair);
    finish_case(&sums);

    case_input(&norm, type, random, 1, 3);
    case_input(&norm, row, random, -1, 1);
    case_input(&norm, row, random, -1, 1);
    totals = case_input(&norm, pair, random, 0, 0);
    for (int64_t i = 0; i < bg_type_element_count(&statistics); i++) {
        const double mean = draw_real(random, 1.8, 2.2), deviation = draw_real(random, 0.3, 0.7);

        totals[2 * i] = mean * (double)width;
        totals[2 * i + 1] = (mean * mean + deviation * deviation) * (double)width;
    }
    case_output(&norm, type);
    case_output(&norm, statistics);
    case_output(&norm, statistics);
    finish_case(&norm);

    case_input(&gradient_sums, type, random, -1, 1);
    case_input(&gradient_sums, type, random, 1, 3);
    case_input(&gradient_sums, statistics, random, 1.5, 2.5);
    case_input(&gradient_sums, statistics, random, 0.5, 2);
    case_input(&gradient_sums, row, random, -1, 1);
    case_output(&gradient_sums, pair);
    finish_case(&gradient_sums);

    back.id = BGI_KERNEL_SHARDED_NORM_BACKWARD;
    back.absolute = 3e-5;
    back.relative = dtype == BG_FLOAT32 ? 2e-5 : 1.0 / 128;
    case_input(&back, type, random, -1, 1);
    case_input(&back, type, random, 1, 3);
    case_input(&back, statistics, random, 1.5, 2.5);
    case_input(&back, statistics, random, 0.5, 2);
    case_input(&back, row, random, -1, 1);
    case_input(&back, pair, random, -(double)width, (double)width);
    case_output(&back, type);
    case_output(&back, row);
    case_output(&back, row);
    finish_case(&back);
}

static void test_sharded_norm(void **state)
{
    random_state random = {5};

    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_sharded_norm(&random);
}

/* ---- batch norm ---- */

static bg_type draw_channels(random_state *random, bg_dtype dtype, int i)
{
    const int64_t n = draw_between(random, 1, 6), c = draw_between(random, 1, i % 4 ? 20 : 150);

    switch (i % 5) {
    case 0: /* interleaved channels: several blocks of them */
        return bg_matrix(dtype, draw_between(random, 1, 40), i % 3 ? c : draw_between(random, 1000, 2600));
    case 1:
        return bg_tensor3(dtype, n, c, draw_between(random, 1, 40));
    case 2: /* several chunks of a row */
        return bg_tensor4(dtype, n, draw_between(random, 1, 3), draw_between(random, 30, 50),
                          draw_between(random, 30, 50));
    default:
        return bg_tensor4(dtype, n, c, draw_between(random, 1, 9), draw_between(random, 1, 9));
    }
}

/* Fills each channel with values that differ from the channel's mean by at most `spread`. */
static void place_channels(bg_type type, void *x, random_state *random, double farthest, double spread)
{
    const int64_t inner = bg_type_element_count(&type) / (type.dims[0] * type.dims[1]);
    double *means = calloc((size_t)type.dims[1], sizeof *means);

    assert_non_null(means);
    for (int64_t c = 0; c < type.dims[1]; c++)
        means[c] = draw_real(random, -farthest, farthest);
    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        bgi_store(type.dtype, x, i, means[i / inner % type.dims[1]] + draw_real(random, -spread, spread));
    free(means);
}

static double fold(bg_dtype dtype)
{
    return dtype == BG_FLOAT32 ? 2e-6 : 2.0 * unit_of(dtype);
}

static void check_batch_norm(random_state *random, int i)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_channels(random, dtype, i), row = bg_vector(dtype, type.dims[1]);
    const bg_type statistics = bg_vector(BG_FLOAT32, type.dims[1]);
    const bg_type running = bg_vector(draw_between(random, 0, 1) ? dtype : BG_FLOAT32, type.dims[1]);
    /* means far larger than the deviations, so that sums of squares would lose the variance */
    const bool is_far = dtype == BG_FLOAT32 && i % 3 == 0;
    const int64_t members = draw_between(random, 1, 4);
    const bgi_norm_attributes attributes = {.epsilon = 1e-5, .momentum = 0.1};
    const bgi_sync_norm_attributes sync = {.epsilon = 1e-5, .momentum = 0.1, .members = (uint64_t)members};
    kernel_case c = {.id = BGI_KERNEL_BATCH_NORM,
                     .attributes = &attributes,
                     .env.training = i % 4 != 3,
                     .relative = fold(dtype),
                     .absolute = 4e-6};
    kernel_case moments = {.id = BGI_KERNEL_BATCH_NORM_MOMENTS, .relative = 1e-9, .absolute = 1e-12};
    kernel_case together = {.id = BGI_KERNEL_SYNC_BATCH_NORM,
                            .attributes = &sync,
                            .env.training = true,
                            .relative = fold(dtype),
                            .absolute = 4e-6};
    double *all;

    place_channels(type, case_input(&c, type, random, 0, 0), random, is_far ? 1e5 : 2.0, 1.0);
    place_channels(type, case_input(&moments, type, random, 0, 0), random, is_far ? 1e5 : 2.0, 1.0);
    case_input(&together, type, random, -1, 1);
    for (int k = 0; k < 2; k++) {
        kernel_case *both[] = {&c, &together};

        case_input(both[k], row, random, -1, 1);
        case_input(both[k], row, random, -1, 1);
        case_input(both[k], running, random, -1, 1);
        case_input(both[k], running, random, 0.5, 2);
    }
    case_output(&c, type);
    case_output(&c, statistics);
    case_output(&c, statistics);
    if (bg_type_element_count(&type) == type.dims[1] && c.env.training) /* rstd is 1 / sqrt(epsilon) */
        c.absolute = 1e-3;
    if (!c.env.training) /* x is far from the running mean: y is large */
        c.relative = dtype == BG_FLOAT32 ? 1e-5 : c.relative;
    finish_case(&c);

    case_output(&moments, bg_matrix(BG_FLOAT64, type.dims[1], 2));
    finish_case(&moments);

    all = case_input(&together, bg_tensor3(BG_FLOAT64, members, type.dims[1], 2), random, -1, 1);
    for (int64_t k = 0; k < members * type.dims[1]; k++)
        all[2 * k + 1] = draw_real(random, 1, 2) * (double)(bg_type_element_count(&type) / type.dims[1]);
    case_output(&together, type);
    case_output(&together, statistics);
    case_output(&together, statistics);
    finish_case(&together);
}

static void check_batch_norm_backward(random_state *random, int i)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_channels(random, dtype, i), row = bg_vector(dtype, type.dims[1]);
    const bg_type statistics = bg_vector(BG_FLOAT32, type.dims[1]), pair = bg_matrix(BG_FLOAT64, type.dims[1], 2);
    const double count = (double)(bg_type_element_count(&type) / type.dims[1]);
    const bgi_sync_norm_attributes sync = {.epsilon = 1e-5, .momentum = 0.1, .members = 3};
    static const bgi_kernel_id ids[] = {BGI_KERNEL_BATCH_NORM_BACKWARD, BGI_KERNEL_BATCH_NORM_GRADIENT_SUMS,
                                        BGI_KERNEL_SYNC_BATCH_NORM_BACKWARD};

    for (int k = 0; k < 3; k++) {
        kernel_case c = {.id = ids[k], .attributes = &sync, .relative = fold(dtype), .absolute = 4e-6};

        case_input(&c, type, random, -1, 1);
        case_input(&c, type, random, 1, 3);
        case_input(&c, statistics, random, 1.5, 2.5);
        case_input(&c, statistics, random, 0.5, 2);
        if (k == 1) {
            c.relative = 1e-9;
            c.absolute = 1e-9;
            case_output(&c, pair);
        } else {
            case_input(&c, row, random, -1, 1);
            if (k == 2) {
                case_input(&c, pair, random, -count, count);
                case_input(&c, pair, random, -count, count);
            }
            case_output(&c, type);
            case_output(&c, row);
            case_output(&c, row);
        }
        finish_case(&c);
    }
}

static void test_batch_norm(void **state)
{
    random_state random = {6};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        check_batch_norm(&random, i);
        check_batch_norm_backward(&random, i);
    }
}

/* A NaN affects only its channel; an infinity makes its channel's mean infinite, and the rest of the channel NaN. */
static void test_batch_norm_not_finite(void **state)
{
    random_state random = {7};
    const bgi_norm_attributes attributes = {.epsilon = 1e-5, .momentum = 0.1};

    (void)state;
    for (int first = 0; first < 2; first++)
        for (int64_t inner = 1; inner < 40; inner += 19) {
            const bg_type type = bg_tensor3(BG_FLOAT32, 3, 4, inner), row = bg_vector(BG_FLOAT32, 4);
            kernel_case c = {.id = BGI_KERNEL_BATCH_NORM,
                             .attributes = &attributes,
                             .env.training = true,
                             .relative = 4e-6,
                             .absolute = 4e-6};
            float *x = case_input(&c, type, &random, -1, 1);

            x[first ? 0 : 4 * inner] = INFINITY;
            x[inner + (first ? 0 : 4 * inner)] = NAN;
            x[2 * inner] = 1e30f;
            for (int k = 0; k < 4; k++)
                case_input(&c, row, &random, 0.5, 2);
            case_output(&c, type);
            case_output(&c, row);
            case_output(&c, row);
            finish_case(&c);
        }
}

static void test_reduce(void **state)
{
    random_state random = {4};

    (void)state;
    for (int i = 0; i < rounds(120); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bool is_long = draw_between(&random, 0, 9) == 0;
        const int64_t dims[4] = {draw_between(&random, 1, 4), draw_between(&random, 1, is_long ? 600 : 6),
                                 draw_between(&random, 1, 7), draw_between(&random, 1, is_long ? 600 : 40)};
        const bgi_reduce_attributes attributes = {
            .function = (bg_reduction)draw_between(&random, 0, BG_REDUCTION_COUNT - 1),
            .axes = (uint32_t)draw_between(&random, 1, 15), /* one or two groups */
            .keep_dims = true};
        kernel_case c = {.id = BGI_KERNEL_REDUCE, .attributes = &attributes};
        int64_t kept[4], terms = 1;
        float *x;

        for (uint32_t d = 0; d < 4; d++) {
            const bool is_reduced = (attributes.axes >> d & 1u) != 0;

            kept[d] = is_reduced ? 1 : dims[d];
            terms *= is_reduced ? dims[d] : 1;
        }
        if (attributes.function != BG_REDUCE_MAX) {
            c.relative = 2 * unit_of(dtype);
            c.absolute = sum_tolerance((double)terms);
        }
        x = case_input(&c, bg_type_make(dtype, 4, dims), &random, -1, 1);
        if (dtype == BG_FLOAT32 && i % 3 == 0)
            x[0] = NAN;
        case_output(&c, bg_type_make(dtype, 4, kept));
        finish_case(&c);
    }
}

/* Few results have very many elements each, which are reduced in pieces. */
static void test_reduce_in_pieces(void **state)
{
    random_state random = {8};
    static const struct {
        int64_t dims[3];
        uint32_t axes;
    } shapes[] = {{{1, 300001, 1}, 2}, {{2, 70000, 1}, 2}, {{1, 900, 300}, 2}, {{3, 9000, 5}, 2},
                  {{1, 60, 1700}, 2},  {{7, 3, 9000}, 5},  {{40, 2, 3000}, 5}};

    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int function = 0; function < BG_REDUCTION_COUNT; function++)
            for (int narrow = 0; narrow < 2; narrow++) {
                const int64_t *dims = shapes[s].dims;
                const bool is_middle = shapes[s].axes == 2, is_max = function == BG_REDUCE_MAX;
                const double terms = (double)(is_middle ? dims[1] : dims[0] * dims[2]);
                const bg_dtype dtype = narrow ? BG_BFLOAT16 : BG_FLOAT32;
                const bgi_reduce_attributes attributes = {.function = (bg_reduction)function, .axes = shapes[s].axes};
                kernel_case c = {.id = BGI_KERNEL_REDUCE,
                                 .attributes = &attributes,
                                 .relative = is_max ? 0 : sum_relative(dtype, terms),
                                 .absolute = is_max ? 0 : sum_tolerance(terms)};
                float *x = case_input(&c, bg_type_make(dtype, 3, dims), &random, -1, 1);

                if (!narrow && is_max)
                    x[dims[1] / 2 * dims[2]] = NAN;
                case_output(&c, is_middle ? bg_matrix(dtype, dims[0], dims[2]) : bg_vector(dtype, dims[1]));
                finish_case(&c);
            }
}

/* The gradient is that of the first of several largest elements, or of the first NaN. */
static void test_reduce_max_backward(void **state)
{
    random_state random = {9};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t outer = draw_between(&random, 1, 9), reduced = draw_between(&random, 1, i % 5 ? 30 : 2000);
        const int64_t inner = i % 2 ? 1 : draw_between(&random, 1, i % 3 ? 20 : 600);
        const bgi_reduce_attributes attributes = {.function = BG_REDUCE_MAX, .axes = 2, .keep_dims = true};
        const bg_type full = bg_tensor3(dtype, outer, reduced, inner), kept = bg_tensor3(dtype, outer, 1, inner);
        kernel_case c = {.id = BGI_KERNEL_REDUCE_MAX_BACKWARD, .attributes = &attributes};
        void *x, *y;

        case_input(&c, kept, &random, -1, 1);
        x = case_input(&c, full, &random, 0, 0);
        y = case_input(&c, kept, &random, 0, 0);
        for (int64_t e = 0; e < bg_type_element_count(&full); e++)
            bgi_store(dtype, x, e, draw_between(&random, 0, 99) ? (double)draw_between(&random, -3, 3) : NAN);
        for (int64_t k = 0; k < outer * inner; k++) {
            double largest = bgi_load(dtype, x, k / inner * reduced * inner + k % inner);

            for (int64_t r = 1; r < reduced; r++) {
                const double at = bgi_load(dtype, x, (k / inner * reduced + r) * inner + k % inner);

                largest = isnan(largest) || at <= largest ? largest : at;
            }
            bgi_store(dtype, y, k, largest);
        }
        case_output(&c, full);
        finish_case(&c);
    }
}

static void test_argmax(void **state)
{
    random_state random = {10};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bg_type type = draw_rows(&random, dtype);
        kernel_case c = {.id = BGI_KERNEL_ARGMAX};
        void *x = case_input(&c, type, &random, 0, 0);

        for (int64_t e = 0; e < bg_type_element_count(&type); e++) /* few different numbers, so that ties occur */
            bgi_store(dtype, x, e, draw_between(&random, 0, 99) ? (double)draw_between(&random, -9, 9) : NAN);
        for (int64_t e = 0; e < type.dims[type.rank - 1]; e++)
            bgi_store(dtype, x, e, -INFINITY);
        case_output(&c, drop_last(&type, BG_INT32));
        finish_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax),
                                       cmocka_unit_test(test_softmax_declines_other_axes),
                                       cmocka_unit_test(test_layer_norm),
                                       cmocka_unit_test(test_group_norm),
                                       cmocka_unit_test(test_cosine),
                                       cmocka_unit_test(test_sharded_norm),
                                       cmocka_unit_test(test_batch_norm),
                                       cmocka_unit_test(test_batch_norm_not_finite),
                                       cmocka_unit_test(test_reduce),
                                       cmocka_unit_test(test_reduce_in_pieces),
                                       cmocka_unit_test(test_reduce_max_backward),
                                       cmocka_unit_test(test_argmax)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
