#!/usr/bin/env python3
"""Makes one folder of pages, which need no server, from the documents, the reference, diagrams of schedules and a
sample report.

    tools/make_site.py PROGRAM FOLDER     FOLDER/VERSION/..., and FOLDER/index.html with all versions in the folder
    tools/make_site.py --check FOLDER     lists every broken link and anchor

Markdown becomes HTML by cmark-gfm (Debian: cmark-gfm). All Markdown files below docs are on the site.
"""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_reference  # noqa: E402
from make_reference import ROOT, VERSION, page  # noqa: E402

TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PLACES = (("index.html", "Start"), ("docs/index.html", "Documents"), ("reference/index.html", "Reference"),
          ("commands.html", "Commands"), ("docs/options.html", "Options"), ("schedules.html", "Schedules"), ("report.html", "Sample report"),
          ("../index.html", "Versions"))


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


# ---- Markdown ----

def slug(heading):
    """A heading's anchor, as GitHub makes it."""
    text = html.unescape(re.sub(r"<[^>]+>", "", heading)).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def add_anchors(body):
    """Adds anchors to headings; repeated ones get numbers. Returns the page and its headings."""
    seen, found = {}, []

    def anchor(match):
        name = slug(match[2])
        seen[name] = seen.get(name, -1) + 1
        name = f"{name}-{seen[name]}" if seen[name] else name
        found.append((int(match[1]), name, html.unescape(re.sub(r"<[^>]+>", "", match[2]))))
        return f'<h{match[1]} id="{name}">{match[2]}</h{match[1]}>'
    return re.sub(r"<h([1-6])>(.*?)</h\1>", anchor, body, flags=re.S), found


