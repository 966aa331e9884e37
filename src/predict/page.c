/*
 * page.c: writes a prediction as one HTML page: figures, a drawing of the schedule, memory by class with the budget,
 * the time of devices by class, traffic, and the plan's tables. The page contains no script; the system's setting
 * selects light or dark colors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "plan/options.h"
#include "predict/prediction.h"

/* Drawings with more actions are slow in browsers, and drawings with more devices are too long to read. */
enum { MOST_BOXES = 30000, MOST_BARS = 256 };

static const char style[] =
    ":root { color-scheme: light dark; --plan-back: #fff; --plan-panel: #f4f6f8; --plan-line: #c9d1d9;\n"
    "  --plan-text: #16202a; --plan-quiet: #4e5b68; --plan-mark: #b3261e; }\n"
    "@media (prefers-color-scheme: dark) { :root { --plan-back: #10161c; --plan-panel: #1a232c; --plan-line: #3a4754;\n"
    "  --plan-text: #eef3f7; --plan-quiet: #aab7c4; --plan-mark: #ff8a80; } }\n"
    "body { margin: 0 auto; max-width: 1700px; padding: 1rem 1.5rem 4rem; background: var(--plan-back);\n"
    "  color: var(--plan-text); font: 16px/1.5 system-ui, 'Segoe UI', sans-serif; }\n"
    "h1 { font-size: 1.4rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }\n"
    "p { max-width: 60rem; } .plan-quiet { color: var(--plan-quiet); }\n"
    ".plan-cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: .8rem; padding: "
    "0;\n"
    "  list-style: none; }\n"
    ".plan-cards li { background: var(--plan-panel); border: 1px solid var(--plan-line); border-radius: 8px;\n"
    "  padding: .6rem .8rem; }\n"
    ".plan-cards b { display: block; font-size: 1.3rem; } .plan-bad { color: var(--plan-mark); }\n"
    ".plan-scroll { overflow-x: auto; }\n"
    "pre { background: var(--plan-panel); border: 1px solid var(--plan-line); border-radius: 6px; padding: .7rem "
    "1rem;\n"
    "  overflow: auto; max-height: 40rem; font: 13px/1.4 ui-monospace, 'DejaVu Sans Mono', monospace; }\n"
    ".plan-legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; list-style: none; }\n"
    ".plan-legend i { display: inline-block; width: 1em; height: 1em; border-radius: 3px; margin-right: .35em;\n"
    "  vertical-align: -.12em; border: 1px solid var(--plan-line); }\n"
    ".plan-word { fill: var(--plan-text); font-size: 12px; } .plan-budget { stroke: var(--plan-mark); "
    "stroke-width: 2; }\n";

static const char *const memory_colors[BG_MEMORY_CLASS_COUNT] = {"#3b7dd8", "#e08a1e", "#8e5bc0", "#2a9d8f",
                                                                 "#c9413a", "#7d8894", "#b08968", "#4e5b68"};
static const char *const time_colors[BGI_TIME_CLASS_COUNT] = {"#3b7dd8", "#8e5bc0", "#e08a1e", "#2a9d8f",
                                                              "#c9413a", "#b08968", "#7d8894", "#bcd4f2",
                                                              "#d9c7ea", "#f2d9b0", "#d5d9dd", "#e9edf1"};

static void add_escaped(bgi_string *html, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '&' || *text == '<' || *text == '>' || *text == '"')
            bgi_string_add(html, "&#%d;", *text);
        else
            bgi_string_append(html, text, 1);
}

static void add_card(bgi_string *html, const char *value, const char *says, bool is_bad)
{
    bgi_string_add(html, "<li%s><b>", is_bad ? " class=\"plan-bad\"" : "");
    add_escaped(html, value);
    bgi_string_add(html, "</b>");
    add_escaped(html, says);
    bgi_string_add(html, "</li>\n");
}

