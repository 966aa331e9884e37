/*
 * options.c: checks a caller's build options against the file.
 */
#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void bg_onnx_options_init(bg_onnx_options *options, size_t struct_bytes)
{
    const bg_onnx_options made = {.struct_bytes = struct_bytes};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bool is_symbol(const bg_onnx *onnx, const char *text)
{
    for (uint32_t i = 0; i < onnx->contents.symbol_count; i++)
        if (strcmp(onnx->contents.symbols[i], text) == 0)
            return true;
    return false;
}

/* Whether the text has the form "INPUT:2" and names a dimension of an input of the file. */
static bool is_place(const bg_onnx *onnx, const char *text)
{
    const char *colon = strrchr(text, ':');

    if (colon == NULL || colon[1] < '0' || colon[1] > '9' || colon[1 + strspn(colon + 1, "0123456789")] != '\0')
        return false;
    for (uint32_t i = 0; i < onnx->contents.input_count; i++)
        if (strlen(onnx->inputs[i].name) == (size_t)(colon - text) &&
            strncmp(onnx->inputs[i].name, text, (size_t)(colon - text)) == 0)
            return !onnx->inputs[i].has_shape || strtoul(colon + 1, NULL, 10) < onnx->inputs[i].rank;
    return false;
}

static bg_status check_sizes(const bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    if (options->size_count > 0)
        BGI_TRY(bgi_require(options->sizes, "options.sizes", "bg_onnx_build", error));
    for (uint32_t i = 0; i < options->size_count; i++) {
        const bg_onnx_size *size = &options->sizes[i];

        BGI_TRY(bgi_require(size->symbol, "options.sizes", "bg_onnx_build", error));
        if (size->size < 1)
            return bg_error_set(error, BG_ERROR_INVALID, "options.sizes: `%s` is %" PRId64 " but must be at least 1",
                                size->symbol, size->size);
        if (!is_symbol(onnx, size->symbol) && !is_place(onnx, size->symbol))
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "options.sizes: `%s` is not a symbolic dimension and not an \"INPUT:DIMENSION\" of the file",
                size->symbol);
    }
    if (options->batch_size < 0)
        return bg_error_set(error, BG_ERROR_INVALID, "options.batch_size is %" PRId64 " but must be at least 0",
                            options->batch_size);
    return BG_OK;
}

static bg_status check_values(const bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    for (uint32_t i = 0; i < options->value_count; i++) {
        const bg_onnx_fixed *fixed = &options->values[i];
        const bg_onnx_port *port = NULL;

        BGI_TRY(bgi_require(fixed->input, "options.values", "bg_onnx_build", error));
        for (uint32_t k = 0; k < onnx->contents.input_count && port == NULL; k++)
            if (strcmp(onnx->inputs[k].name, fixed->input) == 0)
                port = &onnx->inputs[k];
        if (port == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "options.values: the file has no input `%s`", fixed->input);
        if (fixed->type.dtype != port->dtype || fixed->type.rank > BG_MAX_RANK ||
            (port->has_shape && fixed->type.rank != port->rank))
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "options.values: `%s` is given as %s with %u dimensions but is %s with %u",
                                fixed->input, bg_dtype_name(fixed->type.dtype), fixed->type.rank,
                                bg_dtype_name(port->dtype), port->rank);
        for (uint32_t d = 0; d < fixed->type.rank; d++)
            if (fixed->type.dims[d] < 0 || fixed->type.dims[d] > INT32_MAX)
                return bg_error_set(error, BG_ERROR_SHAPE,
                                    "options.values: `%s`: dimension %u is %" PRId64 " but must be 0 to 2^31 - 1",
                                    fixed->input, d, fixed->type.dims[d]);
    }
    return BG_OK;
}

bg_status bgi_onnx_check_options(const bg_onnx *onnx, const bg_onnx_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_onnx_options", "bg_onnx_defaults()", error));
    if ((unsigned)options->mode > BG_ONNX_AS_WRITTEN)
        return bg_error_set(error, BG_ERROR_INVALID, "options.mode is %d but must be one of bg_onnx_mode",
                            (int)options->mode);
    if (options->freeze_count > 0)
        BGI_TRY(bgi_require(options->freeze, "options.freeze", "bg_onnx_build", error));
    if (options->train_count > 0)
        BGI_TRY(bgi_require(options->train, "options.train", "bg_onnx_build", error));
    if (options->value_count > 0)
        BGI_TRY(bgi_require(options->values, "options.values", "bg_onnx_build", error));
    BGI_TRY(check_sizes(onnx, options, error));
    return check_values(onnx, options, error);
}
