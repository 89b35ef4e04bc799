// tests/bench/tokenizer.c -- speed of core/tokenizer: loads a vocabulary of 151 643 tokens,
// encodes and decodes text (English, code, CJK; one long word).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/tokenizer/tokenizer.h"

#define TOKENIZER "build/goldens/tokenizers/qwen2-151k/tokenizer.json" // unpacked by make bench

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Prints the best of five times.
static void encode(const struct tokenizer *t, const char *name, const struct buf *text)
{
    struct ids ids = { 0 };
    struct buf back = { 0 };
    struct err err;
    double encode_s = 1e9, decode_s = 1e9;
    for (int i = 0; i < 5; i++) {
        ids_clear(&ids);
        double start = now();
        if (tokenizer_encode(t, text->data, text->length, 0, &ids, &err) < 0) {
            printf("tokenizer %s: %s\n", name, err.text);
            exit(1);
        }
        double middle = now();
        buf_clear(&back);
        tokenizer_decode(t, ids.data, ids.count, false, &back);
        if (middle - start < encode_s) encode_s = middle - start;
        if (now() - middle < decode_s) decode_s = now() - middle;
    }
    double mb = 1e-6 * (double)text->length;
    printf("tokenizer  %-12s %6.1f MB  encode %6.1f MB/s  decode %6.1f MB/s  %.2f bytes/token\n",
           name, mb, mb / encode_s, mb / decode_s, (double)text->length / (double)ids.count);
    ids_release(&ids);
    buf_release(&back);
}

static void add_file(struct buf *b, const char *path)
{
    size_t size;
    char *text = file_read(path, 1 << 20, &size, NULL);
    if (text) buf_add(b, text, size);
    free(text);
}

int main(void)
{
    struct err err;
    double start = now();
    struct tokenizer *t = tokenizer_open(TOKENIZER, &err);
    if (!t) {
        printf("%s\n", err.text);
        return 1;
    }
    printf("tokenizer  load         %d tokens in %.3f s\n", tokenizer_size(t), now() - start);

    struct buf code = { 0 }, mixed = { 0 }, cjk = { 0 }, word = { 0 };
    cJSON *vectors = json_read("tests/goldens/tokenizers/qwen2-151k/vectors.json", 1 << 24, &err);
    while (mixed.length < 2000000) {
        const cJSON *v;
        cJSON_ArrayForEach(v, vectors)
        {
            buf_puts(&mixed, json_get(v, "text")->valuestring);
            buf_putc(&mixed, '\n');
        }
        add_file(&mixed, "Makefile");
    }
    while (code.length < 2000000) {
        add_file(&code, "core/tokenizer/json.c");
        add_file(&code, "core/base/json.c");
    }
    // Characters of a wide range, so that few words repeat.
    for (unsigned i = 0, x = 1; i < 700000; i++, x = x * 1664525 + 1013904223) {
        unsigned c = 0x4E00 + (x >> 8) % 0x5000;
        char s[3] = { (char)(0xE0 | c >> 12), (char)(0x80 | (c >> 6 & 63)),
                      (char)(0x80 | (c & 63)) };
        buf_add(&cjk, s, 3);
        if (x >> 28 == 0) buf_add(&cjk, "\xE3\x80\x82", 3);
    }
    for (unsigned i = 0, x = 1; i < 1000000; i++, x = x * 1664525 + 1013904223)
        buf_putc(&word, (char)('a' + (x >> 24) % 26));
    encode(t, "mixed", &mixed);
    encode(t, "code", &code);
    encode(t, "CJK", &cjk);
    encode(t, "one word", &word);
    buf_release(&mixed);
    buf_release(&code);
    buf_release(&cjk);
    buf_release(&word);
    cJSON_Delete(vectors);
    tokenizer_free(t);
    return 0;
}
