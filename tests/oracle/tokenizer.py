#!/usr/bin/env python3
"""Makes tokenizer.txt: texts and their tokens by GPT-2's own algorithm (openai/gpt-2, encoder.py, in a few lines).

    python3 tests/oracle/tokenizer.py > tests/oracle/tokenizer.txt

It has two tokenizers: `trained`, whose merges are the most frequent pairs of a text, and `odd`, whose merges are random
pairs of tokens in a random order, so that some merges precede those that make their parts. Bytes are written as
numbers. The pattern's \\p{L} and \\p{N} are written out from unicodedata, because the module `re` lacks them.
"""
import json
import random
import re
import unicodedata

SPACES = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def ranges_of(letter):
    points = [p for p in range(0x110000) if unicodedata.category(chr(p))[0] == letter]
    out, start = [], 0
    for i, p in enumerate(points):
        if i + 1 == len(points) or points[i + 1] != p + 1:
            out.append(f"\\U{points[start]:08x}-\\U{p:08x}")
            start = i + 1
    return "".join(out)


LETTERS, NUMBERS = ranges_of("L"), ranges_of("N")
PATTERN = re.compile(f"'s|'t|'re|'ve|'m|'ll|'d| ?[{LETTERS}]+| ?[{NUMBERS}]+| ?[^{SPACES}{LETTERS}{NUMBERS}]+"
                     f"|[{SPACES}]+(?![^{SPACES}])|[{SPACES}]+")


def bytes_to_unicode():
    bs = list(range(ord("!"), ord("~") + 1)) + list(range(ord("¡"), ord("¬") + 1)) + list(range(ord("®"), ord("ÿ") + 1))
    cs, n = bs[:], 0
    for b in range(256):
        if b not in bs:
            bs.append(b)
            cs.append(256 + n)
            n += 1
    return dict(zip(bs, map(chr, cs)))


BYTES = bytes_to_unicode()


def pairs_of(word):
    return list(zip(word, word[1:]))


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def encode(text, vocab, ranks):
    tokens = []
    for piece in PATTERN.findall(text):
        word = [BYTES[b] for b in piece.encode()]
        while len(word) > 1:
            pair = min(pairs_of(word), key=lambda p: ranks.get(p, float("inf")))
            if pair not in ranks:
                break
            word = merge(word, pair)
        tokens += [vocab[t] for t in word]
    return tokens


def train(text, count):
    words = [[BYTES[b] for b in piece.encode()] for piece in PATTERN.findall(text)]
    merges = []
    for _ in range(count):
        counts = {}
        for word in words:
            for p in pairs_of(word):
                counts[p] = counts.get(p, 0) + 1
        best = max(counts, key=lambda p: (counts[p], p))
        merges.append(best)
        words = [merge(w, best) for w in words]
    return merges


def make_odd(rng, count):
    tokens, merges = ["a", "b", "c", "d"], []
    while len(merges) < count:
        pair = (rng.choice(tokens), rng.choice(tokens))
        if pair not in merges and len(pair[0] + pair[1]) < 9:
            merges.append(pair)
            if pair[0] + pair[1] not in tokens:
                tokens.append(pair[0] + pair[1])
    rng.shuffle(merges)
    return merges


def make_texts(rng):
    texts = ["", " ", "  ", "a", " a", "  a", "\n\n a\n", "it's we're I'll 'S don't''s 'll've'x '", "x'", "12 34 ab12",
             "tabs\t\tand\n\n\nlines  ", "naïve Ελλάδα 東京 １２ ²½ Ⅷ ٣", "a\u3000\u3000b \u00a0c\u200b\u2028d", "🙂🙂 ok!? ...",
             "<|endoftext|>", "e\u0301 \u0915\u094d\u0937", "\x00\x01 \x1c\x1f\x7f", "aaaaaaaaab " * 3,
             "the cat sat on the mat, and then the other cat sat there"]
    alphabet = ["a", "the", "t", "'", "s", "re", " ", "  ", "\n", "1", "23", ".", "é", "東", "²", "\u00a0", "\u2003", "🙂", "\u0301",
                "\t", "_", "-", "\u1680", "Ǆ", "ª", "\U00010400", "\U0001d7ce"]
    for _ in range(60):
        texts.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 30))))
    return texts


def show(case, name, numbers):
    print(case, name, f"[{len(numbers)}]", *numbers)


def main():
    rng = random.Random(7)
    corpus = "the cat sat on the mat, and then the other cat sat there. it's 1234 things they'll have; naïve 東京 12 " * 3
    texts = make_texts(rng)
    odd = ["".join(rng.choice("abcd") for _ in range(rng.randrange(1, 40))) for _ in range(80)] + ["ab" * 30, "a" * 50]
    print("# made by tests/oracle/tokenizer.py, Unicode", unicodedata.unidata_version)
    for case, merges, inputs in (("trained", train(corpus, 40), texts), ("odd", make_odd(rng, 60), odd)):
        vocab = {c: i for i, c in enumerate(BYTES.values())}
        for a, b in merges:
            vocab.setdefault(a + b, len(vocab))
        vocab["<|endoftext|>"] = len(vocab)
        show(case, "vocab", list(json.dumps(vocab).encode()))
        show(case, "merges", list(("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)).encode()))
        ranks = {p: i for i, p in enumerate(merges)}
        for i, text in enumerate(t for t in inputs if t):
            show(case, f"text{i}", list(text.encode()))
            show(case, f"tokens{i}", encode(text, vocab, ranks))


main()
