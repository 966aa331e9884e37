/*
 * archive.c: implements archive.h. A shared array that was already written is represented by its number, from 1 on. A
 * new shared array begins with 0, followed by its length.
 */
#include "core/archive.h"

#include <stdlib.h>
#include <string.h>

struct bgi_archive_array {
    const void *array;
    uint32_t count, kind;
};

void bgi_archive_begin_writing(bgi_archive *archive)
{
    memset(archive, 0, sizeof *archive);
}

void bgi_archive_begin_reading(bgi_archive *archive, const void *data, size_t size_bytes, bgi_arena *arena)
{
    memset(archive, 0, sizeof *archive);
    archive->is_reading = true;
    archive->at = data;
    archive->end = archive->at + size_bytes;
    archive->arena = arena;
}

void bgi_archive_end(bgi_archive *archive)
{
    free(archive->data);
    free(archive->shared);
    free(archive->shared_table);
    memset(archive, 0, sizeof *archive);
}

bool bgi_archive_is_read(const bgi_archive *archive)
{
    return !archive->has_failed && archive->at == archive->end;
}

void bgi_archive_fail(bgi_archive *archive)
{
    archive->has_failed = true;
    archive->at = archive->end;
}

static void fail_memory(bgi_archive *archive)
{
    archive->out_of_memory = true;
    bgi_archive_fail(archive);
}

/* ---- bytes ---- */

/* Returns memory for `size_bytes` more bytes; NULL if the archive has failed or memory is exhausted. */
static unsigned char *append(bgi_archive *archive, size_t size_bytes)
{
    unsigned char *at;

    if (archive->has_failed)
        return NULL;
    if (!bgi_array_reserve((void **)&archive->data, &archive->capacity, archive->size_bytes + size_bytes, 1)) {
        fail_memory(archive);
        return NULL;
    }
    at = archive->data + archive->size_bytes;
    archive->size_bytes += size_bytes;
    return at;
}

static size_t bytes_left(const bgi_archive *archive)
{
    return (size_t)(archive->end - archive->at);
}

/* Returns the next `size_bytes` bytes. If there are fewer, the archive fails and the result is NULL. */
static const unsigned char *take(bgi_archive *archive, size_t size_bytes)
{
    const unsigned char *at = archive->at;

    if (archive->has_failed || size_bytes > bytes_left(archive)) {
        bgi_archive_fail(archive);
        return NULL;
    }
    archive->at += size_bytes;
    return at;
}

/* ---- numbers ---- */

static void write_u64(bgi_archive *archive, uint64_t value)
{
    unsigned char bytes[10], *to;
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    to = append(archive, count);
    if (to != NULL)
        memcpy(to, bytes, count);
}

/* Reads a number. Ten bytes hold 70 bits, so in the last byte only the lowest bit may be set. */
static uint64_t read_u64(bgi_archive *archive)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (archive->at == archive->end)
            break;
        value |= (uint64_t)(*archive->at & 0x7f) << shift;
        if ((*archive->at++ & 0x80) == 0 && (shift < 63 || archive->at[-1] <= 1))
            return value;
    }
    bgi_archive_fail(archive);
    return 0;
}

void bgi_archive_u64(bgi_archive *archive, uint64_t *value)
{
    if (archive->is_reading)
        *value = read_u64(archive);
    else
        write_u64(archive, *value);
}

static void visit_limited(bgi_archive *archive, uint64_t *value, uint64_t largest)
{
    bgi_archive_u64(archive, value);
    if (*value <= largest)
        return;
    bgi_archive_fail(archive);
    *value = 0;
}

void bgi_archive_u32(bgi_archive *archive, uint32_t *value)
{
    uint64_t wide = *value;

    visit_limited(archive, &wide, UINT32_MAX);
    if (archive->is_reading)
        *value = (uint32_t)wide;
}

void bgi_archive_below(bgi_archive *archive, uint32_t *value, uint32_t limit)
{
    uint64_t wide = *value;

    visit_limited(archive, &wide, (uint64_t)limit - 1);
    if (archive->is_reading)
        *value = (uint32_t)wide;
}

void bgi_archive_size(bgi_archive *archive, size_t *value)
{
    uint64_t wide = *value;

    visit_limited(archive, &wide, SIZE_MAX);
    if (archive->is_reading)
        *value = (size_t)wide;
}

/* Writes or reads a signed number. Small negative numbers also need few bytes: 0, -1, 1, -2 become 0, 1, 2, 3. */
void bgi_archive_i64(bgi_archive *archive, int64_t *value)
{
    uint64_t folded = (uint64_t)*value << 1 ^ (*value < 0 ? UINT64_MAX : 0);

    bgi_archive_u64(archive, &folded);
    if (archive->is_reading) {
        folded = (folded >> 1) ^ ((folded & 1) != 0 ? UINT64_MAX : 0);
        memcpy(value, &folded, sizeof *value);
    }
}

void bgi_archive_bool(bgi_archive *archive, bool *value)
{
    uint32_t number = *value;

    bgi_archive_below(archive, &number, 2);
    if (archive->is_reading)
        *value = number != 0;
}

void bgi_archive_double(bgi_archive *archive, double *value)
{
    uint64_t bits = 0;

    if (archive->is_reading) {
        const unsigned char *from = take(archive, 8);
        for (unsigned i = 0; from != NULL && i < 8; i++)
            bits |= (uint64_t)from[i] << 8 * i;
        memcpy(value, &bits, sizeof bits);
    } else {
        unsigned char *to = append(archive, 8);
        memcpy(&bits, value, sizeof bits);
        for (unsigned i = 0; to != NULL && i < 8; i++)
            to[i] = (unsigned char)(bits >> 8 * i);
    }
}

