/*
 * choices.c: converts the values of options to names and back. There is one list for each enumeration.
 */
#include "options/choices.h"

#include <string.h>

#include <brigade/kernel.h>

#define CHOICES(label, ...)                                                                                            \
    static const char *const label##_names[] = {__VA_ARGS__};                                                          \
    const bgi_choices bgi_##label##_choices = {label##_names, sizeof label##_names / sizeof label##_names[0], NULL};

CHOICES(strategy, [BG_STRATEGY_SINGLE] = "single", [BG_STRATEGY_SHARDED] = "sharded",
        [BG_STRATEGY_PIPELINED] = "pipelined", [BG_STRATEGY_PHASED] = "phased")
CHOICES(auto_stage, [BG_AUTO_STAGE_SAME_AS_IPU] = "same_as_ipu", [BG_AUTO_STAGE_INCREMENT] = "auto_increment")
CHOICES(grouping, [BG_GROUPING_CONSECUTIVE] = "consecutive", [BG_GROUPING_ORTHOGONAL] = "orthogonal",
        [BG_GROUPING_ALL] = "all", [BG_GROUPING_NONE] = "none")
/* The names are Lightning's, whose synonyms are accepted too. */
static const char *const precision_names[] = {[BG_PRECISION_32] = "32",
                                              [BG_PRECISION_BF16_MIXED] = "bf16-mixed",
                                              [BG_PRECISION_16_MIXED] = "16-mixed",
                                              [BG_PRECISION_BF16_TRUE] = "bf16-true",
                                              [BG_PRECISION_16_TRUE] = "16-true"};
static const bgi_synonym precision_synonyms[] = {
    {"32-true", BG_PRECISION_32}, {"16", BG_PRECISION_16_MIXED}, {"bf16", BG_PRECISION_BF16_MIXED}, {NULL, 0}};
const bgi_choices bgi_precision_choices = {precision_names, sizeof precision_names / sizeof precision_names[0],
                                           precision_synonyms};
CHOICES(weights_type, [BG_WEIGHTS_FLOAT] = "float", [BG_WEIGHTS_INT8] = "int8", [BG_WEIGHTS_INT4] = "int4",
        [BG_WEIGHTS_BFLOAT16] = "bfloat16", [BG_WEIGHTS_CAST] = "cast")
CHOICES(accumulation, [BG_ACCUMULATE_MEAN] = "mean", [BG_ACCUMULATE_SUM] = "sum",
        [BG_ACCUMULATE_MEAN_RUNNING] = "mean-running")
CHOICES(replica_reduction, [BG_REPLICAS_LIKE_ACCUMULATION] = "default", [BG_REPLICAS_MEAN] = "mean",
        [BG_REPLICAS_SUM] = "sum")
CHOICES(
    reduce_time, [BG_REDUCE_IN_BACKWARD] = "backward", [BG_REDUCE_IN_UPDATE] = "update", [BG_REDUCE_BESIDE] = "beside")
/* A callback can only be set in C. */
CHOICES(accumulator, [BG_ACCUMULATOR_DEFAULT] = "default", [BG_ACCUMULATOR_SAME] = "same",
        [BG_ACCUMULATOR_GIVEN] = "given", [BG_ACCUMULATOR_CALLBACK] = NULL)
CHOICES(
    float, [BG_DTYPE_NONE] = "default", [BG_FLOAT32] = "float32", [BG_BFLOAT16] = "bfloat16", [BG_FLOAT16] = "float16")
CHOICES(
    partials, [BG_DTYPE_NONE] = "none", [BG_FLOAT32] = "float32", [BG_BFLOAT16] = "bfloat16", [BG_FLOAT16] = "float16")
CHOICES(recompute, [BG_RECOMPUTE_NONE] = "none", [BG_RECOMPUTE_STAGE] = "stage",
        [BG_RECOMPUTE_CHECKPOINTS] = "checkpoints", [BG_RECOMPUTE_FRACTION] = "fraction", [BG_RECOMPUTE_AUTO] = "auto")
CHOICES(recompute_order, [BG_RECOMPUTE_INTERLEAVED] = "interleaved", [BG_RECOMPUTE_THEN] = "then")
CHOICES(place, [BG_PLACE_DEFAULT] = "default", [BG_PLACE_DEVICE] = "device", [BG_PLACE_REMOTE] = "remote")
CHOICES(liveness, [BG_LIVE_ALWAYS] = "always_live", [BG_LIVE_OFF_CHIP_AFTER_FWD] = "off_chip_after_fwd",
        [BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP] = "off_chip_after_fwd_no_overlap",
        [BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE] = "off_chip_after_each_phase")
CHOICES(pinning, [BG_PINNING_NONE] = "none", [BG_PINNING_COMPACT] = "compact", [BG_PINNING_SPREAD] = "spread")
CHOICES(memmap, [BG_MEMMAP_CONTINUE] = "continue", [BG_MEMMAP_RENEW] = "renew", [BG_MEMMAP_READ_ONLY] = "read_only")
CHOICES(output_mode, [BG_OUTPUT_DEFAULT] = "default", [BG_OUTPUT_FINAL] = "final", [BG_OUTPUT_ALL] = "all",
        [BG_OUTPUT_SUM] = "sum", [BG_OUTPUT_EVERY_N] = "every_n")
CHOICES(kernels, [BG_KERNELS_FAST] = "fast", [BG_KERNELS_REFERENCE] = "reference", [BG_KERNELS_PORTABLE] = "portable",
        [BG_KERNELS_AVX2] = "avx2", [BG_KERNELS_AVX512] = "avx512", [BG_KERNELS_AVX512_BF16] = "avx512-bf16",
        [BG_KERNELS_NEON] = "neon")
CHOICES(location_class, [BG_LOCATION_ACTIVATIONS] = "activations", [BG_LOCATION_WEIGHTS] = "weights",
        [BG_LOCATION_STATE] = "optimizer", [BG_LOCATION_ACCUMULATORS] = "accumulators")

const char *bgi_choices_name(const bgi_choices *choices, uint32_t value, const char *otherwise)
{
    return value < choices->count && choices->names[value] != NULL ? choices->names[value] : otherwise;
}

uint32_t bgi_choices_find(const bgi_choices *choices, const char *name)
{
    uint32_t value = 0;

    while (value < choices->count &&
           (name == NULL || choices->names[value] == NULL || strcmp(choices->names[value], name) != 0))
        value++;
    return value;
}

#define NAME(type, choices, otherwise)                                                                                 \
    const char *bgi_##type##_name(bg_##type value)                                                                     \
    {                                                                                                                  \
        return bgi_choices_name(&bgi_##choices##_choices, (uint32_t)value, otherwise);                                 \
    }
#define FIND(type, choices)                                                                                            \
    bool bgi_##type##_find(const char *name, bg_##type *out)                                                           \
    {                                                                                                                  \
        const uint32_t value = bgi_choices_find(&bgi_##choices##_choices, name);                                       \
                                                                                                                       \
        if (value == bgi_##choices##_choices.count)                                                                    \
            return false;                                                                                              \
        *out = (bg_##type)value;                                                                                       \
        return true;                                                                                                   \
    }

NAME(strategy, strategy, "none")
NAME(grouping, grouping, "unknown")
NAME(output_mode, output_mode, "none")
FIND(output_mode, output_mode)
NAME(recompute, recompute, "unknown")
FIND(recompute, recompute)
NAME(phase_liveness, liveness, "none")
NAME(location_class, location_class, "none")
FIND(location_class, location_class)
