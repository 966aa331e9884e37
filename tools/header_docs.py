"""Reads the public headers as a list of symbols with their comments, for the reference, the manual pages and the test of
tags.

A comment that ends on the line before a declaration belongs to the declaration. Declarations that follow it without a blank
line share it. A comment between blank lines, and text below "---- name ----", belongs to the section.

Five tags end a comment, each followed by a colon: Shapes, Errors, Threads, Owner, Since. A symbol without a tag inherits it
from the group that shares its comment, from its section, or from the head of its header, so that a header states common
facts once. Owner follows from the declaration where base.h's two sentences on ownership decide it, and Since comes from
abi/since.txt.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAGS = ("Shapes", "Errors", "Threads", "Owner", "Since")
TAG = re.compile(r"(?:^|(?<=\s))(Shapes|Errors|Threads|Owner|Since)(, in bg_graph_check)?:\s")
BANNER = re.compile(r"^---- (.*?) ----\n?", re.S)
NO_HEADERS = {"core.h"}  # headers that only include others


class Symbol:
    def __init__(self, kind, name, code, header, section):
        self.kind = kind            # function, inline, struct, enum, callback, opaque, macro
        self.name = name
        self.code = code            # the declaration as it is written, without its comment
        self.header = header
        self.section = section
        self.doc = ""               # from its own comment or its group's
        self.shared = []            # the other symbols of its group
        self.members = []           # enumerators, fields: (name, comment)
        self.tags = {}              # own and inherited

    @property
    def prototype(self):
        """The declaration in one line, without BG_API and attributes; for an inline function without the body."""
        text = re.sub(r"\bBG_API |static inline | BG_PRINTF\(.*?\)", "", self.code)
        text = text[:text.index("\n{")] if self.kind == "inline" else text
        return " ".join(text.split()).rstrip(";")

    @property
    def result(self):
        return self.prototype[:self.prototype.index(self.name)].strip() if self.kind in ("function", "inline") else ""

    @property
    def parameters(self):
        return self.prototype[self.prototype.index("(") + 1:self.prototype.rindex(")")]


class Section:
    def __init__(self, title):
        self.title = title
        self.prose = []
        self.symbols = []
        self.tags = {}


class Header:
    def __init__(self, name):
        self.name = name
        self.summary = ""
        self.prose = ""
        self.tags = {}
        self.sections = []

    @property
    def page(self):
        return self.name.replace(".", "-")

    @property
    def symbols(self):
        return [symbol for section in self.sections for symbol in section.symbols]


def plain(comment):
    """A comment's text without delimiters and the margin of stars, but with paragraphs and drawings."""
    text = re.sub(r"^/\*+", "", comment.strip())
    text = re.sub(r"\*+/$", "", text)
    lines = [re.sub(r"^[ \t]*\* ?", "", line) if i else line.lstrip() for i, line in enumerate(text.split("\n"))]
    return "\n".join(line.rstrip() for line in lines).strip("\n").rstrip()


def split_tags(text):
    """The text without its tags, and the tags. A tag ends with its paragraph or where the next one begins."""
    tags, kept = {}, []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        found = list(TAG.finditer(paragraph)) if not paragraph.startswith("    ") else []
        if not found:
            kept.append(paragraph)
            continue
        if paragraph[:found[0].start()].strip():
            kept.append(paragraph[:found[0].start()].rstrip())
        for i, match in enumerate(found):
            end = found[i + 1].start() if i + 1 < len(found) else len(paragraph)
            value = " ".join(paragraph[match.end():end].split())
            if match[2]:
                value = f"in bg_graph_check: {value}"
            value = value[:1].upper() + value[1:] if re.match(r"[a-z]+ ", value) else value
            tags[match[1]] = f"{tags[match[1]]} {value}" if match[1] in tags else value
    return "\n\n".join(kept), tags


def tokens(text):
    """(kind, text, blank line before, on the line of the token before) of comments, directives and declarations."""
    at, end = 0, len(text)
    while at < end:
        gap = re.compile(r"\s*").match(text, at)
        space, at = gap[0], gap.end()
        if at >= end:
            return
        if text.startswith("/*", at):
            stop = text.index("*/", at) + 2
            yield "comment", text[at:stop], space.count("\n") > 1, "\n" not in space
        elif text[at] == "#":
            stop = re.compile(r"#(?:\\\n|/\*.*?\*/|[^\n])*", re.S).match(text, at).end()
            yield "directive", text[at:stop], space.count("\n") > 1, False
        elif text.startswith('extern "C" {', at):
            stop = at + len('extern "C" {')
        else:
            stop = end_of_declaration(text, at)
            yield "code", text[at:stop], space.count("\n") > 1, False
        at = stop


