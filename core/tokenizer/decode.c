// core/tokenizer/decode.c -- ids to text, one token after another.
//
// The file's decoder is a chain of stages. A stage receives tokens, or (after Fuse and ByteLevel)
// one text in pieces. It passes on the bytes that later tokens cannot change, and holds the rest.
// Decoding all ids pushes all of them and finishes, so streaming gives the same text.
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer_parts.h"

static const struct pattern mark = { .literal = MARK, .literal_length = 3 };

struct decoding {
    struct detokenizer *d;
    struct search search;
    struct buf *out;
};

static void stage_push(struct decoding *r, int stage, const char *text, size_t length);

// Returns the byte of a token "<0xE4>"; -1 for other tokens.
static int fallback_byte(const char *text, size_t length)
{
    if (length != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    static const char digits[] = "0123456789abcdef";
    const char *high = memchr(digits, text[3] | 0x20, 16),
               *low = memchr(digits, text[4] | 0x20, 16);
    return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

// A run of byte tokens decodes to its bytes if all of it is valid UTF-8, else to one U+FFFD per
// byte, so nothing can be passed on before the run ends.
static void fallback_flush(struct decoding *r, int stage)
{
    struct buf *held = &r->d->stages[stage].held;
    if (!held->length) return;
    struct buf run = *held;
    *held = (struct buf){ 0 };
    if (utf8_valid(run.data, run.length))
        stage_push(r, stage + 1, run.data, run.length);
    else
        for (size_t i = 0; i < run.length; i++) stage_push(r, stage + 1, "\xEF\xBF\xBD", 3);
    buf_release(&run);
}

// Decodes a token in GPT-2's byte alphabet to bytes; copies any other token.
static void bytes_push(struct decoding *r, int stage, const char *text, size_t length)
{
    struct buf *held = &r->d->stages[stage].held;
    size_t before = held->length;
    for (size_t i = 0; i < length;) {
        int32_t c;
        i += utf8_next(text + i, length - i, &c);
        int byte = char_byte(c);
        if (byte < 0) {
            held->length = before;
            buf_add(held, text, length);
            break;
        }
        buf_putc(held, (char)byte);
    }
    size_t settled = held->data ? utf8_settled(held->data, held->length) : 0;
    if (!settled) return;
    struct buf ready = { 0 };
    utf8_repair(&ready, held->data, settled);
    memmove(held->data, held->data + settled, held->length - settled);
    held->length -= settled;
    stage_push(r, stage + 1, ready.data, ready.length);
    buf_release(&ready);
}

// Counts the bytes of `content`, repeated at most `limit` times, at the start or end of the text.
static size_t count_at(bool end, const char *text, size_t length, const char *content,
                       int64_t limit)
{
    size_t n = strlen(content), cut = 0;
    while (limit-- > 0 && length - cut >= n &&
           !memcmp(end ? text + length - cut - n : text + cut, content, n))
        cut += n;
    return cut;
}

// Strips a text that arrives in pieces: strips its start at once, and holds back the bytes at its
// end that may have to be stripped.
static void strip_pieces(struct decoding *r, int stage, const char *text, size_t length)
{
    const struct decode *s = &r->d->tokenizer->decodes[stage];
    struct detokenizer_stage *state = &r->d->stages[stage];
    size_t n = strlen(s->text), cut = 0;
    if (state->seen < s->start) {
        cut = count_at(false, text, length, s->text, s->start - state->seen);
        state->seen = cut < length ? s->start : state->seen + (int64_t)(cut / n);
    }
    if (cut == length) return;
    buf_add(&state->held, text + cut, length - cut);
    size_t end = count_at(true, state->held.data, state->held.length, s->text, s->stop);
    size_t ready = state->held.length - end;
    if (!ready) return;
    struct buf all = state->held;
    state->held = (struct buf){ 0 };
    buf_add(&state->held, all.data + ready, end);
    stage_push(r, stage + 1, all.data, ready);
    buf_release(&all);
}

static void push_replaced(struct decoding *r, int stage, const struct pattern *p,
                          const char *content, const char *text, size_t length)
{
    struct buf b = { 0 };
    buf_puts(&b, "");
    // A pattern that fails leaves the token unchanged.
    if (replace_all(&r->search, p, content, text, length, &b, NULL) < 0) {
        buf_clear(&b);
        buf_add(&b, text, length);
    }
    stage_push(r, stage + 1, b.data, b.length);
    buf_release(&b);
}

// Passes on the held bytes that later bytes cannot change. Unlike a fallback run, treats each
// character by itself: only invalid bytes become U+FFFD, one per byte.
static void pieces_flush(struct decoding *r, int stage, bool all)
{
    struct buf *held = &r->d->stages[stage].held;
    const size_t settled = !held->length ? 0
                           : all         ? held->length
                                         : utf8_settled(held->data, held->length);
    for (size_t i = 0, n; i < settled; i += n) {
        int32_t c;
        n = utf8_next(held->data + i, settled - i, &c);
        if (c < 0) n = 1;
        if (c < 0)
            stage_push(r, stage + 1, "\xEF\xBF\xBD", 3);
        else
            stage_push(r, stage + 1, held->data + i, n);
    }
    if (settled) memmove(held->data, held->data + settled, held->length - settled);
    held->length -= settled;
}

// SentencePiece: replaces marks with spaces, but with `prepend` drops the first token's mark (the
// dummy prefix) and, if the normaliser squeezes spaces, every mark before the first letter.
static void pieces_push(struct decoding *r, int stage, const char *text, size_t length)
{
    const struct tokenizer *t = r->d->tokenizer;
    const struct decode *s = &t->decodes[stage];
    struct detokenizer_stage *state = &r->d->stages[stage];
    const int byte = t->byte_id[0] < 0 ? -1 : fallback_byte(text, length);
    if (byte >= 0) {
        buf_putc(&state->held, (char)byte);
        pieces_flush(r, stage, false);
        state->seen = 1;
        return;
    }
    pieces_flush(r, stage, true);
    if (t->unknown >= 0 && !strcmp(text, tokenizer_token(t, t->unknown))) {
        stage_push(r, stage + 1, s->text, strlen(s->text));
        state->seen = 1;
        return;
    }
    const bool marked = length >= 3 && !memcmp(text, mark.literal, 3);
    const size_t cut = !state->seen && s->prepend && marked ? 3 : 0;
    if (length > cut || (cut && !s->squeeze)) state->seen = 1;
    push_replaced(r, stage, &mark, " ", text + cut, length - cut);
}

// Passes a token to the stage.
static void stage_token(struct decoding *r, int stage, const char *text, size_t length)
{
    const struct decode *s = &r->d->tokenizer->decodes[stage];
    size_t start, end;
    int byte;
    switch (s->kind) {
    case DECODE_REPLACE: push_replaced(r, stage, &s->pattern, s->text, text, length); break;
    case DECODE_BYTE_FALLBACK:
        byte = fallback_byte(text, length);
        if (byte < 0) fallback_flush(r, stage);
        if (byte < 0)
            stage_push(r, stage + 1, text, length);
        else
            buf_putc(&r->d->stages[stage].held, (char)byte);
        break;
    case DECODE_FUSE: stage_push(r, stage + 1, text, length); break;
    case DECODE_STRIP:
        start = count_at(false, text, length, s->text, s->start);
        end = count_at(true, text + start, length - start, s->text, s->stop);
        stage_push(r, stage + 1, text + start, length - start - end);
        break;
    case DECODE_BYTES: bytes_push(r, stage, text, length); break;
    case DECODE_METASPACE: // drops the first token's marks if the encoder prepends one
        push_replaced(r, stage, &s->pattern, r->d->stages[stage].seen++ || !s->prepend ? " " : "",
                      text, length);
        break;
    case DECODE_PIECES: pieces_push(r, stage, text, length); break;
    case DECODE_SPACES:
        if (r->d->stages[stage].seen++) stage_push(r, stage + 1, " ", 1);
        stage_push(r, stage + 1, text, length);
        break;
    }
}

// Writes U+FFFD for a NUL byte, which a model may generate: messages are C strings.
static void give_out(struct buf *out, const char *text, size_t length)
{
    for (const char *nul; length && (nul = memchr(text, 0, length));) {
        const size_t n = (size_t)(nul - text);
        buf_add(out, text, n);
        buf_puts(out, "\xEF\xBF\xBD"); // U+FFFD
        text += n + 1;
        length -= n + 1;
    }
    buf_add(out, text, length);
}

// Passes a text to the stage; after the last stage, outputs it. A stage for tokens that receives
// one text in pieces waits for the whole text (no known file has such a decoder).
static void stage_push(struct decoding *r, int stage, const char *text, size_t length)
{
    const struct tokenizer *t = r->d->tokenizer;
    if (stage == t->decode_count) {
        give_out(r->out, text, length);
        return;
    }
    const struct decode *s = &t->decodes[stage];
    if (!s->fused || s->kind == DECODE_FUSE)
        stage_token(r, stage, text, length);
    else if (s->kind == DECODE_STRIP)
        strip_pieces(r, stage, text, length);
    else
        buf_add(&r->d->stages[stage].held, text, length);
}

static void stage_finish(struct decoding *r, int stage)
{
    const struct decode *s = &r->d->tokenizer->decodes[stage];
    struct buf held = r->d->stages[stage].held;
    if (s->kind == DECODE_BYTE_FALLBACK && !s->fused) {
        fallback_flush(r, stage);
        return;
    }
    if (s->kind == DECODE_PIECES && !s->fused) {
        pieces_flush(r, stage, true);
        return;
    }
    r->d->stages[stage].held = (struct buf){ 0 };
    if (s->fused && s->kind != DECODE_FUSE && s->kind != DECODE_STRIP) {
        if (held.length) stage_token(r, stage, held.data, held.length);
        // The token may have been a byte, which the stage still holds.
        if (s->kind == DECODE_BYTE_FALLBACK) fallback_flush(r, stage);
        buf_release(&held);
        held = r->d->stages[stage].held;
        r->d->stages[stage].held = (struct buf){ 0 };
    }
    if (s->kind == DECODE_BYTES && held.length) {
        struct buf rest = { 0 };
        utf8_repair(&rest, held.data, held.length);
        stage_push(r, stage + 1, rest.data, rest.length);
        buf_release(&rest);
    }
    buf_release(&held); // a strip stage now holds only the end that it strips
}

void detokenizer_start(struct detokenizer *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detokenizer){ .tokenizer = t, .skip_special = skip_special };
}

void detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out)
{
    const struct tokenizer *t = d->tokenizer;
    const char *text = tokenizer_token(t, id);
    if (!text || (d->skip_special && t->tokens[id].flags & TOKEN_SPECIAL)) return;
    size_t length = t->tokens[id].length;
    if (t->tokens[id].flags & TOKEN_NORMAL) {
        text += length + 1;
        length = strlen(text);
    }
    struct decoding r = { .d = d, .out = out };
    search_start(&r.search, length);
    stage_push(&r, 0, text, length);
    search_release(&r.search);
}

void detokenizer_finish(struct detokenizer *d, struct buf *out)
{
    struct decoding r = { .d = d, .out = out };
    search_start(&r.search, 0);
    for (int i = 0; i < d->tokenizer->decode_count; i++) stage_finish(&r, i);
    search_release(&r.search);
}

void detokenizer_release(struct detokenizer *d)
{
    for (int i = 0; i < DETOKENIZER_STAGES; i++) buf_release(&d->stages[i].held);
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                      bool skip_special, struct buf *text)
{
    struct detokenizer d;
    detokenizer_start(&d, t, skip_special);
    for (size_t i = 0; i < count; i++) detokenizer_push(&d, ids[i], text);
    detokenizer_finish(&d, text);
    detokenizer_release(&d);
}
