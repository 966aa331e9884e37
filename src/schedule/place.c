/*
 * place.c: places stages on devices when the caller does not. The placements, with the devices of stages 0, 1, 2 ...:
 *
 *     LINE  0 1 2 3      LOOP  0 1 0 1 0 1      FOLD  0 1 2 2 1 0      ANY  0 1 2 0      ONE  0 0 0
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>

static bg_status reject_counts(const bg_schedule_generator *generator, uint32_t stage_count, uint32_t device_count,
                               const char *wanted, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID,
                        "schedule `%s` needs %s, but there are %" PRIu32 " stages and %" PRIu32
                        " devices: change one of them, or say which device each stage is on",
                        generator->name, wanted, stage_count, device_count);
}

uint32_t bg_schedule_default_devices(const bg_schedule_generator *generator, uint32_t stage_count)
{
    const bool is_several = generator->placement == BG_PLACEMENT_LOOP || generator->placement == BG_PLACEMENT_FOLD;

    if (generator->placement == BG_PLACEMENT_ONE)
        return 1;
    return is_several && stage_count % 2 == 0 ? stage_count / 2 : stage_count;
}

bg_status bg_schedule_place(const bg_schedule_generator *generator, uint32_t stage_count, uint32_t device_count,
                            uint32_t *out_stage_devices, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    BGI_TRY(bgi_require(out_stage_devices, "out_stage_devices", __func__, error));
    if (stage_count == 0 || device_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%" PRIu32 " stages on %" PRIu32 " devices; both numbers must be at least 1", stage_count,
                            device_count);
    switch (generator->placement) {
    case BG_PLACEMENT_LOOP:
        if (stage_count % device_count != 0)
            return reject_counts(generator, stage_count, device_count,
                                 "a number of stages that is a multiple of the number of devices", error);
        break;
    case BG_PLACEMENT_FOLD:
        if (stage_count % 2 != 0 || stage_count / 2 != device_count)
            return reject_counts(generator, stage_count, device_count, "two stages on each device", error);
        break;
    case BG_PLACEMENT_ANY:
        if (device_count > stage_count)
            return reject_counts(generator, stage_count, device_count, "at most one device per stage", error);
        break;
    case BG_PLACEMENT_ONE:
        if (device_count != 1)
            return reject_counts(generator, stage_count, device_count, "one device for all stages", error);
        break;
    default:
        if (stage_count != device_count)
            return reject_counts(generator, stage_count, device_count, "one device for each stage", error);
        break;
    }
    for (uint32_t stage = 0; stage < stage_count; stage++)
        out_stage_devices[stage] = generator->placement == BG_PLACEMENT_FOLD && stage >= device_count
                                       ? stage_count - 1 - stage
                                       : stage % device_count;
    return BG_OK;
}
