/*
 * generators.c: lists the strategies in a table, with their names in other systems. To add a strategy, write a file
 * like single.c and add a line here.
 */
#include "schedule/schedule.h"

#include "core/text.h"

static const bg_schedule_generator *const generators[] = {
    &bgi_schedule_single,      &bgi_schedule_sharded, &bgi_schedule_sequential, &bgi_schedule_grouped,
    &bgi_schedule_interleaved, &bgi_schedule_gpipe,   &bgi_schedule_looped,     &bgi_schedule_looped_bfs,
    &bgi_schedule_looped_zb,   &bgi_schedule_zb_h1,   &bgi_schedule_zb_h2,      &bgi_schedule_zb_v,
    &bgi_schedule_v_half,      &bgi_schedule_v_min,   &bgi_schedule_dualpipev,  &bgi_schedule_phased,
    &bgi_schedule_automatic,
};

enum { GENERATOR_COUNT = sizeof generators / sizeof generators[0] };

/* Names that differ from Brigade's by more than case. "Grouped", "Interleaved" and "Sequential" (TensorFlow for IPU),
 * "GPipe" and "DualPipeV" (PyTorch) need no row. */
static const struct {
    const char *name;
    const bg_schedule_generator *generator;
} aliases[] = {
    {"1F1B", &bgi_schedule_interleaved}, /* PyTorch's names, up to ZBVZeroBubble */
    {"Interleaved1F1B", &bgi_schedule_looped},
    {"LoopedBFS", &bgi_schedule_looped_bfs},
    {"InterleavedZeroBubble", &bgi_schedule_looped_zb},
    {"ZBVZeroBubble", &bgi_schedule_zb_v},
    {"ZB1P", &bgi_schedule_zb_h1}, /* names in the authors' programs */
    {"ZB2P", &bgi_schedule_zb_h2},
    {"ZBV", &bgi_schedule_zb_v},
};

enum { ALIAS_COUNT = sizeof aliases / sizeof aliases[0] };

const bg_schedule_generator *bg_schedule_generator_at(uint32_t index)
{
    return index < GENERATOR_COUNT ? generators[index] : NULL;
}

const bg_schedule_generator *bg_schedule_generator_find(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < GENERATOR_COUNT; i++)
        if (bgi_text_equal_in_any_case(generators[i]->name, name))
            return generators[i];
    for (uint32_t i = 0; name != NULL && i < ALIAS_COUNT; i++)
        if (bgi_text_equal_in_any_case(aliases[i].name, name))
            return aliases[i].generator;
    return NULL;
}

const char *bg_schedule_alias_at(uint32_t index, const bg_schedule_generator **out_generator)
{
    if (index >= ALIAS_COUNT)
        return NULL;
    if (out_generator != NULL)
        *out_generator = aliases[index].generator;
    return aliases[index].name;
}
