/*
 * publication.c: manages blocks, versions and readers of published weights, and frees blocks without users.
 */
#include "runtime/publish.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "runtime/weights.h"

/* ---- blocks, under the mutex ---- */

static void drop_block(const bg_allocator *allocator, bgi_block *block)
{
    if (block == NULL || --block->users > 0)
        return;
    bgi_memory_return(allocator, block->data, block->size_bytes);
    free(block);
}

static void free_version(const bg_allocator *allocator, bgi_version *version)
{
    for (uint32_t i = 0; i < version->count; i++)
        drop_block(allocator, version->items[i].block);
    free(version->names);
    free(version);
}

/* ---- life ---- */

bool bgi_publication_init(bgi_publication *publication)
{
    atomic_init(&publication->current, NULL);
    return pthread_mutex_init(&publication->mutex, NULL) == 0;
}

void bgi_publication_clear(bgi_publication *publication)
{
    for (bgi_version *version = atomic_load(&publication->current), *older; version != NULL; version = older) {
        older = version->older;
        free_version(&publication->allocator, version);
    }
    for (bgi_reader *reader = publication->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        free(reader);
    }
    pthread_mutex_destroy(&publication->mutex);
}

bgi_reader *bgi_reader_add(bgi_publication *publication)
{
    bgi_reader *reader = bgi_take_pages(1, sizeof *reader);

    if (reader == NULL)
        return NULL;
    pthread_mutex_lock(&publication->mutex);
    reader->next = publication->readers;
    publication->readers = reader;
    pthread_mutex_unlock(&publication->mutex);
    return reader;
}

void bgi_reader_remove(bgi_publication *publication, bgi_reader *reader)
{
    bgi_reader **place = &publication->readers;

    pthread_mutex_lock(&publication->mutex);
    while (*place != reader)
        place = &(*place)->next;
    *place = reader->next;
    pthread_mutex_unlock(&publication->mutex);
    free(reader);
}

/* ---- values of weights ---- */

static bool has_block_as_data(const bgi_weight *weight)
{
    return weight->block != NULL && weight->block->data == weight->data;
}

void bgi_weights_drop_block(bg_weights *weights, uint32_t index)
{
    bgi_weight *weight = &weights->items[index];

    if (weight->block == NULL)
        return;
    pthread_mutex_lock(&weights->publication.mutex);
    drop_block(&weights->publication.allocator, weight->block);
    pthread_mutex_unlock(&weights->publication.mutex);
    weight->block = NULL;
}

bool bgi_weights_own(bg_weights *weights, uint32_t index, bool keeps_value)
{
    bgi_weight *weight = &weights->items[index];
    const size_t size_bytes = bg_type_size_bytes(&weight->type);
    bool is_shared;
    void *data;

    if (!has_block_as_data(weight))
        return true;
    pthread_mutex_lock(&weights->publication.mutex);
    is_shared = weight->block->users > 1;
    pthread_mutex_unlock(&weights->publication.mutex);
    if (!is_shared) { /* only publishing adds users, and its thread would have to enter the weights first */
        free(weight->block);
        weight->block = NULL;
        return true;
    }
    data = bgi_memory_reserve(&weights->publication.allocator, BGI_WEIGHT_ALIGNMENT, size_bytes);
    if (data == NULL)
        return false;
    if (keeps_value)
        memcpy(data, weight->data, size_bytes);
    bgi_weights_drop_block(weights, index);
    weight->data = data;
    return true;
}

void bgi_weights_drop_data(bg_weights *weights, uint32_t index)
{
    bgi_weight *weight = &weights->items[index];

    if (!has_block_as_data(weight) && !weight->is_borrowed)
        bgi_memory_return(&weights->publication.allocator, weight->data, bg_type_size_bytes(&weight->type));
    bgi_weights_drop_block(weights, index);
    weight->data = NULL;
}

/* ---- versions ---- */

static bool is_used(const bgi_publication *publication, const bgi_version *version)
{
    for (const bgi_reader *reader = publication->readers; reader != NULL; reader = reader->next)
        if (atomic_load(&reader->using) == version)
            return true;
    return false;
}

void bgi_publication_trim(bgi_publication *publication, bgi_version *current)
{
    bgi_version **place = &current->older;

    while (*place != NULL) {
        bgi_version *version = *place;
        if (is_used(publication, version)) {
            place = &version->older;
            continue;
        }
        *place = version->older;
        free_version(&publication->allocator, version);
    }
}
