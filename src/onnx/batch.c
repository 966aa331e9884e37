/*
 * batch.c: finds the dimension of a value that holds the samples. A graph has only sizes, so the dimension whose size
 * is the batch size, or a multiple of it, is derived from the inputs, op by op. The derivation fails when an op selects
 * some of the samples, or mixes them with a tensor that merely has the same size. The file is then written with the
 * graph's sizes instead.
 *
 *     x [batch, 8, 4]  --reshape-->  [batch * 8, 4]  --linear-->  [batch * 8, 6]  --reshape-->  [batch, 8, 6]
 */
#include <stdarg.h>
#include <stdio.h>

#include "onnx/save.h"

int32_t bgi_save_batch(const bgi_saver *s, uint32_t input)
{
    return bgi_save_given(s, input) ? s->values[s->op->inputs[input].id].batch : BGI_SAVE_NO_BATCH;
}

int32_t bgi_save_fix(bgi_saver *s, const char *format, ...)
{
    va_list arguments;
    int length;

    if (s->fixed[0] != '\0')
        return BGI_SAVE_NO_BATCH;
    length = snprintf(s->fixed, sizeof s->fixed, "%s `%.80s`: ", s->op->type->name, s->op->name);
    va_start(arguments, format);
    vsnprintf(s->fixed + length, sizeof s->fixed - (size_t)length, format, arguments);
    va_end(arguments);
    return BGI_SAVE_NO_BATCH;
}

int32_t bgi_save_batch_broadcast(bgi_saver *s, const bg_type *result)
{
    int32_t found = BGI_SAVE_NO_BATCH;

    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const bg_type type = bgi_save_type(s, i);
        const int32_t batch = bgi_save_batch(s, i);

        if (batch == BGI_SAVE_NO_BATCH)
            continue;
        if (found != BGI_SAVE_NO_BATCH && found != batch + (int32_t)(result->rank - type.rank))
            return bgi_save_fix(s, "the samples of its operands are in different dimensions");
        found = batch + (int32_t)(result->rank - type.rank);
        if (type.dims[batch] != result->dims[found])
            return bgi_save_fix(s, "it repeats the samples");
    }
    for (uint32_t i = 0; found != BGI_SAVE_NO_BATCH && i < s->op->input_count; i++) {
        const bg_type type = bgi_save_type(s, i);
        const int32_t at = found - (int32_t)(result->rank - type.rank);

        if (bgi_save_given(s, i) && bgi_save_batch(s, i) == BGI_SAVE_NO_BATCH && at >= 0 && type.dims[at] != 1)
            return bgi_save_fix(s, "an operand has a value for each of the samples, and does not come from an input");
    }
    return found;
}

int32_t bgi_save_batch_before(bgi_saver *s, uint32_t input, uint32_t before)
{
    for (uint32_t i = 0; i < s->op->input_count; i++)
        if (i != input && bgi_save_batch(s, i) != BGI_SAVE_NO_BATCH)
            return bgi_save_fix(s, "operand %u depends on the samples", i);
    if (bgi_save_batch(s, input) >= (int32_t)before)
        return bgi_save_fix(s, "the samples are in dimension %d", bgi_save_batch(s, input));
    return bgi_save_batch(s, input);
}

int32_t bgi_save_batch_first(bgi_saver *s, uint32_t input)
{
    return bgi_save_batch_before(s, input, 1);
}

int32_t bgi_save_batch_reshaped(bgi_saver *s, const bg_type *from, int32_t batch, const bg_type *to)
{
    int64_t outer = 1, before = 1;
    int32_t found = BGI_SAVE_NO_BATCH;

    if (batch == BGI_SAVE_NO_BATCH)
        return batch;
    for (int32_t i = 0; i < batch; i++)
        outer *= from->dims[i];
    /* In both shapes the samples are adjacent within each of the `outer` slices. */
    for (uint32_t i = 0; i < to->rank; i++) {
        if (before == outer && to->dims[i] % s->batch == 0 &&
            (found == BGI_SAVE_NO_BATCH || (int32_t)i == batch || to->dims[found] < s->batch))
            found = (int32_t)i;
        before *= to->dims[i];
    }
    return found != BGI_SAVE_NO_BATCH ? found : bgi_save_fix(s, "it mixes samples with other dimensions");
}
