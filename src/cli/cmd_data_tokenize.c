/*
 * cmd_data_tokenize.c: `brigade data tokenize`: writes texts as a file of token numbers. A text is read a megabyte at a
 * time, and only the current document must fit in memory.
 *
 *     documents        one two | three ...       each ends with the end of text
 *     without --length one two . three ... .
 *     --length 3       one two . | three ...     windows of one document each; --overlap 1: they share a token
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/tokenizer.h>

#include "cli/options.h"
#include "cli/program.h"
#include "cli/tokenizer.h"
#include "core/error.h"
#include "core/file.h"
#include "core/input.h"
#include "core/text.h"
#include "data/tfrecord.h"
#include "data/tokenizer.h"

enum { TEXT_LIMIT = 4096, WINDOW_BYTES = 1 << 20, STEP_BYTES = 1 << 20, PROGRESS_BYTES = 1 << 24 };

typedef struct tokenize_config {
    const char *tokenizer, *output, *documents;
    uint64_t length, overlap, stride; /* overlap and stride are UINT64_MAX if not given */
    bool fill, special, no_end, quiet;
} tokenize_config;

#define AT(field) .offset = offsetof(tokenize_config, field)

static const cli_option tokenize_options[] = {
    {CLI_TEXT, "tokenizer", AT(tokenizer), .value = "DIR|bytes",
     .help = "folder with tokenizer.json, or with vocab.json and merges.txt; bytes: a token for each byte"},
    {CLI_TEXT, "output", AT(output), .value = "FILE",
     .help = "tokens of 2 bytes (.u16) or 4 (.u32); or a TFRecord file (.tfrecord) with a record for each window"},
    {CLI_CHOICE, "documents", AT(documents), .choices = "file|line|paragraph",
     .help = "the unit of documents; empty lines separate paragraphs"},
    {CLI_FLAG, "no-end-of-text", AT(no_end), .help = "write no end-of-text token between documents"},
    {CLI_FLAG, "special-tokens", AT(special), .help = "<|endoftext|> and similar text become special tokens"},
    {.kind = CLI_HEADING, .help = "Windows"},
    {CLI_COUNT, "length", AT(length), .value = "N", .maximum = INT32_MAX, .default_text = "do not cut documents",
     .help = "cut each document into windows of N tokens (a sample of sequence length S takes S + 1)"},
    {CLI_COUNT, "overlap", AT(overlap), .value = "N", .maximum = INT32_MAX, .default_text = "0",
     .help = "number of tokens that a window shares with the preceding one"},
    {CLI_COUNT, "stride", AT(stride), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "length - overlap",
     .help = "number of tokens from the start of a window to the start of the next one, instead of --overlap"},
    {CLI_FLAG, "fill", AT(fill), .help = "fill a short last window with end-of-text tokens, instead of dropping it"},
    {.kind = CLI_HEADING, .help = "Other"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "print only errors"},
    CLI_OPTIONS_END,
};

/* ---- writing ---- */

/* The output, and the tokens of a document that do not fill a window yet. */
typedef struct sink {
    const tokenize_config *config;
    bgi_file_writer writer;      /* writes tokens, if token_bytes is above 0 */
    bgi_tfrecord_writer records; /* writes windows, if token_bytes is 0 */
    size_t token_bytes;          /* 0: windows are written as records */
    uint32_t end_of_text;
    size_t stride;
    bg_token_list waiting;
    size_t known; /* number of tokens at the start of `waiting` that an earlier window already has */
    uint64_t documents, tokens, windows, left_out;
} sink;

static void write_tokens(sink *s, const uint32_t *tokens, size_t count)
{
    if (s->token_bytes == 0)
        bgi_tfrecord_write(&s->records, tokens, count);
    for (size_t i = 0; s->token_bytes > 0 && i < count; i++) {
        const unsigned char bytes[4] = {(unsigned char)tokens[i], (unsigned char)(tokens[i] >> 8),
                                        (unsigned char)(tokens[i] >> 16), (unsigned char)(tokens[i] >> 24)};
        bgi_file_write(&s->writer, bytes, s->token_bytes);
    }
    s->tokens += count;
}

/* Writes the complete windows of s->waiting, or all tokens if the output has no windows. */
static void drain(sink *s)
{
    const size_t length = (size_t)s->config->length;
    size_t at = 0;

    if (length == 0) {
        write_tokens(s, s->waiting.items, s->waiting.count);
        s->waiting.count = 0;
        return;
    }
    for (; s->waiting.count - at >= length; at += s->stride, s->windows++) {
        write_tokens(s, s->waiting.items + at, length);
        s->known = length - s->stride;
    }
    if (at > 0)
        memmove(s->waiting.items, s->waiting.items + at, (s->waiting.count - at) * sizeof *s->waiting.items);
    s->waiting.count -= at;
}

