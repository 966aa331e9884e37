#!/usr/bin/env python3
"""Makes the reference of the library from its headers, as manual pages and HTML.

    tools/make_reference.py man FOLDER      FOLDER/bg_session_run.3, FOLDER/brigade_session.3, ...
    tools/make_reference.py html FOLDER     FOLDER/index.html and a page for each header and each example, with a search
    tools/make_reference.py check           names every symbol that lacks a tag that applies to it
    tools/make_reference.py since           adds new symbols to abi/since.txt with the next release

header_docs.py describes how comments of the headers are read, and which tags apply to which symbols.
"""
import html
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import header_docs  # noqa: E402
from header_docs import ROOT, TAGS, needs, read_all  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
TITLES = {"Shapes": "Shapes", "Errors": "Errors", "Threads": "Threads", "Owner": "Ownership", "Since": "Since"}
WORD = re.compile(r"\b(?:bg|BG)_\w+")


class Reference:
    def __init__(self):
        self.headers = read_all()
        self.symbols = {s.name: s for h in self.headers for s in h.symbols}
        self.members = {name: s for s in self.symbols.values() if s.kind in ("enum", "constants") for name, _ in s.members}
        self.examples = {}
        for path in sorted((ROOT / "examples").glob("*.[ch]")):
            self.examples[path.name] = path.read_text()
        self.users = {}
        for name, text in self.examples.items():
            for word in set(WORD.findall(text)):
                self.users.setdefault(word, []).append(name)

    def find(self, name):
        return self.symbols.get(name) or self.members.get(name)

    def summary(self, symbol):
        """The first sentence, for lists; for a symbol without a comment, its kind."""
        text = " ".join(symbol.doc.split("\n\n")[0].split())
        text = re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0].rstrip(".:;")
        if not text:
            text = {"opaque": "an object of the library", "struct": "a struct", "enum": "an enumeration"}.get(
                symbol.kind, symbol.section.title or symbol.header.summary)
        return text


def declaration(symbol):
    """The declaration as in the header, without parts that only the compiler needs."""
    code = symbol.code
    if symbol.kind == "inline":
        code = code[:code.index("\n{")] + ";"
    code = re.sub(r"\bBG_API |static inline ", "", code)
    return re.sub(r" BG_PRINTF\(.*?\)", "", code)


# ---- manual pages ----

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def roff_prose(text):
    lines = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if not paragraph.strip():
            continue
        lines.append(".PP")
        drawn = False
        for line in paragraph.split("\n"):
            if line.startswith("    ") != drawn:
                drawn = not drawn
                lines.append(".nf" if drawn else ".fi")
            lines.append(roff(line))
        if drawn:
            lines.append(".fi")
    return lines


def write_man_page(reference, symbol, folder):
    out = [f'.TH {symbol.name} 3 "" "brigade {VERSION}" "Library Functions"', ".SH NAME",
           f"{roff(symbol.name)} \\- {roff(reference.summary(symbol))}", ".SH SYNOPSIS", ".nf",
           f".B #include <brigade/{symbol.header.name}>", ""]
    out += [roff(line) for line in declaration(symbol).split("\n")]
    out += [".fi", ".SH DESCRIPTION"]
    prose = [symbol.doc] if symbol.doc else []
    if not prose and symbol.section.prose:
        prose = symbol.section.prose
    out += roff_prose("\n\n".join(prose) or f"Declared in brigade/{symbol.header.name}: {symbol.header.summary}.")
    for tag in TAGS:
        if tag in symbol.tags:
            out += [f".SH {TITLES[tag].upper()}", roff(symbol.tags[tag])]
    if symbol.name in reference.users:
        out += [".SH EXAMPLES", "The examples that use it are in share/doc/brigade/examples:",
                roff(", ".join(reference.users[symbol.name])) + "."]
    related = [s.name for s in symbol.shared if s is not symbol]
    related += [name for name in dict.fromkeys(WORD.findall(symbol.code + symbol.doc))
                if name in reference.symbols and name != symbol.name and name not in related]
    names = related[:24] + [f"brigade_{symbol.header.name[:-2]}"]
    out += [".SH SEE ALSO"] + [f".BR {roff(name)} (3)" + ("," if i + 1 < len(names) else "") for i, name in enumerate(names)]
    (folder / f"{symbol.name}.3").write_text("\n".join(out) + "\n")


