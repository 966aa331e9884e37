/*
 * mesh.h: replicas in a grid, groups of replicas that share data or communicate, and tensors that are cut over the
 * grid.
 *
 * A mesh has `data` copies of a model, which process different samples. Each copy is cut along two tensor axes, as in
 * the GPT-3 example for PopXL. The replicas are numbered row by row, tensor axis 2 innermost:
 *
 *     replica = (d T1 + i) T2 + j        2 x 2 x 2:   data 0: 0 1    data 1: 4 5     rows: tensor axis 1
 *                                                             2 3            6 7     columns: axis 2
 *
 * Groups of replicas are given in one of two ways. Groups by axes are for collectives over a mesh: the members of a
 * group differ in the coordinates along the given axes, and have the same other coordinates. Groups by (size, stride)
 * are PopXL's replica groupings (bg_replica_group). In both kinds, groups are numbered in the order of their lowest
 * members, and the members of a group ascend.
 *
 * Threads: these are pure functions, which any thread may call at any time.
 *
 * Errors: BG_ERROR_INVALID for an invalid argument; BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_MESH_H
#define BRIGADE_MESH_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the grid ---- */

/* Sizes of the axes, each at least 1. The same struct holds coordinates, each below its size. */
typedef struct bg_mesh {
    uint32_t data, tensor_1, tensor_2;
} bg_mesh;

typedef enum bg_mesh_axis {
    BG_MESH_NONE = 0,
    BG_MESH_DATA = 1,
    BG_MESH_TENSOR_1 = 2,
    BG_MESH_TENSOR_2 = 4,
    BG_MESH_TENSOR = 6, /* both */
    BG_MESH_ALL = 7
} bg_mesh_axis;

/* Checks a mesh: the size of each axis must be at least 1, and the total number of replicas at most 65,536. */
BG_API bg_status bg_mesh_validate(const bg_mesh *mesh, bg_error *error);
BG_API uint32_t bg_mesh_replica_count(const bg_mesh *mesh);
BG_API uint32_t bg_mesh_replica(const bg_mesh *mesh, const bg_mesh *coordinates);
BG_API bg_mesh bg_mesh_coordinates(const bg_mesh *mesh, uint32_t replica);

/* ---- groups along axes; `axes`: bits of bg_mesh_axis ---- */

/* Returns the number of members of each group. */
BG_API uint32_t bg_mesh_group_size(const bg_mesh *mesh, uint32_t axes);
/* Returns the number of the replica's group. */
BG_API uint32_t bg_mesh_group_index(const bg_mesh *mesh, uint32_t axes, uint32_t replica);
/* Returns the replica's index in its group: 0 is the lowest member. */
BG_API uint32_t bg_mesh_group_member(const bg_mesh *mesh, uint32_t axes, uint32_t replica);
/* Returns member `member` of the group of `replica`. */
BG_API uint32_t bg_mesh_group_at(const bg_mesh *mesh, uint32_t axes, uint32_t replica, uint32_t member);

/* ---- groups by size and stride ---- */

/* Groups are formed in order: the lowest replica o that is in no group yet forms a group o, o + stride, ..., o + (size
 * - 1) stride. */
typedef struct bg_replica_group {
    uint32_t size, stride;
} bg_replica_group;

/* Checks a grouping of `replicas` replicas and completes it: a size of 0 becomes replicas / stride, and with a size of
 * 1 the stride becomes 1. */
BG_API bg_status bg_replica_group_resolve(uint32_t replicas, const bg_replica_group *asked, bg_replica_group *out,
                                          bg_error *error);
/* Sets out_groups[replica] to the number of the replica's group. The number of groups is replicas / size. */
BG_API bg_status bg_replica_group_assign(uint32_t replicas, const bg_replica_group *group, uint32_t *out_groups,
                                         bg_error *error);
/* Treats the groups as rows of a matrix and writes its columns as groups: if a tensor is cut over each group of
 * `groups`, its pieces on the replicas of a transposed group are equal. `groups[replica]` is a group number from
 * bg_replica_group_assign; all groups must have one size. The result need not have a constant stride. `out_groups` must
 * be a different array. */
BG_API bg_status bg_replica_group_transpose(uint32_t replicas, const uint32_t *groups, uint32_t *out_groups,
                                            bg_error *error);
/* Finds the grouping with one size and one stride whose groups are inside `groups`. The stride is the smallest one
 * between members; the size is the greatest common divisor of the lengths of the runs with this stride. If `groups`
 * already have one stride, *out is the same grouping; if no larger groups fit, the size is 1. */
BG_API bg_status bg_replica_group_constant(uint32_t replicas, const uint32_t *groups, bg_replica_group *out,
                                           bg_error *error);

/* Finds the axes of the mesh by which these groups are formed, for collectives (ops.h): bits of bg_mesh_axis, without
 * axes of size 1. `groups[replica]` is a group number from bg_replica_group_assign or bg_replica_group_transpose.
 * Errors: BG_ERROR_INVALID if no axes form these groups. */
BG_API bg_status bg_mesh_find_axes(const bg_mesh *mesh, const uint32_t *groups, uint32_t *out_axes, bg_error *error);

/* ---- pieces of a tensor ---- */

/* How a dimension is cut. All-zero means that the dimension is not cut. */
typedef struct bg_shard_dim {
    bg_mesh_axis axis; /* NONE, TENSOR_1 or TENSOR_2: replicas at coordinate i of this axis have piece i */
    uint32_t blocks; /* number of tensors that are concatenated in the dimension, each of which is cut separately: 3 for
                        the columns q, k, v. 0 means 1 */
    /* The size of the pieces is rounded up to a multiple of this number, and zeros follow the last element; 0: no
     * zeros, so the axis must divide the dimension. Tables of the GPT example have 16. */
    uint32_t multiple;
} bg_shard_dim;

/* A tensor and how a mesh cuts it: 50257 rows in 8 pieces of 6288 are {BG_MESH_TENSOR_1, 1, 16}. */
typedef struct bg_shard {
    bg_type whole;
    bg_shard_dim dims[BG_MAX_RANK];
} bg_shard;

/* Computes the type of each piece. If the size of an axis does not divide the dimension, the error has sizes that
 * would. */
BG_API bg_status bg_shard_piece(const bg_mesh *mesh, const bg_shard *shard, bg_type *out, bg_error *error);
/* Copies the piece of the replica at these coordinates out of the whole tensor; padding becomes zeros. */
BG_API bg_status bg_shard_cut(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates, const void *whole,
                              void *out_piece, bg_error *error);
/* Copies a piece, without its padding, to its position in the whole tensor; other elements of the whole are
 * unchanged. */
BG_API bg_status bg_shard_join(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates,
                               const void *piece, void *out_whole, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
