/*
 * fuzz_call_costs.c: caches of call costs with arbitrary content. A valid input, for this processor or another one, is
 * a table in which each entry is found by its key.
 */
#include "predict/call_costs.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bgi_call_costs costs = {.costs = NULL};
    bg_error error = {0};

    if (bgi_call_costs_parse("input", (const char *)data, size, &costs, &error) != BG_OK) {
        if (error.message[0] == '\0' || costs.costs != NULL)
            abort();
        return 0;
    }
    if (costs.cores == 0 || !isfinite(costs.copy_bytes_per_ns))
        abort();
    for (size_t i = 0; i < costs.count; i++)
        if (bgi_call_costs_find(&costs, costs.costs[i].key) != &costs.costs[i] || !(costs.costs[i].ns.helped >= 0.0))
            abort();
    bgi_call_costs_clear(&costs);
    return 0;
}