class Site:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder / VERSION
        self.documents = [pathlib.Path(name) for name in TOP] + sorted(p.relative_to(ROOT) for p in (ROOT / "docs").rglob("*.md"))
        self.entries = []  # of the search: name, address from the version's folder, words

    def place(self, document):
        """The path of a document's page from the version's folder."""
        if document == pathlib.Path("README.md"):
            return "index.html"
        if document.name == "README.md":
            return f"{document.parent}/index.html"
        return str(document.with_suffix(".html"))

    def target(self, document, address):
        """The link on the page for a link of a document; None if it leads out of the site."""
        if re.match(r"[a-z]+:", address) or address.startswith("#"):
            return address
        path, _, anchor = address.partition("#")
        goal = pathlib.Path(os.path.normpath(document.parent / path))
        base = pathlib.Path(self.place(document)).parent
        if goal in self.documents:
            place = self.place(goal)
        elif (ROOT / goal / "README.md").is_file() and goal / "README.md" in self.documents:
            place = self.place(goal / "README.md")
        elif goal == pathlib.Path("docs"):
            place = "docs/index.html"
        elif goal.parts[0] == "examples" and goal.name in self.reference.examples:
            place = f"reference/example-{goal.name}.html"
        elif goal.parts[:2] == ("include", "brigade") and goal.suffix == ".h":
            place = f"reference/{goal.name.replace('.', '-')}.html"
        elif goal.parts[0] in ("docs", "LICENSE") and (ROOT / goal).is_file():
            place = str(goal)
            (self.folder / goal).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / goal, self.folder / goal)
        else:
            return None
        return os.path.relpath(place, base) + (f"#{anchor}" if anchor else "")

    def convert(self, document):
        body = run("cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", str(ROOT / document))
        body, headings = add_anchors(body)

        def link(match):
            to = self.target(document, html.unescape(match[2]))
            return f'<a href="{html.escape(to)}">{match[3]}</a>' if to is not None else match[3]

        def source(match):
            to = self.target(document, html.unescape(match[2]))
            return f'{match[1]}="{html.escape(to if to is not None else match[2])}"'
        body = re.sub(r'<a (href)="([^"]*)">(.*?)</a>', link, body, flags=re.S)
        body = re.sub(r'\b(src|srcset)="([^"]*)"', source, body)
        body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
        place = self.place(document)
        title = headings[0][2] if headings else document.stem
        self.write(place, title, body)
        for level, name, words in headings:
            if level <= 3:
                self.entries.append((words, f"{place}#{name}", "" if level == 1 else title))
        return title

    def write(self, place, title, body):
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(title, body, "../" * (len(pathlib.Path(place).parts) - 1), PLACES))

    # ---- pages that the program makes ----

    def commands(self):
        names = re.findall(r"^  ([a-z]+)  .*", run(self.program, "--help"), re.M)
        for name in names:
            yield (name,)
            if name in ("gpt", "data"):
                yield from ((name, own) for own in re.findall(r"^  ([a-z]+)  .*", run(self.program, name, "--help"), re.M))

    def write_commands(self):
        out = ["<h1>Commands</h1>", f"<pre>{html.escape(run(self.program, '--help'))}</pre>"]
        for words in self.commands():
            name = "-".join(words)
            text = html.escape(run(self.program, *words, "--help", "all"))
            text = re.sub(r"^  (--[a-z0-9-]+)", rf'  <span id="{name}\1">\1</span>', text, flags=re.M)
            out += [f'<h2 id="{name}">brigade {" ".join(words)}</h2>', f"<pre>{text}</pre>"]
            self.entries.append((f"brigade {' '.join(words)}", f"commands.html#{name}", "command"))
            self.entries += [(f"{flag}", f"commands.html#{name}{flag}", f"of brigade {' '.join(words)}")
                             for flag in re.findall(rf'<span id="{name}(--[a-z0-9-]+)"', text)]
        self.write("commands.html", "Commands", "\n".join(out))

    def write_schedules(self):
        pictures = sorted((ROOT / "docs/schedules").glob("*.svg"))
        (self.folder / "docs/schedules").mkdir(parents=True, exist_ok=True)
        out = ["<h1>Schedules</h1>", "<p>Four devices and eight micro-batches under every schedule. "
               '<a href="docs/strategies.html">Strategies</a> explains them.</p>']
        helps = run(self.program, "schedule", "--help")
        for picture in pictures:
            shutil.copyfile(picture, self.folder / "docs/schedules" / picture.name)
            words = re.search(rf"^  {re.escape(picture.stem)}  +(.*(?:\n {{8,}}.*)*)", helps, re.M)
            out += [f'<h2 id="{picture.stem}">{picture.stem}</h2>',
                    f"<p>{html.escape(' '.join(words[1].split()))}</p>" if words else "",
                    f'<p><img src="docs/schedules/{picture.name}" alt="the timetable of {picture.stem}"></p>']
            self.entries.append((picture.stem, f"schedules.html#{picture.stem}", "schedule"))
        self.write("schedules.html", "Schedules", "\n".join(out))

    def write_report(self):
        """Writes the report of a short, profiled training of the digit network on generated digits."""
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, BRIGADE_DATA=f"{folder}/digits")
            run(self.program, "data", "digits", "--dir", "digits", "--count", "4000", "--test-count", "400", cwd=folder)
            run(self.program, "mnist", "--epochs", "1", "--profile", "--quiet", cwd=folder, env=environment)
            shutil.copyfile(f"{folder}/profile/report.html", self.folder / "report.html")

    # ---- the site ----

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.reference = make_reference.Reference()
        titles = [(document, self.convert(document)) for document in self.documents]
        if not (self.folder / "docs/index.html").exists():
            rows = "".join(f'<li><a href="{os.path.relpath(self.place(d), "docs")}">{html.escape(title)}</a></li>' for d, title in titles)
            self.write("docs/index.html", "Documents", f"<h1>Documents</h1><ul>{rows}</ul>")
        self.write_commands()
        self.write_schedules()
        self.write_report()
        up = tuple((f"../{place}" if not place.startswith("reference/") else place[len("reference/"):], words) for place, words in PLACES)
        make_reference.write_html(self.reference, self.folder / "reference",
                                  [(name, f"../{place}", words) for name, place, words in self.entries], up, "../")
        index = (self.folder / "reference/search-index.js").read_text()
        here = re.sub(r'(\["(?:[^"\\]|\\.)*", ")(?!\.\./)', r"\1reference/", index).replace('", "../', '", "')
        (self.folder / "search-index.js").write_text(here)
        (self.folder / "search.js").write_text(make_reference.SEARCH)
        (self.folder / "style.css").write_text(make_reference.STYLE)
        make_reference.write_text_index(self.folder)
        self.write_versions()

    def write_versions(self):
        """Writes the first page of the folder, which lists its versions, the newest first."""
        top = self.folder.parent
        versions = sorted((p.parent.name for p in top.glob("*/index.html")), key=lambda v: [int(n) for n in re.findall(r"\d+", v)], reverse=True)
        rows = "".join(f'<li><a href="{v}/index.html">Brigade {v}</a></li>' for v in versions)
        (top / "index.html").write_text(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
            f'initial-scale=1"><title>Brigade</title><link rel="stylesheet" href="{VERSION}/style.css"></head>\n'
            f"<body><main><h1>Brigade</h1><p>The documents of each version:</p><ul>{rows}</ul></main></body></html>\n")


# ---- links ----

def check(folder):
    """Checks that every address of every page leads to a file, and every anchor to an element."""
    texts = {path.resolve(): path.read_text() for path in folder.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    problems, count = [], 0
    for path, text in texts.items():
        if path.name == "report.html":
            continue  # its links are made by its own script
        for address in re.findall(r'\b(?:href|src|srcset)="([^"]*)"', text):
            address = html.unescape(address)
            if re.match(r"(https?|mailto):", address):
                continue
            count += 1
            place, _, anchor = address.partition("#")
            goal = (path.parent / place).resolve() if place else path
            if not goal.is_file():
                problems.append(f"{path.relative_to(folder.resolve())}: there is no {address}")
            elif anchor and anchor not in anchors.get(goal, ()):
                problems.append(f"{path.relative_to(folder.resolve())}: {address} has no such anchor")
    print("\n".join(sorted(set(problems))) if problems else f"{count} links of {len(texts)} pages lead somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(check(pathlib.Path(sys.argv[2])))
    if len(sys.argv) != 3:
        sys.exit("make_site: the arguments must be PROGRAM FOLDER, or --check FOLDER")
    if shutil.which("cmark-gfm") is None:
        sys.exit("make_site: cmark-gfm is missing, which makes HTML of Markdown; on Debian: apt-get install cmark-gfm")
    Site(os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])).make()
