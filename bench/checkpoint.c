/*
 * checkpoint.c: measures how fast a checkpoint is written, compared with plain files of the same size that are written
 * and flushed before and after it. It also measures how much time and memory a checkpoint costs while training
 * continues.
 *
 *     build/bench/checkpoint DIR [GIGABYTES [speed|beside [TURNS]]]     writes and removes DIR/brigade-checkpoint-bench
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <brigade.h>

#include "median.h"

enum {
    WIDTH = 2048,
    MICRO_BATCH = 8,
    ACCUMULATION = 16,
    PART_BYTES = 1 << 20,
    MOST_STEPS = 4096,
    PLAIN_STEPS = 7,
    MOST_TURNS = 99
};

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "checkpoint: %s\n", error->message);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the processor time of all threads of the process. */
static double processor_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Restarts the measurement of peak memory. */
static void restart_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    if (file == NULL || fputs("5", file) < 0)
        perror("/proc/self/clear_refs");
    if (file != NULL)
        fclose(file);
}

/* Reads a field of /proc/self/status, in bytes. */
static double read_status(const char *field)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0.0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kilobytes = strtod(line + strlen(field) + 1, NULL);
    if (file != NULL)
        fclose(file);
    return 1024.0 * kilobytes;
}

/* ---- the disk ---- */

/* Writes a file in order and flushes it; returns the bytes per second. The content is incompressible. */
static double measure_disk(const char *path, size_t bytes)
{
    unsigned char *part = malloc(PART_BYTES);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    uint64_t state = 1;
    double start_s;

    if (part == NULL || file < 0) {
        perror(path);
        exit(1);
    }
    for (size_t i = 0; i + 8 <= PART_BYTES; i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(part + i, &state, 8);
    }
    start_s = now_s();
    for (size_t at = 0; at < bytes; at += PART_BYTES) {
        memcpy(part, &at, sizeof at);
        if (write(file, part, PART_BYTES) != PART_BYTES) {
            perror(path);
            exit(1);
        }
    }
    if (fsync(file) != 0)
        perror(path);
    start_s = now_s() - start_s;
    close(file);
    unlink(path);
    free(part);
    return (double)bytes / start_s;
}

/* ---- the training ---- */

typedef struct training {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    float *x;
    float losses[ACCUMULATION];
} training;

static void open_training(training *t, uint32_t layers)
{
    const bg_optimizer optimizer = bg_adamw(1e-4);
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_value y, loss;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_graph_create(&t->graph, &error), &error);
    bg_block_begin(t->graph, "B", BG_DEVICE_NONE);
    y = bg_graph_input(t->graph, "x", &type);
    for (uint32_t i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%u", i);
        y = bg_linear_layer(t->graph, name, y, WIDTH, false);
    }
    loss = bg_reduce(t->graph, "loss", BG_REDUCE_MEAN, bg_multiply(t->graph, y, y), NULL, 0, false);
    bg_block_end(t->graph);
    bg_graph_output(t->graph, "loss", loss);
    require(bg_plan_create_training(t->graph, loss, &optimizer, &options, &t->plan, &error), &error);
    require(bg_session_create(t->plan, NULL, &t->session, &error), &error);
    t->x = calloc((size_t)ACCUMULATION * MICRO_BATCH * WIDTH, sizeof *t->x);
    for (size_t i = 0; t->x != NULL && i < (size_t)ACCUMULATION * MICRO_BATCH * WIDTH; i++)
        t->x[i] = (float)(i % 17) * 0.01f;
}

static void close_training(training *t)
{
    free(t->x);
    bg_session_destroy(t->session);
    bg_plan_destroy(t->plan);
    bg_graph_destroy(t->graph);
}

static double step(training *t)
{
    const double start_s = now_s();
    bg_error error = {0};

    require(bg_session_run(t->session, (const void *[]){t->x}, (void *[]){t->losses}, &error), &error);
    return now_s() - start_s;
}

/* ---- the results ---- */

static double file_bytes(const char *folder, uint64_t number)
{
    char path[4096];
    struct stat found;

    snprintf(path, sizeof path, "%s/checkpoint_train_step_%llu.safetensors", folder, (unsigned long long)number);
    return stat(path, &found) == 0 ? (double)found.st_size : 0.0;
}

static void remove_checkpoint(const char *folder, uint64_t number)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/checkpoint_train_step_%llu.safetensors", folder, (unsigned long long)number);
    unlink(path);
}

static void measure_saving(training *t, const char *folder, const char *scratch, size_t state_bytes)
{
    double before, after, seconds, bytes;
    bg_error error = {0};

    before = measure_disk(scratch, state_bytes);
    printf("plain file before       %.0f MB/s\n", before * 1e-6);
    fflush(stdout);
    seconds = now_s();
    require(bg_checkpoint_save(t->session, folder, NULL, &error), &error);
    seconds = now_s() - seconds;
    bytes = file_bytes(folder, bg_session_step(t->session));
    printf("checkpoint              %.2f GB in %.1f s, %.0f MB/s\n", bytes * 1e-9, seconds, bytes / seconds * 1e-6);
    fflush(stdout);
    after = measure_disk(scratch, state_bytes);
    printf("plain file after        %.0f MB/s\n", after * 1e-6);
    /* The base is the mean time of the two plain files, not their mean speed. */
    printf("speed of the checkpoint %.0f %% of that of the plain files\n",
           50.0 * bytes / seconds * (1.0 / before + 1.0 / after));
    fflush(stdout);
}

