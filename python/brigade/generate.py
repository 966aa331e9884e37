"""Tokenizers, and a GPT that continues texts."""
import codecs
import collections
import ctypes

import numpy as np

from . import _abi
from ._library import CONSTANTS, Error, Owner, _free, call, create, encode, library
from .graph import fill, make_struct
from .options import view

Token = collections.namedtuple("Token", "prompt place token log_share text is_last")
Token.__doc__ = "A token that was added to a prompt; `text` is the text that can be printed now (None without a tokenizer)."
Generation = collections.namedtuple("Generation", "tokens text end log_share score")
Generation.__doc__ = "The tokens that were added to a prompt; `end` is \"length\", \"stop_token\", \"stop_string\" or \"callback\"."


class Tokenizer(Owner):
    """Converts text to tokens and back. Tokenizer(folder) reads tokenizer.json, or vocab.json and merges.txt; Tokenizer() has a token
    for each byte."""

    _destroy = "bg_tokenizer_destroy"

    def __init__(self, folder=None):
        super().__init__(create("bg_tokenizer_create_bytes") if folder is None else create("bg_tokenizer_open", encode(folder)))

    @property
    def vocabulary(self):
        return library.bg_tokenizer_vocabulary(self)

    @property
    def end_of_text(self):
        """The token that separates texts, or None if there is no such token."""
        found = library.bg_tokenizer_end_of_text(self)
        return None if found == 2**32 - 1 else found

    def encode(self, text, special=False):
        """Returns the tokens of a text. With `special`, names of special tokens in the text become special tokens."""
        made, content = _abi.bg_token_list(), text.encode() if isinstance(text, str) else bytes(text)
        try:
            call("bg_tokenizer_encode", self, content, len(content), special, ctypes.byref(made))
            return made.items[:made.count]
        finally:
            library.bg_token_list_clear(ctypes.byref(made))

    def decode(self, tokens):
        """Returns the text of tokens; bytes that are not UTF-8 become U+FFFD."""
        tokens, made, size = _tokens(tokens), ctypes.c_char_p(), ctypes.c_size_t()
        call("bg_tokenizer_decode", self, tokens, len(tokens), ctypes.byref(made), ctypes.byref(size))
        try:
            return ctypes.string_at(made, size.value).decode(errors="replace")
        finally:
            _free(ctypes.cast(made, ctypes.c_void_p))


def _tokens(given):
    return (ctypes.c_uint32 * len(given))(*(int(token) for token in given))


class Generator(Owner):
    """Continues sequences of tokens: Generator(weights, layers=2, hidden=64, heads=4, sequence_length=8, positions=128,
    vocabulary=257). Arguments of the model are the fields of bg_gpt_options. `sequences` prompts run at the same time.

        generator.run([[1, 2, 3]], max_tokens=20, sampling={"temperature": 0.8, "seed": 7})[0].tokens
    """

    _destroy = "bg_generator_destroy"

    def __init__(self, weights, options=None, sequences=1, **model):
        made = make_struct(_abi.bg_gpt_options, model)
        self.vocabulary = made.vocabulary
        super().__init__(create("bg_generator_create_batch", ctypes.byref(made), view(options), weights, sequences),
                         weights, options)

    def __len__(self):
        """Returns the number of tokens so far."""
        return library.bg_generator_length(self)

    def feed(self, tokens):
        call("bg_generator_feed", self, _tokens(tokens), len(tokens))

    def reset(self):
        library.bg_generator_reset(self)

    @property
    def logits(self):
        """Logits of the next token; None before the first feed."""
        found = library.bg_generator_logits(self)
        return np.ctypeslib.as_array(found, (self.vocabulary,)).copy() if found else None

    def sample(self, **sampling):
        """Draws the next token without adding it. Arguments are the fields of bg_sampling."""
        made, token = make_struct(_abi.bg_sampling, sampling), ctypes.c_uint32()
        call("bg_generator_sample", self, ctypes.byref(made), ctypes.byref(token))
        return token.value

    def run(self, prompts, tokenizer=None, sampling=None, stop_tokens=(), stop_strings=(), on_token=None, seeds=None, **options):
        """Continues prompts, which are lists of tokens or, with a tokenizer, texts. Returns a Generation for each prompt, or with
        returned_beams above 1 a list of Generations. on_token is called for each Token when it is drawn; returning False ends the
        prompt. `seeds` has a seed for each prompt; None: prompt i has the seed of `sampling` plus i. Other arguments are the fields
        of bg_generation_options."""
        made = make_struct(_abi.bg_generation_options, options)
        fill(made.sampling, sampling or {})
        keep, thrown, decoders = [], [], {}
        if stop_tokens:
            keep.append(_tokens(stop_tokens))
            made.stop_tokens, made.stop_token_count = keep[-1], len(stop_tokens)
        if stop_strings:
            keep.append((ctypes.c_char_p * len(stop_strings))(*(each.encode() for each in stop_strings)))
            made.stop_strings, made.stop_string_count = keep[-1], len(stop_strings)
        if tokenizer is not None:
            made.tokenizer = tokenizer._as_parameter_
        if on_token is not None:
            made.on_token = dict(made._fields_)["on_token"](lambda _, token: _hear(on_token, token.contents, decoders, thrown))
        given = (_abi.bg_generation_prompt * max(len(prompts), 1))()
        for i, prompt in enumerate(prompts):
            if isinstance(prompt, str):
                if tokenizer is None:
                    raise Error(CONSTANTS["BG_ERROR_INVALID"], f"prompt {i} is a text but there is no tokenizer")
                prompt = tokenizer.encode(prompt)
            keep.append(_tokens(prompt))
            given[i].tokens, given[i].count = keep[-1], len(prompt)
            given[i].seed = seeds[i] if seeds is not None else (made.sampling.seed + i) % 2**64
        each = max(made.returned_beams, 1)
        results = (_abi.bg_generation * max(len(prompts) * each, 1))()
        try:
            call("bg_generator_run", self, given, len(prompts), ctypes.byref(made), results)
            if thrown:
                raise thrown[0]
            found = [_read(result, tokenizer) for result in results[:len(prompts) * each]]
        finally:
            library.bg_generation_clear(results, len(results))
        return found if each == 1 else [found[i:i + each] for i in range(0, len(found), each)]


def _bytes(struct, size):
    """Returns the bytes of a struct's member `text`, which does not end with a zero byte; None for NULL."""
    address = ctypes.c_void_p.from_address(ctypes.addressof(struct) + type(struct).text.offset).value
    return ctypes.string_at(address, size) if address else None


def _hear(function, token, decoders, thrown):
    if thrown:
        return False
    try:
        text = _bytes(token, token.text_bytes)
        if text is not None:  # a character may span several tokens
            decoder = decoders.setdefault(token.prompt, codecs.getincrementaldecoder("utf-8")("replace"))
            text = decoder.decode(text, token.is_last)
        return function(Token(token.prompt, token.place, token.token, token.log_share, text, token.is_last)) is not False
    except BaseException as reason:  # an exception must not cross the C code
        thrown.append(reason)
        return False


def _read(result, tokenizer):
    words = {number: name for name, number in CONSTANTS.items() if name.startswith("BG_GENERATION_")}
    return Generation(np.array(result.tokens[:result.count], np.uint32), None if tokenizer is None else (_bytes(result, result.text_bytes) or b"").decode(errors="replace"),
                      words[result.end][len("BG_GENERATION_"):].lower(), result.log_share, result.score)
