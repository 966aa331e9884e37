/*
 * shard.c: cuts tensors over the tensor axes of a mesh. A shard contains elements of the whole tensor, and possibly
 * padding:
 *
 *     a dimension of 2 blocks of 5, in 2 pieces of a multiple of 2:   a a a a b | c c c c d
 *         coordinate 0:  a a a a   c c c c
 *         coordinate 1:  b 0 0 0   d 0 0 0
 *
 * Copies are made row by row along the last dimension; a counter runs over the other dimensions.
 */
#include <brigade/mesh.h>

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/stretch.h"

/* How one dimension is cut for one coordinate of the mesh. */
typedef struct cut_dim {
    int64_t blocks, block, piece; /* number of blocks; elements of a block in the whole tensor, and in the shard */
    int64_t first;                /* the first element of this coordinate's shard in a block */
} cut_dim;

static uint32_t size_along(const bg_mesh *mesh, bg_mesh_axis axis)
{
    return axis == BG_MESH_TENSOR_1 ? mesh->tensor_1 : axis == BG_MESH_TENSOR_2 ? mesh->tensor_2 : 1;
}

static uint32_t place_along(const bg_mesh *coordinates, bg_mesh_axis axis)
{
    return axis == BG_MESH_NONE ? 0 : size_along(coordinates, axis);
}

static bg_status find_dim(const bg_mesh *mesh, const bg_shard *shard, uint32_t dim, cut_dim *out, bg_error *error)
{
    const bg_shard_dim *how = &shard->dims[dim];
    const int64_t size = shard->whole.dims[dim], parts = size_along(mesh, how->axis), multiple = how->multiple;

    out->blocks = how->blocks > 0 ? how->blocks : 1;
    out->block = size / out->blocks;
    out->first = 0;
    if (how->axis != BG_MESH_NONE && how->axis != BG_MESH_TENSOR_1 && how->axis != BG_MESH_TENSOR_2)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "dimension %u is cut along axis %d; it must be one tensor axis, or none", dim,
                            (int)how->axis);
    if (size % out->blocks != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "dimension %u of %" PRId64 " in %" PRId64 " blocks; they must be equal", dim, size,
                            out->blocks);
    if (multiple == 0 && out->block % parts != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "dimension %u of %" PRId64 " in %" PRId64 " x %" PRId64 " pieces; the tensor axis must "
                            "divide the %" PRId64 ", or the pieces be padded",
                            dim, size, out->blocks, parts, out->block);
    out->piece = (out->block + parts - 1) / parts;
    if (multiple > 0)
        out->piece = (out->piece + multiple - 1) / multiple * multiple;
    return BG_OK;
}

static bg_status find_dims(const bg_mesh *mesh, const bg_shard *shard, cut_dim dims[BG_MAX_RANK], bg_type *out,
                           bg_error *error)
{
    BGI_TRY(bg_mesh_validate(mesh, error));
    BGI_TRY(bg_type_validate(&shard->whole, error));
    *out = shard->whole;
    for (uint32_t i = 0; i < shard->whole.rank; i++) {
        BGI_TRY(find_dim(mesh, shard, i, &dims[i], error));
        out->dims[i] = dims[i].blocks * dims[i].piece;
    }
    return bg_type_validate(out, error);
}

