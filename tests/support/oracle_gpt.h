/*
 * oracle_gpt.h: the language model of tests/oracle/gpt.py.
 */
#ifndef TEST_SUPPORT_ORACLE_GPT_H
#define TEST_SUPPORT_ORACLE_GPT_H

#include <brigade/gpt.h>

enum { TEST_ORACLE_GPT_LENGTH = 6, TEST_ORACLE_GPT_VOCABULARY = 17, TEST_ORACLE_GPT_HIDDEN = 8 };

bg_gpt_options test_oracle_gpt(int64_t micro_batch);

#endif
