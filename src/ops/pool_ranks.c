/*
 * pool_ranks.c: builds pools over one, two or three dimensions, and pools to a given size, from two-dimensional pools,
 * reductions and interpolations. A signal of one dimension is an image of one row. With three dimensions the planes are
 * pooled first and then the depth. This gives the first largest element of the whole window, and an average over its
 * volume.
 */
#include <brigade/ops.h>

#include "core/error.h"
#include "graph/graph.h"
#include "ops/ops.h"

enum { MOST_DIMS = 3 };

typedef bg_value (*pool2d)(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);

void bg_pool_options_init(bg_pool_options *options, size_t struct_bytes, int64_t kernel_size)
{
    const bg_pool_options made = {.struct_bytes = struct_bytes,
                                  .kernel = {kernel_size, kernel_size, kernel_size},
                                  .dilation = {1, 1, 1},
                                  .ceil_mode = false,
                                  .count_include_pad = true};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Finds x's type and checks that pools support it; returns false if not, with the error in the graph. */
static bool read_input(bg_graph *graph, const char *op, const char *name, bg_value x, bg_type *out)
{
    char text[BG_TYPE_TEXT_BYTES];

    *out = bg_graph_type(graph, x);
    if (bg_graph_check(graph, NULL) != BG_OK)
        return false;
    if (out->rank >= 3 && out->rank <= 2 + MOST_DIMS && bg_dtype_is_float(out->dtype))
        return true;
    bgi_graph_fail_op(graph, op, name, BG_ERROR_SHAPE, "x is %s; it must be float [N,C,L], [N,C,H,W] or [N,C,D,H,W]",
                      bg_type_text(out, text));
    return false;
}

static bool check_options(bg_graph *graph, const char *op, const char *name, const bg_pool_options *options,
                          uint32_t dims)
{
    for (uint32_t dim = 0; dim < dims; dim++) {
        const struct {
            const char *name;
            int64_t value, least, most;
        } rules[] = {{"kernel", options->kernel[dim], 1, INT32_MAX},
                     {"stride", options->stride[dim], 0, INT32_MAX},
                     {"dilation", options->dilation[dim], 1, INT32_MAX},
                     {"padding", options->padding[dim], 0, options->kernel[dim] / 2}};

        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            if (rules[i].value < rules[i].least || rules[i].value > rules[i].most) {
                bgi_graph_fail_op(graph, op, name, BG_ERROR_INVALID,
                                  "%s[%u] is %lld; it must be between %lld and %lld%s", rules[i].name, (unsigned)dim,
                                  (long long)rules[i].value, (long long)rules[i].least, (long long)rules[i].most,
                                  i == 3 ? " (half the kernel)" : "");
                return false;
            }
    }
    return true;
}

/* Returns the options of a pool over two of the dimensions; -1 stands for a dimension of size 1. */
static bg_pool2d_options pick(const bg_pool_options *options, int rows, int columns)
{
    const int from[] = {rows, columns};
    bg_pool2d_options picked = bg_pool2d_defaults(1);

    for (int dim = 0; dim < 2; dim++)
        if (from[dim] >= 0) {
            picked.kernel[dim] = options->kernel[from[dim]];
            picked.stride[dim] = options->stride[from[dim]];
            picked.padding[dim] = options->padding[from[dim]];
            picked.dilation[dim] = options->dilation[from[dim]];
        }
    picked.ceil_mode = options->ceil_mode;
    picked.count_include_pad = options->count_include_pad;
    return picked;
}

static bg_value add_pool(bg_graph *graph, const char *op, const char *name, bg_value x, const bg_pool_options *options,
                         pool2d pool)
{
    bg_pool2d_options picked;
    bg_type type, pooled;

    if (!read_input(graph, op, name, x, &type))
        return (bg_value){0};
    if (options == NULL) {
        bgi_graph_fail_op(graph, op, name, BG_ERROR_INVALID, "options is NULL; start from bg_pool_defaults(kernel)");
        return (bg_value){0};
    }
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_pool_options",
                                "bg_pool_defaults(kernel)") ||
        !check_options(graph, op, name, options, type.rank - 2))
        return (bg_value){0};
    if (type.rank == 4) {
        picked = pick(options, 0, 1);
        return pool(graph, name, x, &picked);
    }
    if (type.rank == 3) {
        picked = pick(options, -1, 0);
        x = pool(graph, NULL,
                 bg_reshape(graph, NULL, x, 4, (const int64_t[]){type.dims[0], type.dims[1], 1, type.dims[2]}),
                 &picked);
        return bg_reshape(graph, name, x, 3, (const int64_t[]){type.dims[0], type.dims[1], -1});
    }
    picked = pick(options, 1, 2);
    x = bg_reshape(graph, NULL, x, 4,
                   (const int64_t[]){type.dims[0], type.dims[1] * type.dims[2], type.dims[3], type.dims[4]});
    x = pool(graph, NULL, x, &picked);
    pooled = bg_graph_type(graph, x);
    picked = pick(options, 0, -1);
    x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){type.dims[0], type.dims[1], type.dims[2], -1});
    x = pool(graph, NULL, x, &picked);
    return bg_reshape(graph, name, x, 5,
                      (const int64_t[]){type.dims[0], type.dims[1], -1, pooled.dims[2], pooled.dims[3]});
}