static void add_run_cards(bgi_string *html, const bgi_prediction *p, double run_ns, const char *who,
                          const char *samples)
{
    const bg_plan_summary summary = bg_plan_summarize(p->plan);
    const double steps = summary.steps_per_run > 0 ? summary.steps_per_run : 1;
    char value[64], says[192];

    snprintf(value, sizeof value, "%.4g ms", 1e-6 * run_ns / steps);
    snprintf(says, sizeof says, "an update, %s", who);
    add_card(html, value, says, false);
    snprintf(value, sizeof value, "%.4g %s/s", run_ns > 0.0 ? 1e9 * (double)summary.samples_per_run / run_ns : 0.0,
             samples);
    add_card(html, value, who, false);
}

static void add_cards(bgi_string *html, const bgi_prediction *p, const char *samples)
{
    char value[64], says[192], size[BGI_BYTES_TEXT_BYTES];
    uint32_t device;
    size_t bytes, remote;
    const bool fits = bgi_prediction_fits(p, &device, &bytes, &remote);

    bgi_string_add(html, "<ul class=\"plan-cards\">\n");
    add_run_cards(html, p, p->own_run_ns, "separate devices", samples);
    snprintf(value, sizeof value, "%.1f %%", 100.0 * bgi_prediction_idle_share(&p->own));
    add_card(html, value, "of the devices' time is idle", false);
    if (p->shared.device_count > 0) {
        snprintf(says, sizeof says, "%u shared core%s", p->cores, p->cores == 1 ? "" : "s");
        add_run_cards(html, p, p->shared_run_ns, says, samples);
    }
    snprintf(says, sizeof says, "on device %u, the most%s", device, fits ? "" : ": does not fit");
    add_card(html, bgi_bytes_text(bytes, size), says, !fits);
    if (remote > 0)
        add_card(html, bgi_bytes_text(remote, size), "of streaming memory a device", !fits);
    add_card(html, bgi_bytes_text(bgi_plan_message_bytes(p->plan), size), "of messages an update of a replica", false);
    bgi_string_add(html, "</ul>\n");
}

/* ---- bars: a row for each device ---- */

typedef double (*share_function)(const bgi_prediction *p, uint32_t device, int part);

static double memory_bytes(const bgi_prediction *p, uint32_t device, int part)
{
    return part == BG_MEMORY_REMOTE ? 0.0 : (double)p->plan->devices[device].class_bytes[part];
}

static double time_ns(const bgi_prediction *p, uint32_t device, int part)
{
    return p->own.times[device][part];
}

static double budget_of(const bgi_prediction *p, uint32_t device)
{
    const size_t own = bgi_options_budget(&p->plan->options, device);

    return own > 0 ? (double)own : p->prices->model.memory_bytes < 1e18 ? p->prices->model.memory_bytes : 0.0;
}

typedef struct bars {
    const bgi_prediction *prediction;
    share_function share;
    const char *(*name)(int part);
    const char *const *colors;
    int parts;
    bool has_budget;
    double most; /* the value at full width */
    double unit; /* factor from values to units of the labels */
    const char *unit_name;
} bars;

static const char *memory_name(int part)
{
    return bg_memory_class_name((bg_memory_class)part);
}

static const char *time_name(int part)
{
    return bgi_time_class_name((bgi_time_class)part);
}

static bool is_used(const bars *b, int part)
{
    for (uint32_t d = 0; d < b->prediction->plan->device_count; d++)
        if (b->share(b->prediction, d, part) > 0.0005 * b->most)
            return true;
    return false;
}

static void add_legend(bgi_string *html, const bars *b)
{
    bgi_string_add(html, "<ul class=\"plan-legend\">");
    for (int part = 0; part < b->parts; part++)
        if (is_used(b, part))
            bgi_string_add(html, "<li><i style=\"background:%s\"></i>%s</li>", b->colors[part], b->name(part));
    if (b->has_budget)
        bgi_string_add(html, "<li><i class=\"plan-bad\" style=\"background:var(--plan-mark)\"></i>budget</li>");
    bgi_string_add(html, "</ul>\n");
}

