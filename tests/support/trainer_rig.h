/*
 * trainer_rig.h: a small network with its data for tests of the trainer, and the plain loop that tests compare the
 * trainer with. The loop creates a session for each call.
 */
#ifndef TEST_SUPPORT_TRAINER_RIG_H
#define TEST_SUPPORT_TRAINER_RIG_H

#include <brigade/trainer.h>

enum { TEST_NET_FEATURES = 4, TEST_NET_HIDDEN = 6, TEST_NET_CLASSES = 3, TEST_NET_MOST_SAMPLES = 64 };

/* Inputs `x` and `labels` (predict: only `x`). Outputs: fit `loss`; validate `loss`, `correct`; test `logits`, `loss`,
 * `correct`; predict `logits`; each task also has `number`, filled with the task's number from 1. */
typedef struct test_net {
    uint32_t device_count; /* the number of stages that block names give: 1, 2 or 4; 0: no names, a stage for each of
                              four blocks */
    bool has_dropout;
    bg_dtype dtype;                    /* type of x; NONE: float32 */
    bool has_shift;                    /* an input `shift` [samples, hidden] is added; fit has it as output `shift` */
    bool has_mesh;                     /* the net is on a mesh of 2 x 1 replicas */
    bool fails[BG_TRAINER_TASK_COUNT]; /* the model's function reports an error */
} test_net;

bg_value test_net_model(void *user, bg_graph *graph, bg_trainer_task stage, int64_t micro_batch);

/* Makes `count` samples, always the same: float32 [4] and uint8 []. */
typedef struct test_net_samples {
    bg_array arrays[2];
    bg_dataset *dataset;
} test_net_samples;
void test_net_samples_make(test_net_samples *samples, uint64_t count);
void test_net_samples_clear(test_net_samples *samples);

/* Makes one call in a session created for it, with unchanged `options`. Returns the newest loss. `inputs` has only the
 * inputs that the net has, in their order. */
float test_net_train(const test_net *net, const bg_options *options, const bg_optimizer *optimizer, int64_t micro_batch,
                     bg_weights *weights, const void *const *inputs);

/* Fails the test if two sets of weights differ in a name or a bit. */
void test_weights_expect(bg_weights *found, bg_weights *expected);

#endif
