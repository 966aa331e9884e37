/*
 * oracle.c: reads the text files of tests/oracle.
 */
#include "support/oracle.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text;
    long size;

    if (file == NULL)
        fail_msg("%s cannot be opened; tests run in the repository's root", path);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    return text;
}

static void parse_dims(bgi_test_tensor *tensor, const char *dims, const char *path)
{
    tensor->count = 1;
    for (dims++; *dims != ']'; dims += *dims == ',') {
        char *end;

        if (tensor->rank == BG_MAX_RANK)
            fail_msg("%s: %s %s has too many dimensions", path, tensor->case_name, tensor->name);
        tensor->dims[tensor->rank] = strtoll(dims, &end, 10);
        if (end == dims)
            fail_msg("%s: %s %s: bad dimensions", path, tensor->case_name, tensor->name);
        tensor->count *= tensor->dims[tensor->rank++];
        dims = end;
    }
}

/* Parses one line and copies the values. */
static void parse_line(bgi_test_tensor *tensor, const char *line, const char *path)
{
    char dims[64];
    int used = 0;

    if (sscanf(line, "%63s %63s %63s%n", tensor->case_name, tensor->name, dims, &used) != 3 || dims[0] != '[' ||
        dims[strlen(dims) - 1] != ']')
        fail_msg("%s: not \"case tensor [dims] values\": %.60s", path, line);
    parse_dims(tensor, dims, path);
    tensor->values = malloc((size_t)tensor->count * sizeof *tensor->values);
    assert_non_null(tensor->values);
    line += used;
    for (int64_t i = 0; i < tensor->count; i++) {
        char *end;

        tensor->values[i] = strtod(line, &end);
        if (end == line)
            fail_msg("%s: %s %s has %lld values, not %lld", path, tensor->case_name, tensor->name, (long long)i,
                     (long long)tensor->count);
        line = end;
    }
}

bgi_test_oracle *bgi_test_oracle_open(const char *path)
{
    bgi_test_oracle *oracle = calloc(1, sizeof *oracle);
    char *text = read_text(path), *line = text;

    assert_non_null(oracle);
    while (*line != '\0') {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end = '\0';
        if (*line != '\0' && *line != '#') {
            assert_true(bgi_array_reserve((void **)&oracle->tensors, &oracle->capacity, oracle->count + 1,
                                          sizeof *oracle->tensors));
            memset(&oracle->tensors[oracle->count], 0, sizeof *oracle->tensors);
            parse_line(&oracle->tensors[oracle->count++], line, path);
        }
        line = end != NULL ? end + 1 : line + strlen(line);
    }
    free(text);
    return oracle;
}

void bgi_test_oracle_close(bgi_test_oracle *oracle)
{
    if (oracle == NULL)
        return;
    for (size_t i = 0; i < oracle->count; i++)
        free(oracle->tensors[i].values);
    free(oracle->tensors);
    free(oracle);
}

const bgi_test_tensor *bgi_test_oracle_try(const bgi_test_oracle *oracle, const char *case_name, const char *name)
{
    for (size_t i = 0; i < oracle->count; i++)
        if (strcmp(oracle->tensors[i].case_name, case_name) == 0 && strcmp(oracle->tensors[i].name, name) == 0)
            return &oracle->tensors[i];
    return NULL;
}

const bgi_test_tensor *bgi_test_oracle_find(const bgi_test_oracle *oracle, const char *case_name, const char *name)
{
    const bgi_test_tensor *tensor = bgi_test_oracle_try(oracle, case_name, name);

    if (tensor == NULL)
        fail_msg("the oracle has no tensor %s %s", case_name, name);
    return tensor;
}

bg_type bgi_test_tensor_type(const bgi_test_tensor *tensor, bg_dtype dtype)
{
    return bg_type_make(dtype, tensor->rank, tensor->dims);
}

void bgi_test_compare(const bgi_test_tensor *wanted, const double *actual, double absolute, double relative)
{
    for (int64_t i = 0; i < wanted->count; i++) {
        const double want = wanted->values[i];

        if (isnan(want) ? isnan(actual[i]) : want == actual[i])
            continue;
        if (!(fabs(actual[i] - want) <= absolute + relative * fabs(want)))
            fail_msg("%s %s, element %lld: %.9g, but the oracle says %.9g", wanted->case_name, wanted->name,
                     (long long)i, actual[i], want);
    }
}

bgi_test_oracle *bgi_test_ops_oracle;

int bgi_test_open_ops_oracle(void **state)
{
    (void)state;
    bgi_test_ops_oracle = bgi_test_oracle_open("tests/oracle/ops_b.txt");
    return 0;
}

int bgi_test_close_ops_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(bgi_test_ops_oracle);
    return 0;
}
