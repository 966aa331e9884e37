/*
 * onnx_loss.c: finds the losses and the metrics of `brigade train` by name.
 */
#include "cli/onnx_model.h"

#include <string.h>

static const onnx_loss losses[] = {
    {"cross-entropy", ONNX_LOSS_CLASSES, 0, 0.0},
    {"nll", ONNX_LOSS_LOGARITHMS, 0, 0.0},
    {"mse", ONNX_LOSS_POINTWISE, BG_LOSS_SQUARED, 0.0},
    {"l1", ONNX_LOSS_POINTWISE, BG_LOSS_ABSOLUTE, 0.0},
    {"smooth-l1", ONNX_LOSS_POINTWISE, BG_LOSS_SMOOTH_L1, 1.0},
    {"huber", ONNX_LOSS_POINTWISE, BG_LOSS_HUBER, 1.0},
    {"bce", ONNX_LOSS_POINTWISE, BG_LOSS_BINARY, 0.0},
    {"bce-logits", ONNX_LOSS_POINTWISE, BG_LOSS_BINARY_LOGITS, 1.0},
};

const onnx_loss *onnx_loss_find(const char *name)
{
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++)
        if (strcmp(losses[i].name, name) == 0)
            return &losses[i];
    return NULL;
}

bool onnx_loss_has_labels(const onnx_loss *loss)
{
    return loss->kind == ONNX_LOSS_CLASSES || loss->kind == ONNX_LOSS_LOGARITHMS;
}

bool onnx_loss_is_binary(const onnx_loss *loss)
{
    return loss->kind == ONNX_LOSS_POINTWISE &&
           (loss->function == BG_LOSS_BINARY || loss->function == BG_LOSS_BINARY_LOGITS);
}

const char *onnx_loss_names(void)
{
    return "cross-entropy, nll, mse, l1, smooth-l1, huber, bce, bce-logits";
}

static const onnx_metric metrics[] = {
    {"accuracy", "Accuracy", ONNX_METRIC_SHARE, 0, 0, ONNX_OF_SIDES},
    {"top5", "Top5", ONNX_METRIC_SHARE, 0, 0, ONNX_OF_LABELS},
    {"f1", "F1", ONNX_METRIC_SCORE, BG_SCORE_F1, BG_SCORE_MACRO, ONNX_OF_SIDES},
    {"f1-micro", "F1", ONNX_METRIC_SCORE, BG_SCORE_F1, BG_SCORE_MICRO, ONNX_OF_SIDES},
    {"f1-weighted", "F1", ONNX_METRIC_SCORE, BG_SCORE_F1, BG_SCORE_WEIGHTED, ONNX_OF_SIDES},
    {"f1-binary", "F1", ONNX_METRIC_SCORE, BG_SCORE_F1, BG_SCORE_BINARY, ONNX_OF_SIDES},
    {"precision", "Precision", ONNX_METRIC_SCORE, BG_SCORE_PRECISION, BG_SCORE_MACRO, ONNX_OF_SIDES},
    {"recall", "Recall", ONNX_METRIC_SCORE, BG_SCORE_RECALL, BG_SCORE_MACRO, ONNX_OF_SIDES},
    {"perplexity", "Perplexity", ONNX_METRIC_SCORE, BG_SCORE_PERPLEXITY, 0, ONNX_OF_LABELS},
    {"mae", "MAE", ONNX_METRIC_MEAN, 0, 0, ONNX_OF_NUMBERS},
    {"mse", "MSE", ONNX_METRIC_MEAN, 0, 0, ONNX_OF_NUMBERS},
};

bool onnx_metric_rises(const onnx_metric *metric)
{
    return metric->kind != ONNX_METRIC_MEAN &&
           !(metric->kind == ONNX_METRIC_SCORE && metric->score == BG_SCORE_PERPLEXITY);
}

const onnx_metric *onnx_metric_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof metrics / sizeof metrics[0]; i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}