static bg_status add_token(sink *s, uint32_t token, bg_error *error)
{
    if (!bgi_array_reserve((void **)&s->waiting.items, &s->waiting.capacity, s->waiting.count + 1,
                           sizeof *s->waiting.items))
        return bgi_error_memory(error, "tokens", sizeof token);
    s->waiting.items[s->waiting.count++] = token;
    return BG_OK;
}

/* Ends a document: writes the end-of-text token (unless --no-end-of-text is given), and fills the last window with such
 * tokens (--fill) or drops the window's tokens. */
static bg_status end_document(sink *s, bg_error *error)
{
    s->documents++;
    if (!s->config->no_end)
        BGI_TRY(add_token(s, s->end_of_text, error));
    drain(s);
    if (s->waiting.count > s->known && s->config->fill) {
        while (s->waiting.count < s->config->length)
            BGI_TRY(add_token(s, s->end_of_text, error));
        drain(s);
    } else {
        s->left_out += s->waiting.count - s->known;
    }
    s->waiting.count = s->known = 0;
    return BG_OK;
}

/* ---- reading ---- */

/* Returns the end of the line from text[at] to text[end] = '\n', without a carriage return. */
static size_t find_line_end(const char *text, size_t at, size_t end)
{
    return end > at && text[end - 1] == '\r' ? end - 1 : end;
}

/* Returns the end of the document that begins at text[at], and sets *next to the beginning of the next one. */
static size_t find_document(const char *documents, const char *text, size_t size_bytes, size_t at, size_t *next)
{
    const char *end = text + at;

    if (documents[0] == 'f')
        return *next = size_bytes;
    for (; (end = memchr(end, '\n', size_bytes - (size_t)(end - text))) != NULL; end++) {
        const size_t after = (size_t)(end - text) + 1;

        *next = after;
        if (documents[0] == 'l')
            return find_line_end(text, at, after - 1);
        while (*next < size_bytes &&
               (text[*next] == '\n' || (text[*next] == '\r' && *next + 1 < size_bytes && text[*next + 1] == '\n')))
            ++*next;
        if (*next > after)
            return find_line_end(text, at, after - 1);
    }
    return *next = size_bytes;
}

