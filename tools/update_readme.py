#!/usr/bin/env python3
"""Updates output in README.md and docs/performance.md: runs the commands and replaces the text between their markers.
README's rows of speed are three rows of the bench.

usage: update_readme.py [first] [mnist] [check] [bench]     (default: all; run it on a quiet machine)
"""
import os
import re
import subprocess
import sys

KEPT_LINES = 12  # lines of `make check`: the first ones, then the last


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return result.stdout.rstrip("\n").split("\n"), result.returncode


def mnist():
    """README shows a clone with MNIST in `data`. If MNIST is elsewhere, `data` is a link to it for the run."""
    place = run("tools/find_data.sh")[0][0]
    is_linked = place not in ("", "data") and not os.path.lexists("data")
    if is_linked:
        os.symlink(place, "data")
    try:
        lines, code = run("env", "-u", "BRIGADE_DATA", "make", "--no-print-directory", "mnist")
    finally:
        if is_linked:
            os.unlink("data")
    return ["```"] + lines + ["```"], code


def check():
    lines, code = run("make", "--no-print-directory", "check")
    if len(lines) > KEPT_LINES + 1:
        lines = lines[:KEPT_LINES] + ["..."] + lines[-1:]
    return ["```"] + lines + ["```"], code


def first():
    run("make", "--no-print-directory", "-s", "build/examples/first")
    lines, code = run("build/examples/first")
    return ["```"] + lines + ["```"], code


def bench():
    lines, code = run("make", "--no-print-directory", "-s", "bench-mnist")
    return [line + "\\" if line.startswith(("pass:", "fail:")) else line for line in lines], code


def speed(lines):
    """Returns the processor, the table head and three rows: a pipeline, one device, and PyTorch's fastest row in training."""
    table = [line for line in lines if line.startswith("|")]
    rows = [line for line in table if line.startswith(("| Brigade, pipelined, 4 stages, 2 cores", "| Brigade, single device, 1 core"))]
    peers = [line for line in table if line.startswith("| torch")]
    fastest = max(peers, key=lambda line: float(line.split("|")[2].split()[0]))
    about = next(line for line in lines if line.startswith("Processor:"))
    return [about.split(" Data:")[0], ""] + table[:2] + rows + [fastest]


def put(path, name, lines):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    pattern = re.compile(rf"(<!-- output: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = pattern.subn(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)
    if count != 1:
        sys.exit(f"update_readme.py: {path} has {count} places for `{name}`")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    known = {"first": first, "mnist": mnist, "check": check, "bench": bench}
    failed = False
    for name in sys.argv[1:] or list(known):
        if name not in known:
            sys.exit(f"update_readme.py: `{name}` is unknown; use one of {', '.join(known)}")
        lines, code = known[name]()
        failed = failed or code != 0
        put("docs/performance.md" if name == "bench" else "README.md", name, lines)
        if name == "bench":
            put("README.md", "speed", speed(lines))
    sys.exit(failed)


if __name__ == "__main__":
    main()
