/*
 * models.h: small networks that are difficult for the engine in different ways, for tests that run whole sessions.
 */
#ifndef TEST_SUPPORT_MODELS_H
#define TEST_SUPPORT_MODELS_H

#include <brigade/graph.h>

typedef struct test_model {
    const char *name;
    /* Adds the network for a micro-batch size, in blocks "B1" to "B4"; returns the loss. */
    bg_value (*build)(bg_graph *graph, int64_t micro_batch);
} test_model;

/* Returns a model. 0: the digit network. 1: a residual net with batch norm and a skip over three stages. 2: embeddings
 * tied to the output layer, layer norm and dropout, with integer data that one stage sends to another. 3: a perceptron
 * whose first stage's values are read by every later one. 4: two branches, B2 and B3, that share nothing. 5: model 2
 * with more rows than an update has ids. 6: plain and transposed convolutions over one to three dimensions,
 * interpolation, class weights. Returns NULL past the end. */
const test_model *test_model_at(unsigned index);

/* Returns malloc'ed data for an input of a model ("images", "labels", "ids", "x"). The data are the same in every call.
 */
void *test_model_input(const bg_type *micro_batch_type, const char *name, uint64_t micro_batches);

#endif