static void add_bar(bgi_string *html, const bars *b, uint32_t device, uint32_t row)
{
    const double scale = 1000.0 / (b->most > 0.0 ? b->most : 1.0);
    double x = 90.0;

    bgi_string_add(html, "<text class=\"plan-word\" x=\"0\" y=\"%u\">device %u</text>", row * 22 + 15, device);
    for (int part = 0; part < b->parts; part++) {
        const double value = b->share(b->prediction, device, part), width = value * scale;
        if (!(width > 0.05))
            continue;
        bgi_string_add(html, "<rect x=\"");
        bgi_string_add_real(html, x);
        bgi_string_add(html, "\" y=\"%u\" width=\"", row * 22 + 2);
        bgi_string_add_real(html, width);
        bgi_string_add(html, "\" height=\"18\" fill=\"%s\"><title>device %u, %s: %.4g %s</title></rect>",
                       b->colors[part], device, b->name(part), value * b->unit, b->unit_name);
        x += width;
    }
    if (b->has_budget && budget_of(b->prediction, device) > 0.0) {
        bgi_string_add(html, "<line class=\"plan-budget\" y1=\"%u\" y2=\"%u\" x1=\"", row * 22, row * 22 + 22);
        bgi_string_add_real(html, 90.0 + budget_of(b->prediction, device) * scale);
        bgi_string_add(html, "\" x2=\"");
        bgi_string_add_real(html, 90.0 + budget_of(b->prediction, device) * scale);
        bgi_string_add(html, "\"/>");
    }
    bgi_string_add(html, "\n");
}

static void add_bars(bgi_string *html, const bars *b, const char *label)
{
    const uint32_t devices = b->prediction->plan->device_count, shown = devices < MOST_BARS ? devices : MOST_BARS;

    add_legend(html, b);
    bgi_string_add(html,
                   "<div class=\"plan-scroll\"><svg role=\"img\" aria-label=\"%s\" width=\"1100\" height=\"%u\" "
                   "viewBox=\"0 0 1100 %u\">\n",
                   label, shown * 22 + 4, shown * 22 + 4);
    for (uint32_t d = 0; d < shown; d++)
        add_bar(html, b, d, d);
    bgi_string_add(html, "</svg></div>\n");
    if (shown < devices)
        bgi_string_add(html, "<p class=\"plan-quiet\">The first %u of %u devices.</p>\n", shown, devices);
}

static void add_memory_bars(bgi_string *html, const bgi_prediction *p)
{
    bars b = {.prediction = p,
              .share = memory_bytes,
              .name = memory_name,
              .colors = memory_colors,
              .parts = BG_MEMORY_CLASS_COUNT,
              .unit = 1e-6,
              .unit_name = "MB"};

    for (uint32_t d = 0; d < p->plan->device_count; d++) {
        b.most = fmax(b.most, (double)p->plan->devices[d].arena_bytes);
        b.has_budget = b.has_budget || budget_of(p, d) > 0.0;
    }
    /* A budget far beyond the bars is not drawn, because the bars would become too small. */
    for (uint32_t d = 0; b.has_budget && d < p->plan->device_count; d++)
        if (budget_of(p, d) > 4.0 * b.most)
            b.has_budget = false;
    for (uint32_t d = 0; b.has_budget && d < p->plan->device_count; d++)
        b.most = fmax(b.most, budget_of(p, d));
    add_bars(html, &b, "Bytes of each device by class");
}

static void add_time_bars(bgi_string *html, const bgi_prediction *p)
{
    const bars b = {.prediction = p,
                    .share = time_ns,
                    .name = time_name,
                    .colors = time_colors,
                    .parts = BGI_TIME_CLASS_COUNT,
                    .most = p->own.total_ns,
                    .unit = p->own.total_ns > 0.0 ? 100.0 / p->own.total_ns : 0.0,
                    .unit_name = "%"};

    add_bars(html, &b, "Time of each device by what it does");
}

/* ---- text of the plan ---- */

