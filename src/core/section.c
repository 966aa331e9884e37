/*
 * section.c: copies between a tensor and its sections, and finds pieces by their names in lists of named tensors.
 *
 *     whole [4, 3], axis 1, [1, 3)      a b c     b c
 *                                       d e f --> e f     four rows ("outer") of two elements ("inner")
 */
#include "core/section.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/stretch.h"

/* ---- ranges ---- */

bg_status bgi_section_validate(const bg_section *section, bg_error *error)
{
    const bg_type *whole = &section->whole;
    char text[BG_TYPE_TEXT_BYTES];

    if (section->name == NULL || section->name[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "the section does not name its whole tensor; set section.name");
    BGI_TRY(bg_type_validate(whole, error));
    if (section->axis >= whole->rank || section->first < 0 || section->count < 1 ||
        section->count > whole->dims[section->axis] || section->first > whole->dims[section->axis] - section->count)
        return bg_error_set(
            error, BG_ERROR_SHAPE,
            "the section of %lld elements from %lld along dimension %u must have at least one and lie inside `%s`, %s",
            (long long)section->count, (long long)section->first, section->axis, section->name,
            bg_type_text(whole, text));
    return BG_OK;
}

bg_type bgi_section_type(const bg_section *section)
{
    bg_type type = section->whole;

    type.dims[section->axis] = section->count;
    return type;
}

/* Where a section's values are in the whole tensor: `outer` ranges of inner_bytes each. The first range begins at
 * offset_bytes, and the distance between the beginnings of ranges is stride_bytes. */
typedef struct layout {
    size_t outer, inner_bytes, stride_bytes, offset_bytes;
} layout;

static layout find_layout(const bg_section *section)
{
    layout l = {.outer = 1, .inner_bytes = bg_dtype_size_bytes(section->whole.dtype)};

    for (uint32_t i = 0; i < section->axis; i++)
        l.outer *= (size_t)section->whole.dims[i];
    for (uint32_t i = section->axis + 1; i < section->whole.rank; i++)
        l.inner_bytes *= (size_t)section->whole.dims[i];
    l.stride_bytes = l.inner_bytes * (size_t)section->whole.dims[section->axis];
    l.offset_bytes = l.inner_bytes * (size_t)section->first;
    l.inner_bytes *= (size_t)section->count;
    return l;
}

const void *bgi_section_cut(const bg_section *section, const void *whole, void *room)
{
    const layout l = find_layout(section);
    const unsigned char *from = (const unsigned char *)whole + l.offset_bytes;

    if (l.outer == 1)
        return from;
    for (size_t row = 0; row < l.outer; row++)
        memcpy((unsigned char *)room + row * l.inner_bytes, from + row * l.stride_bytes, l.inner_bytes);
    return room;
}

void bgi_section_join(const bg_section *section, const void *values, void *out_whole)
{
    const layout l = find_layout(section);
    unsigned char *to = (unsigned char *)out_whole + l.offset_bytes;

    for (size_t row = 0; row < l.outer; row++)
        memcpy(to + row * l.stride_bytes, (const unsigned char *)values + row * l.inner_bytes, l.inner_bytes);
}

void bgi_section_walk(const bg_section *section, bgi_visit_stretch *visit, void *user)
{
    const layout l = find_layout(section);
    const size_t element = bg_dtype_size_bytes(section->whole.dtype);

    for (size_t row = 0; row < l.outer; row++)
        visit(user, &(bgi_stretch){(int64_t)((row * l.stride_bytes + l.offset_bytes) / element),
                                   (int64_t)(row * l.inner_bytes / element), (int64_t)(l.inner_bytes / element)});
}

/* ---- names ---- */

enum { MOST_DIGITS = 9 };

/* Sets *out_number to the number in a name such as "split_embeddings.12.rest" and returns "rest"; returns NULL for
 * other names. */
static const char *skip_component(const char *text, uint32_t *out_number)
{
    static const char *const words[] = {"split_embeddings.", "split_linear_layers."};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i]);
        const char *digits = text + length;
        size_t count;
        if (strncmp(text, words[i], length) != 0)
            continue;
        count = strspn(digits, "0123456789");
        if (count < 1 || count > MOST_DIGITS || (digits[0] == '0' && count > 1) || digits[count] != '.')
            continue;
        *out_number = (uint32_t)strtoul(digits, NULL, 10);
        return digits + count + 1;
    }
    return NULL;
}

