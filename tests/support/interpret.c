/*
 * interpret.c: the evaluator of src/ops for tests.
 */
#include "support/interpret.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/reference/element.h"
#include "ops/evaluate.h"

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s: %s", bg_status_name(status), error->message);
}

void bgi_test_interpreter_init(bgi_test_interpreter *interpreter, const bg_graph *graph)
{
    bg_error error = {0};

    *interpreter = (bgi_test_interpreter){.graph = graph, .env = {.seed = 1, .training = true}};
    require(bgi_graph_verify(graph, &error), &error);
    require(bgi_evaluate_create_buffers(graph, &interpreter->buffers, &error), &error);
}

void bgi_test_interpreter_clear(bgi_test_interpreter *interpreter)
{
    bgi_evaluate_destroy_buffers(interpreter->graph, interpreter->buffers);
    interpreter->buffers = NULL;
}

void *bgi_test_data(const bgi_test_interpreter *interpreter, bg_value value)
{
    assert_true(value.id > 0 && value.id < interpreter->graph->value_count);
    return interpreter->buffers[value.id];
}

void bgi_test_set(const bgi_test_interpreter *interpreter, bg_value value, const double *elements)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);

    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        bgi_store(type.dtype, bgi_test_data(interpreter, value), i, elements[i]);
}

void bgi_test_get(const bgi_test_interpreter *interpreter, bg_value value, double *elements)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);

    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        elements[i] = bgi_load(type.dtype, bgi_test_data(interpreter, value), i);
}

void bgi_test_interpret(bgi_test_interpreter *interpreter)
{
    bg_error error = {0};

    require(bgi_evaluate(interpreter->graph, 0, bg_graph_op_count(interpreter->graph), &interpreter->env,
                         interpreter->buffers, &error),
            &error);
}
