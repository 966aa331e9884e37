/*
 * tokenizer.c: implements byte-pair encoding. A text is cut into words (words.c). The bytes of a word are tokens in a
 * list. A heap holds the adjacent pairs that have a merge, ordered by the merge's rank and then from left to right:
 *
 *     h e l l o    heap: (l l, rank 1) (h e, rank 4)       h e ll o    heap: (ll o, rank 2) (h e, rank 4)
 *
 * So a word of n bytes takes n log n steps, whatever it contains. As in GPT-2's program, a merge joins all its pairs
 * before any pair that it created, even one of lower rank. Such pairs wait at the other end of the heap's memory.
 */
#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* ---- tokenizers ---- */

bg_status bgi_tokenizer_allocate(uint32_t count, uint32_t merge_count, bg_tokenizer **out, bg_error *error)
{
    bg_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    uint32_t places = 1;

    if (tokenizer == NULL)
        return bgi_error_memory(error, "a tokenizer", sizeof *tokenizer);
    while (places / 2 < merge_count)
        places *= 2;
    tokenizer->count = count;
    tokenizer->end_of_text = BGI_NO_TOKEN;
    tokenizer->merge_places = places;
    tokenizer->pieces = bgi_arena_allocate(&tokenizer->arena, count, sizeof *tokenizer->pieces);
    tokenizer->merges = bgi_arena_allocate(&tokenizer->arena, places, sizeof *tokenizer->merges);
    if (tokenizer->pieces == NULL || tokenizer->merges == NULL) {
        bg_tokenizer_destroy(tokenizer);
        return bgi_error_memory(error, "a tokenizer", places * sizeof *tokenizer->merges);
    }
    for (uint32_t i = 0; i < places; i++)
        tokenizer->merges[i].left = BGI_NO_TOKEN;
    for (int i = 0; i < 256; i++)
        tokenizer->byte_tokens[i] = BGI_NO_TOKEN;
    *out = tokenizer;
    return BG_OK;
}

void bg_tokenizer_destroy(bg_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    bgi_arena_clear(&tokenizer->arena);
    free(tokenizer);
}

/* Finds the entry of a pair in the hash table, or the empty entry where it would be added. */
static bgi_merge *find_merge(const bg_tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    const uint64_t mixed = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(mixed >> 32) & (tokenizer->merge_places - 1);

    while (tokenizer->merges[at].left != BGI_NO_TOKEN &&
           (tokenizer->merges[at].left != left || tokenizer->merges[at].right != right))
        at = (at + 1) & (tokenizer->merge_places - 1);
    return &tokenizer->merges[at];
}

void bgi_tokenizer_add_merge(bg_tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t merged)
{
    bgi_merge *merge = find_merge(tokenizer, left, right);

    if (merge->left == BGI_NO_TOKEN)
        *merge = (bgi_merge){.left = left, .right = right, .merged = merged, .rank = tokenizer->merge_count};
    tokenizer->merge_count++;
}

bg_status bg_tokenizer_create_bytes(bg_tokenizer **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_tokenizer *tokenizer;
    char *bytes;

    BGI_TRY(bgi_tokenizer_allocate(257, 0, &tokenizer, error));
    bytes = bgi_arena_allocate(&tokenizer->arena, 256, 1);
    tokenizer->special = bgi_arena_allocate(&tokenizer->arena, 1, sizeof *tokenizer->special);
    if (bytes == NULL || tokenizer->special == NULL) {
        bg_tokenizer_destroy(tokenizer);
        return bgi_error_memory(error, "a tokenizer", 256);
    }
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokenizer->pieces[i] = (bgi_piece){bytes + i, 1};
        tokenizer->byte_tokens[i] = i;
    }
    tokenizer->pieces[256] = (bgi_piece){BGI_END_OF_TEXT, sizeof BGI_END_OF_TEXT - 1};
    tokenizer->special[tokenizer->special_count++] = tokenizer->end_of_text = 256;
    *out = tokenizer;
    return BG_OK;
}

uint32_t bg_tokenizer_vocabulary(const bg_tokenizer *tokenizer)
{
    return tokenizer->count;
}

uint32_t bg_tokenizer_end_of_text(const bg_tokenizer *tokenizer)
{
    return tokenizer->end_of_text;
}

void bg_token_list_clear(bg_token_list *list)
{
    free(list->items);
    *list = (bg_token_list){.items = NULL};
}

/* ---- one word ---- */

typedef struct pair {
    uint32_t rank, at; /* at: the index of the left token */
    uint32_t left, right;
} pair;

typedef struct bgi_word {
    /* By index: a token (BGI_NO_TOKEN: it was joined to the previous one), and the indices of its neighbors. */
    uint32_t *tokens, *next, *previous;
    uint32_t length;
    /* The heap; waiting pairs are stored at the other end of its memory. There are at most two pairs for each byte. */
    pair *pairs;
    uint32_t heap_count, waiting_count;
    size_t capacity; /* bytes */
} bgi_word;