def write_header_page(reference, header, folder):
    name = f"brigade_{header.name[:-2]}"
    out = [f'.TH {name} 3 "" "brigade {VERSION}" "Library Functions"', ".SH NAME", f"{name} \\- {roff(header.summary)}",
           ".SH SYNOPSIS", f".B #include <brigade/{header.name}>", ".SH DESCRIPTION"]
    out += roff_prose(header.prose)
    for tag in TAGS:
        if tag in header.tags:
            out += [f".SH {TITLES[tag].upper()}", roff(header.tags[tag])]
    for section in header.sections:
        if section.title:
            out += [f'.SS "{roff(section.title)}"']
        out += roff_prose("\n\n".join(section.prose))
        for symbol in section.symbols:
            out += [".TP", f".BR {roff(symbol.name)} (3)", roff(reference.summary(symbol))]
    out += [".SH SEE ALSO", ".BR brigade (3)"]
    (folder / f"{name}.3").write_text("\n".join(out) + "\n")


def write_man(reference, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for header in reference.headers:
        write_header_page(reference, header, folder)
    for symbol in reference.symbols.values():
        write_man_page(reference, symbol, folder)
    for name, symbol in reference.members.items():
        if name not in reference.symbols:
            (folder / f"{name}.3").write_text(f".so man3/{symbol.name}.3\n")


# ---- HTML ----

def link_words(reference, text, here):
    """Escapes text and links its symbols."""
    def link(match):
        symbol = reference.find(match[0])
        if symbol is None:
            return match[0]
        page = "" if here == symbol.header.page else f"{symbol.header.page}.html"
        return f'<a href="{page}#{match[0]}">{match[0]}</a>'
    return WORD.sub(link, html.escape(text, quote=False))


def html_prose(reference, text, here):
    out = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if not paragraph.strip():
            continue
        for is_drawn, lines in group_lines(paragraph):
            body = link_words(reference, "\n".join(lines), here)
            body = re.sub(r"`([^`]+)`", r"<code>\1</code>", body) if not is_drawn else body
            out.append(f"<pre>{body}</pre>" if is_drawn else f"<p>{body}</p>")
    return "\n".join(out)


def group_lines(paragraph):
    groups = []
    for line in paragraph.split("\n"):
        is_drawn = line.startswith("    ")
        if not groups or groups[-1][0] != is_drawn:
            groups.append((is_drawn, []))
        groups[-1][1].append(line[4:] if is_drawn else line)
    return groups


def html_code(reference, symbol):
    """The declaration with comments marked, symbols linked and an anchor at each enumerator and field."""
    here, out, at = symbol.header.page, [], 0
    text = declaration(symbol)
    for comment in re.finditer(r"/\*.*?\*/", text, re.S):
        out.append(link_words(reference, text[at:comment.start()], here))
        out.append(f"<i>{link_words(reference, comment[0], here)}</i>")
        at = comment.end()
    code = "".join(out) + link_words(reference, text[at:], here)
    for name, _ in symbol.members:
        if name in reference.members and name != symbol.name:
            code = code.replace(f'<a href="#{name}">{name}</a>', f'<span id="{name}">{name}</span>', 1)
    return code


STYLE = """
:root { color-scheme: light dark; --text: #1d2127; --back: #fff; --quiet: #5b6470; --line: #d9dee5; --code: #f4f6f8; --link: #0b5cad; --mark: #ffe9a3; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e7ec; --back: #14171b; --quiet: #9aa5b1; --line: #323941; --code: #1e2329; --link: #7db7f5; --mark: #5c4a12; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); overflow-wrap: break-word; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1rem; }
header { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; align-items: center; padding-top: .8rem; padding-bottom: .8rem; border-bottom: 1px solid var(--line); }
header b { font-size: 1.05rem; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.3rem; margin-top: 2.2rem; } h3 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
h1, h2, h3, h4 { overflow-wrap: anywhere; }
code, pre, h3 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; } code, pre { font-size: .87em; }
code { overflow-wrap: anywhere; }
pre { background: var(--code); padding: .7rem .9rem; border-radius: 6px; overflow-x: auto; max-width: 100%; }
pre i { color: var(--quiet); font-style: normal; }
dl { display: grid; grid-template-columns: 6.5rem minmax(0, 1fr); gap: .2rem .8rem; margin: .6rem 0; font-size: .93em; } dt { color: var(--quiet); } dd { margin: 0; }
.table { overflow-x: auto; max-width: 100%; } table { border-collapse: collapse; font-size: .92em; } th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
td:first-child code, td:nth-child(2) code { overflow-wrap: normal; white-space: nowrap; }
img { max-width: 100%; height: auto; } blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
ul.symbols { columns: 18rem; padding-left: 1.1rem; } ul.symbols li { overflow-wrap: anywhere; }
#search { flex: 1 1 12rem; min-width: 0; font: inherit; padding: .3rem .6rem; color: inherit; background: var(--code); border: 1px solid var(--line); border-radius: 6px; }
#found { max-width: 62rem; margin: 0 auto; padding: 0 1rem; list-style: none; } #found li { padding: .25rem 0; border-bottom: 1px solid var(--line); } #found small { color: var(--quiet); }
#found p { margin: .1rem 0; font-size: .9em; overflow-wrap: anywhere; } #found .head { color: var(--quiet); font-size: .85em; padding-top: .8rem; } mark { color: inherit; background: var(--mark); }
footer { color: var(--quiet); padding-top: 2rem; padding-bottom: 2rem; font-size: .9em; }
"""

SEARCH = """
(function () {
    const script = document.currentScript.dataset, base = script.base || "", texts = script.texts || "";
    const box = document.getElementById("search"), list = document.getElementById("found");
    let sections = null; // of the text index, which is loaded when the box is used: [address, title, heading, text, all in lower case]
    function load() {
        if (sections !== null)
            return;
        sections = [];
        const tag = document.createElement("script");
        tag.src = texts + "text-index.js";
        tag.onload = () => {
            sections = window.brigadeText.map(entry => [...entry, entry.slice(1).join("\\n").toLowerCase()]);
            show();
        };
        document.head.append(tag);
    }
    function score_name(entry, words) {
        const name = entry[0].toLowerCase(), text = name + " " + entry[2].toLowerCase();
        if (!words.every(word => text.includes(word)))
            return -1;
        return words.reduce((sum, word) => sum + (name === word ? 8 : name.startsWith(word) ? 4 : name.includes(word) ? 2 : 0), 0);
    }
    // Whole phrases first, then words in headings, then the number of times that words occur.
    function score_text(entry, words) {
        const all = entry[4], title = (entry[1] + " " + entry[2]).toLowerCase();
        if (!words.every(word => all.includes(word)))
            return -1;
        let sum = words.length > 1 && all.includes(words.join(" ")) ? 200 : 0;
        for (const word of words)
            sum += (title.includes(word) ? 8 : 0) + Math.min(all.split(word).length - 1, 6);
        return sum;
    }
    // The part of a text that has the phrase, or else the most of the words.
    function excerpt(text, words) {
        const lower = text.toLowerCase(), phrase = lower.indexOf(words.join(" "));
        let best = Math.max(phrase, 0), most = 0;
        for (const word of phrase < 0 ? words : [])
            for (let at = lower.indexOf(word), n = 0; at >= 0 && n < 30; at = lower.indexOf(word, at + 1), n++) {
                const count = words.filter(other => lower.slice(at, at + 160).includes(other)).length;
                if (count > most)
                    [best, most] = [at, count];
            }
        const start = best < 50 ? 0 : text.lastIndexOf(" ", best - 40) + 1;
        const stop = start + 200 >= text.length ? text.length : text.lastIndexOf(" ", start + 200);
        return (start > 0 ? "\\u2026 " : "") + text.slice(start, stop) + (stop < text.length ? " \\u2026" : "");
    }
    function mark(text, words) {
        const paragraph = document.createElement("p"), escaped = words.map(word => word.replace(/[.*+?^${}()|[\\]\\\\]/g, "\\\\$&"));
        for (const part of text.split(new RegExp("(" + escaped.join("|") + ")", "i")))
            paragraph.append(words.includes(part.toLowerCase()) ? Object.assign(document.createElement("mark"), {textContent: part}) : part);
        return paragraph;
    }
    function add(href, name, rest, more) {
        const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
        link.href = href;
        link.textContent = name;
        small.textContent = rest ? " " + rest : "";
        item.append(link, small, ...more);
        list.append(item);
    }
    function head(text) {
        list.append(Object.assign(document.createElement("li"), {className: "head", textContent: text}));
    }
    function best(entries, score, count) {
        const hits = entries.map(entry => [score(entry), entry]).filter(hit => hit[0] >= 0);
        hits.sort((a, b) => b[0] - a[0] || a[1][0].length - b[1][0].length);
        return hits.slice(0, count).map(hit => hit[1]);
    }
    function show() {
        const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
        list.replaceChildren();
        if (words.length === 0)
            return;
        const names = best(window.brigadeIndex, entry => score_name(entry, words), 12);
        const found = best(sections || [], entry => score_text(entry, words), 30);
        for (const entry of names)
            add(base + entry[1], entry[0], entry[2], []);
        if (found.length > 0)
            head("In the text");
        for (const [address, title, heading, text] of found)
            add(texts + address, heading || title, heading && heading !== title ? title : "", [mark(excerpt(text, words), words)]);
        if (names.length + found.length === 0)
            head(sections === null || sections.length > 0 ? "Nothing is found." : "Searching the text ...");
    }
    box.addEventListener("focus", load);
    box.addEventListener("input", () => {
        load();
        show();
    });
    box.addEventListener("keydown", event => {
        const first = list.querySelector("a");
        if (event.key === "Enter" && first !== null)
            location.href = first.href;
    });
})();
"""


def page(title, body, base="", places=(("index.html", "Reference"),), texts=None):
    """Makes a complete page; `base` is the path from the page to the folder of the style, the search and its index, `texts` to that of
    the text index."""
    links = "".join(f'<a href="{base}{place}">{words}</a>' for place, words in places)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>{html.escape(title)} - Brigade {VERSION}</title>'
            f'<link rel="stylesheet" href="{base}style.css"></head>\n<body><header><b>Brigade {VERSION}</b>{links}'
            f'<input id="search" type="search" placeholder="Search" aria-label="Search"></header><ul id="found"></ul>\n'
            f'<main>\n{body}\n</main>\n<footer>Brigade {VERSION}</footer>\n<script src="{base}search-index.js"></script>'
            f'<script src="{base}search.js" data-base="{base}" data-texts="{base if texts is None else texts}"></script></body></html>\n')


