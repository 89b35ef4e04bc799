// core/tokenizer/tokenizer_parts.h -- shared by the files of the tokenizer only.
//
//   folder.c     finds a folder's tokenizer file, and reads the small files beside it
//   special.c    adds the tokens of the small files
//   class.c      applies the behaviour of the tokenizer's class
//   json.c       tokenizer.json -> struct tokenizer
//   pieces.c     SentencePiece's tokenizer.model -> struct tokenizer
//   list.c       a list of tokens (of a GGUF file), vocab.json and merges.txt, or a tiktoken.model,
//                as if they were a tokenizer.json
//   export.c     struct tokenizer -> a list of tokens
//   build.c      fills the tables of struct tokenizer, for all readers
//   tokenizer.c  passes a text through all stages: added tokens, words, ids, post-processor
//   words.c      normaliser and pre-tokenizer: text -> words
//   pattern.c    regular expressions of both (Oniguruma's dialect, run by PCRE2)
//   charsmap.c   SentencePiece's normaliser: table of replacements, rules for spaces
//   bpe.c        word -> ids, by merging
//   unigram.c    word -> ids, the likeliest split
//   decode.c     ids -> text, at once and streaming
#ifndef CORE_TOKENIZER_TOKENIZER_PARTS_H
#define CORE_TOKENIZER_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cjson/cJSON.h>
#include <pcre2.h>

#include "core/base/names.h"
#include "core/base/utf8.h"
#include "core/tokenizer/tokenizer.h"

// SentencePiece's mark of a space.
#define MARK "\u2581"

// --- bytes -------------------------------------------------------------------------------------

// Returns the byte of a character in GPT-2's byte alphabet, which has only printable characters;
// -1: not in the alphabet.
int char_byte(int32_t c);
// Appends the text in GPT-2's byte alphabet.
void bytes_put(struct buf *out, const char *text, size_t length);

// --- patterns ----------------------------------------------------------------------------------

// A search pattern: a regular expression or (code NULL) a literal text.
struct pattern {
    pcre2_code *code;
    char *literal;
    size_t literal_length;
};

// `where` names the part of the file in messages.
int pattern_compile(struct pattern *p, const char *regex, const char *where, struct err *err);
void pattern_literal(struct pattern *p, const char *text);
void pattern_release(struct pattern *p);

// Search state, one per call, because threads share the tokenizer.
struct search {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; // allocated when a match first needs it
    double began, seconds;  // thread time of the first clock reading (0: none yet); time limit
    size_t work;            // estimated nanoseconds since the clock was read
    size_t last;            // offset of the last callout
    size_t most;            // limit on the text's length after replacements, in bytes
    bool late;              // took too long, or was cancelled
};

double search_clock(void); // seconds of this thread
void search_start(struct search *s, size_t text_length);
void search_release(struct search *s);
// Finds the next match in the text at or after `from`: returns 1 and its position, 0 if none, -1 on
// error.
int search_next(struct search *s, const struct pattern *p, const char *text, size_t length,
                size_t from, size_t *start, size_t *end, struct err *err);

// --- the parts of the file ---------------------------------------------------------------------

// A "precompiled_charsmap": a trie (double array in the layout of darts-clone) from texts to the
// offsets of their replacements.
struct charsmap {
    uint32_t *units;
    size_t count;
    char *texts; // NUL-terminated, one after another
    size_t length;
};

enum normal_kind {
    NORMAL_UNICODE, // converts to `form`
    NORMAL_PREPEND, // prepends `text`
    NORMAL_REPLACE, // replaces `pattern` with `text`
    NORMAL_LOWERCASE,
    NORMAL_STRIP,    // strips white space on the `left`, the `right` or both
    NORMAL_BYTES,    // ByteLevel
    NORMAL_CHARSMAP, // applies `map`, grapheme by grapheme
    NORMAL_PIECES,   // applies SentencePiece's `map` and `spaces`
};

enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

// SentencePiece's rules for spaces.
struct space_rules {
    enum prepend dummy; // adds a space before the text
    bool suffix;        // adds it after the text instead
    bool squeeze;       // reduces runs of spaces to one space and drops spaces at the ends
    bool escape;        // writes spaces as U+2581
};

enum unicode_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

struct normal {
    enum normal_kind kind;
    enum unicode_form form;
    struct pattern pattern;
    char *text;
    bool left, right;
    struct charsmap map;
    struct space_rules spaces;
};

