#!/usr/bin/env python3
"""Reads the public headers and writes the tables that bindings of other languages need.

    tools/make_bindings.py python > python/brigade/_abi.py
    tools/make_bindings.py structs > src/bindings/structs.def
    tools/make_bindings.py layout > layout.c     # prints sizes and offsets, as the C compiler has them

clang-format gives the headers a uniform layout, so this short parser is enough. A construct that it does not understand is
an error. tests/languages/test_python.sh compares the files with the headers and the layout with the C compiler.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Headers of an MPI's library, which only programs with that MPI link.
LEFT_OUT = {"mpi.h", "core.h"}

SCALARS = {
    "bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "long": "c_long", "double": "c_double",
    "float": "c_float", "size_t": "c_size_t", "int8_t": "c_int8", "uint8_t": "c_uint8", "int16_t": "c_int16",
    "uint16_t": "c_uint16", "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
    "sig_atomic_t": "c_int",
}


def fail(text):
    sys.exit(f"make_bindings: {text}")


def strip_comments(text):
    """Removes comments and preprocessor lines; a comment becomes one space, so that tokens stay separate."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)
    return text.replace('extern "C" {', "")


def split_outside(text, separator):
    """Splits text at separators that are outside all brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({[") - (c in ")}]")
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


class Headers:
    def __init__(self):
        self.constants = {}   # name: value
        self.enums = {}       # name of the type: [constants]
        self.structs = {}     # name: [(field, type)], or None when it is opaque
        self.callbacks = {}   # name: (result, [(parameter, type)])
        self.functions = {}   # name: (result, [(parameter, type)], has variable arguments, prototype)
        self.order = []       # structs and callbacks in the order of their definitions
        for path in sorted((ROOT / "include/brigade").glob("*.h"), key=self.place):
            if path.name not in LEFT_OUT:
                self.read(path)

    @staticmethod
    def place(path):
        """Orders headers after those that they include."""
        done = {}

        def depth(name):
            if name not in done:
                done[name] = 0
                included = re.findall(r"^#include <brigade/(.*)>", (ROOT / "include/brigade" / name).read_text(), re.M)
                done[name] = 1 + max(map(depth, included), default=0)
            return done[name]
        return depth(path.name), path.name

    # ---- constants ----

    def evaluate(self, text):
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]+\b", r"\1", text)
        text = text.replace("UINT32_MAX", "0xffffffff").replace("UINT64_MAX", "0xffffffffffffffff")
        return int(eval(text, {"__builtins__": {}}, dict(self.constants)))

    def read_enum(self, body):
        names, value = [], -1
        for entry in split_outside(body, ","):
            name, _, text = entry.partition("=")
            value = self.evaluate(text) if text.strip() else value + 1
            self.constants[name.strip()] = value
            names.append(name.strip())
        return names

    # ---- types: ("scalar", ctype), ("enum", name), ("struct", name), ("callback", name), ("pointer", type), ----
    # ---- ("array", type, length), ("function", result, parameters), ("void",), ("opaque", name)               ----

    def base_type(self, name):
        if name == "void":
            return ("void",)
        if name in SCALARS:
            return ("scalar", SCALARS[name])
        if name in self.enums:
            return ("enum", name)
        if name in self.callbacks:
            return ("callback", name)
        return ("struct", name)

    def declare(self, text):
        """Returns (name, type) of a declaration without its semicolon."""
        text = " ".join(text.replace("*", " * ").split())
        match = re.match(r"(.*?)\( \* (\w+)( \[\w+\])?\) ?\((.*)\)$", text) or \
            re.match(r"(.*?)\( \* (\w*)()\) ?\((.*)\)$", text)
        if match:
            return match[2], ("function", self.declare(match[1] + " _")[1], self.parameters(match[4])[0])
        lengths = re.findall(r"\[(\w*)\]", text)
        words = [w for w in re.sub(r"\[\w*\]", "", text).split() if w not in ("const", "struct", "volatile", "enum")]
        stars = words.count("*")
        words = [w for w in words if w != "*"]
        if len(words) not in (1, 2) or words[0] in ("_",):
            fail(f"this declaration is not understood: {text}")
        made = self.base_type(words[0])
        for _ in range(stars):
            made = ("pointer", made)
        for length in reversed(lengths):
            made = ("array", made, self.evaluate(length)) if length else ("pointer", made)
        return (words[1] if len(words) == 2 else ""), made

    def parameters(self, text):
        """Returns a function's parameters, with arrays as pointers, and whether it has variable arguments."""
        found, more = [], False
        for part in split_outside(text, ","):
            if part == "...":
                more = True
            elif part != "void":
                name, made = self.declare(part)
                found.append((name, ("pointer", made[1]) if made[0] == "array" else made))
        return found, more

    def read_struct(self, name, body):
        fields = []
        for line in split_outside(body, ";"):
            if inner := re.match(r"struct (\w+) \{(.*)\} (.*)$", line):
                self.read_struct(inner[1], inner[2])
                line = f"{inner[1]} {inner[3]}"
            elif "{" in line:
                fail(f"{name} has a struct without a name, which is not understood")
            parts = split_outside(line, ",")
            if len(parts) == 1 or "(" in line:
                fields.append(self.declare(line))
                continue
            first = self.declare(parts[0])
            fields.append(first)
            base = re.match(r"((?:const |struct |volatile )*\w+) ", " ".join(parts[0].replace("*", " * ").split()))[1]
            fields += [self.declare(f"{base} {part}") for part in parts[1:]]
        self.structs[name] = fields
        self.order.append(name)

    # ---- a header ----

    def read(self, path):
        raw = path.read_text()
        for name, text in re.findall(r"^#define (BG_\w+) +([^\n(\\]+)$", raw, re.M):
            text = re.sub(r"/\*.*", "", text).strip()
            if re.fullmatch(r"[\w+\-*<> ]+", text) and re.search(r"[0-9]|_MAX", text):
                self.constants[name] = self.evaluate(text)
        text = re.sub(r"\bstatic inline\b.*?\n\}", "", strip_comments(raw), flags=re.S)
        for part in split_outside(text, ";"):
            part = re.sub(r" BG_PRINTF\(.*\)$", "", " ".join(part.split()).lstrip("} ").strip())
            if not part:
                continue
            if match := re.match(r"typedef enum (\w+) \{(.*)\} \w+$", part):
                self.enums[match[1]] = []
                self.enums[match[1]] = self.read_enum(match[2])
            elif match := re.match(r"enum(?: \w+)? \{(.*)\}$", part):
                self.read_enum(match[1])
            elif match := re.match(r"(?:typedef )?struct (\w+) \{(.*)\}(?: \w+)?$", part):
                self.read_struct(match[1], match[2])
            elif match := re.match(r"(?:typedef )?struct (\w+)(?: \w+)?$", part):
                self.structs.setdefault(match[1], None)
            elif match := re.match(r"typedef (.*)$", part):
                name, made = self.declare(match[1])
                if made[0] != "function":
                    fail(f"{path.name}: this typedef is not understood: {part}")
                self.callbacks[name] = made[1:]
                self.order.append(name)
            elif match := re.match(r"BG_API (.*?)(bg_\w+)\((.*)\)$", part):
                result = self.declare(match[1].strip() + " _")[1]
                parameters, more = self.parameters(match[3])
                self.functions[match[2]] = (result, parameters, more,
                                            f"{match[1]}{match[2]}({match[3]})".replace("BG_API ", ""))
            else:
                fail(f"{path.name}: this is not understood: {part[:120]}")

    # ---- output ----

    def size_words(self, made, seen=()):
        """Returns a lower bound of a type's size in bytes, which separates small structs from large ones."""
        kind = made[0]
        if kind == "struct":
            fields = self.structs.get(made[1])
            return 0 if fields is None else sum(self.size_words(t) for _, t in fields)
        if kind == "array":
            return made[2] * self.size_words(made[1])
        if kind in ("pointer", "callback", "function"):
            return 8
        if kind == "enum":
            return 4
        return {"c_bool": 1, "c_char": 1, "c_int8": 1, "c_uint8": 1, "c_int16": 2, "c_uint16": 2, "c_int": 4,
                "c_uint": 4, "c_float": 4, "c_int32": 4, "c_uint32": 4}.get(made[1] if len(made) > 1 else "", 8)

    def passes_large_struct(self, result, parameters):
        """Whether a struct of more than 16 bytes is passed or returned by value, in memory that the caller must provide."""
        values = [result] + [t for _, t in parameters]
        return any(t[0] == "struct" and self.size_words(t) > 16 for t in values)

    def python_type(self, made, in_function=False):
        kind = made[0]
        if kind == "void":
            return "None"
        if kind == "scalar":
            return made[1]
        if kind == "enum":
            return "c_int"
        if kind == "struct":
            return made[1]
        if kind == "callback":
            return made[1]
        if kind == "array":
            return f"{self.python_type(made[1])} * {made[2]}"
        if kind == "function":
            return self.python_callback(made[1], made[2])
        to = made[1]
        if to == ("scalar", "c_char"):
            return "c_char_p"
        if to[0] in ("void", "function") or (to[0] == "struct" and self.structs.get(to[1]) is None):
            return "c_void_p"
        return f"POINTER({self.python_type(to)})"

    def python_callback(self, result, parameters):
        if result[0] == "struct" or any(t[0] == "struct" for _, t in parameters):
            return "c_void_p"  # ctypes does not support callbacks with structs by value
        inner = ", ".join(self.python_type(t) for _, t in parameters)
        return f"CFUNCTYPE({self.python_type(result)}{', ' if inner else ''}{inner})"

    def known(self):
        """Returns structs with fields, and callbacks, each after the structs that it holds by value."""
        return [name for name in self.order]


