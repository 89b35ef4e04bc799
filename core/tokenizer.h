// core/tokenizer.h -- tokenizer.json: text to token ids and back.
//
// Byte-level BPE (Llama-3, Qwen2 split patterns, NFC, ignore_merges) and SentencePiece-style BPE
// (Llama-2: prepend/replace normaliser or Metaspace, byte fallback), added and special tokens,
// decoders. What the file asks for and we do not know is an error that names it.
#ifndef CORE_TOKENIZER_H
#define CORE_TOKENIZER_H

#include <stdbool.h>

#include "core/err.h"
#include "core/mem.h"

struct tokenizer;

struct tokenizer *tokenizer_open(const char *path, struct err *err);
struct tokenizer *tokenizer_parse(const char *json, size_t size, const char *name, struct err *err);
void tokenizer_free(struct tokenizer *t);

enum tokenize_flags {
    TOKENIZE_SPECIAL = 1,      // let the post-processor add its tokens (BOS)
    TOKENIZE_CONTINUATION = 2, // the text goes on after earlier tokens: no leading U+2581
    TOKENIZE_PLAIN = 4,        // text of a person: special tokens spelled in it stay text
};

// Appends the ids of text (any bytes; invalid UTF-8 is replaced by U+FFFD) to `ids`.
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, int flags,
                     struct ids *ids, struct err *err);
// Text of the ids, appended to `text`. skip_special leaves special tokens out. Unknown ids:
// nothing.
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                      bool skip_special, struct buf *text);

// One token after another, as they are generated: emits only whole UTF-8 characters and what later
// tokens cannot change. The concatenation equals tokenizer_decode of all ids at once.
struct detokenizer {
    const struct tokenizer *tokenizer;
    struct ids ids; // of the whole answer
    size_t emitted; // bytes of the decoded text already given out
    size_t start;   // first id of the window decoded again with each token
    bool skip_special;
};

void detokenizer_start(struct detokenizer *d, const struct tokenizer *t, bool skip_special);
// Adds the new text to `out` (perhaps nothing).
void detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out);
// The rest, incomplete bytes as U+FFFD.
void detokenizer_finish(struct detokenizer *d, struct buf *out);
void detokenizer_release(struct detokenizer *d);

// Id of a token by its exact text (added tokens first), -1 if there is none.
int32_t tokenizer_id(const struct tokenizer *t, const char *token);
// Text of an id as it stands in the file, NULL if there is none.
const char *tokenizer_token(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
// Largest id + 1.
int32_t tokenizer_size(const struct tokenizer *t);

#endif