enum split_kind {
    SPLIT_PATTERN,   // by `pattern` and `behaviour`
    SPLIT_METASPACE, // replaces each space with `text`, and prepends `text` as `prepend` says
    SPLIT_BYTES,     // ByteLevel without its regular expression, which is a separate SPLIT_PATTERN
    SPLIT_PREFIX,    // prepends a space (ByteLevel's add_prefix_space)
};

enum behaviour { KEEP_ISOLATED, KEEP_REMOVED, KEEP_PREVIOUS, KEEP_NEXT, KEEP_CONTIGUOUS };

struct split {
    enum split_kind kind;
    struct pattern pattern;
    enum behaviour behaviour;
    bool invert;
    char *text;
    enum prepend prepend;
};

enum decode_kind {
    DECODE_REPLACE, // replaces `pattern` with `text`, token by token
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP, // strips `text` up to `start` times at the start, `stop` times at the end
    DECODE_BYTES, // ByteLevel
    DECODE_METASPACE,
    DECODE_PIECES, // SentencePiece's; `text` replaces the unknown token
    DECODE_SPACES, // the file has no decoder: joins tokens with spaces
};

struct decode {
    enum decode_kind kind;
    struct pattern pattern;
    char *text;
    int64_t start, stop;
    bool prepend; // DECODE_METASPACE, DECODE_PIECES: drops the first token's mark
    bool squeeze; // DECODE_PIECES: also drops every mark before the first letter
    bool fused;   // receives one text in pieces instead of tokens
};

enum {
    STAGES_MAX = 16,
    STAGE_TEXT_MAX = 64, // bytes that a stage may insert per stretch of a text
};

enum token_flags {
    TOKEN_ADDED = 1,
    TOKEN_SPECIAL = 2,
    TOKEN_SYMBOL = 4,  // user-defined in a SentencePiece model
    TOKEN_APART = 8,   // the unigram model never chooses it
    TOKEN_NORMAL = 16, // decodes to its normalised text, which follows the original in `texts`
};

struct added {
    char *text; // text to match, already normalised if the token is `normalized`
    size_t length;
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
};

// Added tokens to find in a text, sorted by their bytes.
struct added_list {
    struct added *tokens;
    size_t count, capacity;
    bool special;        // some tokens are special
    uint32_t first[257]; // tokens [first[b], first[b + 1]) begin with byte b
};

// Returns the longest token of a list that the text starts with; NULL if none.
const struct added *added_longest(const struct added_list *list, const char *text, size_t length);

struct vocabulary_slot {
    uint32_t hash;
    int32_t id; // -1: empty
};

struct merge {
    uint64_t pair; // left id << 32 | right id; UINT64_MAX: empty
    uint32_t rank;
    int32_t id; // of the token that results
};

struct merges {
    struct merge *list;
    size_t count, capacity;
};

// A trie of texts, byte by byte. Node 0 is the root.
struct trie_edge {
    uint32_t from; // node << 8 | byte
    uint32_t to;   // 0: empty
};

struct trie {
    uint64_t seed;           // of the hashes of edges
    struct trie_edge *edges; // open addressing
    uint32_t mask;
    int32_t *value; // [nodes] value of the text that ends here, or -1
    uint32_t nodes, capacity;
};

enum { TRIE_NODES = 1 << 24 };

void trie_release(struct trie *trie);

struct unigram {
    struct trie trie;
    double *score; // [size] log-probability
    double least;  // score of an unknown character
    bool single;   // rounds sums to float, as SentencePiece does
};

// How far the log-probability of an unknown character is below that of the least likely token.
#define UNKNOWN_PENALTY 10.0

enum { NO_TEXT = -1 };

struct encoder;

struct tokenizer {
    // Ids to texts.
    int32_t size;     // largest id + 1
    int32_t capacity; // of `tokens`
    struct token {
        int64_t at;      // offset in `texts` of its text, NUL-terminated; NO_TEXT: a missing id
        uint32_t length; // bytes of the text
        uint8_t flags;   // TOKEN_*
    } * tokens;          // [size]
    struct buf texts;

    uint64_t seed; // of the hashes of texts and merges (names_seed)
    // Texts to ids, of the model's vocabulary only; open addressing.
    struct vocabulary_slot *slots;
    uint32_t slot_mask;

