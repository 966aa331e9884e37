/*
 * Writes files while each allocation of the program and its libraries fails once. Either the error reports a lack of
 * memory and the old file remains, or the new file is complete.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/config.h>
#include <brigade/profile.h>
#include <brigade/safetensors.h>

#include "core/file.h"
#include "models/huggingface.h"
#include "support/allocations.h"
#include "support/folder.h"

static char folder[TEST_FOLDER_BYTES];

static bg_status save_costs(const char *path, int version, bg_error *error)
{
    bg_stage_cost stages[] = {{.forward_ns = 1.5, .backward_ns = version}, {.forward_ns = 1.0 / 3, .update_ns = 1e-7}};
    const bg_costs costs = {.stages = stages, .stage_count = 2, .message_bytes_per_ns = 0.1};

    return bg_costs_save(&costs, path, error);
}

/* Saves tensors with names that are long enough to make string buffers grow. */
static bg_status save_tensors(const char *path, int version, bg_error *error)
{
    static const float data[200] = {1, 2, 3};
    char names[9][64], value[24];
    bg_safetensors_entry entries[9];
    const bg_safetensors_metadata metadata[] = {{.key = "version", .value = value}};

    snprintf(value, sizeof value, "%d", version);
    for (int i = 0; i < 9; i++) {
        snprintf(names[i], sizeof names[i], "transformer.h.%d.attn.c_attn.weight.of.a.long.name", i);
        entries[i] = (bg_safetensors_entry){names[i], bg_matrix(BG_FLOAT32, 20, 10), data};
    }
    return bg_safetensors_write(path, entries, 9, metadata, 1, error);
}

/* Stores the folder of `path`, which ends in the file's name. */
static void cut_name(const char *path, char parent[160])
{
    snprintf(parent, 160, "%s", path);
    *strrchr(parent, '/') = '\0';
}

static bg_status save_config(const char *path, int version, bg_error *error)
{
    bg_ipu_config *config = NULL;
    char parent[160];
    bg_status status = bg_ipu_config_create(&config, error);

    cut_name(path, parent);
    if (status == BG_OK)
        status =
            bg_ipu_config_set(config, "seed", &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = version}, error);
    if (status == BG_OK)
        status = bg_ipu_config_set(
            config, "layers_per_ipu",
            &(bg_config_value){.kind = BG_CONFIG_INTEGERS, .integers = (const int64_t[]){3, 7, 7, 7}, .count = 4},
            error);
    if (status == BG_OK)
        status = bg_ipu_config_save(config, parent, error);
    bg_ipu_config_destroy(config);
    return status;
}

static bg_status save_gpt_config(const char *path, int version, bg_error *error)
{
    bg_gpt_options options = bg_gpt_defaults();
    char parent[160];

    cut_name(path, parent);
    options.layers = version;
    return bgi_hf_config_save(parent, &options, BG_FLOAT32, error);
}

typedef bg_status (*save_function)(const char *path, int version, bg_error *error);

static char *load(const char *path, size_t *size_bytes)
{
    char *data = NULL;

    assert_int_equal(bgi_file_load(path, (size_t)1 << 24, &data, size_bytes, NULL), BG_OK);
    return data;
}

static void try_all(const char *name, save_function save)
{
    bg_status status = BG_ERROR_MEMORY;
    size_t bytes[2] = {0};
    char path[160], *contents[2];
    uint64_t failures = 0;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int version = 1; version >= 0; version--) {
        bg_error error = {0};
        if (save(path, version + 1, &error) != BG_OK)
            fail_msg("%s", error.message);
        contents[version] = load(path, &bytes[version]);
    }
    for (uint64_t n = 1; status != BG_OK; n++) {
        const int64_t live = test_allocations_live();
        bg_error error = {0};
        size_t size_bytes = 0;
        char *now;
        int expected;

        test_allocations_fail_anywhere(n);
        status = save(path, 2, &error);
        failures += test_allocations_have_failed();
        test_allocations_fail(0);
        assert_int_equal(test_allocations_live(), live);
        if (status != BG_OK && (status != BG_ERROR_MEMORY || strstr(error.message, "out of memory") == NULL))
            fail_msg("%s, allocation %llu: status %d: %s", name, (unsigned long long)n, status, error.message);
        assert_null(strstr(error.message, "(null)"));
        expected = status == BG_OK;
        now = load(path, &size_bytes);
        if (size_bytes != bytes[expected] || memcmp(now, contents[expected], size_bytes) != 0)
            fail_msg("%s, allocation %llu: status %d, and the file is %s", name, (unsigned long long)n, status, now);
        free(now);
        assert_int_equal(test_folder_count(folder), 1);
        assert_true(n < 20000);
    }
    assert_true(failures > 3);
    free(contents[0]);
    free(contents[1]);
    remove(path);
}

static void run(const char *name, save_function save)
{
    if (!test_allocations_available()) {
        print_message("skipped: allocations cannot be made to fail under a sanitizer\n");
        skip();
    }
    test_folder_create(folder);
    try_all(name, save);
    test_folder_remove(folder);
}

static void test_costs(void **state)
{
    (void)state;
    run("costs.json", save_costs);
}

static void test_tensors(void **state)
{
    (void)state;
    run("x.safetensors", save_tensors);
}

static void test_configurations(void **state)
{
    (void)state;
    run("ipu_config.json", save_config);
}

static void test_gpt_configurations(void **state)
{
    (void)state;
    run(BGI_HF_CONFIG, save_gpt_config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_gpt_configurations),
    };
    return cmocka_run_group_tests_name("data/kept_files", tests, NULL, NULL);
}
