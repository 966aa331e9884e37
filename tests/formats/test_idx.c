/*
 * Tests IDX files: valid files are read, and every other file gives an error of one clear line.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "formats/idx.h"
#include "support/allocations.h"
#include "support/folder.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const unsigned char good[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

/* Compresses with gzip in an explicit chunk; returns the compressed size. */
static size_t pack(const void *data, size_t size_bytes, unsigned char *out, size_t capacity)
{
    z_stream deflater = {0};

    assert_int_equal(deflateInit2(&deflater, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    deflater.next_in = (unsigned char *)(uintptr_t)data;
    deflater.avail_in = (uInt)size_bytes;
    deflater.next_out = out;
    deflater.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&deflater, Z_FINISH), Z_STREAM_END);
    deflateEnd(&deflater);
    return capacity - deflater.avail_out;
}

static void assert_good(const bg_array *array)
{
    assert_int_equal(array->type.dtype, BG_UINT8);
    assert_int_equal(array->type.rank, 2);
    assert_int_equal(array->type.dims[0], 2);
    assert_int_equal(array->type.dims[1], 3);
    assert_memory_equal(array->data, good + 12, 6);
}

static void assert_fails(const void *content, size_t size_bytes, bg_status expected, const char *message)
{
    bg_array array = {0};
    bg_error error = {0};
    const bg_status status = bgi_idx_parse("x.idx", content, size_bytes, &array, &error);

    assert_string_equal(error.message, message);
    assert_int_equal(status, expected);
    assert_null(array.data);
    assert_int_equal(bgi_idx_parse("x.idx", content, size_bytes, &array, NULL), expected);
}

static void test_plain(void **state)
{
    bg_array array = {0};
    bg_error error = {0};
    (void)state;

    assert_int_equal(bgi_idx_parse("x", good, sizeof good, &array, &error), BG_OK);
    assert_good(&array);
    bg_array_clear(&array);
    bg_array_clear(&array);
}

static void test_gzip_in_one_and_several_members(void **state)
{
    unsigned char packed[256];
    (void)state;

    for (size_t cut = 0; cut < sizeof good; cut++) {
        bg_array array = {0};
        bg_error error = {0};
        size_t size = cut == 0 ? 0 : pack(good, cut, packed, sizeof packed);

        size += pack(good + cut, sizeof good - cut, packed + size, sizeof packed - size);
        if (bgi_idx_parse("x", packed, size, &array, &error) != BG_OK)
            fail_msg("cut at %zu: %s", cut, error.message);
        assert_good(&array);
        bg_array_clear(&array);
    }
}

static void test_bad_headers(void **state)
{
    unsigned char bytes[sizeof good + 1];
    (void)state;

    assert_fails(good, 0, BG_ERROR_PARSE, "x.idx: the file is empty; an IDX file has at least a header of 8 bytes");
    assert_fails(good, 3, BG_ERROR_PARSE,
                 "x.idx: byte 3: the file ends in the header; it must have 4 bytes of magic number at byte 0");
    assert_fails(good, 11, BG_ERROR_PARSE,
                 "x.idx: byte 11: the file ends in the header; it must have 8 bytes of dimensions at byte 4");
    assert_fails("<html>not found</html>", 22, BG_ERROR_PARSE,
                 "x.idx: byte 0: this is not an IDX file: it begins with 3c 68 but must begin with 00 00");
    memcpy(bytes, good, sizeof good);
    bytes[2] = 0x0d;
    assert_fails(bytes, sizeof good, BG_ERROR_UNSUPPORTED,
                 "x.idx: byte 2: the element type is 0x0d (float32) but must be 0x08 (uint8)");
    bytes[2] = 0x07;
    assert_fails(bytes, sizeof good, BG_ERROR_UNSUPPORTED,
                 "x.idx: byte 2: the element type is 0x07 (no IDX type) but must be 0x08 (uint8)");
    bytes[2] = 0x08;
    bytes[3] = 0;
    assert_fails(bytes, sizeof good, BG_ERROR_UNSUPPORTED,
                 "x.idx: byte 3: the file has 0 dimensions but must have 1 to 4");
    bytes[3] = 5;
    assert_fails(bytes, sizeof good, BG_ERROR_UNSUPPORTED,
                 "x.idx: byte 3: the file has 5 dimensions but must have 1 to 4");
    bytes[3] = 2;
    bytes[7] = 0;
    assert_fails(bytes, sizeof good, BG_ERROR_PARSE, "x.idx: byte 4: dimension 0 is 0 but must be at least 1");
    memset(bytes + 4, 0xff, 8);
    assert_fails(bytes, sizeof good, BG_ERROR_PARSE,
                 "x.idx: byte 4: dimension 0 is 4294967295, which makes more than the limit of 2 GiB");
    memcpy(bytes + 4, "\0\1\0\0\0\1\0\0", 8);
    assert_fails(bytes, sizeof good, BG_ERROR_PARSE,
                 "x.idx: byte 8: dimension 1 is 65536, which makes more than the limit of 2 GiB");
}

