/*
 * score.c: computes precision, recall, F1 and perplexity from sums over a pass.
 */
#include <brigade/score.h>

#include <math.h>

#include "core/error.h"

static double divide(double a, double b)
{
    return b != 0.0 ? a / b : 0.0;
}

/* Computes a score from the counts of one class, or of several together: rows that are correct, predicted as the class,
 * labeled as the class. F1 is 2 p r / (p + r), computed from the counts. */
static double score_counts(bg_score_kind kind, double right, double predicted, double labeled)
{
    return kind == BG_SCORE_PRECISION ? divide(right, predicted)
           : kind == BG_SCORE_RECALL  ? divide(right, labeled)
                                      : divide(2.0 * right, predicted + labeled);
}

static double score_classes(const bg_score *score, const double *sums, uint64_t classes)
{
    const double *right = sums, *predicted = sums + classes, *labeled = sums + 2 * classes;
    double total = 0.0, weight = 0.0, all[3] = {0.0};

    if (score->average == BG_SCORE_BINARY)
        return score_counts(score->kind, right[score->class_index], predicted[score->class_index],
                            labeled[score->class_index]);
    for (uint64_t c = 0; c < classes; c++) {
        const double occurs = predicted[c] + labeled[c] > 0.0;
        const double share = score->average == BG_SCORE_WEIGHTED ? labeled[c] : occurs;

        total += share * score_counts(score->kind, right[c], predicted[c], labeled[c]);
        weight += share;
        all[0] += right[c];
        all[1] += predicted[c];
        all[2] += labeled[c];
    }
    return score->average == BG_SCORE_MICRO ? score_counts(score->kind, all[0], all[1], all[2]) : divide(total, weight);
}

bg_status bg_score_compute(const bg_score *score, const double *sums, uint64_t count, double *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(score, "score", __func__, error));
    BGI_TRY(bgi_require(sums, "sums", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if ((unsigned)score->kind > BG_SCORE_PERPLEXITY || (unsigned)score->average > BG_SCORE_BINARY)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the score's kind is %d and its average is %d; they must be values of bg_score_kind and bg_score_average",
            (int)score->kind, (int)score->average);
    if (score->kind == BG_SCORE_PERPLEXITY) {
        if (count != 2)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "a perplexity is made of 2 sums (bg_likelihood_sums), but there are %llu",
                                (unsigned long long)count);
        *out = exp(sums[0] / sums[1]);
        return BG_OK;
    }
    if (count == 0 || count % 3 != 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "a score of classes is made of 3 counts for each class (bg_class_counts), but there are %llu",
            (unsigned long long)count);
    if (score->average == BG_SCORE_BINARY && score->class_index >= count / 3)
        return bg_error_set(error, BG_ERROR_INVALID, "class is %u; it must be below the number of classes, %llu",
                            score->class_index, (unsigned long long)(count / 3));
    *out = score_classes(score, sums, count / 3);
    return BG_OK;
}
