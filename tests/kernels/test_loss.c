/*
 * test_loss.c: compares cross-entropy and the count of correct rows with the reference.
 */
#include "kernels/kernel_case.h"
#include "kernels/loss/attributes.h"

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

typedef struct rows_case {
    bg_dtype dtype, label_dtype;
    int64_t rows, classes;
    bgi_loss_attributes attributes;
    double size; /* of logits */
    bool has_weights;
} rows_case;

static rows_case draw_rows(random_state *random)
{
    const bool is_wide = draw_between(random, 0, 9) == 0;

    return (rows_case){draw_float(random),
                       draw_between(random, 0, 1) ? BG_UINT8 : BG_INT32,
                       draw_between(random, 1, is_wide ? 30 : 50),
                       is_wide ? draw_between(random, 500, 1500) : draw_between(random, 1, 40),
                       {.reduction = (bg_loss_reduction)draw_between(random, 0, 2),
                        .ignore_index = draw_between(random, 0, 1) ? -100 : 1},
                       draw_between(random, 0, 4) ? 5 : 90,
                       draw_between(random, 0, 2) == 0};
}

/* Adds labels, some of which are not classes. */
static void add_labels(kernel_case *c, const rows_case *s, random_state *random)
{
    const double last = s->classes > 200 ? 199 : (double)s->classes - 1;

    case_input(c, bg_vector(s->label_dtype, s->rows), random, 0, draw_between(random, 0, 5) ? last : last + 1);
}

static bg_type loss_type(const rows_case *s)
{
    return s->attributes.reduction == BG_LOSS_NONE ? bg_vector(BG_FLOAT32, s->rows) : bg_scalar(BG_FLOAT32);
}

/* Draws a plain loss, or one with label smoothing, or one whose inputs are log probabilities. */
static bgi_loss_attributes draw_kind(const rows_case *s, random_state *random)
{
    bgi_loss_attributes attributes = s->attributes;
    const int64_t kind = draw_between(random, 0, 3);

    attributes.smoothing = kind == 0 ? draw_real(random, 0.01, 1) : 0.0;
    attributes.are_log_likelihoods = kind == 1;
    return attributes;
}

static void check_forward(const rows_case *s, random_state *random)
{
    const bgi_loss_attributes attributes = draw_kind(s, random);
    kernel_case c = {.id = BGI_KERNEL_CROSS_ENTROPY, .attributes = &attributes, .relative = 2e-6, .absolute = 2e-6};

    case_input(&c, bg_matrix(s->dtype, s->rows, s->classes), random, -s->size, s->size);
    add_labels(&c, s, random);
    if (s->has_weights)
        case_input(&c, bg_vector(BG_FLOAT32, s->classes), random, 0.1, 3);
    case_output(&c, loss_type(s));
    case_output(&c, bg_vector(BG_FLOAT64, s->rows));
    if (s->attributes.reduction == BG_LOSS_MEAN)
        case_output(&c, bg_scalar(BG_FLOAT32));
    finish_case(&c);
}

/* Checks gradients. In every third case, the classes are sharded, and the columns are those of one replica, with or
 * without padding. */
static void check_backward(const rows_case *s, random_state *random)
{
    const uint32_t place = s->has_weights || draw_between(random, 0, 2) ? 0 : (uint32_t)draw_between(random, 1, 3);
    const bgi_loss_attributes pieces = {
        .reduction = s->attributes.reduction,
        .ignore_index = s->attributes.ignore_index,
        .axis = BG_MESH_TENSOR_1,
        .classes = place == 0 ? 0 : s->classes * (place - 1) + draw_between(random, 1, 3 * s->classes)};
    const bgi_loss_attributes attributes = place == 0 ? draw_kind(s, random) : pieces;
    kernel_case c = {.id = BGI_KERNEL_CROSS_ENTROPY_BACKWARD,
                     .attributes = &attributes,
                     .env.place.tensor_1 = place == 0 ? 0 : place - 1,
                     .relative = s->dtype == BG_FLOAT32 ? 1e-6 : 1.0 / 128,
                     .absolute = attributes.smoothing > 0.0 ? 1e-6 : 1e-12};
    double *log_sums, highest;

    case_input(&c, loss_type(s), random, 0.5, 2);
    case_input(&c, bg_matrix(s->dtype, s->rows, s->classes), random, -s->size, s->size);
    add_labels(&c, s, random);
    log_sums = case_input(&c, bg_vector(BG_FLOAT64, s->rows), random, 0, 0);
    for (int64_t row = 0; row < s->rows; row++) {
        double sum = 0.0;

        highest = -INFINITY;
        for (int64_t i = 0; i < s->classes; i++)
            highest = fmax(highest, bgi_load(s->dtype, c.initial[1], row * s->classes + i));
        for (int64_t i = 0; i < s->classes; i++)
            sum += exp(bgi_load(s->dtype, c.initial[1], row * s->classes + i) - highest);
        log_sums[row] = highest + log(sum);
    }
    if (s->attributes.reduction == BG_LOSS_MEAN)
        case_input(&c, bg_scalar(BG_FLOAT32), random, 3, 40);
    if (s->has_weights)
        case_input(&c, bg_vector(BG_FLOAT32, s->classes), random, 0.1, 3);
    case_output(&c, bg_matrix(s->dtype, s->rows, s->classes));
    finish_case(&c);
}

