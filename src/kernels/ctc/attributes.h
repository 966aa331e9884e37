/*
 * attributes.h: the operands and attributes of connectionist temporal classification (Graves et al., 2006). Notation:
 * kernels.h.
 */
#ifndef BGI_KERNELS_CTC_ATTRIBUTES_H
#define BGI_KERNELS_CTC_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 * The operands of N samples: x float [N, T, C] has logarithms of probabilities, targets are int32 [N, S], and both
 * lengths int32 [N]. The path of a sample has L = 2 S + 1 states (places): a blank, its first target, a blank, and so
 * on to the last blank.
 *
 *     CTC_LOSS           x, targets, lengths, target_lengths -> loss [N], alpha float64 [N, T, L]
 *                        alpha: the logarithm of the probability of all ways to be at a place after a step
 *     CTC_LOSS_BACKWARD  dloss, x, targets, lengths, target_lengths, alpha -> dx, scratch float64 [N, L + C]
 */
typedef struct bgi_ctc_attributes {
    int32_t blank;
    uint32_t zeroes_infinity; /* an infinite loss (too few steps for the targets) counts as 0 */
} bgi_ctc_attributes;

#endif
