/*
 * replay.c: runs a fuzz target once on each file named on the command line, without a fuzzer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *name)
{
    FILE *file = fopen(name, "rb");
    uint8_t *data = NULL;
    long size;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        perror(name);
        return 1;
    }
    data = malloc((size_t)size + 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(name);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argument_count, char **arguments)
{
    int failures = 0;

    for (int i = 1; i < argument_count; i++)
        failures += replay(arguments[i]);
    return failures != 0;
}
