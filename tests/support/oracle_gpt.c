/*
 * oracle_gpt.c: the language model of tests/oracle/gpt.py.
 */
#include "support/oracle_gpt.h"

bg_gpt_options test_oracle_gpt(int64_t micro_batch)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = TEST_ORACLE_GPT_HIDDEN;
    options.heads = 2;
    options.sequence_length = TEST_ORACLE_GPT_LENGTH;
    options.positions = 7;
    options.vocabulary = TEST_ORACLE_GPT_VOCABULARY;
    options.micro_batch = micro_batch;
    options.dropout = 0.0;
    return options;
}