def end_of_declaration(text, at):
    depth, i = 0, at
    is_inline = text.startswith("static inline", at)
    while i < len(text):
        if text.startswith("/*", i):
            i = text.index("*/", i) + 1
        elif text[i] in "({[":
            depth += 1
        elif text[i] in ")}]":
            depth -= 1
            if depth < 0 or (is_inline and depth == 0 and text[i] == "}"):
                return i + 1
        elif text[i] == ";" and depth == 0:
            return i + 1
        i += 1
    return i


def read_members(code, kind):
    """Names of fields or enumerators with their comments."""
    body = code[code.index("{") + 1:code.rindex("}")]
    found, before, depth = [], "", 0
    for token in re.finditer(r"/\*.*?\*/|[{}();,]|[^/{}();,]+|/", body, re.S):
        piece = token[0]
        if piece.startswith("/*"):
            rest = body[:token.start()].rsplit("\n", 1)[-1].strip()
            if rest and found:
                found[-1][1] = plain(piece)
            continue
        depth += (piece in "({") - (piece in ")}")
        before += piece if piece not in ";," or depth else ""
        if depth == 0 and ((piece == "," and kind == "enum") or piece == ";"):
            add_member(found, before)
            before = ""
    if kind == "enum":
        add_member(found, before)
    return [(name, comment) for name, comment in found]


def add_member(found, text):
    text = " ".join(text.split())
    match = re.match(r".*\(\*(\w+)\)", text) or re.match(r"(\w+)(?: =.*)?$", text) or re.match(r".*?(\w+)(?:\[\w*\])*$", text)
    if match and text:
        found.append([match[1], ""])


def make_symbol(code, header, section):
    """Makes a symbol from a declaration; None for others, such as a bare `struct x;` whose body follows."""
    flat = " ".join(re.sub(r"/\*.*?\*/", " ", code, flags=re.S).split())
    if match := re.match(r"BG_API .*?\b(bg_\w+)\(", flat):
        return Symbol("function", match[1], code, header, section)
    if match := re.match(r"static inline .*?\b(bg_\w+)\(", flat):
        return Symbol("inline", match[1], code, header, section)
    if match := re.match(r"(?:typedef )?enum (?:(\w+) )?\{", flat):
        name = match[1] or re.search(r"\{ ?(\w+)", flat)[1]
        symbol = Symbol("enum" if match[1] else "constants", name, code, header, section)
        symbol.members = read_members(code, "enum")
        return symbol
    if match := re.match(r"(?:typedef )?struct (\w+) \{", flat):
        symbol = Symbol("struct", match[1], code, header, section)
        symbol.members = read_members(code, "struct")
        return symbol
    if match := re.match(r"typedef struct (\w+) \w+;$", flat):
        return Symbol("opaque", match[1], code, header, section)
    if match := re.match(r"typedef .*?\(\*(\w+)\)\(", flat):
        return Symbol("callback", match[1], code, header, section)
    if re.match(r"[}]|struct \w+;$", flat):
        return None
    raise SystemExit(f"{header.name}: this declaration is not understood: {flat[:100]}")


