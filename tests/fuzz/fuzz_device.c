/*
 * fuzz_device.c: descriptions of devices with arbitrary content. In a valid input, all numbers that a simulation
 * divides by are above 0.
 */
#include "predict/device_model.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bgi_device_model model = {.call_ns = -1.0};
    bg_error error = {0};

    if (bgi_device_model_parse("input", (const char *)data, size, &model, &error) != BG_OK) {
        if (error.message[0] == '\0' || model.call_ns != -1.0)
            abort();
        return 0;
    }
    if (!(model.memory_bytes >= 1 && model.memory_bytes_per_ns > 0 && model.efficiency > 0 && model.efficiency <= 1 &&
          model.call_ns >= 0 && model.link.bytes_per_ns > 0 && model.network.bytes_per_ns > 0 &&
          model.remote.bytes_per_ns > 0 && model.link_devices > 0))
        abort();
    for (int type = 0; type < BG_DTYPE_COUNT; type++)
        if (!(bgi_device_model_flops(&model, (bg_dtype)type) > 0) ||
            !isfinite(bgi_device_model_flops(&model, (bg_dtype)type)))
            abort();
    return 0;
}