/* Checks kernels on the columns of one of `pieces` replicas, with or without padding; some logits are NaN. */
static void check_pieces(const rows_case *s, random_state *random)
{
    const uint32_t place = (uint32_t)draw_between(random, 0, 2);
    const bgi_loss_attributes attributes = {.reduction = s->attributes.reduction,
                                            .ignore_index = s->attributes.ignore_index,
                                            .axis = BG_MESH_TENSOR_1,
                                            .classes = s->classes * place + draw_between(random, 1, 2 * s->classes)};
    const bg_type logits = bg_matrix(s->dtype, s->rows, s->classes), statistic = bg_vector(BG_FLOAT64, s->rows);
    kernel_case maximum = {.id = BGI_KERNEL_LOGIT_MAXIMUM, .attributes = &attributes, .env.place.tensor_1 = place};
    kernel_case sums = {.id = BGI_KERNEL_LOGIT_SUMS,
                        .attributes = &attributes,
                        .env.place.tensor_1 = place,
                        .relative = 1e-6,
                        .absolute = 1e-6};
    kernel_case loss = {.id = BGI_KERNEL_SHARDED_CROSS_ENTROPY,
                        .attributes = &attributes,
                        .env.place.tensor_1 = place,
                        .relative = 1e-7,
                        .absolute = 1e-7};
    void *x;
    double *maxima;

    x = case_input(&maximum, logits, random, -s->size, s->size);
    if (draw_between(random, 0, 2) == 0)
        bgi_store(s->dtype, x, draw_between(random, 0, s->rows * s->classes - 1), NAN);
    case_output(&maximum, statistic);
    finish_case(&maximum);

    x = case_input(&sums, logits, random, -s->size, s->size);
    add_labels(&sums, s, random);
    maxima = case_input(&sums, statistic, random, 0, 0);
    for (int64_t row = 0; row < s->rows; row++) {
        maxima[row] = bgi_load(s->dtype, x, row * s->classes);
        for (int64_t i = 1; i < s->classes; i++)
            maxima[row] = fmax(maxima[row], bgi_load(s->dtype, x, row * s->classes + i));
    }
    case_output(&sums, statistic);
    case_output(&sums, statistic);
    finish_case(&sums);

    case_input(&loss, logits, random, -s->size, s->size);
    add_labels(&loss, s, random);
    case_input(&loss, statistic, random, -s->size, s->size);
    case_input(&loss, statistic, random, 1, 1000);
    case_input(&loss, statistic, random, -s->size, s->size);
    case_output(&loss, loss_type(s));
    case_output(&loss, statistic);
    if (s->attributes.reduction == BG_LOSS_MEAN)
        case_output(&loss, bg_scalar(BG_FLOAT32));
    finish_case(&loss);
}

static void check_count(const rows_case *s, random_state *random)
{
    kernel_case c = {.id = BGI_KERNEL_CORRECT_COUNT};
    float *logits = case_input(&c, bg_matrix(s->dtype, s->rows, s->classes), random, -3, 3);

    if (s->dtype == BG_FLOAT32) {
        if (s->rows > 2)
            logits[s->classes + s->classes / 2] = logits[2 * s->classes] = NAN;
        for (int64_t i = 0; i < s->classes; i++)
            logits[(s->rows - 1) * s->classes + i] = s->rows % 2 ? -INFINITY : 1.0f; /* a tie */
    }
    add_labels(&c, s, random);
    case_output(&c, bg_scalar(BG_INT32));
    finish_case(&c);
}

static void test_random_rows(void **state)
{
    random_state random = {1};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 3000 : 150;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const rows_case s = draw_rows(&random);

        check_forward(&s, &random);
        check_backward(&s, &random);
        check_pieces(&s, &random);
        check_count(&s, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