static bool reserve_word(bgi_word *word, size_t length)
{
    if (length <= word->capacity)
        return true;
    free(word->tokens);
    free(word->pairs);
    word->capacity = length < 64 ? 64 : length;
    word->tokens = malloc(word->capacity * 3 * sizeof *word->tokens);
    word->pairs = malloc(word->capacity * 2 * sizeof *word->pairs);
    if (word->tokens == NULL || word->pairs == NULL) {
        word->capacity = 0;
        return false;
    }
    word->next = word->tokens + word->capacity;
    word->previous = word->next + word->capacity;
    return true;
}

static bool is_before(const pair *a, const pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(bgi_word *word, pair added)
{
    uint32_t at = word->heap_count++;

    for (; at > 0 && is_before(&added, &word->pairs[(at - 1) / 2]); at = (at - 1) / 2)
        word->pairs[at] = word->pairs[(at - 1) / 2];
    word->pairs[at] = added;
}

static pair pop(bgi_word *word)
{
    const pair first = word->pairs[0], last = word->pairs[--word->heap_count];
    uint32_t at = 0, child;

    for (; (child = 2 * at + 1) < word->heap_count; at = child) {
        if (child + 1 < word->heap_count && is_before(&word->pairs[child + 1], &word->pairs[child]))
            child++;
        if (!is_before(&word->pairs[child], &last))
            break;
        word->pairs[at] = word->pairs[child];
    }
    word->pairs[at] = last;
    return first;
}

/* Adds the pair whose left token has index `at`, if it has a merge, while pairs of `rank` are being joined. */
static void add_pair(const bg_tokenizer *tokenizer, bgi_word *word, uint32_t at, uint32_t rank)
{
    const uint32_t right = word->next[at];
    const bgi_merge *merge;
    pair added;

    if (right >= word->length)
        return;
    merge = find_merge(tokenizer, word->tokens[at], word->tokens[right]);
    if (merge->left == BGI_NO_TOKEN)
        return;
    added = (pair){.rank = merge->rank, .at = at, .left = merge->left, .right = merge->right};
    if (merge->rank < rank)
        word->pairs[2 * word->capacity - ++word->waiting_count] = added;
    else
        push(word, added);
}

static void join(const bg_tokenizer *tokenizer, bgi_word *word, const pair *joined)
{
    const uint32_t at = joined->at, right = word->next[at];
    const uint32_t behind = word->next[right];

    word->tokens[at] = find_merge(tokenizer, joined->left, joined->right)->merged;
    word->tokens[right] = BGI_NO_TOKEN;
    word->next[at] = behind;
    if (behind < word->length)
        word->previous[behind] = at;
    if (at > 0)
        add_pair(tokenizer, word, word->previous[at], joined->rank);
    add_pair(tokenizer, word, at, joined->rank);
}

static void join_all(const bg_tokenizer *tokenizer, bgi_word *word)
{
    uint32_t rank = 0;

    for (;;) {
        if (word->waiting_count > 0 && (word->heap_count == 0 || word->pairs[0].rank != rank))
            for (; word->waiting_count > 0; word->waiting_count--)
                push(word, word->pairs[2 * word->capacity - word->waiting_count]);
        if (word->heap_count == 0)
            return;
        const pair first = pop(word);
        const uint32_t right = word->next[first.at];

        /* The pair is skipped if one of its tokens was joined to another meanwhile. */
        rank = first.rank;
        if (word->tokens[first.at] == first.left && right < word->length && word->tokens[right] == first.right)
            join(tokenizer, word, &first);
    }
}

static bg_status encode_word(const bg_tokenizer *tokenizer, bgi_word *word, const unsigned char *text, size_t length,
                             bg_token_list *tokens, bg_error *error)
{
    if (length > UINT32_MAX / 4)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "a word has %zu bytes but must have at most %u", length,
                            UINT32_MAX / 4);
    if (!reserve_word(word, length) ||
        !bgi_array_reserve((void **)&tokens->items, &tokens->capacity, tokens->count + length, sizeof *tokens->items))
        return bgi_error_memory(error, "tokens of a word", length * sizeof *word->pairs);
    word->length = (uint32_t)length;
    word->heap_count = word->waiting_count = 0;
    for (uint32_t i = 0; i < length; i++) {
        word->tokens[i] = tokenizer->byte_tokens[text[i]];
        word->next[i] = i + 1;
        word->previous[i] = i - 1;
    }
    for (uint32_t i = 0; i + 1 < length; i++)
        add_pair(tokenizer, word, i, 0);
    join_all(tokenizer, word);
    for (uint32_t i = 0; i < length; i = word->next[i])
        tokens->items[tokens->count++] = word->tokens[i];
    return BG_OK;
}

