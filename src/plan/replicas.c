/*
 * replicas.c: determines the number of replicas as a mesh, and which of them get the same data. It needs the number of
 * devices of one replica, so it runs after the stages are placed.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "options/choices.h"

/* Finds the number of replicas, and checks that whole replicas use all devices of the option total_devices. */
static bg_status count_replicas(const bg_options *options, uint32_t device_count, uint32_t *out, bg_error *error)
{
    const uint32_t total = options->replicas.total_devices, most = total / device_count;

    *out = options->replicas.count;
    if (total == 0)
        return BG_OK;
    if (most == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "total_devices is %u, but a replica has %u devices: give at least that many, or put more "
                            "stages on a device",
                            total, device_count);
    if (total % device_count != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "total_devices is %u, which is not a multiple of the %u devices of a replica, so %u would "
                            "be idle; use %u or %u",
                            total, device_count, total % device_count, most * device_count, (most + 1) * device_count);
    if (options->replicas.count != 1 && options->replicas.count != most)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "total_devices %u makes %u replicas of %u devices, but replicas is %u: give only one of the two", total,
            most, device_count, options->replicas.count);
    *out = most;
    return BG_OK;
}

/* Checks that the number of replicas is a multiple of the graph's tensor-parallel replicas. */
static bg_status check_mesh(const bg_plan *plan, uint32_t replicas, bg_error *error)
{
    const bg_mesh tensor = {1, plan->tensor_1, plan->tensor_2}, all = {replicas, 1, 1};
    const uint32_t count = bg_mesh_replica_count(&tensor);

    if (count > 1 && replicas % count != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "replicas is %u, but the graph is built for %u x %u tensor-parallel replicas: use %u, or a "
                            "multiple for several copies of the model",
                            replicas, plan->tensor_1, plan->tensor_2, count);
    return count > 1 ? bg_mesh_validate(&all, error) : BG_OK;
}

/* Sets the groups of replicas with the same data. Tensor-parallel replicas, which share one copy of the model, must be
 * in one group. */
static bg_status find_groups(bg_plan *plan, bg_error *error)
{
    const bg_options *options = &plan->options;
    const uint32_t tensor = plan->tensor_1 * plan->tensor_2;

    plan->input_group_size = options->replicas.input_group_size;
    plan->input_grouping =
        options->replicas.input_grouping == BG_GROUPING_ORTHOGONAL ? BG_GROUPING_ORTHOGONAL : BG_GROUPING_CONSECUTIVE;
    if (tensor == 1)
        return BG_OK;
    if (options->replicas.input_group_size == 1)
        plan->input_group_size = tensor;
    if (plan->input_group_size % tensor != 0 || plan->input_grouping == BG_GROUPING_ORTHOGONAL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "input_group_size is %u, %s, but the %u x %u tensor-parallel replicas need the same data: "
                            "leave it 1, or use consecutive groups of a multiple of %u",
                            options->replicas.input_group_size, bgi_grouping_name(plan->input_grouping), plan->tensor_1,
                            plan->tensor_2, tensor);
    return BG_OK;
}

/* Checks that each replica has a whole branch of the tree that canonical reductions sum over micro-batches. */
static bg_status check_tree(const bg_plan *plan, bg_error *error)
{
    const uint32_t own = plan->micro_batches, replicas = bgi_plan_data_replicas(plan);
    const uint64_t all = (uint64_t)own * replicas;
    uint32_t branch = 1;

    if (!bgi_plan_is_canonical(plan))
        return BG_OK;
    if (plan->input_group_size * replicas != plan->replicas)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "canonical_reductions is set with input_group_size %u, but the replicas of a group would add the same "
            "micro-batches several times; leave input_group_size 1, or canonical_reductions off",
            plan->input_group_size);
    while (own % (2 * branch) == 0)
        branch *= 2;
    if (replicas == 1 || own == branch)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "canonical_reductions is set with %u replicas and gradient_accumulation %u, which must be a "
                        "power of two, so that each replica has a whole branch of the tree over all %llu "
                        "micro-batches; use gradient_accumulation %u with %llu replicas, or 1 replica with %llu",
                        replicas, own, (unsigned long long)all, branch, (unsigned long long)(all / branch),
                        (unsigned long long)all);
}

static bg_status check_groups(const bg_options *options, uint32_t replicas, bg_error *error)
{
    const uint32_t size = options->replicas.input_group_size;

    if (size > replicas)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "input_group_size is %u, but there are only %u replicas; it can be at most their number",
                            size, replicas);
    if (replicas % size != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "input_group_size %u does not divide the %u replicas: use a divisor, or %u replicas", size,
                            replicas, replicas / size * size);
    return BG_OK;
}

bg_status bgi_count_replicas(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const bg_options *options = &plan->options;
    uint32_t replicas = 0;

    BGI_TRY(count_replicas(options, c->stages->device_count, &replicas, error));
    BGI_TRY(check_mesh(plan, replicas, error));
    BGI_TRY(check_groups(options, replicas, error));
    if ((uint64_t)plan->micro_batches * plan->iterations * replicas > UINT32_MAX)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "a run has %u micro-batches x %u steps x %u replicas; the product must be below 2^32: use fewer device "
            "iterations and more runs",
            plan->micro_batches, plan->iterations, replicas);
    plan->options.replicas.count = plan->replicas = replicas;
    BGI_TRY(find_groups(plan, error));
    return check_tree(plan, error);
}
