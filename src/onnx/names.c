/*
 * names.c: implements a hash table from names to numbers, with open addressing.
 */
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

static size_t hash(const char *name)
{
    uint64_t sum = 14695981039346656037u;

    for (; *name != '\0'; name++)
        sum = (sum ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)(sum ^ sum >> 32);
}

/* Returns the slot of the name, or the free slot for it. */
static size_t place_of(const bgi_names *names, const char *name)
{
    size_t place = hash(name) & (names->table_size - 1);

    while (names->table[place] != 0 && strcmp(names->names[names->table[place] - 1], name) != 0)
        place = (place + 1) & (names->table_size - 1);
    return place;
}

uint32_t bgi_names_find(const bgi_names *names, const char *name)
{
    return names->table_size == 0 ? BGI_NAMES_NONE : names->table[place_of(names, name)] - 1;
}

/* Doubles the number of slots. */
static bool grow(bgi_names *names)
{
    const size_t size = names->table_size == 0 ? 64 : names->table_size * 2;
    uint32_t *table = calloc(size, sizeof *table);

    if (table == NULL)
        return false;
    free(names->table);
    names->table = table;
    names->table_size = size;
    for (size_t i = 0; i < names->count; i++)
        table[place_of(names, names->names[i])] = (uint32_t)i + 1;
    return true;
}

uint32_t bgi_names_add(bgi_names *names, const char *name)
{
    uint32_t number = bgi_names_find(names, name);

    if (number != BGI_NAMES_NONE)
        return number;
    if (names->count >= UINT32_MAX - 1 || (2 * (names->count + 1) > names->table_size && !grow(names)) ||
        !bgi_array_reserve((void **)&names->names, &names->capacity, names->count + 1, sizeof *names->names))
        return BGI_NAMES_NONE;
    number = (uint32_t)names->count++;
    names->names[number] = name;
    names->table[place_of(names, name)] = number + 1;
    return number;
}

void bgi_names_clear(bgi_names *names)
{
    free(names->names);
    free(names->table);
    *names = (bgi_names){0};
}
