// tests/core/tokenizer/pieces.c -- core/tokenizer/pieces.c and charsmap.c: small SentencePiece
// models, changes by the configuration beside them, and refusals.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/json.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_parts.h"

// --- small SentencePiece models ----------------------------------------------------------------

static void put_varint(struct buf *b, uint64_t x)
{
    for (; x >= 0x80; x >>= 7) buf_putc(b, (char)(x | 0x80));
    buf_putc(b, (char)x);
}

static void put_number(struct buf *b, unsigned field, uint64_t x)
{
    put_varint(b, field << 3);
    put_varint(b, x);
}

static void put_bytes(struct buf *b, unsigned field, const void *bytes, size_t length)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, length);
    buf_add(b, bytes, length);
}

struct small_piece {
    const char *text;
    float score;
    int type;
};

// The contents of a model besides its pieces; the first field is always written.
struct small {
    uint64_t type; // type of the model
    bool bytes, denormalizes;
    const char *surface; // of unknown pieces
    const char *charsmap;
    size_t charsmap_size;
};

static void put_piece(struct buf *b, const struct small_piece *p)
{
    struct buf m = { 0 };
    put_bytes(&m, 1, p->text, strlen(p->text));
    put_varint(&m, 2 << 3 | 5);
    buf_add(&m, &p->score, 4);
    put_number(&m, 3, (uint64_t)p->type);
    put_bytes(b, 1, m.data, m.length);
    buf_release(&m);
}

static struct buf small_file(const struct small *s, const struct small_piece *pieces, size_t count)
{
    struct buf b = { 0 }, m = { 0 };
    for (size_t i = 0; i < count; i++) put_piece(&b, &pieces[i]);
    put_number(&m, 3, s->type);
    if (s->bytes) put_number(&m, 35, 1);
    if (s->surface) put_bytes(&m, 44, s->surface, strlen(s->surface));
    put_bytes(&b, 2, m.data, m.length);
    buf_clear(&m);
    put_number(&m, 4, 0);
    if (s->charsmap) put_bytes(&m, 2, s->charsmap, s->charsmap_size);
    put_bytes(&b, 3, m.data, m.length);
    if (s->denormalizes) put_bytes(&b, 5, "\x12\x01x", 3);
    buf_release(&m);
    return b;
}

static struct tokenizer *parse_small(const struct small *s, const struct small_piece *pieces,
                                     size_t count, const char *config, struct err *err)
{
    struct buf b = small_file(s, pieces, count);
    struct companions c = { .config = cJSON_Parse(config) };
    struct tokenizer *t = tokenizer_parse_pieces(b.data, b.length, &c, "small.model", err);
    cJSON_Delete(c.config);
    buf_release(&b);
    return t;
}

static const struct small bpe = { .type = 2 };
static const struct small_piece usual[] = {
    { "<unk>", 0, 2 }, { "<s>", 0, 3 },     { "</s>", 0, 3 }, { MARK, -9, 1 }, { "a", -9, 1 },
    { "b", -9, 1 },    { MARK "a", -2, 1 }, { "ab", -1, 1 },  { "#x#", 0, 4 }, { "[U_1]", -3, 4 },
};
enum { USUAL = sizeof usual / sizeof *usual };

static void check_small(const char *config, const char *text, int flags, const char *expected)
{
    struct err err = { "" };
    struct tokenizer *t = parse_small(&bpe, usual, USUAL, config, &err);
    if (!t) fail_msg("%s", err.text);
    struct ids ids = { 0 };
    struct buf b = { 0 };
    buf_puts(&b, "");
    assert_int_equal(tokenizer_encode(t, text, strlen(text), flags, &ids, &err), 0);
    for (size_t i = 0; i < ids.count; i++)
        buf_printf(&b, "%s%s", i ? " / " : "", tokenizer_token(t, ids.data[i]));
    assert_string_equal(b.data, expected);
    ids_release(&ids);
    buf_release(&b);
    tokenizer_free(t);
}

static void test_configs(void **state)
{
    // The merge with the higher score is first.
    check_small("{}", "ab ab", 0, MARK " / ab / " MARK " / ab");
    check_small("{}", "a", TOKENIZE_SPECIAL, "<s> / " MARK "a");
    check_small("{\"add_bos_token\":false,\"add_eos_token\":true}", "a", TOKENIZE_SPECIAL,
                MARK "a / </s>");
    check_small("{\"bos_token\":{\"content\":\"</s>\"}}", "a", TOKENIZE_SPECIAL,
                "</s> / " MARK "a");
    check_small("{\"bos_token\":\"<new>\"}", "a<new>", TOKENIZE_SPECIAL,
                "<new> / " MARK "a / <new>");
    // With `legacy`, every text gets a mark; otherwise only the first text, unless it begins with
    // one.
    check_small("{\"legacy\":false}", " a", 0, MARK "a");
    check_small("{}", " a", 0, MARK " / " MARK "a");
    check_small("{}", "a</s>a", 0, MARK "a / </s> / " MARK "a");
    check_small("{\"legacy\":false}", "a</s>a", 0, MARK "a / </s> / a");
    check_small("{}", "b#x#b??b", 0, MARK " / b / #x# / b / <unk> / b");
    // A configuration renames an id: the former name becomes plain text, and typed text never gives
    // the new token.
    const char *named = "{\"added_tokens_decoder\":{\"9\":{\"content\":\"<end>\",\"special\":true},"
                        "\"12\":{\"content\":\"<new>\",\"special\":true,\"rstrip\":true}}}";
    check_small(named, "b<end>b<new> b", 0,
                MARK " / b / <end> / " MARK " / b / <new> / " MARK " / b");
    check_small(named, "b[U_1]", 0, MARK " / b / <unk>");
    check_small("{}", "b[U_1]", 0, MARK " / b / [U_1]");
    check_small(named, "b<end>", TOKENIZE_PLAIN, MARK " / b / <unk>");
    const char *symbol = "{\"added_tokens_decoder\":{\"8\":{\"content\":\"#x#\",\"special\":true},"
                         "\"5\":{\"content\":\"b\",\"special\":true}}}";
    check_small(symbol, "a#x#", 0, MARK "a / #x#");
    check_small(symbol, "a#x#", TOKENIZE_PLAIN, MARK "a / <unk>");
    check_small(symbol, "a b", TOKENIZE_PLAIN, MARK "a / " MARK " / <unk>");
}

