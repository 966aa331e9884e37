/*
 * save_index.c: saves ops on elements by index. Ids outside a tensor read as zeros in the library but are errors in
 * ONNX; only constant ids are written so that they read zeros. Negative ids of an embedding's table count from its end
 * in ONNX.
 */
#include <stdlib.h>

#include "kernels/embedding/attributes.h"
#include "kernels/index/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

/* Returns the dimension of the samples when [A.., S, B..] is indexed by ids [I..] to [A.., I.., B..]. */
static int32_t batch_of_gather(bgi_saver *s, uint32_t axis)
{
    const int32_t of_x = bgi_save_batch(s, 0), of_ids = bgi_save_batch(s, 1);

    if (of_x != BGI_SAVE_NO_BATCH && of_ids != BGI_SAVE_NO_BATCH)
        return bgi_save_fix(s, "both the tensor and the ids depend on the samples");
    if (of_x == (int32_t)axis)
        return bgi_save_fix(s, "it takes some of the samples");
    if (of_ids != BGI_SAVE_NO_BATCH)
        return of_ids + (int32_t)axis;
    return of_x > (int32_t)axis ? of_x + (int32_t)bgi_save_type(s, 1).rank - 1 : of_x;
}

/* Changes constant ids outside the axis to the index of an additional element of zeros. Returns NULL if all ids are
 * inside. */
static const char *save_outside(bgi_saver *s, int64_t size, bool counts_from_end)
{
    const bgi_value *ids = bgi_graph_value(s->graph, s->op->inputs[1]);
    const int64_t count = bg_type_element_count(&ids->type);
    double *places;
    bool is_outside = false;
    const char *name = NULL;

    if (ids->kind != BGI_VALUE_CONSTANT)
        return NULL;
    places = malloc((size_t)count * sizeof *places);
    if (places == NULL) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = bgi_load_integer(ids->type.dtype, ids->data, i);
        const int64_t place = id < 0 && counts_from_end ? id + size : id;

        is_outside = is_outside || place < 0 || place >= size;
        places[i] = (double)(place < 0 || place >= size ? size : place);
    }
    if (is_outside)
        name = bgi_save_reals(s, BG_INT64, ids->type.rank, ids->type.dims, places);
    free(places);
    return name;
}

/* Saves x with an additional zero element at the end of the axis. */
static const char *save_one_more(bgi_saver *s, const char *x, uint32_t rank, uint32_t axis)
{
    int64_t pads[2 * BG_MAX_RANK] = {0};

    pads[rank + axis] = 1;
    return bgi_save_2(s, "Pad", x, bgi_save_list(s, pads, 2 * rank));
}

static void save_gather_along(bgi_saver *s, uint32_t axis)
{
    const bg_type type = bgi_save_type(s, 0);
    const int32_t batch = batch_of_gather(s, axis);
    const char *outside = save_outside(s, type.dims[axis], s->op->type == &bgi_op_gather);
    const char *x = bgi_save_in(s, 0), *y;

    if (outside != NULL)
        x = save_one_more(s, x, type.rank, axis);
    y = bgi_save_2(s, "Gather", x, outside != NULL ? outside : bgi_save_ids(s, 1));
    bgi_save_int(s, "axis", axis);
    bgi_save_out(s, 0, y, batch);
}

static void save_gather(bgi_saver *s)
{
    save_gather_along(s, ((const bgi_index_attributes *)s->op->attributes)->axis);
}

static void save_embedding(bgi_saver *s)
{
    const bgi_embedding_attributes *f = s->op->attributes;

    if (f->axis != BG_MESH_NONE && s->graph->mesh.tensor_1 * s->graph->mesh.tensor_2 > 1)
        bgi_save_refuse(s, "its table is cut over a mesh");
    else
        save_gather_along(s, 0);
}

static void save_gather_elements(bgi_saver *s)
{
    const bgi_index_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch(s, 1);
    const char *x = bgi_save_in(s, 0), *y;

    if (batch != bgi_save_batch(s, 0) || batch == (int32_t)f->axis)
        bgi_save_fix(s, "the samples of the tensor and of the ids are in different dimensions");
    y = bgi_save_2(s, "GatherElements", x, bgi_save_ids(s, 1));
    bgi_save_int(s, "axis", f->axis);
    bgi_save_out(s, 0, y, batch);
}

/* ---- additions by number: to zeros ---- */

static bool can_add(bgi_saver *s)
{
    if (s->options->opset >= 16)
        return true;
    bgi_save_refuse(s, "opset %lld has no op that adds elements by index; request 16 or 17",
                    (long long)s->options->opset);
    return false;
}

static const char *save_zeros(bgi_saver *s, const bg_type *type)
{
    const bg_type zero = bg_vector(bgi_save_dtype(s, 0), 1);
    static const double nothing[1] = {0.0};
    const char *name = bgi_save_reals(s, zero.dtype, 1, zero.dims, nothing);

    return bgi_save_2(s, "Expand", name, bgi_save_list(s, type->dims, type->rank));
}

static void save_scatter_elements(bgi_saver *s)
{
    const bgi_index_attributes *f = s->op->attributes;
    const char *operands[3], *y;

    if (!can_add(s))
        return;
    if (bgi_save_batch(s, 0) != BGI_SAVE_NO_BATCH || bgi_save_batch(s, 1) != BGI_SAVE_NO_BATCH)
        bgi_save_fix(s, "it fills a tensor of a fixed size");
    bgi_save_widen(s);
    operands[0] = save_zeros(s, &f->whole);
    operands[1] = bgi_save_ids(s, 1);
    operands[2] = bgi_save_in(s, 0);
    y = bgi_save_node(s, "ScatterElements", 3, operands);
    bgi_save_int(s, "axis", f->axis);
    bgi_save_text(s, "reduction", "add");
    bgi_save_out(s, 0, y, BGI_SAVE_NO_BATCH);
}

