/*
 * report_text.c: prints a summary for a terminal: the run, the time of devices, advice, stages, ops and memory. Missing
 * fields of a summary count as zero; names are printed with control characters escaped.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "formats/json_tree.h"
#include "profile/report.h"

enum { MOST_OPS_SHOWN = 15, MOST_TENSORS_SHOWN = 8, NAME_BYTES = 64, BAR_CELLS = 24, MOST_ROWS = 64 };

typedef struct page {
    bgi_string text;
    bool colored;
} page;

static double real_at(const json_t *object, const char *key)
{
    const double value = json_number_value(json_object_get(object, key));

    return isfinite(value) ? value : 0.0;
}

/* Makes a name for a column, truncated and without control characters. */
static const char *name_at(const json_t *object, const char *key, char *room)
{
    const char *value = json_string_value(json_object_get(object, key));

    strncpy(room, value != NULL ? value : "", NAME_BYTES - 1);
    room[NAME_BYTES - 1] = '\0';
    bgi_string_escape(room, NAME_BYTES, false);
    return room;
}

static void color(page *p, const char *code)
{
    if (p->colored)
        bgi_string_add(&p->text, "\x1b[%sm", code);
}

static void head(page *p, const char *title)
{
    bgi_string_add(&p->text, "\n");
    color(p, "1");
    bgi_string_add(&p->text, "%s", title);
    color(p, "0");
    bgi_string_add(&p->text, "\n");
}

static void add_ns(page *p, double ns)
{
    if (ns < 1e3)
        bgi_string_add(&p->text, "%7.0f ns", ns);
    else if (ns < 1e6)
        bgi_string_add(&p->text, "%7.1f us", ns / 1e3);
    else if (ns < 1e9)
        bgi_string_add(&p->text, "%7.1f ms", ns / 1e6);
    else
        bgi_string_add(&p->text, "%7.2f s ", ns / 1e9);
}

static void add_bytes(page *p, double bytes)
{
    if (bytes < 1e3)
        bgi_string_add(&p->text, "%7.0f B ", bytes);
    else if (bytes < 1e6)
        bgi_string_add(&p->text, "%7.1f kB", bytes / 1e3);
    else if (bytes < 1e9)
        bgi_string_add(&p->text, "%7.1f MB", bytes / 1e6);
    else
        bgi_string_add(&p->text, "%7.2f GB", bytes / 1e9);
}

static void add_bar(page *p, double share, const char *code)
{
    const int cells = (int)((share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share) * BAR_CELLS + 0.5);

    color(p, code);
    for (int i = 0; i < cells; i++)
        bgi_string_add(&p->text, "#");
    color(p, "0");
    bgi_string_add(&p->text, "%*s", BAR_CELLS - cells, "");
}

static double share_of(double part, double all)
{
    return all > 0.0 ? part / all : 0.0;
}

/* ---- sections ---- */

static void print_summary(page *p, const json_t *root)
{
    const json_t *configuration = json_object_get(root, "configuration"), *rates = json_object_get(root, "rates");
    const json_t *recorded = json_object_get(root, "recorded"), *machine = json_object_get(root, "machine");
    const json_t *time = json_object_get(root, "time");
    char program[NAME_BYTES], model[NAME_BYTES], schedule[NAME_BYTES], samples[NAME_BYTES];

    name_at(root, "program", program);
    name_at(root, "model", model);
    name_at(root, "samples", samples);
    color(p, "1");
    bgi_string_add(&p->text, "%s%s%s", program, program[0] != '\0' ? ": " : "", model);
    color(p, "0");
    bgi_string_add(&p->text, "\n%s schedule, %.0f stages on %.0f devices, %.0f replicas, %.0f ranks, %.0f workers\n",
                   name_at(configuration, "schedule", schedule), real_at(configuration, "stages"),
                   real_at(configuration, "devices"), real_at(configuration, "replicas"),
                   real_at(configuration, "ranks"), real_at(machine, "workers"));
    bgi_string_add(&p->text, "%.0f steps of %.0f micro-batches of %.0f %s in %.3f s: %.1f %s/s\n",
                   real_at(recorded, "steps"), real_at(configuration, "micro_batches_per_step"),
                   real_at(configuration, "micro_batch"), samples, real_at(recorded, "wall_ns") / 1e9,
                   real_at(rates, "samples_per_s"), samples);
    bgi_string_add(&p->text, "%.2f GFLOP/s, %.1f %% of the %.1f GFLOP/s that %.0f cores reach at best\n",
                   real_at(rates, "flops_per_s") / 1e9,
                   100.0 * share_of(real_at(rates, "flops_per_s"), real_at(machine, "flops_per_s")),
                   real_at(machine, "flops_per_s") / 1e9, real_at(machine, "workers"));
    bgi_string_add(&p->text, "the bubble is %.1f %% of device time; it would be %.1f %% if each device had a core\n",
                   100.0 * real_at(time, "bubble_share"), 100.0 * real_at(time, "simulated_idle_share"));
}