/* The measurements of a checkpoint that is written while training continues, and of the steps before it. */
typedef struct turn {
    double plain_s, beside_s; /* medians of steps */
    double first_s;           /* the copy and the first step after it */
    double copied_s, written_s, processor_s, average, bytes;
    int steps;
} turn;

static turn measure_turn(training *t, const char *folder)
{
    static double plain[PLAIN_STEPS], beside[MOST_STEPS];
    bg_checkpoint_writer *writer = NULL;
    bool is_written = false;
    bg_error error = {0};
    turn m = {.steps = 0};
    double begun_s, used_s, mean_s = 0.0;
    uint64_t number;

    used_s = processor_s();
    for (int i = 0; i < PLAIN_STEPS; i++) {
        plain[i] = step(t);
        mean_s += plain[i] / PLAIN_STEPS;
    }
    used_s = (processor_s() - used_s) / PLAIN_STEPS;
    number = bg_session_step(t->session);
    begun_s = now_s();
    require(bg_checkpoint_begin(t->session, folder, NULL, &writer, &error), &error);
    m.copied_s = now_s() - begun_s;
    m.processor_s = processor_s();
    while (!is_written && m.steps < MOST_STEPS) {
        beside[m.steps++] = step(t);
        require(bg_checkpoint_is_written(writer, &is_written, &error), &error);
    }
    m.written_s = now_s() - begun_s;
    m.processor_s = processor_s() - m.processor_s - m.steps * used_s;
    m.average = m.written_s / (m.steps * mean_s);
    require(bg_checkpoint_finish(writer, &error), &error);
    m.bytes = file_bytes(folder, number);
    m.plain_s = bench_median(plain, (size_t)PLAIN_STEPS);
    m.first_s = m.copied_s + beside[0];
    m.beside_s = bench_median(beside, (size_t)m.steps);
    return m;
}

/* Alternates steps without a checkpoint and steps with one, because other load on the machine changes. */
static void measure_beside(training *t, const char *folder, int turns)
{
    const double resident = read_status("VmRSS:");
    static double ratios[MOST_TURNS], averages[MOST_TURNS], firsts[MOST_TURNS];
    double peak, begun_s;
    turn m = {.steps = 0};
    bg_error error = {0};

    restart_peak();
    begun_s = now_s();
    require(bg_checkpoint_reserve_memory(t->session, &error), &error);
    printf("memory taken in         %.2f s\n", now_s() - begun_s);
    for (int i = 0; i < turns; i++) {
        m = measure_turn(t, folder);
        ratios[i] = m.beside_s / m.plain_s;
        averages[i] = m.average;
        firsts[i] = m.first_s / m.plain_s;
        printf("copied in               %.2f s\n", m.copied_s);
        printf("written in              %.1f s, of %.1f s of processor time beside the steps\n", m.written_s,
               m.processor_s);
        printf("steps meanwhile         %d, median %.3f s; without %.3f s: %.2f times as long\n", m.steps, m.beside_s,
               m.plain_s, ratios[i]);
        printf("the step with the copy  %.3f s: %.2f times as long\n", m.first_s, firsts[i]);
        printf("all of them             on average %.2f times as long\n", m.average);
        fflush(stdout);
    }
    peak = read_status("VmHWM:");
    if (turns > 1)
        printf("medians of %d turns      steps %.2f, with the copy %.2f, on average %.2f times as long\n", turns,
               bench_median(ratios, (size_t)turns), bench_median(firsts, (size_t)turns),
               bench_median(averages, (size_t)turns));
    printf("memory meanwhile        %.2f GB more, %.2f times the state\n", (peak - resident) * 1e-9,
           (peak - resident) / m.bytes);
}

int main(int argc, char **argv)
{
    const double gigabytes = argc > 2 ? strtod(argv[2], NULL) : 2.0;
    const uint32_t layers = (uint32_t)(gigabytes * 1e9 / (3.0 * sizeof(float) * WIDTH * WIDTH) + 0.5);
    const char *part = argc > 3 ? argv[3] : "";
    const long turns = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    char folder[3800], scratch[4000];
    training t = {0};

    if (argc < 2 || layers < 1 || turns < 1 || turns > MOST_TURNS) {
        fprintf(stderr, "checkpoint DIR [GIGABYTES [speed|beside [TURNS]]]\n");
        return 2;
    }
    snprintf(folder, sizeof folder, "%s/brigade-checkpoint-bench", argv[1]);
    snprintf(scratch, sizeof scratch, "%s.scratch", folder);
    open_training(&t, layers);
    step(&t);
    if (strcmp(part, "beside") != 0)
        measure_saving(&t, folder, scratch, (size_t)layers * 3 * sizeof(float) * WIDTH * WIDTH);
    if (strcmp(part, "speed") != 0)
        measure_beside(&t, folder, (int)turns);
    for (uint64_t number = 0; number <= bg_session_step(t.session); number++)
        remove_checkpoint(folder, number);
    rmdir(folder);
    close_training(&t);
    return 0;
}