def symbol_html(reference, symbol):
    here = symbol.header.page
    out = [f'<h3 id="{symbol.name}">{symbol.name}</h3>', f"<pre>{html_code(reference, symbol)}</pre>",
           html_prose(reference, symbol.doc, here)]
    tags = [(TITLES[tag], link_words(reference, symbol.tags[tag], here)) for tag in TAGS if tag in symbol.tags]
    users = reference.users.get(symbol.name, [])
    if users:
        tags.append(("Examples", ", ".join(f'<a href="example-{name}.html">{name}</a>' for name in users)))
    return "\n".join(out) + "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in tags) + "</dl>"


def header_html(reference, header):
    here = header.page
    out = [f"<h1>brigade/{header.name}</h1>", html_prose(reference, header.prose, here), "<dl>"]
    out += [f"<dt>{TITLES[tag]}</dt><dd>{link_words(reference, header.tags[tag], here)}</dd>" for tag in TAGS if tag in header.tags]
    out.append("</dl><ul class=\"symbols\">")
    out += [f'<li><a href="#{s.name}">{s.name}</a></li>' for s in header.symbols]
    out.append("</ul>")
    for i, section in enumerate(header.sections):
        if section.title:
            out.append(f'<h2 id="section-{i}">{html.escape(section.title)}</h2>')
        out.append(html_prose(reference, "\n\n".join(section.prose), here))
        out += [symbol_html(reference, symbol) for symbol in section.symbols]
    return "\n".join(out)