/* Writes dy [A.., I.., B..] with the dimensions of the ids first, as rows [I, A.., B..] that ScatterND adds to [S, A..,
 * B..]. */
static void save_scatter(bgi_saver *s)
{
    const bgi_index_attributes *f = s->op->attributes;
    const bg_type dy = bgi_save_type(s, 0), ids = bgi_save_type(s, 1);
    const int64_t count = bg_type_element_count(&ids), size = f->whole.dims[f->axis];
    int64_t forward[BG_MAX_RANK], back[BG_MAX_RANK], dims[BG_MAX_RANK], column[2] = {count, 1};
    const char *operands[3], *outside, *y;
    bg_type front = f->whole;

    if (!can_add(s))
        return;
    if (bgi_save_batch(s, 0) != BGI_SAVE_NO_BATCH || bgi_save_batch(s, 1) != BGI_SAVE_NO_BATCH)
        bgi_save_fix(s, "it fills a tensor of a fixed size");
    bgi_save_widen(s);
    for (uint32_t i = 0; i < f->whole.rank; i++) /* the axis first, and back again */
        forward[i] = i == 0 ? f->axis : i <= f->axis ? i - 1 : i;
    for (uint32_t i = 0; i < f->whole.rank; i++) {
        back[forward[i]] = i;
        front.dims[i] = f->whole.dims[forward[i]];
    }
    for (uint32_t i = 0; i < f->whole.rank; i++)
        dims[i] = i == f->axis ? count : f->whole.dims[i];
    outside = save_outside(s, size, true);
    front.dims[0] += outside != NULL;
    operands[0] = save_zeros(s, &front);
    operands[1] = outside != NULL ? outside : bgi_save_cast(s, bgi_save_ids(s, 1), BGI_ONNX_INT64);
    operands[1] = bgi_save_reshape(s, operands[1], 2, column, BGI_SAVE_NO_BATCH);
    operands[2] = bgi_save_in(s, 0);
    if (dy.rank != f->whole.rank || ids.rank != 1)
        operands[2] = bgi_save_reshape(s, operands[2], f->whole.rank, dims, BGI_SAVE_NO_BATCH);
    operands[2] = bgi_save_transpose(s, operands[2], f->whole.rank, forward);
    y = bgi_save_node(s, "ScatterND", 3, operands);
    bgi_save_text(s, "reduction", "add");
    if (outside != NULL)
        y = bgi_save_3(s, "Slice", y, bgi_save_list(s, (const int64_t[]){0}, 1), bgi_save_list(s, &size, 1));
    bgi_save_out(s, 0, bgi_save_transpose(s, y, f->whole.rank, back), BGI_SAVE_NO_BATCH);
}

/* Saves a comparison of the ids with the numbers of all classes, so that an id outside gives zeros. */
static void save_one_hot(bgi_saver *s)
{
    const bgi_one_hot_attributes *f = s->op->attributes;
    const bg_type ids = bgi_save_type(s, 0);
    const int32_t batch = bgi_save_batch(s, 0);
    double *numbers = malloc((size_t)f->classes * sizeof *numbers);
    int64_t dims[BG_MAX_RANK] = {0};
    const char *x;

    if (numbers == NULL) {
        s->is_out_of_memory = true;
        return;
    }
    for (int64_t i = 0; i < f->classes; i++)
        numbers[i] = (double)i;
    for (uint32_t i = 0; i < ids.rank; i++)
        dims[i] = ids.dims[i];
    dims[ids.rank] = 1;
    x = bgi_save_cast(s, bgi_save_ids(s, 0), BGI_ONNX_INT64);
    x = bgi_save_reshape(s, x, ids.rank + 1, dims, batch);
    x = bgi_save_2(s, "Equal", x, bgi_save_reals(s, BG_INT64, 1, &f->classes, numbers));
    free(numbers);
    bgi_save_out_as_is(s, 0, bgi_save_cast(s, x, bgi_onnx_dtype_element(f->dtype)), batch);
}

static void save_top_k(bgi_saver *s)
{
    const bgi_top_k_attributes *f = s->op->attributes;
    const uint32_t rank = bgi_save_type(s, 0).rank;
    const int32_t batch = bgi_save_batch_before(s, 0, rank - 1);
    const char *x = bgi_save_in(s, 0), *values, *numbers;

    values = bgi_save_2(s, "TopK", x, bgi_save_list(s, &f->k, 1));
    numbers = bgi_save_more(s);
    bgi_save_int(s, "axis", (int64_t)rank - 1);
    bgi_save_int(s, "largest", !f->smallest);
    bgi_save_int(s, "sorted", 1);
    bgi_save_out(s, 0, values, batch);
    if (bgi_save_wants(s, 1))
        bgi_save_out_as_is(s, 1, bgi_save_cast(s, numbers, BGI_ONNX_INT32), batch);
}

const bgi_save_row bgi_save_index[] = {
    {&bgi_op_gather, save_gather, 0, NULL},       {&bgi_op_gather_elements, save_gather_elements, 0, NULL},
    {&bgi_op_scatter, save_scatter, 0, NULL},     {&bgi_op_scatter_elements, save_scatter_elements, 0, NULL},
    {&bgi_op_embedding, save_embedding, 0, NULL}, {&bgi_op_one_hot, save_one_hot, 0, NULL},
    {&bgi_op_top_k, save_top_k, 99, NULL},        {0},
};
