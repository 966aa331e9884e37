/*
 * weights.c: the table of weights.
 */
#include "runtime/weights.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

bg_status bg_weights_create(bg_weights **out, bg_error *error)
{
    bg_weights *weights = calloc(1, sizeof *weights);

    if (weights == NULL)
        return bgi_error_memory(error, "weights", sizeof *weights);
    weights->references = 1;
    *out = weights;
    return BG_OK;
}

void bg_weights_destroy(bg_weights *weights)
{
    if (weights == NULL || --weights->references > 0)
        return;
    bgi_weights_truncate(weights, 0);
    free(weights->items);
    free(weights);
}

uint32_t bg_weights_count(const bg_weights *weights)
{
    return weights->count;
}

uint32_t bgi_weights_index(const bg_weights *weights, const char *name)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (strcmp(weights->items[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

void bgi_weights_truncate(bg_weights *weights, uint32_t count)
{
    while (weights->count > count) {
        bgi_weight *weight = &weights->items[--weights->count];
        free(weight->name);
        free(weight->data);
        weights->epoch++;
    }
}

bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_error *error)
{
    const size_t name_bytes = strlen(name) + 1;
    bgi_weight weight = {.type = *type, .role = role, .version = 1};

    if (!bgi_array_reserve((void **)&weights->items, &weights->capacity, (size_t)weights->count + 1,
                           sizeof *weights->items))
        return bgi_error_memory(error, "weights", sizeof weight);
    weight.name = malloc(name_bytes);
    weight.data = bgi_aligned_take(64, bg_type_size_bytes(type));
    if (weight.name == NULL || weight.data == NULL) {
        free(weight.name);
        free(weight.data);
        return bgi_error_memory(error, name, bg_type_size_bytes(type));
    }
    memcpy(weight.name, name, name_bytes);
    weights->items[weights->count++] = weight;
    weights->epoch++;
    return BG_OK;
}

bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];

    if (weight->is_lost)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "weight `%s`: its newest value was in a session whose run failed; set it again, for instance "
            "from a checkpoint",
            weight->name);
    if (weight->newest != NULL) {
        bgi_session_download(weight->newest, weight->newest_variable, weight->data);
        weight->newest = NULL;
        weights->epoch++;
    }
    return BG_OK;
}

bg_status bg_weights_at(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error)
{
    if (index >= weights->count)
        return bg_error_set(error, BG_ERROR_INVALID, "weight %u of %u", index, weights->count);
    BGI_TRY(bgi_weights_pull(weights, index, error));
    *out = (bg_weight){.name = weights->items[index].name,
                       .type = weights->items[index].type,
                       .role = weights->items[index].role,
                       .data = weights->items[index].data};
    return BG_OK;
}

bg_status bg_weights_find(bg_weights *weights, const char *name, bg_weight *out, bg_error *error)
{
    const uint32_t index = bgi_weights_index(weights, name);

    if (index == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no weight `%s`", name);
    return bg_weights_at(weights, index, out, error);
}

bg_status bg_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data, bg_error *error)
{
    uint32_t index;
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];
    bgi_weight *weight;

    if (name == NULL || type == NULL || data == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a weight without a %s",
                            name == NULL   ? "name"
                            : type == NULL ? "type"
                                           : "value");
    index = bgi_weights_index(weights, name);
    BGI_TRY(bg_type_validate(type, error));
    if (index == UINT32_MAX) {
        index = weights->count;
        BGI_TRY(bgi_weights_add(weights, name, type, BG_ROLE_PARAMETER, error));
    }
    weight = &weights->items[index];
    if (!bg_type_equal(&weight->type, type))
        return bg_error_set(error, BG_ERROR_SHAPE, "weight `%s` is %s; the value given is %s", name,
                            bg_type_text(&weight->type, have), bg_type_text(type, given));
    memcpy(weight->data, data, bg_type_size_bytes(type));
    weight->newest = NULL;
    weight->is_lost = false;
    weight->is_given = true;
    weight->version++;
    weights->epoch++;
    return BG_OK;
}
