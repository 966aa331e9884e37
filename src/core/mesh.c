/*
 * mesh.c: computes replica groups from replica numbers. It allocates no memory.
 */
#include <brigade/mesh.h>

#include "core/error.h"

enum { MOST_REPLICAS = 65536 };

/* ---- the grid ---- */

bg_status bg_mesh_validate(const bg_mesh *mesh, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(mesh, "mesh", __func__, error));
    if (mesh->data < 1 || mesh->tensor_1 < 1 || mesh->tensor_2 < 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the mesh is %u x %u x %u (data, tensor axes 1 and 2); each size must be at least 1",
                            mesh->data, mesh->tensor_1, mesh->tensor_2);
    if (mesh->data > MOST_REPLICAS || mesh->tensor_1 > MOST_REPLICAS || mesh->tensor_2 > MOST_REPLICAS ||
        (uint64_t)mesh->data * mesh->tensor_1 * mesh->tensor_2 > MOST_REPLICAS)
        return bg_error_set(error, BG_ERROR_INVALID, "the mesh has %u x %u x %u replicas; it may have at most %d",
                            mesh->data, mesh->tensor_1, mesh->tensor_2, MOST_REPLICAS);
    return BG_OK;
}

uint32_t bg_mesh_replica_count(const bg_mesh *mesh)
{
    return mesh->data * mesh->tensor_1 * mesh->tensor_2;
}

uint32_t bg_mesh_replica(const bg_mesh *mesh, const bg_mesh *coordinates)
{
    return (coordinates->data * mesh->tensor_1 + coordinates->tensor_1) * mesh->tensor_2 + coordinates->tensor_2;
}

bg_mesh bg_mesh_coordinates(const bg_mesh *mesh, uint32_t replica)
{
    return (bg_mesh){.data = replica / mesh->tensor_2 / mesh->tensor_1,
                     .tensor_1 = replica / mesh->tensor_2 % mesh->tensor_1,
                     .tensor_2 = replica % mesh->tensor_2};
}

/* ---- groups along axes ---- */

/* Returns the mesh, or the coordinates, with `otherwise` (size 1 or coordinate 0) for axes that are not in `axes`. */
static bg_mesh keep_axes(const bg_mesh *mesh, uint32_t axes, uint32_t otherwise)
{
    return (bg_mesh){.data = (axes & BG_MESH_DATA) != 0 ? mesh->data : otherwise,
                     .tensor_1 = (axes & BG_MESH_TENSOR_1) != 0 ? mesh->tensor_1 : otherwise,
                     .tensor_2 = (axes & BG_MESH_TENSOR_2) != 0 ? mesh->tensor_2 : otherwise};
}

/* Returns the number of a replica in the grid of only the named axes. */
static uint32_t number_along(const bg_mesh *mesh, uint32_t axes, uint32_t replica)
{
    const bg_mesh at = bg_mesh_coordinates(mesh, replica), sizes = keep_axes(mesh, axes, 1);
    const bg_mesh kept = keep_axes(&at, axes, 0);

    return bg_mesh_replica(&sizes, &kept);
}

uint32_t bg_mesh_group_size(const bg_mesh *mesh, uint32_t axes)
{
    const bg_mesh sizes = keep_axes(mesh, axes, 1);

    return bg_mesh_replica_count(&sizes);
}

uint32_t bg_mesh_group_index(const bg_mesh *mesh, uint32_t axes, uint32_t replica)
{
    return number_along(mesh, ~axes, replica);
}

uint32_t bg_mesh_group_member(const bg_mesh *mesh, uint32_t axes, uint32_t replica)
{
    return number_along(mesh, axes, replica);
}

