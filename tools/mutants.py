#!/usr/bin/env python3
"""Breaks the sources on purpose, one small change (mutant) at a time, and reports which tests fail.

usage: mutants.py [--check | --list] [--lists GLOB] [--scratch DIR] [--limit SECONDS] [PATTERN...]

The mutants are in tests/mutants/*.txt. A PATTERN selects those whose name, file, row or test contains it; without one all
run. The tree is copied to a scratch folder and every mutant is applied there, so the work tree never changes. For each
mutant the tool builds the tests that the mutant names, runs them, and prints one line: `caught`, with the tests, or
`LIVES`. A mutant counts as caught when every test it names fails, and when those tests pass without the mutant. The exit
code is 1 if a mutant lives.

    --check      build nothing, but check that every old text occurs once in its file, every named test exists, and every named
    row of docs/capabilities.md names one of the tests (`make check` does this)
    --list       print the names
    --lists GLOB other lists
    --scratch D  keep the copy in folder D, so that the next call compiles only what changed since
    --limit S    a test that runs longer than this has failed (default: 600)

CC and MAKE choose compiler and make (CC="ccache gcc" saves time); RUN is a command that runs each test, such as `nice`.

To add a mutant, write a paragraph into the list of the room it changes:

    mutant final_returns_the_first      a unique name that says what the change does
    row C036                            rows of docs/capabilities.md whose claim it breaks (any number of lines)
    test tests/a/test_b.c:test_name     tests that catch it (any number): a function of a C test, or a case of a script
    cpu avx512f                         optional: left out where /proc/cpuinfo does not have this flag
    file src/a/b.c                      the file to change
    - old text                          one or more lines that occur once in the file, with their indentation; the first
                                        may begin and the last may end within a line
    + new text                          any number of lines in their place

A mutant may have several `file` parts. Keep old texts short, so that unrelated changes of the file do not affect them. A mutant
that no longer applies is an error: adapt its text, or remove the mutant together with the code it changed.
"""
import argparse
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LISTS = "tests/mutants/*.txt"
ROWS = "docs/capabilities.md"


class Mutant:
    def __init__(self, name, place):
        self.name, self.place = name, place
        self.rows, self.tests, self.cpu, self.edits = [], [], [], []

    def contains(self, pattern):
        texts = [self.name] + self.rows + self.tests + [edit[0] for edit in self.edits]
        return any(pattern in text for text in texts)


def read_list(path, errors):
    """Mutants of one list; an edit is [file, old lines, new lines]."""
    mutants = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line, place = line.rstrip("\n"), f"{path}:{number}"
            word, _, rest = line.partition(" ")
            mutant = mutants[-1] if mutants else None
            if not line or word == "#":
                continue
            if word == "mutant" and rest:
                mutants.append(Mutant(rest, place))
            elif mutant is None:
                errors.append(f"{place}: `{line}` before the first mutant")
            elif word == "row":
                mutant.rows.append(rest)
            elif word == "test":
                mutant.tests.append(rest)
            elif word == "cpu":
                mutant.cpu.append(rest)
            elif word == "file":
                mutant.edits.append([rest, [], []])
            elif word in ("-", "+") and mutant.edits:
                mutant.edits[-1][1 if word == "-" else 2].append(rest)
            else:
                errors.append(f"{place}: `{line}` is not one of mutant, row, test, cpu, file, - and +")
    return mutants


def cpu_flags():
    try:
        found = re.search(r"^flags\s*:(.*)$", read_file("/proc/cpuinfo"), re.M)
    except OSError:
        found = None
    return found[1].split() if found else []


