/*
 * gpt_bench.c: `brigade gpt bench`: the example's benchmark: inputs that are all 1, one run that does not count, five
 * that do.
 */
#include "cli/gpt.h"

#include <stdlib.h>

#include "cli/command.h"
#include "core/clock.h"
#include "core/error.h"

enum { TIMED_RUNS = 5 };

static bg_status time_runs(gpt_runner *runner, const bgi_gpt_config *config, const int32_t *ones, bg_error *error)
{
    double seconds = 0.0;

    BGI_TRY(gpt_runner_run(runner, config, ones, ones, error));
    for (int i = 0; i < TIMED_RUNS; i++) {
        const uint64_t start_ns = bgi_clock_ns();

        BGI_TRY(gpt_runner_run(runner, config, ones, ones, error));
        seconds += 1e-9 * (double)(bgi_clock_ns() - start_ns) / TIMED_RUNS;
        printf("Step %d. Loss %.2f\n", i, gpt_runner_loss(runner, runner->updates_per_run - 1));
        fflush(stdout);
        if (cli_received_signal != 0)
            return bg_error_set(error, BG_ERROR_CANCELLED, "stopped by signal %d", (int)cli_received_signal);
    }
    printf("Duration: %.4f s Throughput: %6.1f samples/s\n", seconds, (double)runner->samples_per_run / seconds);
    return BG_OK;
}

/* Weights of inputs that are all 1 are not worth a file. */
static bg_status check_places(const bgi_gpt_config *config, bg_error *error)
{
    if (config->memmap_dir == NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "checkpoint.memmap_dir %s: the benchmark keeps remote buffers in memory; leave it null",
                        config->memmap_dir);
}

static int run_bench(const gpt_options *options, const bgi_gpt_config *config)
{
    gpt_runner runner = {.plan = NULL};
    bg_error error = {0};
    int32_t *ones = NULL;
    bg_status status = check_places(config, &error);

    if (status == BG_OK)
        status = options->common.compile_only ? gpt_compile_alone(options, config, &error)
                                              : gpt_runner_create(options, config, &runner, &error);

    if (status == BG_OK && !options->common.compile_only) {
        const size_t count = (size_t)runner.samples_per_run * (size_t)config->sequence_length;

        ones = malloc(count * sizeof *ones);
        for (size_t i = 0; ones != NULL && i < count; i++)
            ones[i] = 1;
        status = ones != NULL ? time_runs(&runner, config, ones, &error)
                              : bgi_error_memory(&error, "inputs", count * sizeof *ones);
    }
    free(ones);
    gpt_runner_clear(&runner);
    return status == BG_OK ? CLI_DONE : cli_fail("gpt", CLI_FAILED, &error);
}

int cli_gpt_bench(int argc, char **argv)
{
    return gpt_command_run(argc, argv, gpt_bench_options,
                           "Times a GPT language model: one run that does not count, five that do", run_bench);
}
