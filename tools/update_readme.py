#!/usr/bin/env python3
"""Puts real output into README.md: runs the commands and replaces what stands between their markers.

usage: update_readme.py [mnist] [check] [bench]     (default: all three; run it on a quiet machine)
"""
import re
import subprocess
import sys

KEPT_LINES = 12  # of `make check`: the first ones, then the last


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return result.stdout.rstrip("\n").split("\n"), result.returncode


def mnist():
    lines, code = run("make", "--no-print-directory", "mnist")
    return ["```"] + lines + ["```"], code


def check():
    lines, code = run("make", "--no-print-directory", "check")
    if len(lines) > KEPT_LINES + 1:
        lines = lines[:KEPT_LINES] + ["..."] + lines[-1:]
    return ["```"] + lines + ["```"], code


def bench():
    lines, code = run("make", "--no-print-directory", "-s", "bench-mnist")
    return [line + "\\" if line.startswith(("pass:", "fail:")) else line for line in lines], code


def main():
    known = {"mnist": mnist, "check": check, "bench": bench}
    failed = False
    for name in sys.argv[1:] or list(known):
        if name not in known:
            sys.exit(f"update_readme.py: `{name}` is none of {', '.join(known)}")
        lines, code = known[name]()
        failed = failed or code != 0
        with open("README.md", encoding="utf-8") as file:
            text = file.read()
        pattern = re.compile(rf"(<!-- output: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)
        if count != 1:
            sys.exit(f"update_readme.py: README.md has {count} places for `{name}`")
        with open("README.md", "w", encoding="utf-8") as file:
            file.write(text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
