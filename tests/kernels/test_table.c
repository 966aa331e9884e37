/*
 * test_table.c: compares the rows of the kernels table with the kernels and the ops.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/cpu/variant.h"
#include "ops/ops.h"

static void test_names(void **state)
{
    (void)state;
    for (int a = 0; a < BGI_KERNEL_COUNT; a++) {
        assert_true(strlen(bgi_kernel_name((bgi_kernel_id)a)) > 0);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(bgi_kernel_name((bgi_kernel_id)a), bgi_kernel_name((bgi_kernel_id)b));
    }
    assert_string_equal(bgi_kernel_name(BGI_KERNEL_SOFTMAX_BACKWARD), "softmax_backward");
    assert_string_equal(bgi_kernel_name(BGI_KERNEL_COUNT), "unknown");
}

/* A fast body is named after its kernel and is the same kernel for every instruction set. */
static void test_variants(void **state)
{
    const bgi_cpu_variant *variants[] = {
        &bgi_cpu_portable,
#if defined(__x86_64__)
        &bgi_cpu_avx2,
        &bgi_cpu_avx512,
#elif defined(__aarch64__)
        &bgi_cpu_neon,
#endif
    };
    int fast = 0;

    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++)
        for (int id = 0; id < BGI_KERNEL_COUNT; id++) {
            const bgi_cpu_routine *routine = &variants[v]->routines[id], *portable = &bgi_cpu_portable.routines[id];
            const char *name = bgi_kernel_name((bgi_kernel_id)id);

            assert_true((routine->shape != NULL) == (routine->run != NULL));
            assert_ptr_equal(routine->shape, portable->shape);
            assert_true((routine->prepare != NULL) == (portable->prepare != NULL));
            assert_true((routine->combine != NULL) == (portable->combine != NULL));
            assert_true((routine->finish != NULL) == (portable->finish != NULL));
            if (routine->run == NULL)
                continue;
            assert_int_equal(strncmp(routine->name, name, strlen(name)), 0);
            assert_int_equal(routine->name[strlen(name)], '.');
            fast++;
        }
    assert_true(fast > 0);
}

/* Tests which instruction sets include the instructions of which others. */
static void test_instruction_sets(void **state)
{
    (void)state;
    for (int a = 0; a < (int)BGI_ISA_COUNT; a++)
        for (int b = 0; b < (int)BGI_ISA_COUNT; b++) {
            const bool is_x86[] = {a >= (int)BGI_ISA_AVX2, b >= (int)BGI_ISA_AVX2};
            const bool has = b == (int)BGI_ISA_PORTABLE || (is_x86[0] == is_x86[1] && b <= a);
            const int common = has ? b : is_x86[0] && is_x86[1] ? a : (int)BGI_ISA_PORTABLE;

            assert_int_equal(bgi_isa_includes((bgi_isa)a, (bgi_isa)b), has);
            assert_int_equal(bgi_isa_common((bgi_isa)a, (bgi_isa)b), common);
        }
    assert_string_equal(bgi_isa_name(BGI_ISA_NEON), "neon");
    assert_string_equal(bgi_isa_name(BGI_ISA_AMX), "amx");
}

/* A policy selects at most the named set; for sets of other architectures it selects the portable kernels. */
static void test_policies(void **state)
{
    const bgi_isa has = bgi_cpu_isa();
    const bool is_x86 = has >= BGI_ISA_AVX2;

    (void)state;
    assert_int_equal(bgi_kernel_isa(BG_KERNELS_FAST), has);
    assert_int_equal(bgi_kernel_isa((bg_kernel_policy)99), has);
    assert_int_equal(bgi_kernel_isa(BG_KERNELS_PORTABLE), BGI_ISA_PORTABLE);
    assert_int_equal(bgi_kernel_isa(BG_KERNELS_AVX2), is_x86 ? BGI_ISA_AVX2 : BGI_ISA_PORTABLE);
    assert_int_equal(bgi_kernel_isa(BG_KERNELS_NEON), has == BGI_ISA_NEON ? BGI_ISA_NEON : BGI_ISA_PORTABLE);
    assert_true(bgi_kernel_isa(BG_KERNELS_AVX512) <= BGI_ISA_AVX512);
}

/* A kernel is not selected without the attributes that its row declares. */
static void test_attributes_are_needed(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 4, 8), types[] = {x, x};
    const bgi_kernel_request request = {.id = BGI_KERNEL_SOFTMAX, .types = types, .input_count = 1, .output_count = 1};
    const bg_kernel_policy policies[] = {BG_KERNELS_FAST, BG_KERNELS_REFERENCE};

    (void)state;
    for (size_t p = 0; p < 2; p++) {
        bg_error error = {0};
        bg_kernel kernel = {0};

        assert_int_equal(bgi_kernel_select(&request, policies[p], &kernel, &error), BG_ERROR_INTERNAL);
        assert_non_null(strstr(error.message, "`softmax` reads 4 bytes of attributes"));
        assert_null(kernel.run);
    }
}

/* Ops give their kernels at least the attributes that the kernels read. (kernel_case.h ensures that these read no
 * more.) */
static void test_ops_give_what_kernels_read(void **state)
{
#define ADDRESS(name) &bgi_op_##name,
    static const bg_op_type *const ops[] = {BGI_OP_TYPES(ADDRESS) NULL};
#undef ADDRESS
    int compared = 0;

    (void)state;
    for (size_t o = 0; ops[o] != NULL; o++)
        for (int id = 0; id < BGI_KERNEL_COUNT; id++)
            if (strcmp(ops[o]->name, bgi_kernel_name((bgi_kernel_id)id)) == 0) {
                if (ops[o]->attributes_bytes < bgi_kernel_attributes_bytes((bgi_kernel_id)id))
                    fail_msg("op `%s` has %zu bytes of attributes, its kernel reads %zu", ops[o]->name,
                             ops[o]->attributes_bytes, bgi_kernel_attributes_bytes((bgi_kernel_id)id));
                compared++;
            }
    assert_true(compared > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_instruction_sets),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_attributes_are_needed),
        cmocka_unit_test(test_ops_give_what_kernels_read),
    };

    return cmocka_run_group_tests_name("kernels/table", tests, NULL, NULL);
}
