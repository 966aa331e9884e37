#!/usr/bin/env python3
"""Makes src/data/unicode_classes.def, the table of characters beyond ASCII that are letters, numbers or white space in Unicode.

    python3 tools/unicode_classes.py > src/data/unicode_classes.def
"""
import unicodedata

# The property White_Space, which the module unicodedata does not have.
SPACES = {0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(point):
    category = unicodedata.category(chr(point))
    return "LETTER" if category[0] == "L" else "NUMBER" if category[0] == "N" else "SPACE" if point in SPACES else None


def main():
    ranges = []
    for point in range(0x80, 0x110000):
        kind = class_of(point)
        if kind and ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = point
        elif kind:
            ranges.append([point, point, kind])
    print("/* BGI_UNICODE(first, last, class): characters of Unicode", unicodedata.unidata_version, "beyond ASCII, in order.")
    print(" * Made by tools/unicode_classes.py. */")
    line = ""
    for first, last, kind in ranges:
        item = f"BGI_UNICODE(0x{first:x}, 0x{last:x}, {kind})"
        if line and len(line) + len(item) > 118:
            print(line)
            line = ""
        line += (" " if line else "") + item
    print(line)


main()