uint32_t bg_mesh_group_at(const bg_mesh *mesh, uint32_t axes, uint32_t replica, uint32_t member)
{
    const bg_mesh at = bg_mesh_coordinates(mesh, replica), sizes = keep_axes(mesh, axes, 1);
    const bg_mesh along = bg_mesh_coordinates(&sizes, member), fixed = keep_axes(&at, ~axes, 0);
    const bg_mesh sum = {fixed.data + along.data, fixed.tensor_1 + along.tensor_1, fixed.tensor_2 + along.tensor_2};

    return bg_mesh_replica(mesh, &sum);
}

/* ---- groups by size and stride ---- */

bg_status bg_replica_group_resolve(uint32_t replicas, const bg_replica_group *asked, bg_replica_group *out,
                                   bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(asked, "asked", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_replica_group group = *asked;

    if (replicas < 1 || replicas > MOST_REPLICAS)
        return bg_error_set(error, BG_ERROR_INVALID, "there are %u replicas; there must be 1 to %d", replicas,
                            MOST_REPLICAS);
    if (group.size == 1)
        group.stride = 1;
    if (group.stride < 1 || group.stride > replicas || replicas % group.stride != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the replica groups have stride %u; it must divide the %u replicas", group.stride,
                            replicas);
    if (group.size == 0)
        group.size = replicas / group.stride;
    if (group.size == 1)
        group.stride = 1;
    if (group.size > replicas || replicas % ((uint64_t)group.size * group.stride) != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the replica groups have size %u and stride %u; size x stride must divide the %u replicas, "
                            "so that every replica is in a group",
                            group.size, group.stride, replicas);
    *out = group;
    return BG_OK;
}

/* Sets out_groups[replica] to the number of the replica's group; size x stride replicas form `stride` groups. */
bg_status bg_replica_group_assign(uint32_t replicas, const bg_replica_group *group, uint32_t *out_groups,
                                  bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(group, "group", __func__, error));
    BGI_TRY(bgi_require(out_groups, "out_groups", __func__, error));

    bg_replica_group resolved;

    BGI_TRY(bg_replica_group_resolve(replicas, group, &resolved, error));
    for (uint32_t replica = 0; replica < replicas; replica++)
        out_groups[replica] = replica / (resolved.size * resolved.stride) * resolved.stride + replica % resolved.stride;
    return BG_OK;
}

/* Returns the position of a replica in its group: the number of earlier members. */
static uint32_t count_before(const uint32_t *groups, uint32_t replica)
{
    uint32_t count = 0;

    for (uint32_t other = 0; other < replica; other++)
        count += groups[other] == groups[replica];
    return count;
}

/* Checks that all groups, which are numbered by their lowest member, have the same size. */
static bg_status check_groups(uint32_t replicas, const uint32_t *groups, uint32_t *out_size, bg_error *error)
{
    uint32_t group_count = 0, size;

    if (replicas < 1 || replicas > MOST_REPLICAS)
        return bg_error_set(error, BG_ERROR_INVALID, "there are %u replicas; there must be 1 to %d", replicas,
                            MOST_REPLICAS);
    for (uint32_t replica = 0; replica < replicas; replica++) {
        if (groups[replica] > group_count)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "replica %u is in group %u and there is no group %u before it; groups are numbered by "
                                "their lowest replica",
                                replica, groups[replica], group_count);
        group_count += groups[replica] == group_count;
    }
    size = replicas / group_count;
    for (uint32_t replica = 0; replica < replicas; replica++)
        if (replicas % group_count != 0 || count_before(groups, replica) >= size)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "the %u replicas are in %u groups of different sizes; group %u has more than %u replicas", replicas,
                group_count, groups[replica], size);
    *out_size = size;
    return BG_OK;
}

bg_status bg_replica_group_transpose(uint32_t replicas, const uint32_t *groups, uint32_t *out_groups, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out_groups, "out_groups", __func__, error));
    BGI_TRY(bgi_require(groups, "groups", __func__, error));

    uint32_t size;

    BGI_TRY(check_groups(replicas, groups, &size, error));
    for (uint32_t replica = 0; replica < replicas; replica++)
        out_groups[replica] = count_before(groups, replica);
    return BG_OK;
}