    // Appends the ids of a word: bpe_word or unigram_word.
    void (*word)(struct encoder *e, const char *word, size_t length);
    struct unigram unigram;
    struct halves { // both 0: none
        int32_t left, right;
    } * unused;           // [size] halves of a token that only merging may use; or NULL
    struct merge *merges; // open addressing
    uint32_t merge_mask;
    int32_t *char_id;     // [65536] id of a one-character token; -1 if none
    int32_t byte_id[256]; // ids of <0x00>, ... with byte_fallback; else -1
    int32_t unknown;      // id of unk_token; -1 if none
    bool fuse_unknown, ignore_merges;
    bool marks_apart; // no token has U+2581 after a different character, so a word ends before each
                      // run of U+2581

    struct added_list added, added_normal;
    struct added_list symbols; // user-defined, which the normaliser does not change
    struct normal normals[STAGES_MAX];
    struct split splits[STAGES_MAX];
    struct decode decodes[STAGES_MAX];
    int normal_count, split_count, decode_count;
    struct ids before, after; // ids that the post-processor adds
    struct buf notice;        // for the user; empty: none
    double normalising; // thread time when normalising the added tokens began: all tokens share one
                        // limit
};

// Returns the id in the model's vocabulary; -1 if none.
int32_t vocabulary_find(const struct tokenizer *t, const char *text, size_t length);
// Adds a text of the vocabulary (already in `tokens`) to the hash table, which must not be full.
// Replaces `former`, an id of the same text; -1: none.
void vocabulary_add(struct tokenizer *t, int32_t id, int32_t former);
uint64_t merge_pair(int32_t left, int32_t right);
void merge_add(struct tokenizer *t, struct merge m);

// --- building ----------------------------------------------------------------------------------

// Allocates tables for a vocabulary of `words` texts.
void tables_make(struct tokenizer *t, size_t words);
// Checks an id against the number of entries: ids may have gaps, but tables must not outgrow the
// file.
int id_check(double id, size_t entries, int32_t *checked, struct err *err);
// Checks an id and makes space for it in `tokens`.
int id_take(struct tokenizer *t, double id, size_t entries, int32_t *checked, struct err *err);
// Enters a vocabulary text under an id from id_take. `again`: a text may have several ids, and
// encodes to the last.
int vocabulary_put(struct tokenizer *t, int32_t id, const char *text, bool again, struct err *err);
// Finds the byte tokens <0x00> .. <0xFF>.
void bytes_find(struct tokenizer *t, bool fallback);
// Allocates a table for `count` merges.
void merges_make(struct tokenizer *t, size_t count);
// For formats that list tokens instead of merges: adds a merge for every way to split a token into
// two tokens, with the rank of the whole token. Rank UINT32_MAX: the token takes no part in
// merging.
void merges_derive(struct tokenizer *t, const uint32_t *rank);
// Appends the merges that result in token `id`.
void merges_of(const struct tokenizer *t, int32_t id, const uint32_t *rank, struct merges *out);
// Called at the end of a reader: returns the tokenizer if `status` is 0; else frees it, adds the
// file's name to the message and returns NULL.
struct tokenizer *tokenizer_done(struct tokenizer *t, int status, const char *name,
                                 struct err *err);
// Fills a unigram model's trie with all texts except those of special, unknown and TOKEN_APART
// tokens. -1: a text is too long, or all together are.
int unigram_fill(struct tokenizer *t, struct err *err);
// Reads text and flags of an added token; the text is borrowed.
int added_read(const cJSON *item, struct added *a, struct err *err);
// Enters an added token under an id from id_take or, if the vocabulary has its text, under the
// vocabulary's id. The text is copied.
int added_put(struct tokenizer *t, struct added a, struct err *err);
void added_list_put(struct added_list *list, struct added token, const char *text, size_t length);
// Sorts the list; call once all tokens are in it.
void added_sort(struct added_list *list);
// Returns -1 if there is no space for another stage.
int stages_full(int count, struct err *err);
// Refuses a text longer than STAGE_TEXT_MAX. `where`: its key.
int stage_text_check(const char *text, const char *where, struct err *err);
// Completes the decoder: adds DECODE_SPACES if it has no stage, and sets `fused` in the stages that
// follow Fuse or ByteLevel, which receive a text, not tokens.
void mark_fused(struct tokenizer *t);

// Appends a text to a comma-separated list.
void list_put(struct buf *b, const char *text);

// --- folders -----------------------------------------------------------------------------------

