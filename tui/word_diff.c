// tui/word_diff.c -- the words in which two texts differ: what the longest common sequence of their
// words leaves over.
#include "tui/word_diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"

struct words {
    const char *text;
    struct span *list;
    size_t count;
    bool *shared; // [count]
};

// Returns the length in bytes of a Chinese, Japanese or Korean character, which is a word of its
// own; 0: another one.
static size_t wide_length(const char *text)
{
    const unsigned char c = (unsigned char)text[0];
    return ((c >= 0xe3 && c <= 0xed) || c == 0xef) && text[1] && text[2] ? 3 : 0;
}

static struct words split(const char *text)
{
    struct words w = { .text = text };
    for (size_t at = 0; text[at];) {
        const size_t begin = at;
        if (strchr(" \t\n", text[at])) {
            at++;
            continue;
        }
        while (text_is_word(text[at]) && !wide_length(text + at)) at++;
        if (at == begin) at += wide_length(text + at) ? wide_length(text + at) : 1; // or a mark
        w.list = xreallocarray(w.list, w.count + 1, sizeof *w.list);
        w.list[w.count++] = (struct span){ begin, at };
    }
    w.shared = xcalloc(w.count + 1, sizeof *w.shared);
    return w;
}

static bool same(const struct words *a, size_t i, const struct words *b, size_t j)
{
    const struct span x = a->list[i], y = b->list[j];
    return x.end - x.begin == y.end - y.begin &&
           !memcmp(a->text + x.begin, b->text + y.begin, x.end - x.begin);
}

// Marks the longest common sequence of the words from `first` on. length[i][j]: of the words from i
// and j on.
static void share(struct words *a, struct words *b, size_t first)
{
    const size_t n = a->count - first, m = b->count - first, wide = m + 1;
    uint16_t *length = xcalloc((n + 1) * wide, sizeof *length);
    for (size_t i = n; i-- > 0;)
        for (size_t j = m; j-- > 0;) {
            const uint16_t down = length[(i + 1) * wide + j], right = length[i * wide + j + 1];
            length[i * wide + j] = same(a, first + i, b, first + j)
                                       ? (uint16_t)(length[(i + 1) * wide + j + 1] + 1)
                                   : down > right ? down
                                                  : right;
        }
    for (size_t i = 0, j = 0; i < n && j < m;)
        if (same(a, first + i, b, first + j))
            a->shared[first + i++] = b->shared[first + j++] = true;
        else if (length[(i + 1) * wide + j] >= length[i * wide + j + 1])
            i++;
        else
            j++;
    free(length);
}

struct word_diff word_diff_of(const char *a, const char *b)
{
    struct word_diff d = { 0 };
    struct words w[2] = { split(a), split(b) };
    size_t first = 0;
    while (first < w[0].count && first < w[1].count && same(&w[0], first, &w[1], first)) {
        w[0].shared[first] = w[1].shared[first] = true;
        first++;
    }
    if (w[0].count <= WORD_DIFF_MOST && w[1].count <= WORD_DIFF_MOST) share(&w[0], &w[1], first);
    for (int k = 0; k < 2; k++) {
        d.side[k].spans = xreallocarray(NULL, w[k].count + 1, sizeof(struct span));
        for (size_t i = 0; i < w[k].count; i++) {
            if (w[k].shared[i]) continue;
            if (i && !w[k].shared[i - 1]) // joins neighbouring words
                d.side[k].spans[d.side[k].count - 1].end = w[k].list[i].end;
            else
                d.side[k].spans[d.side[k].count++] = w[k].list[i];
        }
        free(w[k].list);
        free(w[k].shared);
    }
    return d;
}

void word_diff_release(struct word_diff *d)
{
    for (int k = 0; k < 2; k++) free(d->side[k].spans);
    *d = (struct word_diff){ 0 };
}
