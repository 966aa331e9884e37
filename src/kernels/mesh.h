/*
 * mesh.h: the running replica's position on the mesh.
 */
#ifndef BGI_KERNELS_MESH_H
#define BGI_KERNELS_MESH_H

#include <brigade/kernel.h>
#include <brigade/ops.h>

/* Returns the running replica's position along a tensor axis; 0 for BG_MESH_NONE. */
static inline uint32_t bgi_mesh_place(const bg_kernel_env *env, bg_mesh_axis axis)
{
    return axis == BG_MESH_TENSOR_1 ? env->place.tensor_1 : axis == BG_MESH_TENSOR_2 ? env->place.tensor_2 : 0;
}

#endif