bg_value bg_max_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options)
{
    return add_pool(graph, "max_pool", name, x, options, bg_max_pool2d);
}

bg_value bg_avg_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options)
{
    return add_pool(graph, "avg_pool", name, x, options, bg_avg_pool2d);
}

/* ---- to a given size ---- */

/* Returns the largest element of each window; windows may have different sizes. With three dimensions the planes come
 * first, as in add_pool. */
static bg_value add_uneven_maxima(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes)
{
    const bg_type type = bg_graph_type(graph, x);
    const int64_t *d = type.dims;

    if (type.rank == 4)
        return bgi_adaptive_max_pool2d(graph, name, x, sizes);
    if (type.rank == 3) {
        x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){d[0], d[1], 1, d[2]});
        x = bgi_adaptive_max_pool2d(graph, NULL, x, (const int64_t[]){1, sizes[0]});
        return bg_reshape(graph, name, x, 3, (const int64_t[]){d[0], d[1], sizes[0]});
    }
    x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){d[0], d[1] * d[2], d[3], d[4]});
    x = bgi_adaptive_max_pool2d(graph, NULL, x, sizes + 1);
    x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){d[0], d[1], d[2], sizes[1] * sizes[2]});
    x = bgi_adaptive_max_pool2d(graph, NULL, x, (const int64_t[]){sizes[0], sizes[1] * sizes[2]});
    return bg_reshape(graph, name, x, 5, (const int64_t[]){d[0], d[1], sizes[0], sizes[1], sizes[2]});
}

static bg_value add_adaptive(bg_graph *graph, const char *op, const char *name, bg_value x, const int64_t *sizes,
                             bool is_max)
{
    bg_interpolate_options area = bg_interpolate_defaults(BG_INTERPOLATE_AREA);
    bg_pool_options options = bg_pool_defaults(1);
    int32_t axes[MOST_DIMS];
    bool divides = true, is_global = true;
    bg_type type;

    if (!read_input(graph, op, name, x, &type))
        return (bg_value){0};
    for (uint32_t i = 0; i + 2 < type.rank; i++) {
        const int64_t in = type.dims[2 + i], size = sizes != NULL ? sizes[i] : 1;

        if (size < 1 || size > INT32_MAX) {
            bgi_graph_fail_op(graph, op, name, BG_ERROR_INVALID, "sizes[%u] is %lld; it must be between 1 and %d",
                              (unsigned)i, (long long)size, INT32_MAX);
            return (bg_value){0};
        }
        is_global = is_global && size == 1;
        divides = divides && in % size == 0;
        options.kernel[i] = in / size;
        area.size[i] = size;
        axes[i] = (int32_t)(2 + i);
    }
    if (is_global && !is_max)
        return bg_reduce(graph, name, BG_REDUCE_MEAN, x, axes, type.rank - 2, true);
    if (divides)
        return is_max ? bg_max_pool(graph, name, x, &options) : bg_avg_pool(graph, name, x, &options);
    return is_max ? add_uneven_maxima(graph, name, x, area.size) : bg_interpolate(graph, name, x, &area);
}

bg_value bg_adaptive_max_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes)
{
    return add_adaptive(graph, "adaptive_max_pool", name, x, sizes, true);
}

bg_value bg_adaptive_avg_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes)
{
    return add_adaptive(graph, "adaptive_avg_pool", name, x, sizes, false);
}
