/*
 * section.h: copies between a tensor and its sections (bg_section). It also finds sections in files by the names that
 * serialized layers give them, and joins them to whole tensors.
 */
#ifndef BGI_CORE_SECTION_H
#define BGI_CORE_SECTION_H

#include <brigade/graph.h>

/* Checks that the section has a name and a valid type of the whole, and that its range is inside the whole tensor. */
bg_status bgi_section_validate(const bg_section *section, bg_error *error);
/* Returns the type of the section's own values. */
bg_type bgi_section_type(const bg_section *section);
/* Returns the section's values, which are in `whole` if they are contiguous there, and otherwise are copied to
 * `room`. */
const void *bgi_section_cut(const bg_section *section, const void *whole, void *room);
/* Copies the section's values into the whole tensor. */
void bgi_section_join(const bg_section *section, const void *values, void *out_whole);

/* Whether `name` is that of piece *out_number of the weight `whole`: "x.split_embeddings.3.weight" and
 * "x.split_linear_layers.3.weight" are piece 3 of "x.weight". */
bool bgi_section_is_piece(const char *name, const char *whole, uint32_t *out_number);
/* Finds the range of piece `number`, of type `piece`, in the whole tensor, if all pieces have this type. Errors:
 * BG_ERROR_SHAPE. */
bg_status bgi_section_of_piece(const char *whole_name, const bg_type *whole, uint32_t number, const bg_type *piece,
                               bg_section *out, bg_error *error);

/* A list of named tensors, of which some may be pieces. */
typedef struct bgi_piece {
    const char *name;
    const bg_type *type;
    const void *data;
} bgi_piece;
typedef struct bgi_piece_list {
    const void *user;
    size_t count;
    bgi_piece (*at)(const void *user, size_t index); /* returns a NULL name for an entry that is skipped */
    /* Reads the data of a piece that has none in memory; the data are valid until the next call. May be NULL. */
    bg_status (*read)(const void *user, size_t index, const void **out_data, bg_error *error);
} bgi_piece_list;

/* Finds the index in the list of the first piece of `whole_name`, or SIZE_MAX if there is none. Pieces must cover each
 * element of the whole tensor once. If `out_whole` is not NULL, the pieces are copied there. Errors: BG_ERROR_SHAPE,
 * BG_ERROR_MEMORY, those of `read`. */
bg_status bgi_section_gather(const bgi_piece_list *list, const char *whole_name, const bg_type *whole, void *out_whole,
                             size_t *out_first, bg_error *error);

#endif
