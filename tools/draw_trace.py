#!/usr/bin/env python3
"""Draws one weight update of a recorded trace as SVG: devices as rows, time to the right.

usage: draw_trace.py TRACE.json OUT.svg [--step N]     (default: the shortest update of the recording)

    brigade mnist --epochs 1 --steps 40 --profile --profile-dir profile
    tools/draw_trace.py profile/trace.json docs/pipeline.svg

Forwards are drawn above and backwards below; the bar under a row shows the core. A bar that is too narrow has no number.
The script needs only Python's standard library.
"""
import argparse
import json
from html import escape

WIDTH, LEFT, TOP, ROW, LANE = 1120, 150, 64, 62, 20
COLORS = {"F": "#3b7dd8", "B": "#e0803a", "W": "#c9a227", "U": "#3f9a58", "LOAD": "#8a63b8", "STORE": "#8a63b8"}
NAMES = {"F": "forward", "B": "backward", "W": "weight gradients", "U": "weight update", "LOAD": "load, store"}
LANES = {"F": 0, "B": 1, "W": 1}
CORES = ["#555555", "#c4c4c4", "#7a4b4b", "#4b7a6a", "#6a4b7a", "#a08040"]


def read(path):
    """Reads the devices' names, and compute events by step."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    steps = {}
    for event in events:
        if event["ph"] == "X" and event["cat"] in COLORS:
            steps.setdefault(event["args"]["step"], []).append(event)
    return names, steps


def span(events):
    return min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)


def choose(steps):
    """Returns the shortest complete step, except the first one, which warms up, and the oldest recorded one."""
    whole = sorted(steps)[1:] or sorted(steps)
    return min(whole, key=lambda step: span(steps[step])[1] - span(steps[step])[0])


def draw(names, events, step):
    start, end = span(events)
    scale = (WIDTH - LEFT - 20) / (end - start)
    rows = {device: i for i, device in enumerate(sorted(names))}
    height = TOP + ROW * len(rows) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    x = LEFT
    for kind, name in NAMES.items():
        if any(e["cat"] == kind for e in events):
            out.append(f'<rect x="{x}" y="14" width="14" height="14" rx="2" fill="{COLORS[kind]}"/>'
                       f'<text x="{x + 20}" y="25" fill="#222222">{name}</text>')
            x += 40 + 8 * len(name)
    for worker in sorted({e["args"]["worker"] for e in events}):
        out.append(f'<rect x="{x}" y="19" width="14" height="4" fill="{CORES[worker % len(CORES)]}"/>'
                   f'<text x="{x + 20}" y="25" fill="#222222">core {worker}</text>')
        x += 74
    for device, row in rows.items():
        y = TOP + row * ROW
        title, _, detail = names[device].partition(" (")
        out.append(f'<text x="12" y="{y + 17}" fill="#222222" font-weight="bold">{escape(title)}</text>')
        out.append(f'<text x="12" y="{y + 34}" fill="#666666">{escape(detail.rstrip(")"))}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 20}" height="{2 * LANE + 6}" fill="#f4f4f4"/>')
    bottom = TOP + ROW * len(rows)
    tick = 10 ** len(str(int((end - start) / 10))) / 2
    for i in range(int((end - start) / tick) + 1):
        x = LEFT + i * tick * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom - 6}" stroke="#dddddd" stroke-width="0.5"/>'
                   f'<text x="{x:.1f}" y="{bottom + 10}" fill="#666666" text-anchor="middle">{i * tick / 1000:g}</text>')
    for event in events:
        y = TOP + rows[(event["pid"], event["tid"])] * ROW
        left, width = LEFT + (event["ts"] - start) * scale, max(event["dur"] * scale, 0.6)
        kind, number = event["cat"], event["args"]["micro_batch"]
        top, tall = (y + LANE * LANES[kind], LANE) if kind in LANES else (y, 2 * LANE)
        out.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{tall}" fill="{COLORS[kind]}" '
                   f'stroke="#ffffff" stroke-width="0.4"/>')
        if kind in LANES and width >= 9:
            out.append(f'<text x="{left + width / 2:.1f}" y="{top + 14}" fill="#ffffff" font-size="11" '
                       f'text-anchor="middle">{number}</text>')
        out.append(f'<rect x="{left:.1f}" y="{y + 2 * LANE + 2}" width="{width:.1f}" height="4" '
                   f'fill="{CORES[event["args"]["worker"] % len(CORES)]}"/>')
    out.append(f'<text x="12" y="{bottom + 10}" fill="#666666">ms of update {step + 1}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--step", type=int, help="which weight update, from 0")
    options = parser.parse_args()
    names, steps = read(options.trace)
    step = choose(steps) if options.step is None else options.step
    if step not in steps:
        parser.error(f"--step {step} is not in the trace, which has {min(steps)} to {max(steps)}")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(draw(names, steps[step], step))


if __name__ == "__main__":
    main()
