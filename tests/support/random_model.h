/*
 * random_model.h: makes small unusual models, for tests of properties that hold for all models. Values skip blocks and
 * have several readers, blocks share weights, and aliases are at block borders. Models have casts, integer values,
 * losses that are not last, and outputs of any block.
 */
#ifndef BGI_TEST_RANDOM_MODEL_H
#define BGI_TEST_RANDOM_MODEL_H

#include <brigade/options.h>

typedef struct bgi_test_model {
    bg_graph *graph;
    bg_value loss;
    uint32_t block_count; /* blocks "B0", "B1", ... in the order of the data flow; each has an op */
} bgi_test_model;

/* Makes a model; the same seed gives the same model. Fails the test if the graph reports an error. */
bgi_test_model bgi_test_random_model(uint64_t seed);

/* Returns a random strategy with stages, devices and batches with which the model compiles. `stages` (256 bytes) must
 * outlive the options. */
bg_options bgi_test_random_options(const bgi_test_model *model, uint64_t seed, bool training, char *stages);

/* Returns a random number below `bound`. */
uint32_t bgi_test_random_below(uint64_t *state, uint32_t bound);

#endif
