/*
 * fast_body.h: the fused convolution, max pool and relu, and its gradients.
 */
#ifndef BGI_KERNELS_CONV_POOL_FAST_BODY_H
#define BGI_KERNELS_CONV_POOL_FAST_BODY_H

#include "kernels/conv_pool/backward_body.h"
#include "kernels/conv_pool/forward_body.h"

#endif
