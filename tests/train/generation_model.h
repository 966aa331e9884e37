/*
 * generation_model.h: small models whose next tokens are far from certain, for tests of text generation.
 */
#ifndef GENERATION_MODEL_H
#define GENERATION_MODEL_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/generate.h>

#include <stdlib.h>

static inline void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static inline bg_gpt_options make_model(int64_t vocabulary, int64_t positions)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 16;
    options.heads = 2;
    options.sequence_length = options.positions = positions;
    options.vocabulary = vocabulary;
    return options;
}

/* Makes weights of ten times the initial values. */
static inline bg_weights *make_weights(const bg_gpt_options *model)
{
    bg_options options = bg_options_defaults();
    bg_weights *weights;
    bg_session *session;
    bg_error error;
    bg_graph *graph;

    options.numerics.initialize_missing = true;
    require(bg_weights_create(&weights, &error), &error);
    require(bg_graph_create(&graph, &error), &error);
    bg_gpt_build(graph, model);
    require(bg_session_create_inference(graph, &options, weights, &session, &error), &error);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        float *values;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        values = malloc(bg_type_size_bytes(&weight.type));
        assert_non_null(values);
        for (int64_t e = 0; e < bg_type_element_count(&weight.type); e++)
            values[e] = ((const float *)weight.data)[e] * (weight.type.rank == 2 ? 10.0F : 1.0F);
        require(bg_weights_set(weights, weight.name, &weight.type, values, &error), &error);
        free(values);
    }
    return weights;
}

static inline bg_generator *open_generator(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                                           uint32_t sequences)
{
    bg_generator *generator;
    bg_error error;

    require(bg_generator_create_batch(model, options, weights, sequences, &generator, &error), &error);
    return generator;
}

#endif