def write_python(headers):
    out = ['"""The binary interface of the library, made from its headers by tools/make_bindings.py: not to be edited."""',
           "from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int16,",
           "                    c_int32, c_int64, c_long, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)",
           "", f'VERSION = "{(ROOT / "VERSION").read_text().strip()}"', "",
           "# Constants of enumerations and macros.", "CONSTANTS = {"]
    out += [f'    "{name}": {value},' for name, value in headers.constants.items()]
    out += ["}", "", "# Constants of each enumeration.", "ENUMS = {"]
    out += [f'    "{name}": {names!r},' for name, names in headers.enums.items()]
    out += ["}", "", ""]
    structs = [name for name in headers.order if name in headers.structs]
    for name in structs:
        out += [f"class {name}(Structure):", "    pass", "", ""]
    for name in headers.order:
        if name in headers.callbacks:
            out.append(f"{name} = {headers.python_callback(*headers.callbacks[name])}")
            continue
        out.append(f"{name}._fields_ = [")
        out += [f'    ("{field}", {headers.python_type(made)}),' for field, made in headers.structs[name]]
        out.append("]")
    out += ["", "STRUCTS = {", *[f'    "{name}": {name},' for name in structs], "}", "",
            "# Functions: result, parameters as (name, type in C), whether others may follow. Those that pass structs of more",
            "# than 16 bytes by value are left out; brigade/bindings.h has their forms with pointers.", "FUNCTIONS = {"]
    for name, (result, parameters, more, prototype) in sorted(headers.functions.items()):
        if headers.passes_large_struct(result, parameters):
            continue
        types = split_outside(re.search(r"\((.*)\)$", prototype)[1], ",")
        described = []
        for (field, made), text in zip(parameters, types):
            described.append((field, headers.python_type(made), text))
        inner = ", ".join(f'("{f}", {t}, "{" ".join(c.split())}")' for f, t, c in described)
        out.append(f'    "{name}": ({headers.python_type(result)}, [{inner}], {more}),')
    out += ["}"]
    return "\n".join(out) + "\n"


def write_structs(headers):
    lines = ["/* Structs of the public headers, by tools/make_bindings.py: not to be edited. */"]
    lines += [f"STRUCT({name})" for name in sorted(n for n in headers.order if n in headers.structs)]
    return "\n".join(lines) + "\n"


def write_layout(headers):
    out = ["#include <brigade.h>", "#include <stdio.h>", "int main(void)", "{"]
    for name in headers.order:
        if name in headers.structs:
            out.append(f'    printf("{name} %zu\\n", sizeof(struct {name}));')
            out += [f'    printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));' for field, _ in headers.structs[name]]
    out += [f'    printf("{name} %lld\\n", (long long)({name}));' for name in headers.constants]
    return "\n".join(out + ["    return 0;", "}"]) + "\n"


if __name__ == "__main__":
    writers = {"python": write_python, "structs": write_structs, "layout": write_layout}
    if len(sys.argv) != 2 or sys.argv[1] not in writers:
        fail("say python, structs or layout")
    sys.stdout.write(writers[sys.argv[1]](Headers()))
