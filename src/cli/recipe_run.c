/*
 * recipe_run.c: prints and saves the results of every training with a recipe.
 */
#include "cli/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <brigade/checkpoint.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"

/* ---- events ---- */

void cli_run_begin_epoch(const cli_recipe *recipe, cli_run *run, const bg_trainer_event *event)
{
    if (!recipe->quiet && recipe->epochs == UINT64_MAX)
        printf("Epoch %" PRIu64 "\n", event->epoch + 1);
    else if (!recipe->quiet)
        printf("Epoch %" PRIu64 "/%" PRIu64 "\n", event->epoch + 1, recipe->epochs);
    fflush(stdout);
    cli_progress_begin(&run->progress, recipe->sample_words, recipe->quiet, event->batch_count - event->batch);
}

void cli_run_add_call(cli_run *run, const bg_trainer_call *call)
{
    run->updates += call->update_count;
    run->samples += call->valid_count;
    run->has_whole = run->has_whole || call->is_whole;
}

static void note_failure(const cli_recipe *recipe, cli_run *run, const bg_error *error)
{
    cli_warn(recipe->program, error->message);
    run->is_checkpointed = false;
    if (run->checkpoint_failure.status == BG_OK)
        run->checkpoint_failure = *error;
}

void cli_run_complete_checkpoint(const cli_recipe *recipe, cli_run *run, bool waits)
{
    bool is_written = waits;
    bg_error error = {0};
    bg_status status = BG_OK;

    if (run->writer == NULL)
        return;
    if (!waits)
        status = bg_checkpoint_is_written(run->writer, &is_written, &error);
    if (status == BG_OK && is_written) {
        status = bg_checkpoint_finish(run->writer, &error);
        run->writer = NULL;
    }
    if (status != BG_OK)
        note_failure(recipe, run, &error);
}

void cli_run_save_checkpoint(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                             const bg_trainer_event *event)
{
    bg_error error = {0};

    cli_run_complete_checkpoint(recipe, run, true);
    run->is_checkpointed =
        cli_checkpoint_save(recipe, training, event->epoch, event->batch, &run->metric, &run->writer, &error) == BG_OK;
    if (!run->is_checkpointed)
        note_failure(recipe, run, &error);
}

/* Returns the mean loss of the training: over all micro-batches if "loss.all" is requested, otherwise over the values
 * of "loss". */
static cli_metric find_training_loss(const bg_trainer *trainer)
{
    cli_metric metric = {.name = NULL};
    bg_trainer_metric loss;

    if (bg_trainer_metric_find(trainer, BG_TRAINER_FIT, "loss.all", &loss, NULL) != BG_OK &&
        bg_trainer_metric_find(trainer, BG_TRAINER_FIT, "loss", &loss, NULL) != BG_OK)
        return metric;
    metric.name = loss.samples > 0 ? "loss" : NULL;
    metric.value = loss.mean;
    return metric;
}

void cli_run_end_epoch(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                       const bg_trainer_event *event)
{
    const bool is_whole = event->batch_count == 0 || event->batch >= event->batch_count;

    if (recipe->checkpoint_best == NULL || !is_whole)
        return;
    if (run->metric.name == NULL && training->validation == NULL)
        run->metric = find_training_loss(training->trainer);
    if (run->metric.name != NULL)
        cli_run_save_checkpoint(recipe, training, run, event);
    run->metric.name = NULL;
}

void cli_run_note_refused(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                          const bg_trainer_event *event)
{
    char blob[128];

    cli_run_complete_checkpoint(recipe, run, true);
    cli_clear_line(recipe->quiet);
    snprintf(blob, sizeof blob, "{\"epoch\":0,\"image\":0,\"images\":%" PRIu64 ",\"shuffle\":false}",
             cli_bundle_samples(event));
    cli_bundle_write(training, event, recipe->checkpoint_dir, blob);
}

/* ---- output ---- */

