/*
 * publish.c: makes a version of weights.
 */
#include "runtime/publish.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "runtime/weights.h"

/* Makes a block for a weight's newest value. */
static bg_status make_block(bg_weights *weights, uint32_t index, bg_error *error)
{
    const bg_allocator *allocator = &weights->publication.allocator;
    bgi_weight *weight = &weights->items[index];
    const size_t size_bytes = bg_type_size_bytes(&weight->type);
    bgi_block *block = calloc(1, sizeof *block);
    const void *value = NULL;
    bg_status status = BG_OK;

    if (block == NULL)
        return bgi_error_memory(error, weight->name, sizeof *block);
    block->users = 1;
    block->size_bytes = size_bytes;
    block->data = weight->home == NULL ? weight->data : bgi_memory_reserve(allocator, BGI_WEIGHT_ALIGNMENT, size_bytes);
    if (block->data == NULL)
        status = bgi_error_memory(error, weight->name, size_bytes);
    if (status == BG_OK && weight->home != NULL)
        status = bgi_weights_fetch(weights, index, &value, error);
    if (status != BG_OK) {
        if (weight->home != NULL)
            bgi_memory_return(allocator, block->data, size_bytes);
        free(block);
        return status;
    }
    if (value != NULL)
        memcpy(block->data, value, size_bytes);
    bgi_weights_drop_block(weights, index); /* the block of an older value */
    weight->block = block;
    weight->block_version = weight->version;
    return BG_OK;
}

/* Ensures that the weight's newest value is in a block. */
static bg_status refresh_block(bg_weights *weights, uint32_t index, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];

    BGI_TRY(bgi_weights_pull(weights, index, error));
    if (weight->home == NULL && weight->data == NULL)
        return bg_error_set(error, BG_ERROR_MEMORY, "weight `%s` has no value: there was no memory for it",
                            weight->name);
    return weight->block != NULL && weight->block_version == weight->version ? BG_OK
                                                                             : make_block(weights, index, error);
}

static bool is_published(const bgi_weight *weight)
{
    return !weight->is_gone && (weight->role == BG_ROLE_PARAMETER || weight->role == BG_ROLE_BUFFER);
}

/* ---- a version ---- */

static bg_status create_version(const bg_weights *weights, bgi_version **out, bg_error *error)
{
    const size_t size_bytes = sizeof **out + weights->count * sizeof *(*out)->items;
    bgi_version *version = calloc(1, size_bytes);
    size_t name_bytes = 1;
    char *next;

    for (uint32_t i = 0; i < weights->count; i++)
        name_bytes += strlen(weights->items[i].name) + 1;
    if (version != NULL)
        version->names = malloc(name_bytes);
    if (version == NULL || version->names == NULL) {
        free(version);
        return bgi_error_memory(error, "a version of the weights", size_bytes + name_bytes);
    }
    next = version->names;
    version->count = weights->count;
    version->step = weights->step;
    for (uint32_t i = 0; i < weights->count; i++) {
        const bgi_weight *weight = &weights->items[i];
        const size_t bytes = strlen(weight->name) + 1;
        if (!is_published(weight))
            continue;
        version->items[i] =
            (bgi_published){.name = next, .type = weight->type, .role = weight->role, .change = weight->block_version};
        memcpy(next, weight->name, bytes);
        next += bytes;
    }
    *out = version;
    return BG_OK;
}

static bg_status refuse_ranks(const bg_weights *weights, bg_error *error)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (bgi_weights_takes_ranks(weights, i))
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "weights of several ranks cannot be published, because no rank has all of them; read them on one "
                "rank (bg_session_read_weights), set them in other weights, and publish those");
    return BG_OK;
}

bg_status bgi_weights_publish(bg_weights *weights, bg_error *error)
{
    bgi_publication *publication = &weights->publication;
    bgi_version *before = atomic_load(&publication->current), *version = NULL;

    BGI_TRY(refuse_ranks(weights, error));
    if (before != NULL) { /* frees unused blocks first, so that they do not add to the new ones */
        pthread_mutex_lock(&publication->mutex);
        bgi_publication_trim(publication, before);
        pthread_mutex_unlock(&publication->mutex);
    }
    for (uint32_t i = 0; i < weights->count; i++)
        if (is_published(&weights->items[i]))
            BGI_TRY(refresh_block(weights, i, error));
    BGI_TRY(create_version(weights, &version, error));
    version->number = before != NULL ? before->number + 1 : 1;
    version->older = before;
    pthread_mutex_lock(&publication->mutex);
    for (uint32_t i = 0; i < version->count; i++)
        if (version->items[i].name != NULL) {
            version->items[i].block = weights->items[i].block;
            version->items[i].block->users++;
        }
    atomic_store(&publication->current, version);
    bgi_publication_trim(publication, version);
    pthread_mutex_unlock(&publication->mutex);
    return BG_OK;
}

bg_status bg_weights_publish(bg_weights *weights, uint64_t *out_version, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_publish", error));
    status = bgi_weights_publish(weights, error);
    if (status == BG_OK && out_version != NULL)
        *out_version = atomic_load(&weights->publication.current)->number;
    bgi_weights_leave(weights);
    return status;
}