class Reader:
    """Reads one header; `doc` is a comment whose declaration has not come yet."""

    def __init__(self, path):
        self.header = Header(path.name)
        self.section = Section("")
        self.header.sections.append(self.section)
        self.doc, self.group = None, []
        pieces = list(tokens(path.read_text()))
        self.read_head(plain(pieces[0][1]))
        for i, piece in enumerate(pieces[1:], 1):
            self.read_piece(piece, pieces[i + 1] if i + 1 < len(pieces) else None)
        self.header.sections = [s for s in self.header.sections if s.symbols or s.prose]

    def read_head(self, text):
        text = re.sub(r"^[\w.]+: ", "", text)
        text, self.header.tags = split_tags(text)
        self.header.prose = text[:1].upper() + text[1:]
        self.header.summary = re.split(r"(?<=[.:])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".:")

    def read_piece(self, piece, following):
        kind, text, is_apart, is_behind = piece
        if kind == "comment":
            self.read_comment(text, is_apart, is_behind, following)
        elif kind == "directive":
            self.read_directive(text, is_apart)
        else:
            self.read_code(text, is_apart)

    def read_comment(self, text, is_apart, is_behind, following):
        words = plain(text)
        if is_behind and self.group:
            self.add_doc(self.group[-1:], words)
            return
        if banner := BANNER.match(words):
            self.section = Section(" ".join(banner[1].split()))
            self.header.sections.append(self.section)
            words = words[banner.end():].strip("\n")
            self.doc, self.group = None, []
            if words:
                prose, self.section.tags = split_tags(words)
                self.section.prose.append(prose)
            return
        self.group = []
        if following is None or following[2] or following[0] == "comment":
            prose, tags = split_tags(words)
            self.section.prose.append(prose)
            self.section.tags.update(tags)
            self.doc = None
        else:
            self.doc = words

    def read_directive(self, text, is_apart):
        match = re.match(r"#define (BG_\w+)(\([^)]*\))?(?= |\n|\\)", text)
        if not match or match[1] in ("BG_API", "BG_PRINTF") or any(s.name == match[1] for s in self.header.symbols):
            return
        trailing = re.search(r"/\*(.*?)\*/\s*$", text, re.S)
        symbol = Symbol("macro", match[1], re.sub(r"\s*/\*.*?\*/\s*$", "", text, flags=re.S), self.header, self.section)
        self.add(symbol, is_apart)
        if trailing:
            self.add_doc([symbol], plain(trailing[0]))

    def read_code(self, text, is_apart):
        symbol = make_symbol(text, self.header, self.section)
        if symbol is None:
            return
        old = next((s for s in self.header.symbols if s.name == symbol.name and s.kind == "opaque"), None)
        if old is not None:
            old.section.symbols.remove(old)
            symbol.doc = old.doc
        self.add(symbol, is_apart)

    def add(self, symbol, is_apart):
        self.section.symbols.append(symbol)
        if self.doc is None and is_apart:
            self.group = []
        self.group.append(symbol)
        if self.doc is not None:
            symbol.doc = self.doc
            symbol.shared = self.group = [symbol]
            self.doc = None
        elif len(self.group) > 1:
            symbol.doc = self.group[0].doc
            symbol.shared = self.group

    @staticmethod
    def add_doc(symbols, words):
        for symbol in symbols:
            if len(symbol.shared) > 1 or not symbol.doc:
                shared = f"\n\n{symbol.doc}" if symbol.doc else ""
                symbol.doc = words[:1].upper() + words[1:] + shared
            else:
                symbol.doc += f" {words}"


# ---- tags ----

def read_since():
    lines = (ROOT / "abi/since.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def needs(symbol):
    """The tags that apply to a symbol."""
    wanted = ["Since"]
    if symbol.kind not in ("function", "inline"):
        return wanted
    wanted.append("Threads")
    if symbol.result in ("bg_status", "bg_value") and (symbol.result == "bg_status" or "bg_graph *graph" in symbol.parameters):
        wanted.append("Errors")
    if symbol.result == "bg_value" and "bg_graph *graph" in symbol.parameters:
        wanted.append("Shapes")
    if symbol.result.endswith("*") or re.search(r"\w \*\*out\w*", symbol.parameters):
        wanted.append("Owner")
    return wanted


def find_owner(symbol, names):
    """Who owns a function's results, by the rule of base.h; None where that rule does not decide."""
    said = []
    for kind, parameter in re.findall(r"(\w+) \*\*(out\w*)", symbol.parameters):
        if kind == "char" and f"const char **{parameter}" not in symbol.parameters:
            said.append(f"*{parameter} is the caller's, to be released with free().")
        elif f"{kind}_destroy" in names:
            said.append(f"*{parameter} is the caller's, to be released with {kind}_destroy.")
        elif "malloc'ed" in symbol.doc:
            said.append(f"*{parameter} is the caller's, to be released with free().")
        elif re.search(rf"const {kind} \*\*{parameter}", symbol.parameters) or "borrowed" in symbol.doc.lower():
            said.append(f"*{parameter} is borrowed.")
        else:
            return None
    if symbol.result.endswith("*"):
        first = re.match(r"(?:const )?(bg_\w+) \*(\w+)", symbol.parameters)
        if re.search(r"malloc|free\(\)", symbol.doc):
            said.append("The result is the caller's, to be released with free().")
        elif f"{symbol.result.replace('const ', '').rstrip(' *')}_destroy" in names and not first:
            return None
        elif first:
            said.append(f"The result is borrowed from {first[2]}.")
        elif symbol.result.startswith("const "):
            said.append("The result is constant and lives as long as the library.")
        else:
            return None
    return " ".join(said) or None


def find_shapes(symbol):
    """Returns the sentence with an arrow between shapes, with or without the tag."""
    for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z`*])", " ".join(symbol.doc.split())):
        if "->" in sentence and ("[" in sentence or "scalar" in sentence):
            return sentence
    return None


def complete_tags(headers):
    names = {symbol.name for header in headers for symbol in header.symbols}
    since = read_since()
    for header in headers:
        for symbol in header.symbols:
            doc, own = split_tags(symbol.doc)
            if "Shapes" not in own and (shapes := find_shapes(symbol)):
                own["Shapes"] = shapes
            symbol.doc = doc
            for tag in needs(symbol):
                value = own.get(tag)
                if value is None and tag == "Since":
                    value = since.get(symbol.name)
                elif value is None and tag == "Owner":
                    value = symbol.section.tags.get(tag) or find_owner(symbol, names)
                elif value is None:
                    value = symbol.section.tags.get(tag) or header.tags.get(tag)
                if value is not None:
                    symbol.tags[tag] = value
            for tag, value in own.items():
                symbol.tags.setdefault(tag, value)


def read_all():
    headers = [Reader(path).header for path in sorted((ROOT / "include/brigade").glob("*.h")) if path.name not in NO_HEADERS]
    complete_tags(headers)
    return headers