bool bgi_section_is_piece(const char *name, const char *whole, uint32_t *out_number)
{
    for (const char *at = strstr(name, "split_"); at != NULL; at = strstr(at + 1, "split_")) {
        const size_t before = (size_t)(at - name);
        const char *rest = before > 0 && at[-1] != '.' ? NULL : skip_component(at, out_number);
        if (rest != NULL && strncmp(name, whole, before) == 0 && strcmp(whole + before, rest) == 0)
            return true;
    }
    return false;
}

bg_status bgi_section_of_piece(const char *whole_name, const bg_type *whole, uint32_t number, const bg_type *piece,
                               bg_section *out, bg_error *error)
{
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];
    uint32_t axis = 0, different = 0;

    for (uint32_t i = 0; piece->rank == whole->rank && i < whole->rank; i++)
        if (piece->dims[i] != whole->dims[i]) {
            axis = i;
            different++;
        }
    if (piece->rank != whole->rank || piece->dtype != whole->dtype || whole->rank < 1 || different > 1 ||
        whole->dims[axis] % piece->dims[axis] != 0 || (int64_t)number >= whole->dims[axis] / piece->dims[axis])
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "piece %u of `%s` is %s, which is not one of equal pieces along one dimension of %s",
                            number, whole_name, bg_type_text(piece, given), bg_type_text(whole, have));
    *out = (bg_section){.name = whole_name,
                        .whole = *whole,
                        .axis = axis,
                        .first = (int64_t)number * piece->dims[axis],
                        .count = piece->dims[axis]};
    return BG_OK;
}

/* ---- gathering ---- */

/* Checks the pieces one by one, copies them to `out_whole` if it is not NULL, and sets is_there[n] when piece n is
 * found. */
static bg_status take_pieces(const bgi_piece_list *list, const char *whole_name, const bg_type *whole,
                             const bg_type *first, int64_t piece_count, bool *is_there, void *out_whole,
                             bg_error *error)
{
    int64_t found = 0;

    for (size_t i = 0; i < list->count; i++) {
        const bgi_piece piece = list->at(list->user, i);
        const void *data = piece.data;
        bg_section section;
        uint32_t number;
        if (piece.name == NULL || !bgi_section_is_piece(piece.name, whole_name, &number))
            continue;
        BGI_TRY(bgi_section_of_piece(whole_name, whole, number, piece.type, &section, error));
        if (!bg_type_equal(piece.type, first) || is_there[number])
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "the pieces of `%s` must be equal and occur once each: `%s` is one too many",
                                whole_name, piece.name);
        is_there[number] = true;
        found++;
        if (out_whole != NULL && data == NULL && list->read != NULL)
            BGI_TRY(list->read(list->user, i, &data, error));
        if (out_whole != NULL)
            bgi_section_join(&section, data, out_whole);
    }
    if (found != piece_count)
        return bg_error_set(error, BG_ERROR_SHAPE, "`%s` has %lld of its %lld pieces; all are needed", whole_name,
                            (long long)found, (long long)piece_count);
    return BG_OK;
}

bg_status bgi_section_gather(const bgi_piece_list *list, const char *whole_name, const bg_type *whole, void *out_whole,
                             size_t *out_first, bg_error *error)
{
    bgi_piece first = {0};
    bg_section section;
    bool *is_there;
    int64_t piece_count;
    uint32_t number = 0;
    bg_status status;

    *out_first = SIZE_MAX;
    for (size_t i = 0; i < list->count && *out_first == SIZE_MAX; i++) {
        first = list->at(list->user, i);
        if (first.name != NULL && bgi_section_is_piece(first.name, whole_name, &number))
            *out_first = i;
    }
    if (*out_first == SIZE_MAX)
        return BG_OK;
    BGI_TRY(bgi_section_of_piece(whole_name, whole, number, first.type, &section, error));
    piece_count = whole->dims[section.axis] / section.count;
    is_there = calloc((size_t)piece_count, sizeof *is_there);
    if (is_there == NULL)
        return bgi_error_memory(error, whole_name, (size_t)piece_count);
    status = take_pieces(list, whole_name, whole, first.type, piece_count, is_there, out_whole, error);
    free(is_there);
    return status;
}
