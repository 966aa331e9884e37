/*
 * choices.c: converts the values of options to names and back. There is one list for each enumeration.
 */
#include "options/choices.h"

#include <string.h>

#include <brigade/kernel.h>

/* Each list is a macro of rows: the constant, and the value's name in strings. */
#define NAME_OF(constant, name)     [constant] = name,
#define CONSTANT_OF(constant, name) [constant] = #constant,

#define CHOICES_AND_SYNONYMS(label, rows, synonyms)                                                                    \
    static const char *const label##_names[] = {rows(NAME_OF)};                                                        \
    static const char *const label##_constants[] = {rows(CONSTANT_OF)};                                                \
    const bgi_choices bgi_##label##_choices = {label##_names, label##_constants,                                       \
                                               sizeof label##_names / sizeof label##_names[0], synonyms};
#define CHOICES(label, rows) CHOICES_AND_SYNONYMS(label, rows, NULL)

/* clang-format off */
#define STRATEGY(ROW) \
    ROW(BG_STRATEGY_SINGLE, "single") ROW(BG_STRATEGY_SHARDED, "sharded") ROW(BG_STRATEGY_PIPELINED, "pipelined") \
    ROW(BG_STRATEGY_PHASED, "phased")
CHOICES(strategy, STRATEGY)
#define AUTO_STAGE(ROW) \
    ROW(BG_AUTO_STAGE_SAME_AS_IPU, "same_as_ipu") ROW(BG_AUTO_STAGE_INCREMENT, "auto_increment")
CHOICES(auto_stage, AUTO_STAGE)
#define GROUPING(ROW) \
    ROW(BG_GROUPING_CONSECUTIVE, "consecutive") ROW(BG_GROUPING_ORTHOGONAL, "orthogonal") \
    ROW(BG_GROUPING_ALL, "all") ROW(BG_GROUPING_NONE, "none")
CHOICES(grouping, GROUPING)
/* The names are those of Lightning, and Lightning's synonyms are accepted too. */
#define PRECISION(ROW) \
    ROW(BG_PRECISION_32, "32") ROW(BG_PRECISION_BF16_MIXED, "bf16-mixed") ROW(BG_PRECISION_16_MIXED, "16-mixed") \
    ROW(BG_PRECISION_BF16_TRUE, "bf16-true") ROW(BG_PRECISION_16_TRUE, "16-true")
static const bgi_synonym precision_synonyms[] = {
    {"32-true", BG_PRECISION_32}, {"16", BG_PRECISION_16_MIXED}, {"bf16", BG_PRECISION_BF16_MIXED}, {NULL, 0}};
CHOICES_AND_SYNONYMS(precision, PRECISION, precision_synonyms)
#define WEIGHTS_TYPE(ROW) \
    ROW(BG_WEIGHTS_FLOAT, "float") ROW(BG_WEIGHTS_INT8, "int8") ROW(BG_WEIGHTS_INT4, "int4") \
    ROW(BG_WEIGHTS_BFLOAT16, "bfloat16") ROW(BG_WEIGHTS_CAST, "cast")
CHOICES(weights_type, WEIGHTS_TYPE)
#define ACCUMULATION(ROW) \
    ROW(BG_ACCUMULATE_MEAN, "mean") ROW(BG_ACCUMULATE_SUM, "sum") ROW(BG_ACCUMULATE_MEAN_RUNNING, "mean-running")
CHOICES(accumulation, ACCUMULATION)
#define REPLICA_REDUCTION(ROW) \
    ROW(BG_REPLICAS_LIKE_ACCUMULATION, "default") ROW(BG_REPLICAS_MEAN, "mean") ROW(BG_REPLICAS_SUM, "sum")
CHOICES(replica_reduction, REPLICA_REDUCTION)
#define REDUCE_TIME(ROW) \
    ROW(BG_REDUCE_IN_BACKWARD, "backward") ROW(BG_REDUCE_IN_UPDATE, "update") ROW(BG_REDUCE_BESIDE, "beside")