// The small files beside a tokenizer's file; NULL if absent.
struct companions {
    cJSON *config;  // tokenizer_config.json
    cJSON *special; // special_tokens_map.json
    cJSON *added;   // added_tokens.json
    bool pieces;    // the folder has a tokenizer.model
};

// The origin of a tokenizer.json: a file, which should have all added tokens; vocab.json and
// merges.txt; or a tiktoken.model, whose class transformers lacks, so that new tokens keep the
// files' ids.
enum json_source { FROM_FILE, FROM_MERGES, FROM_RANKS };

// Adds tokens of the files beside a tokenizer.json, as transformers does, and notes the changes in
// `notice`.
int companions_merge(cJSON *json, enum json_source source, const struct companions *c,
                     struct buf *notice, struct err *err);
// Builds the tokenizer from a tokenizer.json and the files beside it.
struct tokenizer *companions_read(cJSON *json, enum json_source source, const struct companions *c,
                                  const char *name, struct err *err);

// Enters the added tokens of the files beside a vocabulary of `words` tokens. `own`: they keep the
// files' ids, as for a class that transformers lacks; else a new token gets the next free id.
int companions_added(struct tokenizer *t, const struct companions *c, size_t words, bool own,
                     struct err *err);

// Returns the text of a special token given as a text or {"content": text}; NULL if neither.
const char *token_content(const cJSON *token);
// Returns the text of "bos_token" and the like; NULL if missing.
const char *companions_token(const struct companions *c, const char *key);

// --- the tokenizer's class ---------------------------------------------------------------------

enum { CLASS_NAME_SIZE = 64, CLASS_TOKENS = 4 };

enum class_flags {
    CLASS_PIECES = 1, // may have a SentencePiece model
    CLASS_AROUND = 2, // puts BOS and EOS around texts, overriding tokenizer.json
    CLASS_BOS = 4,    // puts BOS before texts if add_bos_token is absent
    CLASS_EOS = 8,    // puts EOS after texts if add_eos_token is absent
    CLASS_INFILL = 16 // has the tokens of companions_infill
};

// A class of transformers.
struct class_kind {
    const char *name; // without "Fast"
    int flags;
    const char *tokens[CLASS_TOKENS]; // defaults of bos, eos, unk, pad; NULL: none
};

// Keys of CodeLlama's special tokens for infilling, NULL-terminated.
extern const char *const companions_infill[];

// Sets the name of the class, without "Fast"; "" if the config names none, or a generic one.
int companions_class(const cJSON *config, char name[CLASS_NAME_SIZE], struct err *err);
// If tokenizer_config.json names no class, sets the class that transformers 4 derives from the
// model's config.json, unless a config names tokenizer code of its own, or `json`, the
// tokenizer.json, lacks special tokens of this class. json NULL: the tokenizer is in another file.
void companions_infer(struct companions *c, const cJSON *model, const cJSON *json);
// Returns NULL if the config names no class of transformers.
const struct class_kind *companions_kind(const cJSON *config);
// Reads "add_bos_token" or "add_eos_token"; null is false.
int companions_flag(const cJSON *config, const char *key, bool otherwise, bool *flag,
                    struct err *err);
// Adds the class's special tokens that the config does not name.
void companions_defaults(cJSON *config);
// Apply the settings in which the small files differ from the tokenizer's file beside them, or add
// a notice that the settings are ignored. companions_prefix changes a tokenizer.json before the
// reader parses it, and returns true if it changed anything.
bool companions_prefix(cJSON *json, const struct companions *c);
int companions_apply(struct tokenizer *t, const struct companions *c, struct err *err);

// `ranked`: derives the merges from the ids, which are ranks.
struct tokenizer *tokenizer_from_json(const cJSON *json, bool ranked, const char *name,
                                      struct err *err);
// `vocab`: vocab.json; `merges`: merges.txt.
struct tokenizer *tokenizer_parse_merges(cJSON *vocab, const char *merges, size_t size,
                                         const struct companions *c, const char *name,
                                         struct err *err);
struct tokenizer *tokenizer_parse_ranks(const char *text, size_t size, const struct companions *c,
                                        const char *name, struct err *err);
struct tokenizer *tokenizer_parse_pieces(const char *file, size_t size, const struct companions *c,
                                         const char *name, struct err *err);

// Copies the name of the i-th pre-tokenizer that a list of tokens may name; returns false after the
// last one.
enum { TOKEN_PRE_SIZE = 32 };
bool tokenizer_list_pre(int i, char name[TOKEN_PRE_SIZE]);
// True if t consists of one or more repetitions of `text`.
bool text_repeats(const struct token_text *t, const char *text);
// Builds SentencePiece's BPE from a list.
struct tokenizer *tokenizer_list_pieces(const struct token_list *l, const char *name,
                                        struct err *err);