static void print_insights(page *p, const json_t *root)
{
    const json_t *insight;
    size_t index;
    char text[480];

    head(p, "What to change");
    json_array_foreach(json_object_get(root, "insights"), index, insight)
    {
        const char *value = json_string_value(json_object_get(insight, "text"));
        if (index == MOST_ROWS)
            break;
        strncpy(text, value != NULL ? value : "", sizeof text - 1);
        text[sizeof text - 1] = '\0';
        bgi_string_escape(text, sizeof text, false);
        color(p, index == 0 ? "33" : "0");
        bgi_string_add(&p->text, "%zu. %s\n", index + 1, text);
        color(p, "0");
    }
    if (json_array_size(json_object_get(root, "insights")) == 0)
        bgi_string_add(&p->text, "Nothing that would gain 2 %% or more was found.\n");
}

static void print_time(page *p, const json_t *root)
{
    const json_t *time = json_object_get(root, "time"), *value;
    const double all = real_at(time, "all_ns");
    const char *cause;
    char name[NAME_BYTES];

    head(p, "Device time");
    bgi_string_add(&p->text, "%-12s %5.1f %% ", "work", 100.0 * share_of(real_at(time, "busy_ns"), all));
    add_bar(p, share_of(real_at(time, "busy_ns"), all), "32");
    bgi_string_add(&p->text, "\n");
    json_object_foreach(json_object_get(time, "lost_ns"), cause, value)
    {
        if (!(share_of(json_number_value(value), all) >= 0.0005))
            continue;
        strncpy(name, cause, sizeof name - 1);
        name[sizeof name - 1] = '\0';
        bgi_string_escape(name, sizeof name, false);
        bgi_string_add(&p->text, "%-12s %5.1f %% ", name, 100.0 * share_of(json_number_value(value), all));
        add_bar(p, share_of(json_number_value(value), all), "31");
        bgi_string_add(&p->text, "\n");
    }
}

static void print_stages(page *p, const json_t *root)
{
    const json_t *stage;
    size_t index;

    head(p, "Stages           forward  backward    update    a step  x mean  parameters");
    json_array_foreach(json_object_get(root, "stages"), index, stage)
    {
        if (index == MOST_ROWS)
            break;
        bgi_string_add(&p->text, "stage %-3.0f dev %-2.0f ", real_at(stage, "stage"), real_at(stage, "device"));
        add_ns(p, real_at(stage, "forward_ns"));
        add_ns(p, real_at(stage, "backward_ns") + real_at(stage, "weights_ns") + real_at(stage, "recompute_ns"));
        add_ns(p, real_at(stage, "update_ns"));
        add_ns(p, real_at(stage, "step_ns"));
        color(p, real_at(stage, "times_the_mean") > 1.15 ? "31" : "0");
        bgi_string_add(&p->text, " %6.2f", real_at(stage, "times_the_mean"));
        color(p, "0");
        bgi_string_add(&p->text, " %11.0f\n", real_at(stage, "parameters"));
    }
}

