/*
 * reference.c: dropout in plain C. The mask depends on the element, sample and step, not on when or where it is
 * computed; attributes.h has the formula. y may overwrite x.
 */
#include <brigade/random.h>

#include "kernels/kernels.h"

#include "kernels/dropout/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

void bgi_reference_dropout(const bg_kernel_call *call, uint32_t part)
{
    const bgi_dropout_attributes *attributes = call->attributes;
    const bg_kernel_env *env = call->env;
    const bg_type *x = bgi_input_type(call, 0);
    const int64_t samples = x->dims[0], elements = bg_type_element_count(x) / samples;
    const uint32_t key[2] = {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)};
    const bgi_dropout_runs runs = bgi_dropout_find_runs(call, elements);
    uint32_t words[4] = {0};

    (void)part;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t e = 0; e < elements; e++) {
            const int64_t whole = runs.first + e / runs.length * runs.stride + e % runs.length;
            double value = bgi_load(x->dtype, call->operands[0], n * elements + e);

            if (env->training && (whole % 4 == 0 || e % runs.length == 0)) {
                const uint32_t counter[4] = {(uint32_t)(whole / 4), env->micro_batch * (uint32_t)samples + (uint32_t)n,
                                             attributes->random_id, (uint32_t)env->step};

                bg_philox(counter, key, words);
            }
            if (env->training)
                value = words[whole % 4] * 0x1p-32 >= attributes->probability ? value / (1.0 - attributes->probability)
                                                                              : 0.0;
            bgi_store(x->dtype, bgi_output(call, 0), n * elements + e, value);
        }
}
