/*
 * test_file.c: files that are truncated, inconsistent, or refer to other files. Each gives one error with its position.
 * test_build.c tests valid models.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "onnx/model.h"
#include "onnx/onnx.h"
#include "support/folder.h"

static bg_error error;

/* Checks that reading fails with a message that contains `expected`. */
static void refuses(const test_model_file *file, const char *expected)
{
    bg_onnx *onnx = NULL;
    size_t size;
    uint8_t *bytes = test_model_file_pack(file, &size);

    memset(&error, 0, sizeof error);
    assert_int_not_equal(bgi_onnx_parse("m.onnx", NULL, bytes, size, &onnx, &error), BG_OK);
    assert_null(onnx);
    if (strstr(error.message, expected) == NULL)
        fail_msg("the message is `%s`: expected `%s`", error.message, expected);
    free(bytes);
}

static void refuses_bytes(const void *bytes, size_t size, const char *expected)
{
    bg_onnx *onnx = NULL;

    memset(&error, 0, sizeof error);
    assert_int_equal(bgi_onnx_parse("m.onnx", NULL, bytes, size, &onnx, &error), BG_ERROR_PARSE);
    if (strstr(error.message, expected) == NULL)
        fail_msg("the message is `%s`: expected `%s`", error.message, expected);
}

static void good_files_are_read(void **state)
{
    test_model_file file;
    bg_onnx *onnx = NULL;
    size_t size;
    uint8_t *bytes;

    (void)state;
    test_model_file_init(&file);
    bytes = test_model_file_pack(&file, &size);
    if (bgi_onnx_parse("m.onnx", NULL, bytes, size, &onnx, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_string_equal(bg_onnx_contents_of(onnx)->producer, "test 1");
    assert_int_equal(bg_onnx_contents_of(onnx)->opset, 13);
    assert_int_equal(bg_onnx_contents_of(onnx)->symbol_count, 1);
    assert_string_equal(bg_onnx_contents_of(onnx)->symbols[0], "batch");
    assert_string_equal(bg_onnx_contents_of(onnx)->nodes[0].block, "layer/0");
    assert_string_equal(bg_onnx_contents_of(onnx)->nodes[1].block, "main");
    bg_onnx_destroy(onnx);
    free(bytes);
}

/* Every proper prefix of a file is read, or gives an error that names the file, without a read beyond the prefix. */
static void cut_files_are_refused(void **state)
{
    test_model_file file;
    size_t size;
    uint8_t *bytes;

    (void)state;
    test_model_file_init(&file);
    bytes = test_model_file_pack(&file, &size);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1); /* a separate allocation, so that reading beyond it is detected */
        bg_onnx *onnx = NULL;

        memcpy(part, bytes, cut);
        if (bgi_onnx_parse("m.onnx", NULL, part, cut, &onnx, &error) == BG_OK)
            bg_onnx_destroy(onnx);
        else
            assert_true(strncmp(error.message, "m.onnx: ", 8) == 0);
        free(part);
    }
    refuses_bytes(bytes, 0, "the file has no graph");
    refuses_bytes("\x08", 1, "is truncated");
    refuses_bytes("not an ONNX file", 16, "is truncated, or is not a protobuf message");
    free(bytes);
}

