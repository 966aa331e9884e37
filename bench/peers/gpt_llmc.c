/*
 * gpt_llmc.c: runs the steps of bench/gpt.c with llm.c's CPU trainer, for bench/gpt.sh. llm.c's own program reads
 * weights and tokens from files and has a fixed batch size. This program makes random weights of the same shapes in
 * memory, and calls llm.c's functions in the same order. Prints the time of each step in seconds.
 *
 * Built by bench/gpt.sh in a clone of llm.c, with llm.c's own flags: cc -I CLONE ... gpt_llmc.c -lm -lgomp
 *
 * usage: gpt_llmc LAYERS VOCABULARY BATCH LENGTH STEPS
 */
#define TESTING /* omits the main of that program */
#include "train_gpt2.c"

static void fill_weights(GPT2 *model)
{
    uint64_t state = 1;

    for (size_t i = 0; i < model->num_parameters; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        model->params_memory[i] = ((float)(state >> 40) / 16777216.0f - 0.5f) * 0.07f;
    }
}

/* Does what gpt2_build_from_checkpoint does, without the file. */
static void build_model(GPT2 *model, int layers, int vocabulary)
{
    *model = (GPT2){.mean_loss = -1.0f};
    model->config = (GPT2Config){.max_seq_len = 1024,
                                 .vocab_size = vocabulary,
                                 .padded_vocab_size = (vocabulary + 127) / 128 * 128,
                                 .num_layers = layers,
                                 .num_heads = 12,
                                 .channels = 768};
    fill_in_parameter_sizes(model->param_sizes, model->config);
    for (size_t i = 0; i < NUM_PARAMETER_TENSORS; i++)
        model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters(&model->params, model->param_sizes);
    fill_weights(model);
}

static double read_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int numbers[5] = {12, 50257, 4, 256, 3}, *tokens;
    GPT2 model;

    for (int i = 1; i < argc && i <= 5; i++)
        numbers[i - 1] = atoi(argv[i]);
    build_model(&model, numbers[0], numbers[1]);
    tokens = mallocCheck((size_t)(numbers[2] * numbers[3] + 1) * sizeof *tokens);
    for (int i = 0; i <= numbers[2] * numbers[3]; i++)
        tokens[i] = (int)((uint32_t)i * 2654435761u % 1000003u % (uint32_t)numbers[1]);
    for (int step = 0; step <= numbers[4]; step++) { /* the first step allocates memory and is not counted */
        const double begin_s = read_clock_s();

        gpt2_forward(&model, tokens, tokens + 1, (size_t)numbers[2], (size_t)numbers[3]);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, step + 1);
        if (step > 0)
            printf("step %.6f\n", read_clock_s() - begin_s);
    }
    gpt2_free(&model);
    free(tokens);
    return 0;
}