# ---- the text index: what is on the pages, for the search ----

def plain(body):
    """The words of HTML, without tags and without the names of tests, which only the table of capabilities has."""
    body = re.sub(r"</?(?:a|b|i|em|strong|code|span|small|del)\b[^>]*>", "", body)
    text = html.unescape(re.sub(r"<[^>]*>", " ", body))
    return " ".join(re.sub(r"\btests/[\w/]+\.(?:c|sh):\w+,?", "", text).split())


def sections_of(path, text):
    """(address, title of the page, heading, words) of every section of a page."""
    body = re.search(r"<main>\n(.*)\n</main>", text, re.S)[1]
    parts = re.split(r'<h([1-4])(?: id="([^"]*)")?>(.*?)</h\1>', body, flags=re.S)
    title = plain(parts[3]) if len(parts) > 1 else path
    sections = [("", title, parts[0])] + [(parts[i + 1], plain(parts[i + 2]), parts[i + 3]) for i in range(1, len(parts), 4)]
    for anchor, heading, words in sections:
        if plain(words):
            yield path + (f"#{anchor}" if anchor else ""), title, heading, plain(words)


def write_text_index(folder):
    """text-index.js of all pages below a folder; the search loads it when it is used."""
    entries = []
    for path in sorted(folder.rglob("*.html")):
        text = path.read_text()
        if '<script src="' in text and "<main>\n" in text:
            entries += sections_of(path.relative_to(folder).as_posix(), text)
    (folder / "text-index.js").write_text("window.brigadeText = " + json.dumps(entries, ensure_ascii=False, separators=(",", ":")) + ";\n")


