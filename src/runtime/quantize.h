/*
 * quantize.h: fills a session's buffers of weights in 16, 8 or 4 bits (bgi_plan_variable.quantized).
 */
#ifndef BGI_RUNTIME_QUANTIZE_H
#define BGI_RUNTIME_QUANTIZE_H

#include "runtime/session.h"

/* Returns BG_ERROR_UNSUPPORTED when the session cannot have such buffers. */
bg_status bgi_session_check_quantized(const bg_session *session, bg_error *error);
/* Finds the parameter whose values a buffer has. Errors: BG_ERROR_SHAPE. */
bg_status bgi_session_find_source(bg_session *session, uint32_t number, bool *out_found, bg_error *error);
/* Makes the first value of a new buffer from the seed, when the weights lack the parameter. */
bg_status bgi_session_make_quantized(bg_session *session, uint32_t number, bg_error *error);
/* Rounds the parameters that have changed. */
bg_status bgi_session_quantize(bg_session *session, bg_error *error);

#endif