static double op_step(const json_t *op)
{
    return real_at(op, "mean_ns") * real_at(op, "calls_per_step");
}

static void print_ops(page *p, const json_t *root)
{
    const json_t *ops = json_object_get(root, "ops"), *machine = json_object_get(root, "machine");
    const double peak = real_at(machine, "flops_per_s"), bandwidth = real_at(machine, "bytes_per_s");
    double all = 0.0, above = INFINITY;
    size_t above_index = 0;
    char name[NAME_BYTES], block[NAME_BYTES], pass[NAME_BYTES];

    for (size_t i = 0; i < json_array_size(ops); i++)
        all += op_step(json_array_get(ops, i));
    head(p, "Ops                                 a step  share   a call  GFLOP/s    GB/s  roof");
    /* Each turn finds the row that follows the last printed one, by time, then by position. */
    for (int shown = 0; shown < MOST_OPS_SHOWN; shown++) {
        size_t best = SIZE_MAX;
        const json_t *op;
        double ns, roof;
        for (size_t i = 0; i < json_array_size(ops); i++) {
            const double time = op_step(json_array_get(ops, i));
            if ((time < above || (time == above && i > above_index)) &&
                (best == SIZE_MAX || time > op_step(json_array_get(ops, best))))
                best = i;
        }
        if (best == SIZE_MAX || !(op_step(json_array_get(ops, best)) > 0.0))
            break;
        op = json_array_get(ops, best);
        above = op_step(op);
        above_index = best;
        ns = real_at(op, "mean_ns");
        roof = fmax(share_of(real_at(op, "flops"), peak), share_of(real_at(op, "bytes"), bandwidth));
        bgi_string_add(&p->text, "%-2.2s %-14.14s %-13.13s ", name_at(op, "pass", pass), name_at(op, "name", name),
                       name_at(op, "block", block));
        add_ns(p, op_step(op));
        bgi_string_add(&p->text, " %4.1f %%", 100.0 * share_of(op_step(op), all));
        add_ns(p, ns);
        bgi_string_add(&p->text, " %8.2f %7.2f %4.0f %%\n", share_of(real_at(op, "flops"), ns),
                       share_of(real_at(op, "bytes"), ns), 100.0 * share_of(roof * 1e9, ns));
    }
}

static void print_memory(page *p, const json_t *root)
{
    const json_t *device, *tensor, *value;
    const char *key;
    size_t index;
    char name[NAME_BYTES], kind[NAME_BYTES], origin[NAME_BYTES];

    head(p, "Memory");
    json_array_foreach(json_object_get(root, "memory"), index, device)
    {
        if (index == MOST_ROWS)
            break;
        bgi_string_add(&p->text, "device %-3.0f", real_at(device, "device"));
        add_bytes(p, real_at(device, "bytes"));
        if (real_at(device, "budget_bytes") > 0.0) {
            bgi_string_add(&p->text, " of");
            add_bytes(p, real_at(device, "budget_bytes"));
        }
        bgi_string_add(&p->text, ":");
        json_object_foreach(json_object_get(device, "classes"), key, value)
        {
            if (!(json_number_value(value) > 0.0))
                continue;
            strncpy(name, key, sizeof name - 1);
            name[sizeof name - 1] = '\0';
            bgi_string_escape(name, sizeof name, false);
            bgi_string_add(&p->text, " %s", name);
            add_bytes(p, json_number_value(value));
        }
        bgi_string_add(&p->text, "\n");
    }
    head(p, "Largest tensors");
    json_array_foreach(json_object_get(root, "tensors"), index, tensor)
    {
        if (index == MOST_TENSORS_SHOWN)
            break;
        add_bytes(p, real_at(tensor, "bytes"));
        bgi_string_add(&p->text, " device %-3.0f %-10s %s%s%s\n", real_at(tensor, "device"),
                       name_at(tensor, "class", kind), name_at(tensor, "name", name),
                       name_at(tensor, "origin", origin)[0] != '\0' ? " of " : "", origin);
    }
}

