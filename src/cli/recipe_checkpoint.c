/*
 * recipe_checkpoint.c: implements --checkpoint and --resume. A checkpoint contains the training state and the position
 * in the data, a JSON object in the checkpoint's blob:
 *
 *     {"epoch":0,"image":1600,"images":60000,"shuffle":true}
 *
 * `brigade train` also records the normalization of the model's inputs, which must be the same when it resumes:
 *
 *     "normalize":{"x":"0.1307,0.3081"}
 *
 * With --rate-schedule plateau, the blob also contains the schedule's state:
 *
 *     "plateau":{"reports":3,"scale":0.1,"best":0.25,"bad_reports":1,"resting":0}
 *
 * The position is counted in samples, not calls, so that a run of another shape can resume at the position.
 */
#include "cli/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/checkpoint.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/json_tree.h"
#include "checkpoint/checkpoint.h"

/* The position of a training run in its data. */
typedef struct data_place {
    int64_t epoch, image; /* both count from 0; a sample of any kind is called "image" in the file */
    int64_t images;       /* samples of an epoch */
    bool shuffle;
    bool has_plateau; /* `plateau` is the schedule's state */
    struct {
        int64_t reports, bad_reports, resting;
        double scale, best;
    } plateau;
    json_t *normalize; /* the normalization of each input; NULL: not recorded */
} data_place;

static bg_status count_checkpoints(const cli_recipe *recipe, size_t *out_count, uint64_t *out_latest, bg_error *error)
{
    bgi_checkpoint_list list = {0};
    bg_status status = bgi_checkpoint_find(recipe->checkpoint_dir, &list, error);

    *out_count = list.count;
    *out_latest = list.count > 0 ? list.steps[0] : 0;
    free(list.steps);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--checkpoint");
}

bg_status cli_checkpoint_check(const cli_recipe *recipe, int *folder, bg_error *error)
{
    size_t count;
    uint64_t latest;

    if (recipe->checkpoint_dir == NULL)
        return BG_OK;
    if (bgi_folder_create(recipe->checkpoint_dir, error) != BG_OK ||
        bgi_folder_lock(recipe->checkpoint_dir, folder, error) != BG_OK)
        return bg_error_context(error, error->status, "--checkpoint");
    BGI_TRY(count_checkpoints(recipe, &count, &latest, error));
    if (count > 0 && !recipe->resume)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--checkpoint %s has a checkpoint of an earlier training, of weight update %" PRIu64
                            "; add --resume to continue from it, or name another folder",
                            recipe->checkpoint_dir, latest);
    return BG_OK;
}

/* ---- saving ---- */

enum { PLATEAU_BYTES = 200, SHOWN_BYTES = 300 };

static bool has_plateau(const cli_recipe *recipe)
{
    return recipe->rate_schedule != NULL && recipe->rate.kind == BG_RATE_PLATEAU;
}

/* Prints ,"plateau":{...}, or "" if there is no plateau. */
static void print_plateau(const cli_recipe *recipe, char *text, size_t size)
{
    const bg_rate_schedule *rate = &recipe->rate;
    char best[40] = "null"; /* there was no validation yet */

    text[0] = '\0';
    if (!has_plateau(recipe))
        return;
    if (isfinite(rate->best))
        snprintf(best, sizeof best, "%.17g", rate->best);
    snprintf(text, size,
             ",\"plateau\":{\"reports\":%" PRIu64 ",\"scale\":%.17g,\"best\":%s,\"bad_reports\":%" PRIu64
             ",\"resting\":%" PRIu64 "}",
             recipe->plateau_reports, rate->scale, best, rate->bad_reports, rate->resting);
}

bg_status cli_checkpoint_save(const cli_recipe *recipe, const cli_training *training, uint64_t epoch, uint64_t batch,
                              const cli_metric *metric, bg_checkpoint_writer **writer, bg_error *error)
{
    const uint64_t images = bg_dataset_sample_count(training->data);
    const bool is_done =
        batch >= bg_loader_batch_count(training->loader); /* the end of an epoch is the beginning of the next one */
    const uint64_t image = is_done ? 0 : batch * bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);
    bg_session *session = bg_trainer_session(training->trainer, BG_TRAINER_FIT);
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char plateau[PLATEAU_BYTES], info[64];
    bgi_string blob = {0};
    bg_status status;

    print_plateau(recipe, plateau, sizeof plateau);
    bgi_string_add(&blob, "{\"epoch\":%" PRIu64 ",\"image\":%" PRIu64 ",\"images\":%" PRIu64 ",\"shuffle\":%s%s%s%s}",
                   is_done ? epoch + 1 : epoch, image, images, recipe->no_shuffle ? "false" : "true", plateau,
                   recipe->normalization != NULL ? ",\"normalize\":" : "",
                   recipe->normalization != NULL ? recipe->normalization : "");
    if (blob.failed) {
        bgi_string_clear(&blob);
        return bgi_error_memory(error, "the position in the data", 0);
    }
    options.blob = blob.data;
    options.blob_bytes = blob.length;
    snprintf(info, sizeof info, "brigade %s", recipe->program);
    options.info = info;
    options.max_checkpoints = recipe->checkpoint_keep > 0 ? (uint32_t)recipe->checkpoint_keep : 1;
    options.keep_interval_s = recipe->checkpoint_interval_s;
    options.keep_best = recipe->checkpoint_best != NULL;
    options.metric_name = metric->name;
    options.metric = metric->value;
    options.metric_rises = metric->rises;
    status = recipe->checkpoint_async ? bg_checkpoint_begin(session, recipe->checkpoint_dir, &options, writer, error)
                                      : bg_checkpoint_save(session, recipe->checkpoint_dir, &options, error);
    bgi_string_clear(&blob);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--checkpoint");
}

