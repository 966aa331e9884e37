/*
 * mnist_data.c: finds the images. Files that the user names must exist. Files in default folders may be missing, and
 * then digits are generated.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"

enum { GENERATED_TRAIN = 60000, GENERATED_TEST = 10000 };

static const char download_folder[] = "data/mnist";

static bg_status check_images(const bg_image_set *set, const char *what, bg_error *error)
{
    const bg_type *type = &set->images.type;

    if (type->rank == 3 && type->dims[1] == 28 && type->dims[2] == 28)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE,
                        "%s: the %s images have %" PRId64 " x %" PRId64 " pixels; the network needs 28 x 28",
                        set->source != NULL ? set->source : "data", what, type->dims[1], type->dims[2]);
}

static bg_status load_both(const char *const *folders, size_t folder_count, mnist_data *data, bg_error *error)
{
    BGI_TRY(bg_mnist_load(folders, folder_count, true, &data->train, error));
    BGI_TRY(bg_mnist_load(folders, folder_count, false, &data->test, error));
    BGI_TRY(check_images(&data->train, "training", error));
    return check_images(&data->test, "test", error);
}

static bg_status download(const mnist_config *config, mnist_data *data, bg_error *error)
{
    const char *folder = config->data_dir != NULL ? config->data_dir : download_folder;
    bg_mnist_download_options options = bg_mnist_download_options_defaults(folder);
    cli_download_progress progress = cli_download_progress_begin(config->recipe.quiet);
    bg_status status;

    if (!config->recipe.quiet) {
        printf("Downloading MNIST into %s\n", folder);
        fflush(stdout);
    }
    if (config->mirror != NULL) {
        options.mirrors = &config->mirror;
        options.mirror_count = 1;
    }
    options.progress = cli_report_download;
    options.user = &progress;
    status = bg_mnist_download(&options, error);
    cli_download_progress_end(&progress, status == BG_OK);
    if (status != BG_OK)
        return status;
    return load_both(&folder, 1, data, error);
}

/* Generates the digits. Test digits follow the training digits in the endless sequence of a seed, so no digit is in
 * both. */
static bg_status generate(mnist_data *data, bg_error *error)
{
    bg_digits_options train = {.seed = 0, .first_index = 0, .count = GENERATED_TRAIN};
    bg_digits_options test = {.seed = 0, .first_index = GENERATED_TRAIN, .count = GENERATED_TEST};

    BGI_TRY(bg_digits_create(&train, &data->train, error));
    BGI_TRY(bg_digits_create(&test, &data->test, error));
    data->is_generated = true;
    return BG_OK;
}

/* Tries $BRIGADE_DATA first, with a warning when it has no MNIST, then `data`. */
static bg_status look_around(mnist_data *data, bg_error *error)
{
    const char *own = getenv("BRIGADE_DATA");
    const char *usual[] = {"data"};
    char text[512];
    bg_status status;

    if (own != NULL && own[0] != '\0') {
        status = load_both(&own, 1, data, error);
        if (status != BG_ERROR_NOT_FOUND)
            return status;
        bg_error_clear(error);
        bg_image_set_clear(&data->train);
        bg_image_set_clear(&data->test);
        snprintf(text, sizeof text, "$BRIGADE_DATA (%s) has no MNIST; it was skipped", own);
        cli_warn("mnist", text);
    }
    return load_both(usual, 1, data, error);
}

static bg_status find(const mnist_config *config, mnist_data *data, bg_error *error)
{
    const char *named[] = {config->data_dir};
    bg_error missing = {0};
    bg_status status;

    if (config->data_dir != NULL)
        status = load_both(named, 1, data, &missing);
    else
        status = look_around(data, &missing);
    if (status == BG_OK)
        return BG_OK;
    if (status != BG_ERROR_NOT_FOUND)
        return bg_error_set(error, status, "%s", missing.message);
    bg_image_set_clear(&data->train);
    bg_image_set_clear(&data->test);
    if (config->download)
        return download(config, data, error);
    if (config->data_dir != NULL)
        return bg_error_set(error, status, "--data-dir: %s (--download fetches them)", missing.message);
    return generate(data, error);
}

static bg_status create_set(const bg_image_set *images, bg_dataset **out, bg_error *error)
{
    bg_array arrays[] = {images->images, images->labels};

    return bg_dataset_create_arrays(arrays, 2, out, error);
}

bg_status mnist_data_open(const mnist_config *config, mnist_data *out, bg_error *error)
{
    mnist_data data = {.is_generated = false};
    bg_status status = find(config, &data, error);

    if (status == BG_OK)
        status = create_set(&data.train, &data.train_set, error);
    if (status == BG_OK)
        status = create_set(&data.test, &data.test_set, error);
    if (status != BG_OK) {
        mnist_data_close(&data);
        return status;
    }
    *out = data;
    return BG_OK;
}

void mnist_data_close(mnist_data *data)
{
    bg_dataset_destroy(data->train_set);
    bg_dataset_destroy(data->test_set);
    bg_image_set_clear(&data->train);
    bg_image_set_clear(&data->test);
    memset(data, 0, sizeof *data);
}
