/*
 * choices.h: the names of options' values.
 */
#ifndef BGI_OPTIONS_CHOICES_H
#define BGI_OPTIONS_CHOICES_H

#include "options/table.h"

extern const bgi_choices bgi_strategy_choices, bgi_auto_stage_choices, bgi_grouping_choices, bgi_accumulation_choices,
    bgi_replica_reduction_choices, bgi_reduce_time_choices, bgi_accumulator_choices, bgi_float_choices,
    bgi_partials_choices, bgi_recompute_choices, bgi_recompute_order_choices, bgi_place_choices, bgi_liveness_choices,
    bgi_pinning_choices, bgi_memmap_choices, bgi_output_mode_choices, bgi_kernels_choices, bgi_precision_choices,
    bgi_weights_type_choices;

/* Returns the name of a value, or `otherwise` if it has no name. */
const char *bgi_choices_name(const bgi_choices *choices, uint32_t value, const char *otherwise);
/* Returns the value of a name, or the number of values if there is no such name. */
uint32_t bgi_choices_find(const bgi_choices *choices, const char *name);

/* The functions for names return "none" or "unknown" for a value without a name; those that find a value return false
 * for an unknown name. */
const char *bgi_strategy_name(bg_strategy value);
const char *bgi_grouping_name(bg_grouping value);
const char *bgi_output_mode_name(bg_output_mode value);
bool bgi_output_mode_find(const char *name, bg_output_mode *out);
const char *bgi_recompute_name(bg_recompute value);
bool bgi_recompute_find(const char *name, bg_recompute *out);
const char *bgi_phase_liveness_name(bg_phase_liveness value);
/* Returns "activations", "weights", "optimizer" or "accumulators". */
const char *bgi_location_class_name(bg_location_class value);
bool bgi_location_class_find(const char *name, bg_location_class *out);

#endif
