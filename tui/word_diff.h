// tui/word_diff.h -- the words in which two texts differ.
//
//   struct word_diff d = word_diff_of(a, b);
//   ... d.side[0].spans[i].begin to .end are bytes of `a` that `b` does not share ...
//   word_diff_release(&d);
#ifndef TUI_WORD_DIFF_H
#define TUI_WORD_DIFF_H

#include <stddef.h>

struct span {
    size_t begin, end; // bytes
};

struct word_diff {
    struct {
        struct span *spans; // [count] ascending
        size_t count;
    } side[2];
};

// Finds the longest common sequence of words, where each punctuation mark, and each Chinese,
// Japanese or Korean character, is a word of its own. If a text has more than WORD_DIFF_MOST words,
// finds only the common beginning.
enum { WORD_DIFF_MOST = 2000 };
struct word_diff word_diff_of(const char *a, const char *b);
void word_diff_release(struct word_diff *d);

#endif
