/*
 * fast_body.h: includes the optimizers' updates: those with one pass, and LAMB.
 */
#ifndef BGI_KERNELS_OPTIMIZER_FAST_BODY_H
#define BGI_KERNELS_OPTIMIZER_FAST_BODY_H

#include "kernels/optimizer/lamb_body.h"
#include "kernels/optimizer/update_body.h"

#endif