/* ---- texts ---- */

/* Finds the first special token from `at` on. If several begin there, finds the longest of them. */
static void find_special(bgi_encoding *e, size_t at)
{
    const bg_tokenizer *tokenizer = e->tokenizer;

    e->special_at = e->size_bytes;
    for (; e->reads_special && at < e->size_bytes; at++)
        for (uint32_t i = 0; i < tokenizer->special_count; i++) {
            const bgi_piece *piece = &tokenizer->pieces[tokenizer->special[i]];

            if (e->text[at] == (unsigned char)piece->data[0] && piece->size_bytes <= e->size_bytes - at &&
                memcmp(e->text + at, piece->data, piece->size_bytes) == 0) {
                e->special_at = at;
                e->special = tokenizer->special[i];
                return;
            }
        }
}

bg_status bgi_encoding_begin(bgi_encoding *encoding, const bg_tokenizer *tokenizer, const void *text, size_t size_bytes,
                             bool reads_special, bg_error *error)
{
    *encoding = (bgi_encoding){.tokenizer = tokenizer,
                               .text = text,
                               .size_bytes = size_bytes,
                               .reads_special = reads_special,
                               .word = calloc(1, sizeof *encoding->word)};
    if (encoding->word == NULL)
        return bgi_error_memory(error, "a word", sizeof *encoding->word);
    find_special(encoding, 0);
    return BG_OK;
}

bg_status bgi_encoding_advance(bgi_encoding *e, size_t limit_bytes, bg_token_list *tokens, bg_error *error)
{
    const size_t wanted = limit_bytes < e->size_bytes - e->at ? e->at + limit_bytes : e->size_bytes;

    while (e->at < wanted) {
        if (e->at == e->special_at) {
            if (!bgi_array_reserve((void **)&tokens->items, &tokens->capacity, tokens->count + 1,
                                   sizeof *tokens->items))
                return bgi_error_memory(error, "tokens", sizeof *tokens->items);
            tokens->items[tokens->count++] = e->special;
            e->at += e->tokenizer->pieces[e->special].size_bytes;
            find_special(e, e->at);
        } else {
            const size_t end = bgi_word_end(e->text, e->special_at, e->at);

            BGI_TRY(encode_word(e->tokenizer, e->word, e->text + e->at, end - e->at, tokens, error));
            e->at = end;
        }
    }
    return BG_OK;
}

void bgi_encoding_end(bgi_encoding *encoding)
{
    if (encoding->word != NULL) {
        free(encoding->word->tokens);
        free(encoding->word->pairs);
    }
    free(encoding->word);
    encoding->word = NULL;
}

bg_status bg_tokenizer_encode(const bg_tokenizer *tokenizer, const void *text, size_t size_bytes, bool reads_special,
                              bg_token_list *tokens, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(tokenizer, "tokenizer", __func__, error));
    BGI_TRY(bgi_require(tokens, "tokens", __func__, error));
    if (size_bytes > 0)
        BGI_TRY(bgi_require(text, "text", __func__, error));

    bgi_encoding encoding;
    bg_status status = bgi_encoding_begin(&encoding, tokenizer, text, size_bytes, reads_special, error);

    if (status == BG_OK)
        status = bgi_encoding_advance(&encoding, size_bytes, tokens, error);
    bgi_encoding_end(&encoding);
    return status;
}

const char *bg_tokenizer_token(const bg_tokenizer *tokenizer, uint32_t token, size_t *out_size_bytes)
{
    if (token >= tokenizer->count)
        return NULL;
    *out_size_bytes = tokenizer->pieces[token].size_bytes;
    return tokenizer->pieces[token].data;
}

bg_status bg_tokenizer_decode(const bg_tokenizer *tokenizer, const uint32_t *tokens, size_t count, char **out_text,
                              size_t *out_size_bytes, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(tokenizer, "tokenizer", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));
    BGI_TRY(bgi_require(out_size_bytes, "out_size_bytes", __func__, error));
    if (count > 0)
        BGI_TRY(bgi_require(tokens, "tokens", __func__, error));

    size_t total = 0;
    char *text, *at;

    for (size_t i = 0; i < count; i++) {
        if (tokens[i] >= tokenizer->count)
            return bg_error_set(error, BG_ERROR_INVALID, "token %zu is %u but must be below %u", i, tokens[i],
                                tokenizer->count);
        total += tokenizer->pieces[tokens[i]].size_bytes;
    }
    at = text = malloc(total + 1);
    if (text == NULL)
        return bgi_error_memory(error, "a text", total);
    for (size_t i = 0; i < count; i++) {
        const bgi_piece *piece = &tokenizer->pieces[tokens[i]];

        memcpy(at, piece->data, piece->size_bytes);
        at += piece->size_bytes;
    }
    *at = '\0';
    *out_text = text;
    *out_size_bytes = total;
    return BG_OK;
}
