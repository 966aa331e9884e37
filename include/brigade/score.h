/*
 * score.h: metrics that are not means over samples: precision, recall and F1 of classes, perplexity. Each metric is a
 * function of sums over a whole pass. An op of the model (bg_class_counts, bg_binary_counts, bg_likelihood_sums)
 * computes the part of the sums for a micro-batch, so the metric does not depend on the sizes of batches.
 *
 *     bg_graph_output(graph, "counts", bg_class_counts(graph, NULL, logits, labels));
 *     ...
 *     const bg_score scores[] = {{.name = "f1", .output = "counts", .kind = BG_SCORE_F1}};
 *     options.scores = scores, options.score_count = 1;       the trainer's tasks have a metric "f1"
 *
 * Threads: these are pure functions, which any thread may call at any time.
 */
#ifndef BRIGADE_SCORE_H
#define BRIGADE_SCORE_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bg_score_kind {
    BG_SCORE_F1 = 0,    /* the harmonic mean of precision and recall */
    BG_SCORE_PRECISION, /* the share of the predictions of a class that are right */
    BG_SCORE_RECALL,    /* the share of a class's samples that are found */
    BG_SCORE_PERPLEXITY /* e to the power of the mean negative log-likelihood; for bg_likelihood_sums */
} bg_score_kind;

/* How the scores of classes are combined into one number. A score of 0 / 0 is 0. */
typedef enum bg_score_average {
    BG_SCORE_MACRO = 0, /* the mean score of the classes that occur among labels or predictions */
    BG_SCORE_MICRO, /* computed from the total counts of all classes; this is the accuracy if each row has one label */
    BG_SCORE_WEIGHTED, /* the mean score, weighted by the number of labels of each class */
    BG_SCORE_BINARY    /* the score of one class */
} bg_score_average;

typedef struct bg_score {
    const char *name;   /* name of the metric */
    const char *output; /* the output with the sums */
    bg_score_kind kind;
    bg_score_average average; /* not read for perplexity */
    uint32_t class_index;     /* class for BG_SCORE_BINARY, usually 1 */
} bg_score;

/* Computes a score from sums. For scores of classes the sums are [3, C] from bg_class_counts, and `count` is 3 C. For
 * perplexity `count` is 2, and the result is NaN if no label was counted. The fields `name` and `output` are not read.
 * Errors: BG_ERROR_INVALID. */
BG_API bg_status bg_score_compute(const bg_score *score, const double *sums, uint64_t count, double *out,
                                  bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
