/*
 * zoo.h: the models of the examples in sizes suitable for memory measurements: some ten megabytes of weights and
 * activations, and updates that take a fraction of a second.
 */
#ifndef TEST_SUPPORT_ZOO_H
#define TEST_SUPPORT_ZOO_H

#include <brigade/graph.h>

typedef struct test_zoo_model {
    const char *name;
    int64_t micro_batch;
    /* Adds the network with an output "loss"; returns the loss. Zeros are valid inputs. */
    bg_value (*build)(bg_graph *graph, int64_t micro_batch);
} test_zoo_model;

/* Returns the model with this number, or NULL past the end. */
const test_zoo_model *test_zoo_at(unsigned index);

#endif
