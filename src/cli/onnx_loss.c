/*
 * onnx_loss.c: the losses of `brigade train` by name.
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