/* A file whose graphs are nested too deeply in attributes of nodes is an error. */
static void deep_files_are_refused(void **state)
{
    size_t size = 0, capacity = 1 << 20;
    uint8_t *bytes = malloc(capacity);

    (void)state;
    for (int depth = 0; depth < 2000; depth++) { /* from the innermost message outward: graph.node.attribute.g */
        static const uint8_t tags[] = {6 << 3 | 2, 5 << 3 | 2, 1 << 3 | 2};

        for (int i = 0; i < 3; i++) {
            uint8_t head[8];
            size_t length = 1, rest = size;

            head[0] = tags[i];
            do
                head[length++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
            while ((rest >>= 7) != 0);
            memmove(bytes + length, bytes, size);
            memcpy(bytes, head, length);
            size += length;
        }
    }
    memmove(bytes + 4, bytes, size);
    bytes[0] = 7 << 3 | 2;
    bytes[1] = (uint8_t)(0x80 | (size & 0x7f));
    bytes[2] = (uint8_t)(0x80 | (size >> 7 & 0x7f));
    bytes[3] = (uint8_t)(size >> 14);
    refuses_bytes(bytes, size + 4, "deeper than 48");
    free(bytes);
}

static void contradictions_are_refused(void **state)
{
    test_model_file file;

    (void)state;
    test_model_file_init(&file);
    file.node_list[1]->input[0] = "c"; /* a node that reads its own result */
    refuses(&file, "node `Relu:c` (Relu): input 0 is `c`, which nothing before it makes");
    test_model_file_init(&file);
    file.node_list[0]->input[0] = "c"; /* a circle */
    refuses(&file, "node `/layer/0/Gemm` (Gemm): input 0 is `c`");
    test_model_file_init(&file);
    file.node_list[1]->output[0] = "b";
    refuses(&file, "node `Relu:b`: the name `b` is already used");
    test_model_file_init(&file);
    file.output_list[0]->name = "d";
    refuses(&file, "no node makes output `d`");
    test_model_file_init(&file);
    file.node_list[0]->op_type = NULL;
    refuses(&file, "has no op_type");
    test_model_file_init(&file);
    file.attribute.name = NULL;
    refuses(&file, "attribute 0 has no name");
    test_model_file_init(&file);
    file.weight.n_float_data = 11;
    refuses(&file, "tensor `w` has 11 values of type float but its dimensions need 12");
    test_model_file_init(&file);
    file.weight_dims[0] = -3;
    refuses(&file, "tensor `w`: dimension 0 is -3");
    test_model_file_init(&file);
    file.weight_dims[0] = INT64_MAX;
    refuses(&file, "tensor `w`: dimension 0 is 9223372036854775807 but must be 0 to 2^46");
    test_model_file_init(&file);
    file.weight.data_type = 99;
    refuses(&file, "tensor `w`: element type 99 is not one of 1 to 16");
    test_model_file_init(&file);
    file.opset.version = 5;
    refuses(&file, "the file has opset 5 but only 6 to 21 are supported");
    test_model_file_init(&file);
    file.opset.version = 22;
    refuses(&file, "the file has opset 22");
    test_model_file_init(&file);
    file.model.n_opset_import = 0;
    refuses(&file, "the file imports no opset");
    test_model_file_init(&file);
    file.model.graph = NULL;
    refuses(&file, "the file has no graph");
}

/* ---- external data ---- */

static void write_outside(test_model_file *file, const char *location, const char *offset, const char *length)
{
    test_model_file_init(file);
    test_model_file_outside(file, location, offset, length);
}

static void opens(const char *folder, const test_model_file *file, const char *expected)
{
    char path[TEST_FOLDER_BYTES + 32];
    size_t size;
    uint8_t *bytes = test_model_file_pack(file, &size);
    bg_onnx *onnx = NULL;
    bg_status status;

    snprintf(path, sizeof path, "%s/m.onnx", folder);
    assert_int_equal(bgi_file_save(path, bytes, size, &error), BG_OK);
    free(bytes);
    status = bg_onnx_open(path, &onnx, &error);
    if (expected == NULL) {
        if (status != BG_OK)
            fail_msg("%s", error.message);
    } else {
        assert_int_not_equal(status, BG_OK);
        if (strstr(error.message, expected) == NULL)
            fail_msg("the message is `%s`: expected `%s`", error.message, expected);
    }
    bg_onnx_destroy(onnx);
}

static void external_data_stay_in_the_folder(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 32];
    const float values[16] = {0};
    test_model_file file;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/w.bin", folder);
    assert_int_equal(bgi_file_save(path, values, sizeof values, &error), BG_OK);
    write_outside(&file, "w.bin", "16", "48");
    opens(folder, &file, NULL);
    write_outside(&file, "w.bin", NULL, NULL);
    opens(folder, &file, NULL);
    write_outside(&file, "w.bin", "20", "48");
    opens(folder, &file, "48 bytes at offset 20");
    write_outside(&file, "w.bin", "18446744073709551615", "48");
    opens(folder, &file, "offset is \"18446744073709551615\"");
    write_outside(&file, "w.bin", "-1", "48");
    opens(folder, &file, "offset is \"-1\"");
    write_outside(&file, "w.bin", "0", "44");
    opens(folder, &file, "length is 44 but its type and dimensions need 48 bytes");
    write_outside(&file, "none.bin", "0", "48");
    opens(folder, &file, "none.bin");
    write_outside(&file, "/etc/passwd", "0", "48");
    opens(folder, &file, "must be a file in the model's folder");
    write_outside(&file, "a/../../w.bin", "0", "48");
    opens(folder, &file, "must be a file in the model's folder");
    write_outside(&file, "..", "0", "48");
    opens(folder, &file, "must be a file in the model's folder");
    snprintf(path, sizeof path, "%s/link.bin", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    write_outside(&file, "link.bin", "0", "48");
    opens(folder, &file, "leads out of the model's folder");
    test_folder_remove(folder);
}

static void missing_files_are_said(void **state)
{
    bg_onnx *onnx = NULL;

    (void)state;
    assert_int_equal(bg_onnx_open("/no/such/model.onnx", &onnx, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(bg_onnx_open(NULL, &onnx, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_onnx_open("m.onnx", NULL, &error), BG_ERROR_INVALID);
    bg_onnx_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_read),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(deep_files_are_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(external_data_stay_in_the_folder),
        cmocka_unit_test(missing_files_are_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
