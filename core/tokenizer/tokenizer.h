// core/tokenizer/tokenizer.h -- text to token ids and back, by the rules of a model's tokenizer
// file.
//
// tokenizer.json: byte-level BPE (Llama 3, Qwen2, GLM-4, Kimi), SentencePiece-style BPE (Llama 2,
// Gemma) and unigram models; tiktoken.model (Kimi); SentencePiece's tokenizer.model (InternLM2,
// Llama 2), BPE and unigram; vocab.json with merges.txt (Qwen2). An unsupported feature is an error
// that names it.
//
// Room core/tokenizer/: a library of its own (README.md), which uses base only.
#ifndef CORE_TOKENIZER_TOKENIZER_H
#define CORE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"

struct tokenizer;

// Opens a tokenizer.json, or a tiktoken.model, SentencePiece tokenizer.model or vocab.json (with
// the files beside it), or a folder.
struct tokenizer *tokenizer_open(const char *path, struct err *err);
// Opens the first of these files that a model folder has.
struct tokenizer *tokenizer_open_folder(const char *folder, struct err *err);
// Returns the name of that file ("vocab.json": with merges.txt beside it); NULL if none.
const char *tokenizer_folder_file(const char *folder);
// Parses a tokenizer.json in memory.
struct tokenizer *tokenizer_parse(const char *text, size_t size, const char *name, struct err *err);
void tokenizer_free(struct tokenizer *t);

// Returns notices for the user about the tokenizer's files; NULL if none.
const char *tokenizer_notice(const struct tokenizer *t);
// Adds a notice.
__attribute__((format(printf, 2, 3))) void tokenizer_add_notice(struct tokenizer *t,
                                                                const char *format, ...);

// Completes tokenizer_config.json (NULL: absent): adds the special tokens of
// special_tokens_map.json unless the config lists added tokens, and the special tokens of its class
// that it does not name.
void tokenizer_config_complete(cJSON **config, const cJSON *map);

// A tokenizer as a list of tokens, as in the metadata of GGUF files.
enum token_type {
    TOKEN_TYPE_NORMAL = 1,
    TOKEN_TYPE_UNKNOWN,
    TOKEN_TYPE_CONTROL,
    TOKEN_TYPE_USER,
    TOKEN_TYPE_UNUSED,
    TOKEN_TYPE_BYTE
};

struct token_text {
    const char *text; // not NUL-terminated
    size_t length;
};

struct token_list {
    // "gpt2": byte-level BPE; "llama": SentencePiece's BPE; "gemma4": the same with merges in place
    // of scores
    const char *model;
    const char *pre; // gpt2's pre-tokenizer: "qwen2"; NULL: "default"
    size_t count;    // of tokens
    const struct token_text *tokens;
    const uint8_t *types; // enum token_type
    const float *scores;  // used for llama only; otherwise NULL in an exported list
    size_t merge_count;
    const struct token_text *merges; // "a b", in the order of ranks; in GGUF files, not for llama
    int32_t bos, eos;                // -1: none
    bool add_bos, add_eos;           // adds BOS before a text, EOS after it
    bool prefix, squeeze;            // llama: adds a space before the text; squeezes spaces
};

// Builds a tokenizer from a list; copies the texts.
struct tokenizer *tokenizer_from_list(const struct token_list *l, const char *name,
                                      struct err *err);
// True if lists of this model and pre-tokenizer start texts with BOS by default.
bool tokenizer_list_begins(const char *model, const char *pre);

// Exports a list of `count` tokens that encodes texts to the same ids; NULL with the reason if no
// list does. pieces: the list's model if the tokenizer is SentencePiece's, "llama" or "gemma4".
struct token_export;
struct token_export *tokenizer_export(const struct tokenizer *t, int64_t count, const char *pieces,
                                      struct err *err);
const struct token_list *token_export_list(const struct token_export *e);
void token_export_free(struct token_export *e);
// Returns the tokenizer.json of an exported list; the caller frees it.
char *tokenizer_list_json(const struct token_list *l, struct err *err);
// Makes an entry of "added_tokens".
cJSON *tokenizer_added_token(int32_t id, const char *text, bool special);

enum tokenize_flags {
    TOKENIZE_SPECIAL = 1,      // the post-processor adds its tokens (BOS)
    TOKENIZE_CONTINUATION = 2, // the text follows earlier tokens: no leading U+2581
    TOKENIZE_PLAIN = 4,        // user text: special tokens spelled in it stay text
};

// A composite text: the user typed parts of it, and holes mark the positions of ids from elsewhere
// (visual tokens, a generated answer).
struct text_range {
    size_t start, end; // bytes
};

struct text_hole {
    size_t at;      // byte offset
    bool continues; // the text after it gets no leading U+2581 (after a generated answer)
};

struct marked_text {
    const char *text;
    size_t length;
    const struct text_range *typed; // in order, disjoint; a special token that overlaps
    size_t typed_count;             // one of them stays text
    const struct text_hole *holes;  // in order
    size_t hole_count;
    size_t most; // limit on ids; encoding stops with an error once more are certain; 0: none
};

// Appends the ids of text (any bytes; invalid UTF-8 is replaced by U+FFFD) to `ids`.
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, int flags,
                     struct ids *ids, struct err *err);
// Encodes a composite text. Hole i becomes the id -1 - i and splits the text like a special token.
int tokenizer_encode_marked(const struct tokenizer *t, const struct marked_text *m, int flags,
                            struct ids *ids, struct err *err);
// Counts the special tokens that a text spells.
size_t tokenizer_count_special(const struct tokenizer *t, const char *text, size_t length);
// Appends the ids that TOKENIZE_SPECIAL adds before a text (usually BOS).
void tokenizer_begin(const struct tokenizer *t, struct ids *ids);
// Appends the text of the ids to `text`, without unknown ids; skip_special also omits special
// tokens.
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                      bool skip_special, struct buf *text);

// Decodes a stream of generated tokens: returns only complete UTF-8 characters that later tokens
// cannot change. The concatenation equals tokenizer_decode of all ids. Costs are proportional to
// the new token's length.
enum { DETOKENIZER_STAGES = 16 };

struct detokenizer {
    const struct tokenizer *tokenizer;
    bool skip_special;
    struct detokenizer_stage { // of the file's decoder
        struct buf held;       // text that a later token may still change
        int64_t seen;          // tokens or characters so far
    } stages[DETOKENIZER_STAGES];
};

void detokenizer_start(struct detokenizer *d, const struct tokenizer *t, bool skip_special);
// Appends the new text, possibly empty, to `out`.
void detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out);
// Appends the rest; incomplete bytes become U+FFFD.
void detokenizer_finish(struct detokenizer *d, struct buf *out);
void detokenizer_release(struct detokenizer *d);

// Returns the id of a token by its exact text (added tokens first); -1 if none.
int32_t tokenizer_id(const struct tokenizer *t, const char *token);
// Returns the text of an id as in the file; NULL if none.
const char *tokenizer_token(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
// Returns the largest id + 1.
int32_t tokenizer_size(const struct tokenizer *t);

#endif