typedef bg_status (*print_function)(const bg_plan *plan, char **out_text, bg_error *error);

static bg_status add_text(bgi_string *html, const bg_plan *plan, const char *title, print_function print,
                          bg_error *error)
{
    char *text = NULL;

    BGI_TRY(print(plan, &text, error));
    if (text[0] != '\0') {
        bgi_string_add(html, "<h2>%s</h2>\n<pre>", title);
        add_escaped(html, text);
        bgi_string_add(html, "</pre>\n");
    }
    free(text);
    return BG_OK;
}

static bg_status add_picture(bgi_string *html, const bgi_prediction *p, bg_error *error)
{
    char *svg = NULL;

    bgi_string_add(html, "<h2>One update, simulated</h2>\n");
    if (p->own.timing.event_count > MOST_BOXES) {
        bgi_string_add(html, "<p>%zu actions are too many for a page; <code>--svg FILE</code> draws them.</p>\n",
                       p->own.timing.event_count);
        return BG_OK;
    }
    BGI_TRY(bgi_prediction_draw(p, NULL, &svg, error));
    bgi_string_add(html, "<div class=\"plan-scroll\">");
    bgi_string_append(html, svg, strlen(svg));
    bgi_string_add(html, "</div>\n<p class=\"plan-quiet\">Times are in nanoseconds.</p>\n");
    free(svg);
    return BG_OK;
}

static void add_head(bgi_string *html, const bgi_prediction *p, const char *title)
{
    const bg_plan_summary summary = bg_plan_summarize(p->plan);

    bgi_string_add(html, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                         "'unsafe-inline'\">\n<title>");
    add_escaped(html, title);
    bgi_string_add(html, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    add_escaped(html, title);
    bgi_string_add(html,
                   "</h1>\n<p>%u stage%s on %u device%s, %u replica%s, schedule %s; %u micro-batch%s of %u an "
                   "update, %u update%s a call.</p>\n<p class=\"plan-quiet\">",
                   summary.stage_count, summary.stage_count == 1 ? "" : "s", summary.device_count,
                   summary.device_count == 1 ? "" : "s", summary.replicas, summary.replicas == 1 ? "" : "s",
                   bg_plan_schedule_name(p->plan), summary.micro_batches_per_step,
                   summary.micro_batches_per_step == 1 ? "" : "es", summary.micro_batch, summary.steps_per_run,
                   summary.steps_per_run == 1 ? "" : "s");
    add_escaped(html, p->prices->model.name);
    bgi_string_add(html, ", ");
    add_escaped(html, p->prices->basis);
    bgi_string_add(html, ". ");
    add_escaped(html, p->prices->model.source);
    bgi_string_add(html, "</p>\n");
}

bg_status bgi_prediction_page(const bgi_prediction *p, const char *title, const char *samples, char **out_text,
                              bg_error *error)
{
    bgi_string html = {0};
    bg_status status;

    add_head(&html, p, title);
    add_cards(&html, p, samples);
    BGI_TRY_CLEANUP(add_picture(&html, p, error));
    bgi_string_add(&html, "<h2>Where the time of devices goes</h2>\n");
    add_time_bars(&html, p);
    bgi_string_add(&html, "<h2>Memory of devices</h2>\n");
    add_memory_bars(&html, p);
    BGI_TRY_CLEANUP(add_text(&html, p->plan, "Bytes by class", bg_plan_print_memory, error));
    BGI_TRY_CLEANUP(add_text(&html, p->plan, "Memory by phase", bg_plan_print_phases, error));
    BGI_TRY_CLEANUP(add_text(&html, p->plan, "Remote stores and traffic", bg_plan_print_remote, error));
    BGI_TRY_CLEANUP(add_text(&html, p->plan, "Stages", bg_plan_print_placement, error));
    bgi_string_add(&html, "</body>\n</html>\n");
    status = bgi_string_finish(&html, out_text, error);
cleanup:
    bgi_string_clear(&html);
    return status;
}
