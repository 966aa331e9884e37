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
    free(weights->view);
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
                          bg_session *home, uint32_t home_variable, bg_error *error)
{
    const size_t name_bytes = strlen(name) + 1;
    bgi_weight weight = {.type = *type, .role = role, .version = 1, .home = home, .home_variable = home_variable};

    if (!bgi_array_reserve((void **)&weights->items, &weights->capacity, (size_t)weights->count + 1,
                           sizeof *weights->items))
        return bgi_error_memory(error, "weights", sizeof weight);
    weight.name = malloc(name_bytes);
    weight.data = home == NULL ? bgi_aligned_take(64, bg_type_size_bytes(type)) : NULL;
    if (weight.name == NULL || (home == NULL && weight.data == NULL)) {
        free(weight.name);
        free(weight.data);
        return bgi_error_memory(error, name, bg_type_size_bytes(type));
    }
    memcpy(weight.name, name, name_bytes);
    weights->items[weights->count++] = weight;
    weights->epoch++;
    return BG_OK;
}

bg_status bgi_weights_take_view(bg_weights *weights, uint32_t index, void **out, bg_error *error)
{
    const size_t size_bytes = bg_type_size_bytes(&weights->items[index].type);

    if (size_bytes > weights->view_bytes) {
        free(weights->view);
        weights->view = bgi_aligned_take(64, size_bytes);
        weights->view_bytes = weights->view != NULL ? size_bytes : 0;
        if (weights->view == NULL)
            return bgi_error_memory(error, weights->items[index].name, size_bytes);
    }
    *out = weights->view;
    return BG_OK;
}

/* Another session than its home has the newest value: brings it home. */
static bg_status bring_home(bg_weights *weights, uint32_t index, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];
    void *view = NULL;

    BGI_TRY(bgi_weights_take_view(weights, index, &view, error));
    bgi_session_download(weight->newest, weight->newest_variable, view);
    return bgi_session_adopt(weight->home, weight->home_variable, view, error);
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
    if (weight->newest == NULL)
        return BG_OK;
    if (weight->home == NULL)
        bgi_session_download(weight->newest, weight->newest_variable, weight->data);
    else if (weight->newest != weight->home)
        BGI_TRY(bring_home(weights, index, error));
    weight->newest = NULL;
    weights->epoch++;
    return BG_OK;
}

bg_status bgi_weights_fetch(bg_weights *weights, uint32_t index, const void **out, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];
    void *view = NULL;

    BGI_TRY(bgi_weights_pull(weights, index, error));
    *out = weight->home != NULL ? bgi_session_whole(weight->home, weight->home_variable) : weight->data;
    if (*out != NULL)
        return BG_OK;
    BGI_TRY(bgi_weights_take_view(weights, index, &view, error));
    bgi_session_download(weight->home, weight->home_variable, view);
    *out = view;
    return BG_OK;
}

void bgi_weights_move_home(bg_weights *weights, uint32_t index, bg_session *home, uint32_t home_variable)
{
    bgi_weight *weight = &weights->items[index];

    free(weight->data);
    weight->data = NULL;
    weight->home = home;
    weight->home_variable = home_variable;
    weight->newest = NULL;
    weights->epoch++;
}

void bgi_weights_leave_home(bg_weights *weights, uint32_t index)
{
    bgi_weight *weight = &weights->items[index];

    weight->data = bgi_aligned_take(64, bg_type_size_bytes(&weight->type));
    if (weight->data == NULL)
        weight->is_lost = true;
    else if (weight->newest != NULL)
        bgi_session_download(weight->newest, weight->newest_variable, weight->data);
    else
        bgi_session_download(weight->home, weight->home_variable, weight->data);
    weight->newest = weight->home = NULL;
    weights->epoch++;
}

bg_status bg_weights_at(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error)
{
    const void *data;

    if (index >= weights->count)
        return bg_error_set(error, BG_ERROR_INVALID, "weight %u of %u", index, weights->count);
    BGI_TRY(bgi_weights_fetch(weights, index, &data, error));
    *out = (bg_weight){.name = weights->items[index].name,
                       .type = weights->items[index].type,
                       .role = weights->items[index].role,
                       .data = data};
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
        BGI_TRY(bgi_weights_add(weights, name, type, BG_ROLE_PARAMETER, NULL, 0, error));
    }
    weight = &weights->items[index];
    if (!bg_type_equal(&weight->type, type))
        return bg_error_set(error, BG_ERROR_SHAPE, "weight `%s` is %s; the value given is %s", name,
                            bg_type_text(&weight->type, have), bg_type_text(type, given));
    if (weight->home == NULL && weight->data == NULL)
        weight->data = bgi_aligned_take(64, bg_type_size_bytes(type)); /* there was no memory when it left its home */
    if (weight->home == NULL && weight->data == NULL)
        return bgi_error_memory(error, name, bg_type_size_bytes(type));
    weight->version++;
    weights->epoch++;
    if (weight->home != NULL)
        BGI_TRY(bgi_session_adopt(weight->home, weight->home_variable, data, error));
    else
        memcpy(weight->data, data, bg_type_size_bytes(type));
    weight->newest = NULL;
    weight->is_lost = false;
    weight->is_given = true;
    return BG_OK;
}
