/*
 * data.c: measures images per second of a loader over decoded digits in memory, in the caller's thread and with one
 * worker. It also measures the speed of memory: memset over the same number of floats. Rates are based on the processor
 * time of all threads, so they are rates of one core, and other programs on the machine hardly affect them. The result
 * is that of the fastest epoch.
 */
#include <brigade/data.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IMAGES = 60000, BATCH = 100, PIXELS = BG_DIGITS_ROWS * BG_DIGITS_COLUMNS, EPOCHS = 8 };

/* Returns the images per second if all images took the time since `start`. */
static double rate_since(clock_t start)
{
    const clock_t now = clock();

    return now > start ? (double)IMAGES * CLOCKS_PER_SEC / (double)(now - start) : 0;
}

/* Returns the images per second of writing to a ring of four batches in memory, like that of the loader. */
static double write_plainly(void)
{
    enum { RING = 4 };
    const size_t batch_bytes = (size_t)BATCH * PIXELS * sizeof(float);
    unsigned char *ring = malloc(RING * batch_bytes);
    double best = 0;

    if (ring == NULL)
        return 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const clock_t start = clock();
        double rate;

        for (int batch = 0; batch < IMAGES / BATCH; batch++) {
            unsigned char *volatile to = ring + (size_t)(batch % RING) * batch_bytes; /* the compiler cannot skip it */

            memset(to, batch, batch_bytes);
        }
        rate = rate_since(start);
        best = rate > best ? rate : best;
    }
    free(ring);
    return best;
}

static double run(const bg_dataset *dataset, uint32_t workers)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_batch batch;
    double best = 0;

    options.batch_size = BATCH;
    options.shuffle = true;
    options.worker_count = workers;
    if (bg_loader_create(dataset, &options, &loader, NULL) != BG_OK)
        return 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const clock_t start = clock();
        double rate;

        bg_loader_begin_epoch(loader, epoch, NULL);
        while (bg_loader_next(loader, &batch, NULL) == BG_OK && batch.sample_count > 0)
            ;
        rate = rate_since(start);
        best = rate > best ? rate : best;
    }
    bg_loader_destroy(loader);
    return best;
}

int main(void)
{
    const bg_digits_options digits = {.count = IMAGES};
    const float mean = 0.1307F, deviation = 0.3081F;
    const bg_normalize_options normalize = {.channel_count = 1, .means = &mean, .deviations = &deviation};
    bg_image_set set = {.class_count = 0};
    bg_dataset *plain = NULL, *normalized = NULL;
    bg_array arrays[2];

    if (bg_digits_create(&digits, &set, NULL) != BG_OK)
        return EXIT_FAILURE;
    arrays[0] = set.images;
    arrays[1] = set.labels;
    if (bg_dataset_create_arrays(arrays, 2, &plain, NULL) != BG_OK ||
        bg_dataset_normalize(plain, &normalize, &normalized, NULL) != BG_OK)
        return EXIT_FAILURE;
    printf("%-40s %10.2f million images/s\n", "memset of as many floats", 1e-6 * write_plainly());
    printf("%-40s %10.2f million images/s\n", "uint8, in the caller", 1e-6 * run(plain, 0));
    printf("%-40s %10.2f million images/s\n", "normalized, in the caller", 1e-6 * run(normalized, 0));
    printf("%-40s %10.2f million images/s\n", "normalized, one worker", 1e-6 * run(normalized, 1));
    bg_dataset_destroy(normalized);
    bg_dataset_destroy(plain);
    bg_image_set_clear(&set);
    return EXIT_SUCCESS;
}
