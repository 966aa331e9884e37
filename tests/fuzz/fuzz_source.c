/*
 * fuzz_source.c: arbitrary files for bg_dataset_open. The input is "KIND\nPART\nCONTENT", where the kind is a digit and
 * an empty part means no part. A valid input has the number of bytes of its type. Converting its samples to floats and
 * integers works or gives an error.
 */
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that an error has one line with the reason. */
static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

static void convert(bg_dataset *set, bg_dtype dtype)
{
    bg_convert_options options = {.type = *bg_dataset_sample_type(set, 0)};
    bg_dataset *converted = NULL;
    bg_error error = {0};
    unsigned char *sample, *places[1];
    void *scratch;
    size_t failed = 0;
    const uint32_t index = 0;

    options.type.dtype = dtype;
    if (bg_dataset_convert(set, &options, &converted, &error) != BG_OK) {
        check_message(&error);
        return;
    }
    sample = places[0] = malloc(bg_type_size_bytes(&options.type));
    scratch = bgi_dataset_scratch(converted);
    if (sample != NULL && scratch != NULL &&
        bgi_dataset_gather(converted, 0, &index, 1, places, scratch, &failed, &error) != BG_OK)
        check_message(&error);
    free(scratch);
    free(sample);
    bg_dataset_destroy(converted);
}

static void use(bg_array *array)
{
    bg_dataset *set = NULL;
    bg_error error = {0};

    if (bg_type_validate(&array->type, NULL) != BG_OK)
        abort();
    if (bgi_dataset_own_arrays(array, 1, &set, &error) != BG_OK) {
        check_message(&error);
        return;
    }
    convert(set, BG_FLOAT32);
    convert(set, BG_INT32);
    bg_dataset_destroy(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *part, *content;
    bg_array array = {.data = NULL};
    bg_error error = {0};

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    part = size > 2 && text[0] >= '0' && text[0] < '0' + BGI_SOURCE_KIND_COUNT && text[1] == '\n' ? text + 2 : NULL;
    content = part != NULL ? memchr(part, '\n', size - 2) : NULL;
    if (content != NULL) {
        *content++ = '\0';
        if (bgi_source_parse("input", (bgi_source_kind)(text[0] - '0'), part[0] != '\0' ? part : NULL, content,
                             size - (size_t)(content - text), &array, &error) == BG_OK)
            use(&array);
        else
            check_message(&error);
    }
    bg_array_clear(&array);
    free(text);
    return 0;
}