/* Returns the next replica of the same group; `replicas` if there is none. */
static uint32_t find_next(uint32_t replicas, const uint32_t *groups, uint32_t replica)
{
    uint32_t next = replica + 1;

    while (next < replicas && groups[next] != groups[replica])
        next++;
    return next;
}

static uint32_t find_divisor(uint32_t a, uint32_t b)
{
    return b == 0 ? a : find_divisor(b, a % b);
}

static uint32_t find_smallest_stride(uint32_t replicas, const uint32_t *groups)
{
    uint32_t smallest = replicas;

    for (uint32_t replica = 0; replica < replicas; replica++) {
        const uint32_t next = find_next(replicas, groups, replica);
        if (next < replicas && next - replica < smallest)
            smallest = next - replica;
    }
    return smallest;
}

/* Returns the greatest common divisor of the lengths of all runs of members at this stride. */
static uint32_t find_common_run(uint32_t replicas, const uint32_t *groups, uint32_t stride)
{
    uint32_t common = 0;

    for (uint32_t replica = 0; replica < replicas; replica++) {
        uint32_t length = 1, last = replica;
        if (replica >= stride && groups[replica - stride] == groups[replica])
            continue; /* inside a run */
        while (last + stride < replicas && groups[last + stride] == groups[replica]) {
            last += stride;
            length++;
        }
        common = find_divisor(length, common);
    }
    return common;
}

/* Whether every group of (size, stride) is inside one of `groups`. */
static bool lies_inside(uint32_t replicas, const uint32_t *groups, bg_replica_group group)
{
    const uint32_t block = group.size * group.stride;

    for (uint32_t replica = 0; replica < replicas; replica++)
        if (groups[replica] != groups[replica / block * block + replica % group.stride])
            return false;
    return true;
}

bg_status bg_replica_group_constant(uint32_t replicas, const uint32_t *groups, bg_replica_group *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(groups, "groups", __func__, error));

    bg_replica_group group = {1, 1};
    uint32_t size = 0;

    BGI_TRY(check_groups(replicas, groups, &size, error));
    if (size > 1) {
        group.stride = find_smallest_stride(replicas, groups);
        group.size = find_common_run(replicas, groups, group.stride);
    }
    if (bg_replica_group_resolve(replicas, &group, &group, NULL) != BG_OK || !lies_inside(replicas, groups, group))
        group = (bg_replica_group){1, 1};
    *out = group;
    return BG_OK;
}

/* ---- from groups to axes ---- */

static bool has_groups(const bg_mesh *mesh, uint32_t axes, const uint32_t *groups)
{
    for (uint32_t replica = 0; replica < bg_mesh_replica_count(mesh); replica++)
        if (bg_mesh_group_index(mesh, axes, replica) != groups[replica])
            return false;
    return true;
}

/* Finds the first set of axes that makes the groups. The set contains no axis of size 1, because such axes have no
 * effect. */
bg_status bg_mesh_find_axes(const bg_mesh *mesh, const uint32_t *groups, uint32_t *out_axes, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(mesh, "mesh", __func__, error));
    BGI_TRY(bgi_require(out_axes, "out_axes", __func__, error));
    BGI_TRY(bgi_require(groups, "groups", __func__, error));
    BGI_TRY(bg_mesh_validate(mesh, error));
    for (uint32_t axes = BG_MESH_NONE; axes <= BG_MESH_ALL; axes++)
        if (has_groups(mesh, axes, groups)) {
            *out_axes = axes;
            return BG_OK;
        }
    return bg_error_set(error, BG_ERROR_INVALID,
                        "no axes of the mesh of %u x %u x %u replicas (data, tensor axes 1 and 2) make these groups; "
                        "collectives need whole axes",
                        mesh->data, mesh->tensor_1, mesh->tensor_2);
}