def read_file(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def edited_text(root, mutant, edit):
    """The file's text with the edit; ValueError if the old text does not occur exactly once."""
    path, old, new = edit[0], "\n".join(edit[1]), "\n".join(edit[2])
    try:
        text = read_file(os.path.join(root, path))
    except OSError as error:
        raise ValueError(f"{mutant.place}: {mutant.name}: {path}: {error.strerror}") from error
    count = text.count(old) if old else 0
    if count != 1:
        raise ValueError(f"{mutant.place}: {mutant.name}: {path} has the old text {count} times, expected once: {old}")
    if old == new:
        raise ValueError(f"{mutant.place}: {mutant.name}: the new text is the old one")
    return text.replace(old, new)


def has_test(root, test):
    """Whether a C test registers the function, or a script begins the case."""
    path, _, name = test.partition(":")
    try:
        text = read_file(os.path.join(root, path))
    except OSError:
        return False
    name = re.escape(name)
    if path.endswith(".sh"):
        return re.search(rf"^ *begin_case {name}$", text, re.M) is not None
    return re.search(rf"(cmocka_unit_test[a-z_]*|[A-Z_]*_TEST)\({name}[,)]", text) is not None


def rows_of(root):
    """A mapping of row numbers to the text of all their lines."""
    rows = {}
    path = os.path.join(root, ROWS)
    for line in read_file(path).splitlines() if os.path.exists(path) else []:
        if match := re.match(r"\| *(C\d+) *\|", line):
            rows[match[1]] = rows.get(match[1], "") + line
    return rows


def check(root, mutants):
    errors, names, rows = [], set(), rows_of(root)
    for mutant in mutants:
        found = []
        if mutant.name in names:
            found.append("there is another mutant of that name")
        names.add(mutant.name)
        if not mutant.tests:
            found.append("names no test")
        if not mutant.edits:
            found.append("changes no file")
        found += [f"{test} is no test" for test in mutant.tests if not has_test(root, test)]
        for row in mutant.rows:
            if row not in rows:
                found.append(f"{ROWS} has no row {row}")
            elif not any(re.search(re.escape(test) + r"(?![\w-])", rows[row]) for test in mutant.tests):
                found.append(f"row {row} of {ROWS} names none of {', '.join(mutant.tests)}")
        errors += [f"{mutant.place}: {mutant.name}: {text}" for text in found]
        for edit in mutant.edits:
            try:
                edited_text(root, mutant, edit)
            except ValueError as error:
                errors.append(str(error))
    return errors


def copy_tree(root, scratch):
    """Brings the scratch copy up to date. Files that did not change keep their times, so make keeps their objects."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if listed.returncode == 0:
        files = set(listed.stdout.split("\0")) - {""}
    else:
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        files = {os.path.relpath(path, root) for path in paths}
    files = {path for path in files if os.path.isfile(os.path.join(root, path))}
    before = os.path.join(scratch, ".mutants-files")
    for path in set(read_file(before).split("\n")) - files - {""} if os.path.exists(before) else []:
        if os.path.exists(os.path.join(scratch, path)):
            os.remove(os.path.join(scratch, path))
    for path in files:
        source, target = os.path.join(root, path), os.path.join(scratch, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as data:
            content = data.read()
        if os.path.exists(target):
            with open(target, "rb") as data:
                if data.read() == content:
                    continue
        with open(target, "wb") as out:
            out.write(content)
        shutil.copymode(source, target)
    with open(before, "w", encoding="utf-8") as out:
        out.write("\n".join(sorted(files)))


class Runner:
    def __init__(self, scratch, limit_s):
        self.scratch, self.limit_s = scratch, limit_s
        self.clean = {}  # of a test program: tests that fail without a mutant

    def build(self, tests):
        """Builds the programs of the tests. Returns the output of make if that fails, otherwise None."""
        targets = set()
        for path in {test.partition(":")[0] for test in tests}:
            if path.startswith("tests/examples/"):
                names = os.listdir(os.path.join(self.scratch, "examples"))
                targets |= {"build/examples/" + name[:-2] for name in names if name.endswith(".c")}
            elif path.endswith(".sh"):
                targets.add("all")
                preload = os.path.join(self.scratch, "tests/preload")
                names = os.listdir(preload) if os.path.isdir(preload) else []
                targets |= {"build/tests/preload/" + name[:-2] + ".so" for name in names if name.endswith(".c")}
            else:
                targets.add("build/" + path[:-2])
        arguments = ["CC=" + os.environ["CC"]] if "CC" in os.environ else []
        command = os.environ.get("MAKE", "make").split() + ["-s", "-C", self.scratch] + sorted(targets) + arguments
        made = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        return made.stdout if made.returncode else None

    def failures(self, path):
        """The names of a program's failing tests; `*` if it fails without naming a test."""
        command = ["./" + path] if path.endswith(".sh") else ["build/" + path[:-2]]
        environment = dict(os.environ, BRIGADE_BUILD=os.path.join(self.scratch, "build"))
        process = subprocess.Popen(os.environ.get("RUN", "").split() + command, cwd=self.scratch, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            output = process.communicate(timeout=self.limit_s)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0].decode(errors="replace")
        if process.returncode == 0:
            return set()
        if path.endswith(".sh"):
            failed = set(re.findall(r"^case ([\w-]+): \d+ passed, [1-9]\d* failed", output, re.M))
        else:
            failed = set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M))
            started = re.findall(r"^\[ RUN      \] (\w+)$", output, re.M)
            ended = set(re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\w+)$", output, re.M))
            failed |= {name for name in started if name not in ended}  # it crashed, or exceeded the limit
        return failed or {"*"}

    def run(self, mutant):
        """Returns None if every named test fails with the mutant, otherwise a description of the problem."""
        originals = {edit[0]: read_file(os.path.join(self.scratch, edit[0])) for edit in mutant.edits}
        paths = sorted({test.partition(":")[0] for test in mutant.tests})
        for path in paths:
            if path not in self.clean:
                if (output := self.build([path])) is not None:
                    return "the tree does not build:\n" + output
                self.clean[path] = self.failures(path)
        try:
            for edit in mutant.edits:
                text = edited_text(self.scratch, mutant, edit)
                with open(os.path.join(self.scratch, edit[0]), "w", encoding="utf-8") as out:
                    out.write(text)
            if (output := self.build(mutant.tests)) is not None:
                return "does not build:\n" + output
            failed = {path: self.failures(path) for path in paths}
        finally:
            for path, text in originals.items():
                with open(os.path.join(self.scratch, path), "w", encoding="utf-8") as out:
                    out.write(text)
        problems = []
        for test in mutant.tests:
            path, _, name = test.partition(":")
            if self.clean[path] & {name, "*"}:
                problems.append(f"{test} fails without it")
            elif name not in failed[path]:
                others = ", ".join(sorted(failed[path]))
                problems.append(f"LIVES in {test}" + (f" (noticed by {others})" if others else ""))
        return "; ".join(problems) or None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--lists", default=LISTS)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.join(here, ".."), help=argparse.SUPPRESS)
    parser.add_argument("--scratch")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    options = parser.parse_args()
    root = os.path.abspath(options.root)
    os.chdir(root)

    errors, mutants = [], []
    for path in sorted(glob.glob(options.lists)):
        mutants += read_list(path, errors)
    errors += check(root, mutants)
    print(*errors, sep="\n", end="\n" if errors else "", flush=True)
    if options.check:
        bad = len({error.split(": ")[0] for error in errors})
        good = len(mutants) - min(bad, len(mutants))
        print(f"{good} passed, {bad if mutants else bad + 1} failed")
        return 1 if errors or not mutants else 0
    if errors:
        print(f"0 passed, {len(errors)} failed")
        return 1
    selected = [m for m in mutants if not options.patterns or any(m.contains(p) for p in options.patterns)]
    if options.list:
        for mutant in selected:
            print(mutant.name, *mutant.rows)
        return 0
    if not selected:
        print("no mutant matches\n0 passed, 1 failed")
        return 1

    flags = cpu_flags()
    skipped = [m for m in selected if any(flag not in flags for flag in m.cpu)]
    selected = [m for m in selected if m not in skipped]
    for mutant in skipped:
        print(f"skipped {mutant.name}: this processor has no {' '.join(mutant.cpu)}")
    scratch = os.path.abspath(options.scratch) if options.scratch else tempfile.mkdtemp(prefix="mutants.")
    os.makedirs(scratch, exist_ok=True)
    lock = open(os.path.join(scratch, ".mutants-lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"{scratch} is in use by another run\n0 passed, 1 failed")
        return 1
    caught = 0
    try:
        copy_tree(root, scratch)
        runner = Runner(scratch, options.limit)
        for mutant in selected:
            problem = runner.run(mutant)
            caught += problem is None
            if problem is None:
                print(f"caught  {mutant.name}: by {', '.join(mutant.tests)}", flush=True)
            else:
                print(f"LIVES   {mutant.name}: {problem}", flush=True)
    finally:
        if not options.scratch:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"{caught} passed, {len(selected) - caught} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 0 if caught == len(selected) else 1


if __name__ == "__main__":
    sys.exit(main())