static void print_one(page *p, const json_t *root)
{
    print_summary(p, root);
    print_insights(p, root);
    print_time(p, root);
    print_stages(p, root);
    print_ops(p, root);
    print_memory(p, root);
}

/* ---- comparison ---- */

static void compare_row(page *p, const char *what, double a, double b, double scale, const char *unit,
                        bool more_is_good)
{
    const double change = share_of(b - a, a);

    bgi_string_add(&p->text, "%-22s %12.3f %12.3f %-9s", what, a * scale, b * scale, unit);
    color(p, fabs(change) < 0.01 ? "0" : (change > 0.0) == more_is_good ? "32" : "31");
    bgi_string_add(&p->text, " %+6.1f %%", 100.0 * change);
    color(p, "0");
    bgi_string_add(&p->text, "\n");
}

static double most_bytes(const json_t *root)
{
    const json_t *device;
    double most = 0.0;
    size_t index;

    json_array_foreach(json_object_get(root, "memory"), index, device) most = fmax(most, real_at(device, "bytes"));
    return most;
}

static void print_comparison(page *p, json_t *const *roots)
{
    const json_t *rates[2], *times[2], *value;
    const char *cause;
    double all[2];
    char name[NAME_BYTES];

    for (int i = 0; i < 2; i++) {
        rates[i] = json_object_get(roots[i], "rates");
        times[i] = json_object_get(roots[i], "time");
        all[i] = real_at(times[i], "all_ns");
    }
    head(p, "Comparison                         1            2             change");
    compare_row(p, "throughput", real_at(rates[0], "samples_per_s"), real_at(rates[1], "samples_per_s"), 1.0,
                "samples/s", true);
    compare_row(p, "compute", real_at(rates[0], "flops_per_s"), real_at(rates[1], "flops_per_s"), 1e-9, "GFLOP/s",
                true);
    compare_row(p, "work", share_of(real_at(times[0], "busy_ns"), all[0]),
                share_of(real_at(times[1], "busy_ns"), all[1]), 100.0, "% of time", true);
    json_object_foreach(json_object_get(times[0], "lost_ns"), cause, value)
    {
        const double other = real_at(json_object_get(times[1], "lost_ns"), cause);
        if (share_of(json_number_value(value), all[0]) < 0.0005 && share_of(other, all[1]) < 0.0005)
            continue;
        strncpy(name, cause, sizeof name - 1);
        name[sizeof name - 1] = '\0';
        bgi_string_escape(name, sizeof name, false);
        compare_row(p, name, share_of(json_number_value(value), all[0]), share_of(other, all[1]), 100.0, "% of time",
                    false);
    }
    compare_row(p, "memory, most", most_bytes(roots[0]), most_bytes(roots[1]), 1e-6, "MB", false);
}

bg_status bgi_report_print(const bgi_report_part *parts, uint32_t count, bool colored, char **out, bg_error *error)
{
    page p = {.colored = colored};
    json_t *roots[2] = {NULL, NULL};
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < count && i < 2; i++) {
        BGI_TRY_CLEANUP(bgi_summary_check(parts[i].name, parts[i].summary, parts[i].size_bytes, error));
        BGI_TRY_CLEANUP(bgi_json_parse(parts[i].name, parts[i].summary, parts[i].size_bytes, &roots[i], error));
    }
    for (uint32_t i = 0; i < count && i < 2; i++) {
        if (count > 1) {
            char name[NAME_BYTES * 4];
            strncpy(name, parts[i].name, sizeof name - 1);
            name[sizeof name - 1] = '\0';
            bgi_string_escape(name, sizeof name, false);
            bgi_string_add(&p.text, "%s%u. %s\n", i > 0 ? "\n" : "", i + 1, name);
        }
        print_one(&p, roots[i]);
    }
    if (count > 1)
        print_comparison(&p, roots);
    status = bgi_string_finish(&p.text, out, error);
cleanup:
    bgi_string_clear(&p.text);
    json_decref(roots[0]);
    json_decref(roots[1]);
    return status;
}