bg_status cli_checkpoint_reserve(const cli_recipe *recipe, const cli_training *training, bg_error *error)
{
    bg_status status;

    if (recipe->checkpoint_dir == NULL || !recipe->checkpoint_async)
        return BG_OK;
    status = bg_checkpoint_reserve_memory(bg_trainer_session(training->trainer, BG_TRAINER_FIT), error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--checkpoint-async");
}

/* ---- resuming ---- */

/* Reads the state of the plateau, if there is one; returns false if it is invalid. */
static bool read_plateau(const json_t *object, data_place *out)
{
    const json_t *plateau = json_object_get(object, "plateau");
    const json_t *scale = json_object_get(plateau, "scale"), *best = json_object_get(plateau, "best");

    out->has_plateau = plateau != NULL;
    if (plateau == NULL)
        return true;
    out->plateau.scale = json_number_value(scale);
    out->plateau.best = json_is_null(best) ? INFINITY : json_number_value(best);
    return json_is_number(scale) && out->plateau.scale >= 0.0 && (json_is_number(best) || json_is_null(best)) &&
           bgi_json_find_integer(plateau, "reports", &out->plateau.reports) && out->plateau.reports >= 0 &&
           bgi_json_find_integer(plateau, "bad_reports", &out->plateau.bad_reports) && out->plateau.bad_reports >= 0 &&
           bgi_json_find_integer(plateau, "resting", &out->plateau.resting) && out->plateau.resting >= 0;
}

static bg_status read_place(const cli_recipe *recipe, const bg_checkpoint *found, data_place *out, bg_error *error)
{
    json_t *object = NULL;
    const bg_status status =
        bgi_json_parse(found->path, found->blob != NULL ? found->blob : "", found->blob_bytes, &object, NULL);
    const json_t *shuffle = json_object_get(object, "shuffle");
    json_t *normalize = json_object_get(object, "normalize");
    const bool is_good = bgi_json_find_integer(object, "epoch", &out->epoch) &&
                         bgi_json_find_integer(object, "image", &out->image) &&
                         bgi_json_find_integer(object, "images", &out->images) && json_is_boolean(shuffle) &&
                         read_plateau(object, out) && (normalize == NULL || json_is_object(normalize));

    out->shuffle = json_is_true(shuffle);
    out->normalize = normalize != NULL ? json_incref(normalize) : NULL;
    json_decref(object);
    if (status == BG_ERROR_MEMORY)
        return bgi_error_memory(error, found->path, found->blob_bytes);
    if (!is_good || out->epoch < 0 || out->image < 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s does not record the position in the data, so `brigade %s` did not write it",
                            found->path, recipe->program);
    return BG_OK;
}

/* Writes "`x` with 0.4,0.3", or "nothing". */
static void add_normalization(bgi_string *text, json_t *object)
{
    const char *name;
    json_t *list;

    json_object_foreach(object, name, list)
        bgi_string_add(text, "%s`%s` with %.*s", text->length > 0 ? ", " : "", name, SHOWN_BYTES,
                       json_is_string(list) ? json_string_value(list) : "?");
    if (text->length == 0)
        bgi_string_add(text, "nothing");
}

/* Checks that the inputs are normalized as before the checkpoint, if it records that. */
static bg_status check_normalization(const cli_recipe *recipe, const data_place *place, const char *path,
                                     bg_error *error)
{
    json_t *before = place->normalize, *now = NULL;
    bgi_string texts[2] = {{0}, {0}};
    bg_status status = BG_OK;

    if (before == NULL || recipe->normalization == NULL)
        return BG_OK;
    BGI_TRY(bgi_json_parse("--normalize", recipe->normalization, strlen(recipe->normalization), &now, error));
    if (json_equal(before, now) == 0) {
        add_normalization(&texts[0], before);
        add_normalization(&texts[1], now);
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "%s is from a training that normalizes %s, but this run normalizes %s; give the same "
                              "--normalize, and with --normalize auto the same data",
                              path, texts[0].data != NULL ? texts[0].data : "otherwise",
                              texts[1].data != NULL ? texts[1].data : "otherwise");
    }
    bgi_string_clear(&texts[0]);
    bgi_string_clear(&texts[1]);
    json_decref(now);
    return status;
}