CHOICES(reduce_time, REDUCE_TIME)
/* BG_ACCUMULATOR_CALLBACK has no name, because a callback can only be set in C. */
#define ACCUMULATOR(ROW) \
    ROW(BG_ACCUMULATOR_DEFAULT, "default") ROW(BG_ACCUMULATOR_SAME, "same") ROW(BG_ACCUMULATOR_GIVEN, "given") \
    ROW(BG_ACCUMULATOR_CALLBACK, NULL)
CHOICES(accumulator, ACCUMULATOR)
#define FLOAT(ROW) \
    ROW(BG_DTYPE_NONE, "default") ROW(BG_FLOAT32, "float32") ROW(BG_BFLOAT16, "bfloat16") ROW(BG_FLOAT16, "float16")
CHOICES(float, FLOAT)
#define PARTIALS(ROW) \
    ROW(BG_DTYPE_NONE, "none") ROW(BG_FLOAT32, "float32") ROW(BG_BFLOAT16, "bfloat16") ROW(BG_FLOAT16, "float16")
CHOICES(partials, PARTIALS)
#define RECOMPUTE(ROW) \
    ROW(BG_RECOMPUTE_NONE, "none") ROW(BG_RECOMPUTE_STAGE, "stage") ROW(BG_RECOMPUTE_CHECKPOINTS, "checkpoints") \
    ROW(BG_RECOMPUTE_FRACTION, "fraction") ROW(BG_RECOMPUTE_AUTO, "auto")
CHOICES(recompute, RECOMPUTE)
#define RECOMPUTE_ORDER(ROW) \
    ROW(BG_RECOMPUTE_INTERLEAVED, "interleaved") ROW(BG_RECOMPUTE_THEN, "then")
CHOICES(recompute_order, RECOMPUTE_ORDER)
#define PLACE(ROW) \
    ROW(BG_PLACE_DEFAULT, "default") ROW(BG_PLACE_DEVICE, "device") ROW(BG_PLACE_REMOTE, "remote")
CHOICES(place, PLACE)
#define LIVENESS(ROW) \
    ROW(BG_LIVE_ALWAYS, "always_live") ROW(BG_LIVE_OFF_CHIP_AFTER_FWD, "off_chip_after_fwd") \
    ROW(BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP, "off_chip_after_fwd_no_overlap") \
    ROW(BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE, "off_chip_after_each_phase")
CHOICES(liveness, LIVENESS)
#define PINNING(ROW) \
    ROW(BG_PINNING_NONE, "none") ROW(BG_PINNING_COMPACT, "compact") ROW(BG_PINNING_SPREAD, "spread")
CHOICES(pinning, PINNING)
#define MEMMAP(ROW) \
    ROW(BG_MEMMAP_CONTINUE, "continue") ROW(BG_MEMMAP_RENEW, "renew") ROW(BG_MEMMAP_READ_ONLY, "read_only")
CHOICES(memmap, MEMMAP)
#define OUTPUT_MODE(ROW) \
    ROW(BG_OUTPUT_DEFAULT, "default") ROW(BG_OUTPUT_FINAL, "final") ROW(BG_OUTPUT_ALL, "all") \
    ROW(BG_OUTPUT_SUM, "sum") ROW(BG_OUTPUT_EVERY_N, "every_n")
CHOICES(output_mode, OUTPUT_MODE)
#define KERNELS(ROW) \
    ROW(BG_KERNELS_FAST, "fast") ROW(BG_KERNELS_REFERENCE, "reference") ROW(BG_KERNELS_PORTABLE, "portable") \
    ROW(BG_KERNELS_AVX2, "avx2") ROW(BG_KERNELS_AVX512, "avx512") ROW(BG_KERNELS_AVX512_BF16, "avx512-bf16") \
    ROW(BG_KERNELS_NEON, "neon")
CHOICES(kernels, KERNELS)
#define LOCATION_CLASS(ROW) \
    ROW(BG_LOCATION_ACTIVATIONS, "activations") ROW(BG_LOCATION_WEIGHTS, "weights") \
    ROW(BG_LOCATION_STATE, "optimizer") ROW(BG_LOCATION_ACCUMULATORS, "accumulators")
CHOICES(location_class, LOCATION_CLASS)
/* clang-format on */

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
