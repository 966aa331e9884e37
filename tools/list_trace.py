#!/usr/bin/env python3
"""Lists one weight update of a recorded trace, a column for each device, and how much communication overlaps compute.

usage: list_trace.py TRACE.json [--step N] [--rows N]     (default: the shortest update of the recording, 40 rows)

    mpirun -n 2 brigade mnist --strategy single --replicas 2 --steps 40 --profile
    tools/list_trace.py profile/trace.json

All devices use one clock, also those of other ranks. The last lines cover the whole recording. The time of a sum is that of
its REDUCE or GATHER. The time of a message, from its SEND to the end of its RECEIVE, is known only if the receiver computes
nothing at that time. The script needs only Python's standard library.
"""
import argparse
import json

COMPUTE = {"F", "B", "W", "R", "U"}
SUMS = {"REDUCE", "GATHER"}
WIDTH = 24


def read(path):
    """Reads slices by device, (device, end) pairs of messages, and the devices' names."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    tracks = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    # Transfers parallel to a program have a separate track, after those of the devices.
    beside = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"
              and ": " in e["args"]["name"].partition("(")[0]}
    devices = sorted(tracks - beside)
    count = max(tid for _, tid in devices) + 1
    slices = {device: [] for device in devices}
    starts, messages = {}, []
    for e in events:
        if e["ph"] == "X":
            slices[e["pid"], e["tid"] % count].append(dict(e, beside=e["tid"] >= count, end=e["ts"] + e["dur"]))
        elif e["ph"] == "s":
            starts[e["id"]] = e
        elif e["ph"] == "f" and e["id"] in starts:
            start = starts[e["id"]]
            messages.append(((start["pid"], start["tid"]), (e["pid"], e["tid"]), start["ts"], e["ts"]))
    return slices, messages


def name(device):
    return f"replica {device[0]} device {device[1]}"


def choose(slices):
    """Returns the shortest update, except the first one, which warms up, and the oldest recorded one."""
    spans = {}
    for events in slices.values():
        for e in events:
            begin, end = spans.get(e["args"]["step"], (e["ts"], e["end"]))
            spans[e["args"]["step"]] = min(begin, e["ts"]), max(end, e["end"])
    whole = sorted(spans)[1:] or sorted(spans)
    return min(whole, key=lambda step: spans[step][1] - spans[step][0])


def list_step(slices, step, most):
    devices = sorted(slices)
    events = sorted((e["ts"], e["end"], devices.index(device), e) for device in devices for e in slices[device]
                    if e["args"]["step"] == step)
    begin = events[0][0]
    print(f"update {step + 1}, ms after it began")
    print(("   begin      end  " + "".join(name(device).ljust(WIDTH) for device in devices)).rstrip())
    for start, end, column, e in events[:most]:
        label = e["name"] + (" beside" if e["beside"] else "")
        print(f"{(start - begin) / 1000:8.3f} {(end - begin) / 1000:8.3f}  " + " " * (WIDTH * column) + label)
    if len(events) > most:
        print(f"... {len(events) - most} more")


def join(spans):
    """Joins overlapping spans and sorts them."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((begin, end))
    return out


def measure(spans):
    return sum(end - begin for begin, end in spans)


def common(a, b):
    """Returns the time for which two lists of joined spans overlap."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole > 0 else "nothing"


def sum_up(slices, messages):
    devices = sorted(slices)
    work = {d: join((e["ts"], e["end"]) for e in slices[d] if e["cat"] in COMPUTE) for d in devices}
    for device in devices:
        sums = join((e["ts"], e["end"]) for e in slices[device] if e["cat"] in SUMS)
        others = join(span for other in devices if other != device for span in work[other])
        if sums:
            print(f"sums of {name(device)}: {measure(sums) / 1000:.3f} ms; {share(common(sums, work[device]), measure(sums))} "
                  f"while it computes, {share(common(sums, others), measure(sums))} while others do")
    for sender in devices:
        for receiver in devices:
            ways = [(start, end) for a, b, start, end in messages if (a, b) == (sender, receiver)]
            waited = [way for way in ways if common([way], work[receiver]) == 0]
            beside = sum(common([way], work[sender]) > 0 for way in waited)
            times = sorted(end - start for start, end in waited) or [0]
            if ways:
                print(f"messages of {name(sender)} to device {receiver[1]}: {len(ways)}; {len(ways) - len(waited)} came while it "
                      f"computed; it waited for {len(waited)}, in the median {times[len(times) // 2] / 1000:.3f} ms, and the "
                      f"sender computed during {beside} of these")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--step", type=int, help="which weight update, from 0")
    parser.add_argument("--rows", type=int, default=40, help="of the listing; 0: only the last lines")
    options = parser.parse_args()
    slices, messages = read(options.trace)
    step = choose(slices) if options.step is None else options.step
    if all(e["args"]["step"] != step for events in slices.values() for e in events):
        parser.error(f"--step {step} is not in the trace")
    if options.rows > 0:
        list_step(slices, step, options.rows)
    sum_up(slices, messages)


if __name__ == "__main__":
    main()