bg_status bg_shard_piece(const bg_mesh *mesh, const bg_shard *shard, bg_type *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(mesh, "mesh", __func__, error));
    BGI_TRY(bgi_require(shard, "shard", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    cut_dim dims[BG_MAX_RANK];
    bg_type piece;

    BGI_TRY(find_dims(mesh, shard, dims, &piece, error));
    *out = piece;
    return BG_OK;
}

/* Returns the position in the whole tensor of the first element of the shard's row `row`, or -1 if the row is padding.
 * A row extends along the last dimension. */
static int64_t find_row(const bg_shard *shard, const cut_dim *dims, const bg_type *piece, int64_t row)
{
    int64_t offset = 0, stride = shard->whole.dims[piece->rank - 1];

    for (uint32_t i = piece->rank - 1; i-- > 0;) {
        const int64_t index = row % piece->dims[i], within = dims[i].first + index % dims[i].piece;
        if (within >= dims[i].block)
            return -1;
        offset += (index / dims[i].piece * dims[i].block + within) * stride;
        stride *= shard->whole.dims[i];
        row /= piece->dims[i];
    }
    return offset;
}

/* Visits the elements of one row without padding. */
static void visit_row(const cut_dim *last, int64_t whole, int64_t part, bgi_visit_stretch *visit, void *user)
{
    int64_t left = last->block - last->first, length;

    if (left < 0)
        left = 0;
    length = left < last->piece ? left : last->piece;
    for (int64_t b = 0; length > 0 && b < last->blocks; b++)
        visit(user, &(bgi_stretch){whole + b * last->block + last->first, part + b * last->piece, length});
}

bg_status bgi_shard_walk(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates,
                         bgi_visit_stretch *visit, void *user, bg_error *error)
{
    cut_dim dims[BG_MAX_RANK] = {{0}};
    const cut_dim scalar = {1, 1, 1, 0};
    int64_t row_elements, row_count;
    bg_type type;

    BGI_TRY(find_dims(mesh, shard, dims, &type, error));
    if (coordinates->tensor_1 >= mesh->tensor_1 || coordinates->tensor_2 >= mesh->tensor_2)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the piece at %u, %u is outside the mesh of %u x %u (tensor axes 1 and 2)",
                            coordinates->tensor_1, coordinates->tensor_2, mesh->tensor_1, mesh->tensor_2);
    for (uint32_t i = 0; i < type.rank; i++)
        dims[i].first = place_along(coordinates, shard->dims[i].axis) * dims[i].piece;
    row_elements = type.rank > 0 ? type.dims[type.rank - 1] : 1;
    row_count = bg_type_element_count(&type) / row_elements;
    for (int64_t row = 0; row < row_count; row++) {
        const int64_t offset = type.rank > 0 ? find_row(shard, dims, &type, row) : 0;
        if (offset >= 0)
            visit_row(type.rank > 0 ? &dims[type.rank - 1] : &scalar, offset, row * row_elements, visit, user);
    }
    return BG_OK;
}

typedef struct copy {
    size_t element_bytes;
    unsigned char *whole, *piece;
    bool to_piece;
} copy;

static void copy_stretch(void *user, const bgi_stretch *stretch)
{
    const copy *c = user;
    unsigned char *there = c->whole + (size_t)stretch->whole * c->element_bytes;
    unsigned char *here = c->piece + (size_t)stretch->part * c->element_bytes;

    memcpy(c->to_piece ? here : there, c->to_piece ? there : here, (size_t)stretch->length * c->element_bytes);
}

static bg_status move(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates, unsigned char *whole,
                      unsigned char *piece, bool to_piece, bg_error *error)
{
    copy c = {bg_dtype_size_bytes(shard->whole.dtype), whole, piece, to_piece};
    bg_type type;

    BGI_TRY(bg_shard_piece(mesh, shard, &type, error));
    if (to_piece && coordinates->tensor_1 < mesh->tensor_1 && coordinates->tensor_2 < mesh->tensor_2)
        memset(piece, 0, bg_type_size_bytes(&type));
    return bgi_shard_walk(mesh, shard, coordinates, copy_stretch, &c, error);
}

bg_status bg_shard_cut(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates, const void *whole,
                       void *out_piece, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(mesh, "mesh", __func__, error));
    BGI_TRY(bgi_require(shard, "shard", __func__, error));
    BGI_TRY(bgi_require(coordinates, "coordinates", __func__, error));
    BGI_TRY(bgi_require(out_piece, "out_piece", __func__, error));
    BGI_TRY(bgi_require(whole, "whole", __func__, error));
    return move(mesh, shard, coordinates, (unsigned char *)(uintptr_t)whole, out_piece, true, error);
}

bg_status bg_shard_join(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates, const void *piece,
                        void *out_whole, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(mesh, "mesh", __func__, error));
    BGI_TRY(bgi_require(shard, "shard", __func__, error));
    BGI_TRY(bgi_require(coordinates, "coordinates", __func__, error));
    BGI_TRY(bgi_require(out_whole, "out_whole", __func__, error));
    BGI_TRY(bgi_require(piece, "piece", __func__, error));
    return move(mesh, shard, coordinates, out_whole, (unsigned char *)(uintptr_t)piece, false, error);
}