/* ---- texts and arrays ---- */

void bgi_archive_bytes(bgi_archive *archive, const void **bytes, size_t size_bytes)
{
    const unsigned char *from;
    unsigned char *to;

    if (!archive->is_reading) {
        to = append(archive, size_bytes);
        if (to != NULL && size_bytes > 0)
            memcpy(to, *bytes, size_bytes);
        return;
    }
    from = take(archive, size_bytes);
    *bytes = from != NULL ? bgi_arena_copy(archive->arena, from, size_bytes) : NULL;
    if (from != NULL && *bytes == NULL)
        fail_memory(archive);
}

/* Writes or reads the length plus 1, or 0 for NULL, and the string without its zero byte. A string that is read must
 * contain no zero byte. */
void bgi_archive_text(bgi_archive *archive, const char **text)
{
    size_t length = *text != NULL && !archive->is_reading ? strlen(*text) + 1 : 0;
    const unsigned char *from;
    char *to;

    bgi_archive_size(archive, &length);
    if (!archive->is_reading) {
        const void *bytes = *text;
        bgi_archive_bytes(archive, &bytes, length > 0 ? length - 1 : 0);
        return;
    }
    *text = NULL;
    if (length == 0)
        return;
    from = take(archive, length - 1);
    if (from == NULL || memchr(from, 0, length - 1) != NULL) {
        bgi_archive_fail(archive);
        return;
    }
    to = bgi_arena_allocate(archive->arena, 1, length);
    if (to == NULL) {
        fail_memory(archive);
        return;
    }
    memcpy(to, from, length - 1);
    *text = to;
}

/* Allocates an array while reading. The array cannot have more elements than there are bytes left, because every
 * element occupies at least one byte. */
static void *take_array(bgi_archive *archive, uint32_t *count, size_t element_bytes)
{
    void *array = NULL;

    if (!archive->has_failed && *count <= bytes_left(archive)) {
        array = bgi_arena_allocate(archive->arena, *count, element_bytes);
        if (array == NULL)
            fail_memory(archive);
    } else {
        bgi_archive_fail(archive);
    }
    if (array == NULL)
        *count = 0;
    return array;
}

void *bgi_archive_list(bgi_archive *archive, const void *array, uint32_t *count, size_t element_bytes)
{
    bgi_archive_u32(archive, count);
    return archive->is_reading ? take_array(archive, count, element_bytes) : (void *)array;
}

void *bgi_archive_table(bgi_archive *archive, const void *array, uint32_t count, size_t element_bytes)
{
    bool is_there = array != NULL && !archive->is_reading;

    bgi_archive_bool(archive, &is_there);
    if (!archive->is_reading)
        return (void *)array;
    return is_there ? take_array(archive, &count, element_bytes) : NULL;
}

/* ---- shared arrays ---- */

static uint32_t *find_slot(const bgi_archive *archive, const bgi_archive_array *wanted)
{
    const uint64_t hash = ((uint64_t)(uintptr_t)wanted->array + wanted->kind) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 32) & (archive->shared_table_size - 1);

    for (; archive->shared_table[slot] != 0; slot = (slot + 1) & (archive->shared_table_size - 1)) {
        const bgi_archive_array *at = &archive->shared[archive->shared_table[slot] - 1];
        if (at->array == wanted->array && at->count == wanted->count && at->kind == wanted->kind)
            break;
    }
    return &archive->shared_table[slot];
}

static bool grow_table(bgi_archive *archive)
{
    const size_t size = archive->shared_table_size == 0 ? 64 : 2 * archive->shared_table_size;
    uint32_t *table;

    if (2 * (archive->shared_count + 1) <= archive->shared_table_size)
        return true;
    table = calloc(size, sizeof *table);
    if (table == NULL)
        return false;
    free(archive->shared_table);
    archive->shared_table = table;
    archive->shared_table_size = size;
    for (size_t i = 0; i < archive->shared_count; i++)
        *find_slot(archive, &archive->shared[i]) = (uint32_t)i + 1;
    return true;
}

static bool remember(bgi_archive *archive, bgi_archive_array array)
{
    if (!bgi_array_reserve((void **)&archive->shared, &archive->shared_capacity, archive->shared_count + 1,
                           sizeof *archive->shared)) {
        fail_memory(archive);
        return false;
    }
    archive->shared[archive->shared_count++] = array;
    return true;
}

static bool write_shared(bgi_archive *archive, bgi_archive_array array)
{
    uint32_t *slot, number, count = array.count;

    if (!grow_table(archive)) {
        fail_memory(archive);
        return false;
    }
    slot = find_slot(archive, &array);
    number = *slot;
    bgi_archive_u32(archive, &number);
    if (number != 0 || !remember(archive, array))
        return false;
    *slot = (uint32_t)archive->shared_count;
    bgi_archive_u32(archive, &count);
    return true;
}

bool bgi_archive_shared(bgi_archive *archive, const void **array, uint32_t *count, uint32_t kind, size_t element_bytes)
{
    uint32_t number = 0;

    if (!archive->is_reading) /* an array without elements may have the address of another array */
        return write_shared(archive, (bgi_archive_array){*count == 0 ? NULL : *array, *count, kind});
    bgi_archive_u32(archive, &number);
    if (number == 0) {
        *array = bgi_archive_list(archive, NULL, count, element_bytes);
        return *array != NULL && remember(archive, (bgi_archive_array){*array, *count, kind});
    }
    *array = NULL;
    *count = 0;
    if (number > archive->shared_count || archive->shared[number - 1].kind != kind) {
        bgi_archive_fail(archive);
    } else {
        *array = archive->shared[number - 1].array;
        *count = archive->shared[number - 1].count;
    }
    return false;
}