def write_html(reference, folder, more=(), places=(("index.html", "Reference"),), texts=None):
    """`more`: further entries of the search, (name, address, words). `texts`: where the text index is, if not in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for header in reference.headers:
        (folder / f"{header.page}.html").write_text(page(f"brigade/{header.name}", header_html(reference, header), places=places, texts=texts))
    for name, text in reference.examples.items():
        body = f"<h1>examples/{name}</h1>\n<pre>{link_words(reference, text, '')}</pre>"
        (folder / f"example-{name}.html").write_text(page(f"examples/{name}", body, places=places, texts=texts))
    rows = "".join(f'<tr><td><a href="{h.page}.html">{h.name}</a></td><td>{html.escape(h.summary)}</td></tr>' for h in reference.headers)
    names = "".join(f'<li><a href="{s.header.page}.html#{name}">{name}</a></li>' for name, s in sorted(reference.symbols.items()))
    examples = ", ".join(f'<a href="example-{name}.html">{name}</a>' for name in reference.examples)
    body = (f'<h1>Reference</h1><h2 id="headers">Headers</h2><div class="table"><table>{rows}</table></div>'
            f'<h2 id="examples">Examples</h2><p>{examples}</p><h2 id="symbols">Symbols</h2><ul class="symbols">{names}</ul>')
    (folder / "index.html").write_text(page("Reference", body, places=places, texts=texts))
    entries = [(name, f"{s.header.page}.html#{name}", reference.summary(s)) for name, s in reference.symbols.items()]
    entries += [(name, f"{s.header.page}.html#{name}", dict(s.members)[name] or s.name) for name, s in reference.members.items()]
    entries += list(more)
    (folder / "search-index.js").write_text("window.brigadeIndex = " + json.dumps(entries) + ";\n")
    (folder / "search.js").write_text(SEARCH)
    (folder / "style.css").write_text(STYLE)
    if texts is None:
        write_text_index(folder)


# ---- checks ----

def check(reference):
    problems = []
    for symbol in reference.symbols.values():
        missing = [tag for tag in needs(symbol) if tag not in symbol.tags]
        if missing:
            problems.append(f"{symbol.header.name}: {symbol.name} has no {', '.join(missing)}")
    known = header_docs.read_since()
    problems += [f"abi/since.txt: there is no {name} in the headers" for name in known if name not in reference.symbols]
    print("\n".join(problems) if problems else f"{len(reference.symbols)} symbols have their tags")
    return 1 if problems else 0


def write_since(reference):
    """Adds new symbols with the release whose symbol version the Makefile has."""
    release = re.search(r"^SYMBOL_VERSION := BRIGADE_(\S+)", (ROOT / "Makefile").read_text(), re.M)[1]
    path = ROOT / "abi/since.txt"
    known = header_docs.read_since()
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name} {known.get(name, release)}" for name in sorted(reference.symbols)]
    path.write_text("\n".join(head + lines) + "\n")
    return 0


def main(arguments):
    reference = Reference()
    if arguments == ["check"]:
        return check(reference)
    if arguments == ["since"]:
        return write_since(reference)
    if len(arguments) == 2 and arguments[0] in ("man", "html"):
        {"man": write_man, "html": write_html}[arguments[0]](reference, pathlib.Path(arguments[1]))
        return 0
    sys.exit("make_reference: the arguments must be man FOLDER, html FOLDER, check or since")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
