/*
 * node.c: which nodes are an If, whose branches are graphs of their own.
 */
#include "onnx/onnx.h"

#include <string.h>

bool bgi_onnx_is_if(const BgiOnnx__Node *node)
{
    const bool is_standard = node->domain == NULL || node->domain[0] == '\0' || strcmp(node->domain, "ai.onnx") == 0;

    return is_standard && node->op_type != NULL && strcmp(node->op_type, "If") == 0;
}
