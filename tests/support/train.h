/*
 * train.h: trains a test model and returns every byte of the results, for laws such as "another strategy gives the same
 * bits". Any error fails the test (cmocka); `what` names the case.
 */
#ifndef TEST_SUPPORT_TRAIN_H
#define TEST_SUPPORT_TRAIN_H

#include <brigade/session.h>

#include "support/models.h"

/* The bytes of every loss, then of every weight and state. */
typedef struct test_result {
    size_t size;
    unsigned char *bytes; /* malloc'ed */
} test_result;

bg_plan *test_train_plan(const test_model *model, int64_t micro_batch, const bg_optimizer *optimizer,
                         const bg_options *options, const char *what);

/* Makes the updates first .. end - 1 over a fixed sequence of data; `end` - `first` is a multiple of the options'
 * device iterations. `weights` may be null. The options' output mode should be ALL. With options.trace each device must
 * have touched the bytes of the plan. */
test_result test_train(const test_model *model, int64_t micro_batch, const bg_optimizer *optimizer,
                       const bg_options *options, bg_weights *weights, uint32_t first, uint32_t end, const char *what);

/* Does the same as test_train with a plan that was compiled with these options, and destroys the plan. */
test_result test_train_run(bg_plan *plan, const bg_options *options, bg_weights *weights, uint32_t first, uint32_t end,
                           const char *what);

/* Fails and prints the first difference if two results differ. Frees `found`. */
void test_train_expect(test_result found, const test_result *expected, const char *what);

#endif