/* Checks that the number of samples and their order are the same, and that a call begins at the position. */
static bg_status check_place(const cli_recipe *recipe, const cli_training *training, const data_place *place,
                             const char *path, bg_error *error)
{
    const uint64_t images = bg_dataset_sample_count(training->data);
    const uint64_t per_call = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);

    if ((uint64_t)place->images != images)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is from a training on %" PRIu64 " %s, but this run has %" PRIu64 "; %s", path,
                            (uint64_t)place->images, recipe->sample_words, images, recipe->data_hint);
    if (place->shuffle == recipe->no_shuffle)
        return bg_error_set(error, BG_ERROR_INVALID, "%s is from a training %s", path,
                            recipe->no_shuffle ? "without --no-shuffle; leave the option out"
                                               : "with --no-shuffle; add the option");
    if ((uint64_t)place->image % per_call != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is at %s %" PRIu64 " of an epoch, where no call of %" PRIu64
                            " %s begins; use the --batch-size, --device-iterations, --gradient-accumulation and "
                            "--replicas of the training that wrote it",
                            path, recipe->sample_word, (uint64_t)place->image, per_call, recipe->sample_words);
    return BG_OK;
}

/* Restores the plateau's state from the checkpoint, if it has one. Returns whether the validation of the last epoch is
 * missing. */
static bool resume_plateau(cli_recipe *recipe, const data_place *place)
{
    if (!has_plateau(recipe))
        return false;
    recipe->plateau_reports = (uint64_t)place->epoch;
    if (!place->has_plateau)
        return false;
    recipe->plateau_reports = (uint64_t)place->plateau.reports;
    recipe->rate.scale = place->plateau.scale;
    recipe->rate.best = place->plateau.best;
    recipe->rate.bad_reports = (uint64_t)place->plateau.bad_reports;
    recipe->rate.resting = (uint64_t)place->plateau.resting;
    return place->image == 0 && recipe->plateau_reports < (uint64_t)place->epoch;
}

static bg_status resume(cli_recipe *recipe, cli_training *training, const bg_checkpoint *found, bool *owes_validation,
                        bg_error *error)
{
    const uint64_t per_call = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);
    data_place place = {.normalize = NULL};
    bg_status status = read_place(recipe, found, &place, error);

    if (status == BG_OK)
        status = check_place(recipe, training, &place, found->path, error);
    if (status == BG_OK)
        status = check_normalization(recipe, &place, found->path, error);
    json_decref(place.normalize);
    BGI_TRY(status);
    if (owes_validation != NULL)
        *owes_validation = resume_plateau(recipe, &place);
    bg_trainer_resume(training->trainer, (uint64_t)place.epoch, (uint64_t)place.image / per_call, found->step);
    if (!recipe->quiet)
        printf("Resumed from %s: %" PRIu64 " weight updates, epoch %" PRIu64 ", %s %" PRIu64 "\n", found->path,
               found->step, (uint64_t)place.epoch + 1, recipe->sample_word, (uint64_t)place.image);
    return BG_OK;
}

bg_status cli_checkpoint_resume(cli_recipe *recipe, cli_training *training, bool *is_resumed, bool *owes_validation,
                                bg_error *error)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();
    const char *replay = recipe->library.replay;
    bg_checkpoint found = {0};
    bg_status status;

    if (!recipe->resume && replay == NULL)
        return BG_OK;
    options.differences = BG_CHECKPOINT_REFUSE;
    options.drop = recipe->resume_drop;
    options.optimizer = recipe->resume_optimizer;
    options.drop_option = "--resume-drop";
    options.optimizer_option = "--resume-optimizer";
    status = bg_checkpoint_load(bg_trainer_session(training->trainer, BG_TRAINER_FIT),
                                replay != NULL ? replay : recipe->checkpoint_dir, &options, &found, error);
    /* With several ranks the folder of this rank may be empty while those of others contain checkpoints. */
    if (status == BG_ERROR_NOT_FOUND && replay == NULL) {
        bg_error_clear(error);
        if (cli_ranks_is_first())
            cli_say(recipe->command, "--resume: there is no checkpoint in %s; a new training starts",
                    recipe->checkpoint_dir);
        return BG_OK;
    }
    if (status == BG_OK)
        status = resume(recipe, training, &found, owes_validation, error);
    *is_resumed = status == BG_OK;
    bg_checkpoint_clear(&found);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, replay != NULL ? "--replay" : "--resume");
}