static void test_sizes_that_disagree(void **state)
{
    unsigned char longer[sizeof good + 2] = {0}, packed[256];
    size_t size;
    (void)state;

    memcpy(longer, good, sizeof good);
    assert_fails(good, sizeof good - 1, BG_ERROR_PARSE,
                 "x.idx: byte 17: the file ends too early: the header promises uint8[2,3], 6 bytes, but there are 5");
    assert_fails(longer, sizeof longer, BG_ERROR_PARSE,
                 "x.idx: byte 18: the file has 2 bytes too many: the header promises uint8[2,3], 6 bytes");
    size = pack(good, sizeof good - 1, packed, sizeof packed);
    assert_fails(packed, size, BG_ERROR_PARSE,
                 "x.idx: byte 17 (unpacked): the content ends too early: the header promises uint8[2,3], 6 bytes, but "
                 "there are 5");
    size = pack(longer, sizeof longer, packed, sizeof packed);
    assert_fails(
        packed, size, BG_ERROR_PARSE,
        "x.idx: byte 18 (unpacked): the content continues beyond the uint8[2,3], 6 bytes, that the header promises");
}

/* A gzipped file that is cut anywhere (in its header, data or checksum) is an error. */
static void test_truncated_gzip(void **state)
{
    unsigned char packed[256];
    const size_t size = pack(good, sizeof good, packed, sizeof packed);
    (void)state;

    for (size_t cut = 2; cut < size; cut++) {
        bg_array array = {0};
        bg_error error = {0};

        assert_int_equal(bgi_idx_parse("x.gz", packed, cut, &array, &error), BG_ERROR_PARSE);
        assert_non_null(strstr(error.message, "the gzip stream is truncated there"));
        assert_null(array.data);
    }
}

static void test_damaged_gzip(void **state)
{
    unsigned char packed[256];
    const size_t size = pack(good, sizeof good, packed, sizeof packed);
    bg_array array = {0};
    bg_error error = {0};
    (void)state;

    packed[size - 8] ^= 1; /* the checksum */
    assert_int_equal(bgi_idx_parse("x.gz", packed, size, &array, &error), BG_ERROR_PARSE);
    assert_non_null(strstr(error.message, "damaged: incorrect data check"));
    packed[size - 8] ^= 1;
    memcpy(packed + size, "junk", 4);
    bg_error_clear(&error);
    assert_int_equal(bgi_idx_parse("x.gz", packed, size + 4, &array, &error), BG_ERROR_PARSE);
    assert_non_null(strstr(error.message, "4 bytes follow the end of the gzip stream"));
    for (size_t at = 2; at < size; at++) { /* every damaged byte gives an error or the same content */
        packed[at] ^= 0x55;
        if (bgi_idx_parse("x.gz", packed, size, &array, NULL) == BG_OK)
            assert_good(&array);
        bg_array_clear(&array);
        packed[at] ^= 0x55;
    }
}