static bool is_blank(const char *text, size_t size_bytes)
{
    size_t i = 0;

    while (i < size_bytes && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0')
        i++;
    return i == size_bytes;
}

static bg_status encode_document(sink *s, const bg_tokenizer *tokenizer, const char *text, size_t size_bytes,
                                 bg_error *error)
{
    const bool shows = !s->config->quiet && isatty(STDERR_FILENO) == 1;
    bgi_encoding encoding;
    size_t shown = 0;
    bg_status status = bgi_encoding_begin(&encoding, tokenizer, text, size_bytes, s->config->special, error);

    while (status == BG_OK && encoding.at < size_bytes) {
        status = bgi_encoding_advance(&encoding, STEP_BYTES, &s->waiting, error);
        drain(s);
        if (status == BG_OK && cli_received_signal != 0)
            status = bg_error_set(error, BG_ERROR_CANCELED, "stopped by signal %d", (int)cli_received_signal);
        if (shows && encoding.at - shown >= PROGRESS_BYTES) {
            shown = encoding.at;
            fprintf(stderr, "\r%zu of %zu MB", shown >> 20, size_bytes >> 20);
        }
    }
    if (shown > 0)
        fputc('\n', stderr);
    bgi_encoding_end(&encoding);
    return status == BG_OK ? end_document(s, error) : status;
}

/* The part of a file that is in memory: its bytes from `begin` to `begin + size`. */
typedef struct window {
    bgi_input input;
    char *data;
    size_t size, capacity;
    uint64_t begin;
} window;

static bool is_at_end(const window *w)
{
    return w->begin + w->size >= w->input.size_bytes;
}

/* Drops the first `used` bytes of the window, and reads the next `more` bytes of the file, or up to its end. */
static bg_status move_window(window *w, size_t used, size_t more, bg_error *error)
{
    const uint64_t left = w->input.size_bytes - w->begin - w->size;

    if (used > 0)
        memmove(w->data, w->data + used, w->size - used);
    w->begin += used;
    w->size -= used;
    if (more > left)
        more = (size_t)left;
    if (!bgi_array_reserve((void **)&w->data, &w->capacity, w->size + more, 1))
        return bgi_error_memory(error, w->input.name, w->size + more);
    BGI_TRY(bgi_input_read(&w->input, w->begin + w->size, w->data + w->size, more, error));
    w->size += more;
    return BG_OK;
}

/* Encodes one document after another; only the current document must fit in memory. */
static bg_status encode_text(sink *s, const bg_tokenizer *tokenizer, window *w, bg_error *error)
{
    const char *documents = s->config->documents;
    size_t at = 0, next = 0;

    while (w->begin + at < w->input.size_bytes) {
        const size_t end = w->size > at ? find_document(documents, w->data, w->size, at, &next) : at;

        /* If the next document would begin at the last byte of the window or after it, the current document may
         * continue in the file, so more is read first. */
        if (!is_at_end(w) && (w->size <= at || next + 1 >= w->size)) {
            BGI_TRY(move_window(w, at, w->size > WINDOW_BYTES ? w->size : WINDOW_BYTES, error));
            at = 0;
            continue;
        }
        if (documents[0] == 'f' || !is_blank(w->data + at, end - at))
            BGI_TRY(encode_document(s, tokenizer, w->data + at, end - at, error));
        at = next;
    }
    return BG_OK;
}

static bg_status encode_file(sink *s, const bg_tokenizer *tokenizer, const char *path, bg_error *error)
{
    window w = {.data = NULL};
    bg_status status;

    BGI_TRY(bgi_input_open(&w.input, path, error));
    status = encode_text(s, tokenizer, &w, error);
    bgi_input_close(&w.input);
    free(w.data);
    return status;
}

/* ---- the command ---- */

static bg_status check_output(sink *s, const bg_tokenizer *tokenizer, bg_error *error)
{
    const tokenize_config *config = s->config;
    const uint32_t vocabulary = bg_tokenizer_vocabulary(tokenizer);

    s->token_bytes = bgi_text_ends_with(config->output, ".u16")   ? 2
                     : bgi_text_ends_with(config->output, ".u32") ? 4
                                                                  : 0;
    if (s->token_bytes == 0 && !bgi_text_ends_with(config->output, ".tfrecord"))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output %s: its name must end in .u16 (tokens of 2 bytes), .u32 (of 4) or .tfrecord "
                            "(windows as records)",
                            config->output);
    if (s->token_bytes == 0 && config->length == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output %s: each record is a window of tokens, so it needs --length; give the model's "
                            "sequence length plus 1",
                            config->output);
    if (s->token_bytes == 2 && vocabulary > UINT16_MAX + 1U)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output %s: a vocabulary of %" PRIu32
                            " does not fit tokens of 2 bytes, which have %u values; let the name end in .u32",
                            config->output, vocabulary, UINT16_MAX + 1U);
    s->end_of_text = bg_tokenizer_end_of_text(tokenizer);
    if (s->end_of_text == UINT32_MAX && (!config->no_end || config->fill))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--tokenizer %s has no token " BGI_END_OF_TEXT
                            "; give --no-end-of-text, and leave --fill out",
                            config->tokenizer);
    return BG_OK;
}

static bg_status check_windows(const tokenize_config *config, size_t *stride, bg_error *error)
{
    const bool has_overlap = config->overlap != UINT64_MAX, has_stride = config->stride != UINT64_MAX;

    if (config->length == 0 && (has_overlap || has_stride || config->fill))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s applies only to windows; add --length",
                            has_overlap  ? "overlap"
                            : has_stride ? "stride"
                                         : "fill");
    if (has_overlap && has_stride)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--overlap %" PRIu64 " and --stride %" PRIu64 " mean the same; give one of them",
                            config->overlap, config->stride);
    if (has_overlap && config->overlap >= config->length)
        return bg_error_set(error, BG_ERROR_INVALID, "--overlap %" PRIu64 " must be below --length %" PRIu64,
                            config->overlap, config->length);
    if (has_stride && config->stride > config->length)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--stride %" PRIu64 " leaves tokens out; it must be at most --length %" PRIu64,
                            config->stride, config->length);
    *stride = (size_t)(has_stride ? config->stride : config->length - (has_overlap ? config->overlap : 0));
    return BG_OK;
}

/* Prints the numbers of documents, tokens and windows. `index_path` is empty if there is no index. */
static void print_summary(const sink *s, const char *index_path)
{
    printf("%" PRIu64 " document%s, %" PRIu64 " token%s are in %s%s%s\n", s->documents, cli_s(s->documents), s->tokens,
           cli_s(s->tokens), s->config->output, s->token_bytes == 0 ? ", indexed by " : "", index_path);
    if (s->config->length > 0)
        printf("%" PRIu64 " window%s of %" PRIu64 " tokens; %" PRIu64
               " token%s at the ends of documents did not fill a window\n",
               s->windows, cli_s(s->windows), s->config->length, s->left_out, cli_s(s->left_out));
}

