#!/usr/bin/env python3
"""Measures the project's English, and draws sentences at random for a reader to judge.

usage: prose.py [--draw N] [--seed S] [--worst N] [PART...]

PART is one of readme, docs, headers, comments and messages; default: all. For each part it prints the number of sentences, the median of their
words, the share of those without a verb, and how often the patterns below occur in 1000 sentences. --draw N prints N sentences
with their places instead; the same seed draws the same sentences. --worst N prints the files with the most patterns.

A sentence is text between full stops, outside of code and tables; in C, text of whole comments; among messages, each string
with a space that the library or the program prints or reports as an error. Verbs are recognized by a list of words and
endings, so their share is an estimate: compare it with earlier results, not with other texts.
"""
import argparse
import random
import re
import statistics
import subprocess

PARTS = {
    "readme": ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"],
    "docs": ["docs/**.md", "examples/**.md", "tests/**.md", "src/**.md", "share/**.md"],
    "headers": ["include/**.h"],
    "comments": ["src/**.c", "src/**.h", "tests/**.c", "tests/**.h", "examples/**.c", "bench/**.c"],
    "messages": ["src/**.c", "src/**.def"],
}

# Patterns to avoid: each makes a reader stop.
PATTERNS = {
    "people for code": r"\b(nobody|no one|whoever|somebody|someone|anybody|anyone|everybody|everyone|who)\b",
    "goes on": r"\b(go|goes|going|gone|went) on\b",
    "as many, so many": r"\b(as|so) (many|much|often)\b(?! as)",
    "negation by noun": r"\b(is|are|be) (none|nothing|no (result|error|update|bit|rank|op|file|value|number|stage))\b",
    "apart, anew, all the same": r"\b(apart|anew|all the same|likewise|as ever|of its own)\b",
    "else": r"[,;:] else\b|^else\b|\belse\.",
    "told, says, hears": r"\b(told|says so|is said|hears?|heard)\b",
    "of ... first": r"^(Of|What|With what|By|As) [^,]{3,60} (is|are|has|have|takes|take|comes|goes)\b",
    "colons and semicolons": r"[^;:]*[;:][^;:]*[;:][^;:]*[;:]",
}

VERBS = set("""
is are was were be been being has have had having do does did can could may might must shall should will would
add adds added ask asks begin begins began become becomes bring brings build builds call calls change changes choose chooses chose
come comes compare compares compute computes contain contains continue continues copy copies cost costs count counts create creates
cut cuts decide decides depend depends describe describes destroy destroys differ differs divide divides draw draws drop drops end ends
execute executes exist exists explain explains fail fails fall falls fill fills find finds finish finishes fit fits fix follow follows
free frees get gets give gives go goes hand hands happen happens help helps hold holds ignore ignores include includes keep keeps know
knows lack lacks leave leaves let lets lie lies limit limits list lists live lives load loads look looks lose loses make makes mark marks
match matches mean means measure measures meet meets move moves multiply name names need needs note open opens order own owns park parks
pass passes plan plans point points print prints prove proves put puts raise raises read reads receive receives recompute refer refuse
refuses release releases remain remains remove removes replace replaces report reports require requires rerun restart restarts return
returns round rounds run runs save saves say says scale scales see sees send sends serve serves set sets share shares show shows
shuffle skip skips sort sorts stand stands start starts stay stays step stop stops store stores sum sums take takes takes tell tells test
tests train trains translate treat treats try tries turn turns type update updates use uses verify verifies visit wait waits walk walks want
wants work works write writes yield yields apply applies allow allows avoid avoids belong belongs bound bounds break breaks check checks
clear clears close closes collect combine combines convert converts cover covers declare declares defer deliver determine determines
emit emits enter enters estimate estimates evaluate expect expects exceed exceeds fetch fetches flush free fuse fuses generate generates
group groups grow grows initialize initializes insert join joins jump link links map maps merge merges obey obeys offer omit omits parse
parses perform performs pick picks place places pool prefer prepare prepares process produce produces provide provides publish
publishes reach reaches record records reduce reduces reject rejects repeat repeats reset resets resolve respond resume resumes reuse
reuses select selects separate separates shift shifts sleep sleeps spell split splits spread stash stashes state states supply support
supports swap switch symbolize touch touches trace track transfer unpack wake wakes warn warns wrap wraps zero
""".split())
PARTICIPLE = re.compile(r"^[a-z]+(ed|ies|ize|izes|ates|ifies)$")


