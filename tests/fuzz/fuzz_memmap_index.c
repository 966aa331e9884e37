/*
 * fuzz_memmap_index.c: indexes of remote buffers with arbitrary content. The input is either any bytes as a file, or
 * any bytes as records and values, with a valid first page and checksum. A valid index gives a weight the recorded
 * type, and its value if the type is the weight's.
 *
 * Input: a byte. If it is even, the rest is a file. If it is odd, the next two bytes, low byte first, are the number of
 * bytes of the following records; the rest is values.
 */
#include "runtime/memmap.h"

#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "runtime/weights.h"

enum { PAGE_BYTES = 56, SUM_BYTES = 8, IDENTITY = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(unsigned char *at, uint64_t value, int bytes)
{
    memcpy(at, &value, (size_t)bytes);
}

/* Builds the file around records and values; malloc'ed. */
static unsigned char *make_file(const uint8_t *data, size_t size, size_t *out_bytes)
{
    const size_t wanted = size >= 2 ? (size_t)(data[0] | data[1] << 8) : 0, begin = size >= 2 ? 2 : size;
    const size_t content = size - begin, records = wanted < content ? wanted : content;
    unsigned char *file = calloc(1, PAGE_BYTES + content + SUM_BYTES);
    bgi_crc64 crc;

    if (file == NULL)
        abort();
    memcpy(file, "brigade index\r\n", 16);
    put(file + 16, 1, 4);
    put(file + 20, 0x01020304, 4);
    put(file + 24, IDENTITY, 8);
    put(file + 40, records, 8);
    put(file + 48, content - records, 8);
    if (content > 0)
        memcpy(file + PAGE_BYTES, data + begin, content);
    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, file, PAGE_BYTES + content);
    put(file + PAGE_BYTES + content, bgi_crc64_value(&crc), SUM_BYTES);
    *out_bytes = PAGE_BYTES + content + SUM_BYTES;
    return file;
}

static void use(const bgi_memmap_index *index)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_weights *weights = NULL;

    if (bg_weights_create(&weights, NULL) != BG_OK ||
        bgi_weights_add(weights, "w", &type, BG_ROLE_PARAMETER, NULL, 0, NULL) != BG_OK)
        abort();
    memset(weights->items[0].data, 0, bg_type_size_bytes(&type));
    if (bgi_memmap_index_take(index, weights, 0, false, NULL) == BG_OK)
        bgi_memmap_index_value(index, weights, 0, 0, weights->items[0].data, bg_type_size_bytes(&type), NULL);
    bg_weights_destroy(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bgi_memmap_index index;
    unsigned char *made = NULL;
    const void *file = data + 1;
    size_t bytes = size - 1;

    if (size == 0)
        return 0;
    if (data[0] % 2 != 0)
        file = made = make_file(data + 1, size - 1, &bytes);
    if (bgi_memmap_index_parse("index", file, bytes, IDENTITY, "adamw", &index, NULL) == BG_OK) {
        use(&index);
        bgi_memmap_index_clear(&index);
    }
    free(made);
    return 0;
}
