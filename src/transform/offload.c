/*
 * offload.c: adds the ops that move a variable between its remote buffer and the device, and the op that refreshes a
 * tied parameter.
 *
 *     update(w, g, m)     =>     m' = load(m);  update(w, g, m');  store(m, m')
 *
 * The plan turns loads and stores into transfers, which run concurrently with the device's program. This file also
 * decides by class, name and size where a tensor is stored.
 */
#include "transform/transform.h"

#include "core/error.h"
#include "core/text.h"
#include "kernels/kernels.h"

bool bgi_rule_matches(const bg_location_rule *rule, bg_location_class location_class, const char *name)
{
    return (rule->classes >> location_class & 1) != 0 && bgi_text_matches(rule->pattern, name);
}

bg_tensor_location bgi_find_location(const bg_options *options, bg_location_class location_class, const char *name,
                                     int64_t element_count)
{
    bg_tensor_location location = options->memory.locations[location_class];

    if (location_class == BG_LOCATION_STATE && options->memory.offload_optimizer)
        location.place = BG_PLACE_REMOTE;
    for (uint32_t i = 0; i < options->memory.location_rule_count; i++)
        if (bgi_rule_matches(&options->memory.location_rules[i], location_class, name))
            location = options->memory.location_rules[i].location;
    if (location.place == BG_PLACE_DEFAULT)
        location.place = options->execution.strategy == BG_STRATEGY_PHASED ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    if ((uint64_t)element_count < location.minimum_elements_remote)
        location.place = BG_PLACE_DEVICE;
    if ((uint64_t)element_count < location.minimum_elements_sharded)
        location.sharded = false;
    return location;
}

static bg_status infer_load(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status infer_store(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];

    (void)outputs;
    if (!bg_type_equal(&op->types[0], &op->types[1]))
        return bg_error_set(error, BG_ERROR_SHAPE, "%s does not fit into %s", bg_type_text(&op->types[1], have),
                            bg_type_text(&op->types[0], want));
    return BG_OK;
}

static bg_status select_load(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    return bgi_kernel_for_op(BGI_KERNEL_COPY, op, policy, out, error);
}

/* Copies input 1 over input 0. */
static void run_store(const bg_kernel_call *call, uint32_t part)
{
    const size_t size = bg_type_size_bytes(&call->types[0]);
    unsigned char *to = call->operands[0];
    const unsigned char *from = call->operands[1];

    (void)part;
    for (size_t i = 0; i < size; i++)
        to[i] = from[i];
}

static bg_status select_store(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)error;
    *out = (bg_kernel){.name = "store", .run = run_store, .part_count = 1};
    return BG_OK;
}

const bg_op_type bgi_op_load = {BG_OP_TYPE_DEFAULTS, .name = "load",      .minimum_inputs = 1,  .maximum_inputs = 1,
                                .output_count = 1,   .infer = infer_load, .kernel = select_load};

const bg_op_type bgi_op_store = {BG_OP_TYPE_DEFAULTS,  .name = "store",      .minimum_inputs = 2,   .maximum_inputs = 2,
                                 .written_inputs = 1u, .infer = infer_store, .kernel = select_store};

const bg_op_type bgi_op_refresh = {BG_OP_TYPE_DEFAULTS,   .name = "refresh",    .minimum_inputs = 2,
                                   .maximum_inputs = 2,   .written_inputs = 1u, .infer = infer_store,
                                   .kernel = select_store};