// Word patterns of tiktoken and its relatives, for files that contain no pattern.
#define WORDS_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_BY(numbers)                                  \
    WORDS_SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WORDS_SPACES
#define WORDS_QWEN2  WORDS_BY("\\p{N}")
#define WORDS_LLAMA3 WORDS_BY("\\p{N}{1,3}") // and GLM-4
// Words start at capitals (GPT-4o).
#define WORDS_CASED(upper, lower, suffix, numbers, rest)                                          \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower \
    "*" suffix "|" numbers "| ?[^\\s\\p{L}\\p{N}]+" rest WORDS_SPACES
// Kimi's words end where Chinese characters start and end.
#define WORDS_NOT_HAN "&&[^\\p{Han}]]"
#define WORDS_KIMI                                                                             \
    "[\\p{Han}]+|" WORDS_CASED("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" WORDS_NOT_HAN,            \
                               "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" WORDS_NOT_HAN, WORDS_SUFFIX "?", \
                               "\\p{N}{1,3}", "[\\r\\n]*")

// Maximum length of an added token, and of a token in unigram models, tokenizer.model and
// tiktoken.model: keeps reading and encoding near-linear. Other tokens may have VOCAB_BYTES_MAX,
// because each id of a text may be that of the longest one.
enum { TOKEN_BYTES_MAX = 1024, VOCAB_BYTES_MAX = 1 << 16 };

// --- one call of the tokenizer -----------------------------------------------------------------

// A symbol of a long word, in a linked list.
struct symbol {
    int32_t id;
    int32_t before, after; // neighbours, -1 at the ends
    uint32_t rank;         // of the merge with `after`; NO_MERGE: they do not merge
    int32_t merged;        // id of the token that this merge gives
};

// The best path to a position in a unigram word.
struct path {
    double score;
    int32_t id;     // of the path's last token; -1: an unknown character, -2: no path
    uint32_t start; // of that token
    uint32_t end;   // if the best path has a token that starts here: its end
};

struct encoder {
    const struct tokenizer *t;
    struct ids *ids; // result
    struct err *err;
    struct search search;
    size_t most;    // limit on ids; 0: none
    bool begins;    // the text starts the whole input
    bool continues; // the text follows other tokens: prepends nothing
    struct buf normal[2], split[STAGES_MAX];
    struct path *paths; // for unigram words
    size_t path_capacity;
    struct symbol *symbols; // for long words
    uint64_t *heap;
    size_t symbol_capacity, heap_capacity;
    struct word_cache *cache;
};

void encoder_release(struct encoder *e);

// Runs the normaliser; *out points into the text or into the encoder.
int normal_run(struct encoder *e, const char *text, size_t length, const char **out,
               size_t *out_length);
// Runs the pre-tokenizer and passes every word to t->word. `first`: at the start of the text.
int split_run(struct encoder *e, const char *text, size_t length, bool first);
void bpe_word(struct encoder *e, const char *word, size_t length);
void unigram_word(struct encoder *e, const char *word, size_t length);
// Encodes an unknown character as the tokens of its bytes, or as the unknown token. *pending: the
// last id is the unknown token.
void unknown_char(const struct tokenizer *t, const char *text, size_t n, bool *pending,
                  struct ids *out);
// Starts a cache of words for long texts.
void bpe_start(struct encoder *e, size_t text_length);
void bpe_release(struct encoder *e);

uint32_t little_endian(const char *bytes); // value of four bytes
int charsmap_read(struct charsmap *m, const char *blob, size_t size, struct err *err);
void charsmap_release(struct charsmap *m);
// Run the normalisers NORMAL_CHARSMAP and NORMAL_PIECES.
int charsmap_run(struct encoder *e, const struct normal *n, const char *text, size_t length,
                 struct buf *out);
int pieces_run(struct encoder *e, const struct normal *n, const char *text, size_t length,
               struct buf *out);
// Returns -1 if a normaliser has made a text too long.
int normal_limit(const struct search *s, const struct buf *out, struct err *err);

// Replaces every match of p, appending to `out`.
int replace_all(struct search *s, const struct pattern *p, const char *content, const char *text,
                size_t length, struct buf *out, struct err *err);
#endif