bg_status cli_run_print_debug(const bg_trainer *trainer, bg_error *error)
{
    const bg_plan *plan = bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT));
    char *text = NULL;

    BGI_TRY(bg_plan_print_placement(plan, &text, error));
    cli_print_text("Stages", text, 0);
    BGI_TRY(bg_plan_print_memory(plan, &text, error));
    cli_print_text("Memory", text, 0);
    BGI_TRY(cli_plan_report_ranks(plan, "", error));
    BGI_TRY(bg_session_print_workers(bg_trainer_session(trainer, BG_TRAINER_FIT), &text, error));
    cli_print_text("Workers", text, 0);
    BGI_TRY(bg_plan_print_timetable(plan, &text, error));
    cli_print_text("Timetable", text, 16);
    return BG_OK;
}

void cli_run_print_result(const cli_recipe *recipe, const cli_training *training, const cli_run *run)
{
    const bg_loader_statistics *loader = &training->loader_statistics;
    const uint64_t step = bg_trainer_step(training->trainer);

    if (recipe->quiet)
        return;
    if (run->updates > 0)
        printf("Trained %" PRIu64 " weight updates, %" PRIu64 " %s in %.2f s: %.0f %s/s\n", run->updates, run->samples,
               recipe->sample_words, training->seconds, (double)run->samples / training->seconds, recipe->sample_words);
    if (run->updates == 0 && step > 0 && cli_received_signal == 0)
        printf("Nothing is left to train: update %" PRIu64 " is where --steps or --epochs ends; give more of them\n",
               step);
    else if (recipe->steps > step && cli_received_signal == 0)
        printf("--steps %" PRIu64 " was not reached: the epochs have %" PRIu64 " weight updates\n", recipe->steps,
               step);
    if (recipe->debug && run->updates > 0)
        printf("Loader: %" PRIu64 " batches, %" PRIu64 " of them waited for, %.1f ms in all\n", loader->batch_count,
               loader->miss_count, 1e-6 * (double)loader->wait_ns);
}

void cli_run_print_verdict(const cli_recipe *recipe, const cli_training *training, const cli_run *run)
{
    char verdict[BG_RUN_LIMIT_TEXT_BYTES];

    if (recipe->quiet || !recipe->debug || run->updates == 0)
        return;
    bg_loader_judge(&training->loader_statistics, (uint64_t)(1e9 * training->seconds), verdict);
    printf("Verdict: %s\n", verdict);
}

/* ---- the end ---- */

/* Notes a loss that was not finite as a failure, which is reported at the end. */
static void note_bad_loss(cli_training *training, const cli_run *run)
{
    bg_error late = {0};
    char updates[64];

    if (run->bad_first == 0)
        return;
    if (run->bad_first == run->bad_last)
        snprintf(updates, sizeof updates, "at update %" PRIu64, run->bad_first);
    else
        snprintf(updates, sizeof updates, "in updates %" PRIu64 " to %" PRIu64, run->bad_first, run->bad_last);
    /* The loss of the first update is that of the initial weights. */
    bg_error_set(&late, BG_ERROR_INVALID, "the loss became %s %s: %s", isnan(run->bad_loss) ? "NaN" : "infinite",
                 updates,
                 run->bad_last == 1 ? "no weight had changed yet; look for values that are not finite, or too large, "
                                      "in the data"
                                    : "lower --learning-rate");
    cli_training_note(training, &late);
}

void cli_run_note_failures(cli_training *training, const cli_run *run)
{
    cli_training_note(training, &run->checkpoint_failure);
    note_bad_loss(training, run);
}

bool cli_run_wants_save(const cli_recipe *recipe, const cli_run *run)
{
    if (run->save_path == NULL)
        return false;
    return run->updates > 0 || (recipe->save_path != NULL && cli_received_signal == 0);
}

int cli_run_report_signal(const cli_recipe *recipe, const cli_run *run)
{
    cli_say(recipe->program, "stopped by signal %d%s%s", (int)cli_received_signal,
            run->is_saved      ? "; the weights so far are saved"
            : run->has_trained ? ""
                               : "; nothing was trained, so nothing is saved",
            run->has_trained && run->is_checkpointed ? "; --resume continues from here" : "");
    return 128 + (int)cli_received_signal;
}
