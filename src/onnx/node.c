/*
 * node.c: finds which op of the standard a node is. An If has branches, which are separate graphs.
 */
#include "onnx/onnx.h"

#include <string.h>

bool bgi_onnx_is_standard(const BgiOnnx__Node *node, const char *op)
{
    const bool is_standard = node->domain == NULL || node->domain[0] == '\0' || strcmp(node->domain, "ai.onnx") == 0;

    return is_standard && node->op_type != NULL && strcmp(node->op_type, op) == 0;
}

bool bgi_onnx_is_if(const BgiOnnx__Node *node)
{
    return bgi_onnx_is_standard(node, "If");
}
