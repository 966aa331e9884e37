/*
 * oracle.h: another framework's results, from tests/oracle/<name>.txt (made by <name>.py in the same folder).
 *
 * Each tensor has one line with the case, the tensor, the dims in brackets and the values:
 *
 *     linear_bias x [2,3] 0.25 -1 ...
 *
 * All functions fail the test (cmocka) when something is missing, so tests need not check.
 */
#ifndef BGI_TEST_ORACLE_H
#define BGI_TEST_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include <brigade/base.h>

typedef struct bgi_test_tensor {
    char case_name[64], name[64];
    uint32_t rank;
    int64_t dims[BG_MAX_RANK];
    int64_t count;
    double *values;
} bgi_test_tensor;

typedef struct bgi_test_oracle {
    bgi_test_tensor *tensors;
    size_t count, capacity;
} bgi_test_oracle;

/* Opens an oracle's file. Tests run in the repository's root, so `path` is for example "tests/oracle/ops_b.txt". */
bgi_test_oracle *bgi_test_oracle_open(const char *path);
void bgi_test_oracle_close(bgi_test_oracle *oracle);
const bgi_test_tensor *bgi_test_oracle_find(const bgi_test_oracle *oracle, const char *case_name, const char *name);
/* Finds a tensor; returns NULL if the oracle does not have it. */
const bgi_test_tensor *bgi_test_oracle_try(const bgi_test_oracle *oracle, const char *case_name, const char *name);
bg_type bgi_test_tensor_type(const bgi_test_tensor *tensor, bg_dtype dtype);
/* Checks |actual - wanted| <= absolute + relative |wanted| for every element; a failure's message names the tensor and
 * the element. */
void bgi_test_compare(const bgi_test_tensor *wanted, const double *actual, double absolute, double relative);

/* The oracle of most ops, and the fixture for a group of tests that compare with it. */
extern bgi_test_oracle *bgi_test_ops_oracle;
int bgi_test_open_ops_oracle(void **state);
int bgi_test_close_ops_oracle(void **state);

#endif
