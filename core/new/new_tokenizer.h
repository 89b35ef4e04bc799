// core/new/new_tokenizer.h -- generates a byte-level tokenizer of a given size, for
// core/new/new_model.c.
//
//   struct new_tokenizer t;
//   new_tokenizer_make(&t, shape, text);
//   ... t.json, t.config, ... are the texts of files; t.bos, t.eos, ... are token ids ...
//   new_tokenizer_release(&t);
#ifndef CORE_NEW_NEW_TOKENIZER_H
#define CORE_NEW_NEW_TOKENIZER_H

#include <stdint.h>

struct shape;

struct new_tokenizer {
    char *json;            // tokenizer.json
    char *config;          // tokenizer_config.json
    char *map;             // special_tokens_map.json
    char *chat_template;   // chat_template.jinja
    int64_t bos, eos, pad; // ids
    int64_t image;         // the placeholder of a picture, -1 in a text-only model
};

// Learns merges from `text` (NULL: none) and a paragraph of common words. The most frequent pair of
// tokens is merged first; if pairs are equally frequent, the pair with the smaller ids. Nothing is
// random.
void new_tokenizer_make(struct new_tokenizer *t, const struct shape *s, const char *text);
void new_tokenizer_release(struct new_tokenizer *t);

#endif