static bg_status begin_output(sink *s, bg_error *error)
{
    if (s->token_bytes > 0)
        return bgi_file_writer_begin(&s->writer, s->config->output, error);
    return bgi_tfrecord_writer_begin(&s->records, s->config->output, (size_t)s->config->length, error);
}

static bg_status commit_output(sink *s, bg_error *error)
{
    return s->token_bytes > 0 ? bgi_file_writer_commit(&s->writer, error)
                              : bgi_tfrecord_writer_commit(&s->records, error);
}

/* Checks that no input is also an output. */
static bg_status check_texts(const sink *s, const char *index_path, const char *const *paths, uint32_t path_count,
                             bg_error *error)
{
    for (uint32_t i = 0; i < path_count; i++) {
        if (bgi_file_is_same(paths[i], s->config->output))
            return bg_error_set(error, BG_ERROR_INVALID, "--output %s is one of the texts", s->config->output);
        if (s->token_bytes == 0 && bgi_file_is_same(paths[i], index_path))
            return bg_error_set(error, BG_ERROR_INVALID, "--output %s: its index %s is one of the texts",
                                s->config->output, index_path);
    }
    return BG_OK;
}

static bg_status tokenize(const tokenize_config *config, const char *const *paths, uint32_t path_count, bg_error *error)
{
    sink s = {.config = config};
    bg_tokenizer *tokenizer = NULL;
    char *index_path = NULL;
    bg_status status;

    BGI_TRY(check_windows(config, &s.stride, error));
    BGI_TRY(cli_tokenizer_open(config->tokenizer, &tokenizer, error));
    BGI_TRY_CLEANUP(check_output(&s, tokenizer, error));
    index_path = s.token_bytes == 0 ? bgi_tfrecord_index_path(config->output) : strdup("");
    if (index_path == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "path", strlen(config->output)));
    BGI_TRY_CLEANUP(check_texts(&s, index_path, paths, path_count, error));
    BGI_TRY_CLEANUP(begin_output(&s, error));
    for (uint32_t i = 0; i < path_count; i++)
        BGI_TRY_CLEANUP(encode_file(&s, tokenizer, paths[i], error));
    if (s.tokens == 0) {
        status = bg_error_set(error, BG_ERROR_INVALID, "the texts have no %s; %s was not written",
                              config->length > 0 ? "window of that length" : "tokens", config->output);
        goto cleanup;
    }
    status = commit_output(&s, error);
    if (status == BG_OK && !config->quiet)
        print_summary(&s, index_path);
cleanup:
    bgi_file_writer_abandon(&s.writer, error);
    bgi_tfrecord_writer_abandon(&s.records, error);
    free(index_path);
    bg_token_list_clear(&s.waiting);
    bg_tokenizer_destroy(tokenizer);
    return status;
}

static const cli_help_page page = {
    .usage = "Usage: brigade data tokenize TEXT... --output FILE [OPTION]...\n"
             "Makes a file of token numbers, which `brigade gpt` trains on, from texts.\n",
    .examples = "brigade data tokenize story.txt --output story.u16\n"
                "brigade data tokenize story.txt --output story.tfrecord --length 64 --documents paragraph\n",
};

int cli_data_tokenize(int argc, char **argv)
{
    tokenize_config config = {.tokenizer = "bytes", .documents = "file", .overlap = UINT64_MAX, .stride = UINT64_MAX};
    const tokenize_config defaults = config;
    const char *paths[TEXT_LIMIT];
    uint32_t path_count = 0;
    cli_help help;
    bg_error error = {0};
    bg_status status =
        cli_options_read(tokenize_options, argc, argv, &config, paths, TEXT_LIMIT, &path_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, tokenize_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK && path_count == 0)
        status =
            bg_error_set(&error, BG_ERROR_INVALID, "no texts are given; name the files: brigade data tokenize TEXT...");
    if (status == BG_OK && config.output == NULL)
        status = bg_error_set(
            &error, BG_ERROR_INVALID,
            "no output is named; --output FILE.u16 makes a token file, and --output FILE.tfrecord makes records");
    if (status != BG_OK)
        return cli_fail("data", CLI_USAGE, &error);
    cli_catch_signals();
    status = tokenize(&config, paths, path_count, &error);
    if (status != BG_OK)
        return cli_fail("data", status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED, &error);
    return CLI_DONE;
}
