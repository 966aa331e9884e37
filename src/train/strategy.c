/*
 * strategy.c: converts Lightning's IPUStrategy to the options of a run. `devices` counts copies of the model, not
 * devices.
 */
#include <brigade/trainer.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "train/trainer.h"

/* The number of devices that Lightning's accelerator reports by default. */
enum { AUTO_DEVICES = 4 };

void bg_ipu_strategy_init(bg_ipu_strategy *options, size_t struct_bytes)
{
    const bg_ipu_strategy made = {.struct_bytes = struct_bytes, .devices = 1, .device_iterations = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

bg_status bg_ipu_strategy_set_devices(bg_ipu_strategy *strategy, const char *text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(strategy, "strategy", __func__, error));
    BGI_TRY(bgi_require(text, "text", __func__, error));
    BGI_TRY(bgi_struct_check(strategy->struct_bytes, sizeof *strategy, "bg_ipu_strategy", "bg_ipu_strategy_defaults()",
                             error));

    char *end = NULL;
    unsigned long long value;

    if (strcmp(text, "auto") == 0) {
        strategy->devices = BG_DEVICES_AUTO;
        return BG_OK;
    }
    value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || value < 1 || value > BGI_MOST_COPIES)
        return bg_error_set(error, BG_ERROR_INVALID, "devices is `%s`; it must be \"auto\" or a number from 1 to %d",
                            text, BGI_MOST_COPIES);
    strategy->devices = (uint32_t)value;
    return BG_OK;
}

uint32_t bg_ipu_strategy_replicas(const bg_ipu_strategy *strategy)
{
    if (strategy->training_options != NULL)
        return strategy->training_options->replicas.count;
    if (strategy->inference_options != NULL)
        return strategy->inference_options->replicas.count;
    return strategy->devices == BG_DEVICES_AUTO ? AUTO_DEVICES : strategy->devices;
}

bg_status bgi_trainer_report_problems(bgi_string *problems, const char *of, bg_error *error)
{
    bg_status status = BG_OK;

    if (problems->failed)
        status = bgi_error_memory(error, "problems", 0);
    else if (problems->length > 0)
        status = bg_error_set(error, BG_ERROR_INVALID, "%s: %.*s", of, (int)problems->length - 2, problems->data);
    bgi_string_clear(problems);
    return status;
}

void bgi_ipu_strategy_check(const bg_ipu_strategy *strategy, bgi_string *problems)
{
    if (strategy->devices != BG_DEVICES_AUTO && (strategy->devices < 1 || strategy->devices > BGI_MOST_COPIES))
        bgi_string_add(problems, "strategy.devices is %u; it must be 1 to %d copies of the model, or BG_DEVICES_AUTO; ",
                       strategy->devices, BGI_MOST_COPIES);
    if (strategy->device_iterations < 1)
        bgi_string_add(problems, "strategy.device_iterations is 0 but must be at least 1; ");
}

bg_status bg_ipu_strategy_options(const bg_ipu_strategy *strategy, bool training, uint32_t accumulate_grad_batches,
                                  bg_options *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(strategy, "strategy", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_struct_check(strategy->struct_bytes, sizeof *strategy, "bg_ipu_strategy", "bg_ipu_strategy_defaults()",
                             error));

    const bg_options *given = training ? strategy->training_options : strategy->inference_options;
    bgi_string problems = {0};
    bg_status status;

    bgi_ipu_strategy_check(strategy, &problems);
    status = bgi_trainer_report_problems(&problems, "strategy", error);
    if (status != BG_OK)
        return status;
    if (given != NULL) {
        *out = *given;
    } else {
        *out = bg_options_defaults();
        out->replicas.count = bg_ipu_strategy_replicas(strategy);
        out->execution.device_iterations = strategy->device_iterations;
        out->execution.gradient_accumulation = training ? accumulate_grad_batches : 1;
        out->execution.ipu_limits = strategy->ipu_limits;
        if (strategy->training_options != NULL) /* the tasks share weights, so all tasks need one precision */
            out->numerics.precision = strategy->training_options->numerics.precision;
    }
    out->reporting.trace = out->reporting.trace || strategy->report_folder != NULL;
    return BG_OK;
}