def files(patterns):
    names = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    tests = [re.compile("^" + p.replace(".", r"\.").replace("**", ".*") + "$") for p in patterns]
    return [name for name in names if any(t.match(name) for t in tests)]


def paragraphs_of_markdown(text):
    paragraph, start, fenced = [], 1, False
    for number, line in enumerate(text.split("\n") + [""], 1):
        if line.startswith("```"):
            fenced = not fenced
        plain = line.strip()
        skipped = fenced or line.startswith(("    ", "|", "#", "<!--", "![", "```")) or not plain
        item = re.match(r"\s*([-*]|\d+\.)\s+", line)
        if skipped or item:
            if paragraph:
                yield start, " ".join(paragraph)
            paragraph = []
        if not skipped:
            if not paragraph:
                start = number
            paragraph.append(re.sub(r"^\s*([-*]|\d+\.)\s+", "", line).strip())


def paragraphs_of_comments(text):
    for match in re.finditer(r"/\*(.*?)\*/", text, re.DOTALL):
        number = text.count("\n", 0, match.start()) + 1
        lines = [re.sub(r"^\s*\* ?", "", line) for line in match[1].split("\n")]
        paragraph = []
        for line in lines + [""]:
            if not line.strip() or line.startswith("    ") or line.startswith("---"):
                if paragraph:
                    yield number, " ".join(paragraph)
                paragraph = []
            else:
                paragraph.append(line.strip(" *"))


def paragraphs_of_messages(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r'"\s*\n\s*"', "", text)
    for match in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
        words = match[1].replace("\\n", " ").replace('\\"', "'")
        if len(re.findall(r"[A-Za-z]{2,}", words)) >= 4:
            yield text.count("\n", 0, match.start()) + 1, words


def sentences(part, name):
    with open(name, encoding="utf-8") as file:
        text = file.read()
    reader = {"headers": paragraphs_of_comments, "comments": paragraphs_of_comments, "messages": paragraphs_of_messages}
    for number, paragraph in reader.get(part, paragraphs_of_markdown)(text):
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[(])", paragraph):
            if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3:
                yield name, number, sentence.strip()


def words_of(sentence):
    return [w for w in re.sub(r"`[^`]*`", "x", sentence).split() if re.search(r"\w", w)]


def has_verb(sentence):
    plain = re.sub(r"`[^`]*`", " ", sentence).lower()
    return any(w in VERBS or PARTICIPLE.match(w) for w in re.findall(r"[a-z]+", plain))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    found = {part: [s for name in files(PARTS[part]) for s in sentences(part, name)] for part in parts}
    everything = [s for part in parts for s in found[part]]
    if options.draw:
        # Each part has an equal share, so that the few sentences of README count as much as the many comments.
        source = random.Random(options.seed)
        for part in parts:
            share = min(len(found[part]), -(-options.draw // len(parts)))
            for name, number, sentence in source.sample(found[part], share):
                print(f"{name}:{number}: {sentence}")
        return
    if options.worst:
        counts = {}
        for name, _, sentence in everything:
            hits = sum(bool(re.search(p, sentence, re.IGNORECASE)) for p in PATTERNS.values())
            total, lines = counts.get(name, (0, 0))
            counts[name] = (total + hits, lines + 1)
        for name, (hits, lines) in sorted(counts.items(), key=lambda item: -item[1][0])[: options.worst]:
            print(f"{hits:5d} in {lines:5d} sentences  {name}")
        return
    print(f"{'':28s}" + "".join(f"{part:>10s}" for part in parts))
    rows = [("sentences", lambda s: len(s)), ("median words", lambda s: statistics.median(len(words_of(x[2])) for x in s)),
            ("without a verb, %", lambda s: 100 * sum(not has_verb(x[2]) for x in s) / len(s))]
    for label, pattern in PATTERNS.items():
        compiled = re.compile(pattern, re.IGNORECASE)
        rows.append((label, lambda s, compiled=compiled: 1000 * sum(bool(compiled.search(x[2])) for x in s) / len(s)))
    for label, measure in rows:
        values = [measure(found[part]) for part in parts]
        print(f"{label:28s}" + "".join(f"{value:10.1f}" if isinstance(value, float) else f"{value:10d}" for value in values))


if __name__ == "__main__":
    main()
