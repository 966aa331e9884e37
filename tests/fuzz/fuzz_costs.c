/*
 * fuzz_costs.c: costs files with arbitrary content. A valid input is a list of costs that a plan accepts.
 */
#include "profile/costs.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_costs costs = {0};
    bg_error error = {0};

    if (bgi_costs_parse("input", (const char *)data, size, &costs, &error) != BG_OK) {
        if (error.message[0] == '\0' || costs.stages != NULL)
            abort();
        return 0;
    }
    if (costs.stage_count == 0 || !(costs.message_bytes_per_ns >= 0))
        abort();
    for (uint32_t i = 0; i < costs.stage_count; i++)
        if (!isfinite(costs.stages[i].forward_ns + costs.stages[i].update_ns) && costs.stages[i].forward_ns < 1e300 &&
            costs.stages[i].update_ns < 1e300)
            abort();
    bg_costs_clear(&costs);
    return 0;
}