static void check_refused(const struct small *s, const struct small_piece *pieces, size_t count,
                          const char *config, const char *why)
{
    struct err err = { "" };
    assert_null(parse_small(s, pieces, count, config, &err));
    if (!strstr(err.text, why) || !strstr(err.text, "small.model"))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

// Checks a model with the usual pieces and this one.
static void check_piece(const struct small *s, struct small_piece piece, const char *why)
{
    struct small_piece pieces[USUAL + 1];
    memcpy(pieces, usual, sizeof usual);
    pieces[USUAL] = piece;
    check_refused(s, pieces, USUAL + 1, "{}", why);
}

static void test_refused_pieces(void **state)
{
    char lengthy[1100];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    check_piece(&bpe, (struct small_piece){ "", 0, 1 }, "empty");
    check_piece(&bpe, (struct small_piece){ "ab", 0, 1 }, "twice");
    check_piece(&bpe, (struct small_piece){ "c", NAN, 1 }, "score");
    check_piece(&bpe, (struct small_piece){ "c", 0, 9 }, "type 9");
    check_piece(&bpe, (struct small_piece){ "<0x41>", 0, 6 }, "byte fallback");
    check_piece(&bpe, (struct small_piece){ "\xFF", 0, 1 }, "UTF-8");
    check_piece(&bpe, (struct small_piece){ "<pad>", 0, 2 }, "unknown");
    check_piece(&bpe, (struct small_piece){ lengthy, 0, 1 }, "1099 bytes");
    check_refused(&bpe, usual + 1, USUAL - 1, "{}", "unknown");
    check_refused(&bpe, usual, 0, "{}", "no pieces");
}

static void test_refused_models(void **state)
{
    check_refused(&(struct small){ .type = 3 }, usual, USUAL, "{}", "word");
    check_refused(&(struct small){ .type = 4 }, usual, USUAL, "{}", "char");
    check_refused(&(struct small){ .type = 77 }, usual, USUAL, "{}", "unknown");
    check_refused(&(struct small){ .type = 1, .bytes = true }, usual, USUAL, "{}", "<0x00>");
    check_refused(&(struct small){ .type = 1, .denormalizes = true }, usual, USUAL, "{}",
                  "denormalizer");
    check_refused(&(struct small){ .type = 2,
                                   .surface = "0123456789abcdef0123456789abcdef"
                                              "0123456789abcdef0123456789abcdef+" },
                  usual, USUAL, "{}", "unk_surface");
    static const char *const maps[] = { "abc",
                                        "\xFF\xFF\xFF\x7F"
                                        "abcd",
                                        "\3\0\0\0abcd", "\4\0\0\0abcd\xFF" };
    static const size_t sizes[] = { 3, 8, 8, 9 };
    for (int i = 0; i < 4; i++)
        check_refused(&(struct small){ .type = 1, .charsmap = maps[i], .charsmap_size = sizes[i] },
                      usual, USUAL, "{}", "charsmap");
    check_refused(&bpe, usual, USUAL, "{\"tokenizer_class\":\"XLMRobertaTokenizerFast\"}",
                  "XLMRobertaTokenizer");
    check_refused(&bpe, usual, USUAL, "{\"tokenizer_class\":3}", "tokenizer_class");
    check_refused(&bpe, usual, USUAL, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
                  "added_tokens_decoder");
    check_refused(&bpe, usual, USUAL,
                  "{\"added_tokens_decoder\":{\"2000000000\":{\"content\":\"y\"}}}",
                  "added_tokens_decoder");
    check_refused(&bpe, usual, USUAL, "{\"added_tokens_decoder\":{\"5\":{}}}", "content");
    check_refused(&bpe, usual, USUAL, "{\"added_tokens_decoder\":[]}", "object");
}

// A table of replacements whose trie leads in circles, beyond its end and to missing texts.
static void test_hostile_charsmap(void **state)
{
    char map[4 + 4 * 256 + 4] = "\0\4";
    uint32_t x = 7;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 4; i < sizeof map - 4; i++) {
            x = x * 1664525 + 1013904223;
            map[i] = (char)(x >> 24);
        }
        if (round % 2) // labels match, so that the search goes deep
            for (size_t i = 0; i < 256; i++) {
                map[4 + 4 * i] = (char)i;
                map[7 + 4 * i] = 0;
                map[6 + 4 * i] &= 3;
            }
        struct err err = { "" };
        struct tokenizer *t =
            parse_small(&(struct small){ .type = 1, .charsmap = map, .charsmap_size = sizeof map },
                        usual, USUAL, "{}", &err);
        if (!t) fail_msg("%s", err.text);
        struct ids ids = { 0 };
        assert_int_equal(tokenizer_encode(t, "ab a \xC3\xA9\xE2\x96\x81 zz", 14, 0, &ids, &err), 0);
        ids_release(&ids);
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_refused_pieces),
        cmocka_unit_test(test_refused_models),
        cmocka_unit_test(test_hostile_charsmap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