/* A header that declares 2 GiB in a small compressed file is an error before any allocation. A file that unpacks to
 * more than its header declares is an error too. */
static void test_bombs(void **state)
{
    static const unsigned char promise[] = {0, 0, 8, 1, 0x80, 0, 0, 0};
    static unsigned char zeros[1 << 20] = {0, 0, 8, 1, 0, 0, 0, 4}, packed[1 << 14];
    bg_array array = {0};
    bg_error error = {0};
    size_t size = pack(promise, sizeof promise, packed, sizeof packed);
    (void)state;

    assert_int_equal(bgi_idx_parse("x.gz", packed, size, &array, &error), BG_ERROR_PARSE);
    assert_non_null(strstr(error.message, "compressed bytes cannot hold"));
    size = pack(zeros, sizeof zeros, packed, sizeof packed);
    bg_error_clear(&error);
    assert_int_equal(bgi_idx_parse("x.gz", packed, size, &array, &error), BG_ERROR_PARSE);
    assert_non_null(strstr(error.message, "content continues beyond"));
    assert_null(array.data);
}

static void test_files(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[64], packed_path[64];
    bg_array array = {0}, again = {0};
    const bg_type type = bg_tensor4(BG_UINT8, 3, 5, 1, 7), bad_type = bg_vector(BG_INT32, 3);
    bg_array bad = {.type = bad_type, .data = path};
    bg_error error = {0};
    char *content = NULL;
    size_t size = 0;
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(packed_path, sizeof packed_path, "%s/a.gz", folder);
    assert_int_equal(bg_array_init(&array, &type, &error), BG_OK);
    for (int i = 0; i < 105; i++)
        ((uint8_t *)array.data)[i] = (uint8_t)(i * 37);
    for (int i = 0; i < 2; i++) {
        const char *where = i == 0 ? path : packed_path;

        assert_int_equal(bg_idx_write(where, &array, &error), BG_OK);
        assert_int_equal(bg_idx_read(where, &again, &error), BG_OK);
        assert_true(bg_type_equal(&array.type, &again.type));
        assert_memory_equal(array.data, again.data, 105);
        bg_array_clear(&again);
        assert_int_equal(bgi_file_load(where, 1000, &content, &size, &error), BG_OK);
        assert_int_equal((unsigned char)content[0], i == 0 ? 0 : 0x1f);
        free(content);
        remove(where);
    }
    assert_int_equal(bg_idx_read(path, &again, &error), BG_ERROR_NOT_FOUND);
    bg_error_clear(&error);
    assert_int_equal(bg_idx_write(path, &bad, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "cannot write int32[3] as IDX"));
    assert_false(bgi_file_exists(path));
    bg_array_clear(&array);
    test_folder_remove(folder);
}

static void test_out_of_memory(void **state)
{
    unsigned char packed[256];
    const size_t size = pack(good, sizeof good, packed, sizeof packed);
    bg_status status = BG_ERROR_MEMORY;
    (void)state;

    if (!test_allocations_available())
        skip();
    for (uint64_t n = 1; status != BG_OK; n++) {
        const int64_t live = test_allocations_live();
        bg_array array = {0};

        test_allocations_fail(n);
        status = bgi_idx_parse("x", packed, size, &array, NULL);
        test_allocations_fail(0);
        assert_true(status == BG_OK || status == BG_ERROR_MEMORY);
        bg_array_clear(&array);
        assert_int_equal(test_allocations_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),          cmocka_unit_test(test_gzip_in_one_and_several_members),
        cmocka_unit_test(test_bad_headers),    cmocka_unit_test(test_sizes_that_disagree),
        cmocka_unit_test(test_truncated_gzip), cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_bombs),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("formats/idx", tests, NULL, NULL);
}
