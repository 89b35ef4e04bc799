// core/new/new_tokenizer.c -- makes a tokenizer.json: 256 byte tokens, merges learned from a text
// and a paragraph of common words, then `<|unused_N|>` up to the published size, then special
// tokens, named as in Llama-2 or Llama-3.
//
//   ids   [specials of Llama-2]  bytes  merged tokens  <|unused_N|> ...  further specials
//
// Byte-level BPE as in GPT-2 (each byte is written as a printable character), split by the pattern
// of Llama-3. Nothing is random: shape and text determine the tokenizer.
#include "core/new/new_tokenizer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/items.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "core/new/shapes.h"

enum { BYTES = 256, MERGES_MAX = 1000 };

// Common words of a conversation about pictures, from which merges are learned.
static const char everyday[] =
    "What is in this picture? Describe the picture in a few words. The picture shows a small house "
    "on a green hill, and there is a red car in front of the house. In the background there are "
    "trees, mountains and a blue sky with white clouds. A man and a woman are standing near the "
    "door; the woman is holding a book and the man is looking at the water. How many people are "
    "there in the image? There are two people in the image. What colour is the car? The car is "
    "red. Where is the dog? The dog is lying on the grass under the tree, to the left of the "
    "table. Is there a cat in the picture? No, there is no cat in the picture. What is the text "
    "on the sign? The sign says \"open\". Which of these pictures was taken at night? The second "
    "picture was taken at night, because the street lights are on and the sky is dark. What is "
    "the person on the right doing? The person on the right is riding a bicycle along the road. "
    "Please answer with one word. Answer the question using a single word or phrase. You are a "
    "helpful assistant that answers questions about images. The user asks and the assistant gives "
    "helpful, detailed and polite answers to the questions of the user. I can see several things: "
    "a window, a chair, some flowers, a bottle and a plate with food. It looks like a kitchen or "
    "a living room. They have been playing with the ball for some time. This would be the first "
    "time that we could see what happens when it rains; then the light changes and everything "
    "looks different from before. Other things which you might want to know: who made it, when it "
    "was made, how large it is, and why it was put there. Could you tell me more about the "
    "building behind them? The building has three windows, two doors and a tall tower. On top of "
    "the tower there is a clock that shows ten past four. Between the building and the street "
    "there is a wall of stone. Some children are running across the street after school.";

static const char split_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct merge {
    int left, right;
};

// Tokens 0..255 are the bytes in GPT-2's order, the others merges.
struct learned {
    char *tokens[BYTES + MERGES_MAX]; // as written in the file
    int count;
    struct merge merges[MERGES_MAX];
    int merge_count;
};

// --- learning merges -----------------------------------------------------------------------------

// Adds first the 188 bytes that print as themselves, then the others as U+0100, U+0101, ...
static void learn_bytes(struct learned *l, int id_of_byte[BYTES])
{
    for (int shown = 1; shown >= 0; shown--)
        for (int byte = 0, code = 256; byte < BYTES; byte++) {
            const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
            if (prints != shown) continue;
            utf8proc_uint8_t utf8[5] = { 0 };
            utf8proc_encode_char(shown ? byte : code++, utf8);
            id_of_byte[byte] = l->count;
            l->tokens[l->count++] = xstrdup((char *)utf8);
        }
}

// Words of a text and their counts.
struct words {
    struct names names;
    int64_t *times; // [names.count]
    size_t capacity;
};

static void count_word(struct words *w, const char *word, size_t length)
{
    char *name = xstrndup(word, length);
    bool known;
    const size_t i = names_add(&w->names, name, &known);
    free(name);
    w->times = xgrow(w->times, &w->capacity, i, sizeof *w->times);
    if (!known) w->times[i] = 0;
    w->times[i]++;
}

// Counts words: ASCII letters with the space before them, or any other single byte, so that the
// split pattern never cuts a merged token.
static void count_words(struct words *w, const char *text)
{
    for (const char *p = text, *start = text; *p; p++) {
        const bool next = isalpha((unsigned char)p[1]) && (isalpha((unsigned char)*p) || *p == ' ');
        if (next) continue;
        count_word(w, start, (size_t)(p + 1 - start));
        start = p + 1;
    }
}

// Distinct words as token ids, with -1 before each word; times[i]: count of the word that contains
// symbol i.
struct corpus {
    int *symbols, count;
    int64_t *times;
    struct pair *pairs; // buffer of best_pair
};

struct pair {
    int key;
    int64_t times;
};

static void corpus_make(struct corpus *c, const struct words *w, const int id_of_byte[BYTES])
{
    size_t capacity = 0;
    for (size_t i = 0; i < w->names.count; i++) capacity += strlen(w->names.list[i]) + 1;
    *c = (struct corpus){ .symbols = xreallocarray(NULL, capacity + 1, sizeof *c->symbols),
                          .times = xreallocarray(NULL, capacity + 1, sizeof *c->times),
                          .pairs = xreallocarray(NULL, capacity + 1, sizeof *c->pairs) };
    for (size_t i = 0; i < w->names.count; i++) {
        c->symbols[c->count++] = -1;
        for (const char *p = w->names.list[i]; *p; p++) {
            c->times[c->count] = w->times[i];
            c->symbols[c->count++] = id_of_byte[(unsigned char)*p];
        }
    }
}

static int compare_key(const void *a, const void *b)
{
    const int x = ((const struct pair *)a)->key, y = ((const struct pair *)b)->key;
    return (x > y) - (x < y);
}

// Finds the most frequent adjacent pair, on ties the one with the smaller ids. False if no pair
// occurs twice.
static bool best_pair(const struct corpus *c, struct merge *best)
{
    int count = 0;
    int64_t most = 1, run = 0;
    for (int i = 0; i + 1 < c->count; i++)
        if (c->symbols[i] >= 0 && c->symbols[i + 1] >= 0)
            c->pairs[count++] =
                (struct pair){ c->symbols[i] << 12 | c->symbols[i + 1], c->times[i] };
    qsort(c->pairs, (size_t)count, sizeof *c->pairs, compare_key);
    for (int i = 0; i < count; i++) {
        const bool same = i && c->pairs[i].key == c->pairs[i - 1].key;
        run = c->pairs[i].times + (same ? run : 0);
        if (run <= most) continue;
        most = run;
        *best = (struct merge){ c->pairs[i].key >> 12, c->pairs[i].key & 4095 };
    }
    return most > 1;
}

static int token_id(struct learned *l, char *token)
{
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->tokens[i], token)) {
            free(token);
            return i;
        }
    l->tokens[l->count] = token;
    return l->count++;
}

static void apply_merge(struct corpus *c, struct merge m, int id)
{
    int kept = 0;
    for (int i = 0; i < c->count; i++, kept++) {
        const bool here =
            i + 1 < c->count && c->symbols[i] == m.left && c->symbols[i + 1] == m.right;
        c->times[kept] = c->times[i];
        c->symbols[kept] = here ? id : c->symbols[i];
        i += here;
    }
    c->count = kept;
}

// Learns the bytes, then merges: up to MERGES_MAX, and up to `limit` tokens in total.
static struct learned *learn(int64_t limit, const char *text)
{
    struct learned *l = xcalloc(1, sizeof *l);
    int id_of_byte[BYTES];
    struct words words = { 0 };
    struct corpus corpus;
    count_words(&words, everyday);
    if (text) count_words(&words, text);
    learn_bytes(l, id_of_byte);
    corpus_make(&corpus, &words, id_of_byte);
    struct merge m;
    while (l->merge_count < MERGES_MAX && l->count < limit && best_pair(&corpus, &m)) {
        l->merges[l->merge_count++] = m;
        apply_merge(&corpus, m,
                    token_id(l, xasprintf("%s%s", l->tokens[m.left], l->tokens[m.right])));
    }
    free(corpus.symbols);
    free(corpus.times);
    free(corpus.pairs);
    names_release(&words.names);
    free(words.times);
    return l;
}

// --- special tokens ------------------------------------------------------------------------------

struct special {
    int64_t id;
    char text[48];
};

struct specials {
    struct special *list;
    int count;
    int64_t bytes_at; // id of the first byte token
};

static void add_special(struct specials *s, int64_t id, const char *text)
{
    s->list = xreallocarray(s->list, (size_t)s->count + 1, sizeof *s->list);
    s->list[s->count].id = id;
    snprintf(s->list[s->count++].text, sizeof s->list->text, "%s", text);
}

// Returns the placeholder of a picture, which differs from the shape's marks.
static const char *placeholder_of(const struct shape *s)
{
    return items_has(s->marks ? s->marks : "", "<image>", " ") ? "<|image_pad|>" : "<image>";
}

static void add_llama2(struct specials *s, const struct shape *shape, struct new_tokenizer *t)
{
    s->bytes_at = 3;
    add_special(s, 0, "<unk>");
    add_special(s, 1, "<s>");
    add_special(s, 2, "</s>");
    if (shape->tower) add_special(s, shape->words, "<image>");
    add_special(s, shape->words + 1, "<pad>");
    t->bos = 1;
    t->eos = 2;
    t->pad = shape->words + 1;
    t->image = shape->tower ? shape->words : -1;
}

// Returns word i of a list separated by spaces, and its length; NULL: the list is shorter.
static const char *word_at(const char *list, int i, int *length)
{
    for (; list && i > 0; i--) {
        list = strchr(list, ' ');
        list += list != NULL;
    }
    *length = list ? (int)strcspn(list, " ") : 0;
    return list;
}

// All tokens after the ordinary ones are special: first Llama 3's, then the shape's marks, then
// reserved ones. If the shape has an encoder, the last token is its placeholder.
static void add_llama3(struct specials *s, const struct shape *shape, struct new_tokenizer *t)
{
    static const char *const names[] = {
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>",
        "<|reserved_special_token_2|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    };
    int named = sizeof names / sizeof *names, count = (int)(shape->vocab - shape->words);
    for (int i = 0; i < count; i++) {
        char reserved[48];
        int length;
        const char *mark = word_at(shape->marks, i - named, &length);
        snprintf(reserved, sizeof reserved, "<|reserved_special_token_%d|>", i - named + 3);
        if (i >= named && mark) snprintf(reserved, sizeof reserved, "%.*s", length, mark);
        bool image = shape->tower && i == count - 1;
        add_special(s, shape->words + i,
                    image       ? placeholder_of(shape)
                    : i < named ? names[i]
                                : reserved);
    }
    t->bos = shape->words;
    t->eos = shape->words + 9;
    t->pad = shape->words + 4;
    t->image = shape->tower ? shape->vocab - 1 : -1;
}

static const char *special_text(const struct specials *s, int64_t id)
{
    for (int i = 0; i < s->count; i++)
        if (s->list[i].id == id) return s->list[i].text;
    return "";
}

// --- the files -----------------------------------------------------------------------------------

#define TOKEN_FLAGS                                                                  \
    "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": " \
    "false, \"special\": true"

static void put_vocabulary(struct buf *b, const struct shape *s, const struct specials *specials,
                           const struct learned *l)
{
    int64_t id = 0;
    const char *comma = "";
    for (; id < specials->bytes_at; id++, comma = ",\n")
        buf_printf(b, "%s      \"%s\": %lld", comma, special_text(specials, id), (long long)id);
    for (int i = 0; i < l->count; i++, id++, comma = ",\n") {
        buf_printf(b, "%s      ", comma);
        json_put_text(b, l->tokens[i]);
        buf_printf(b, ": %lld", (long long)id);
    }
    for (int64_t unused = 0; id < s->words; id++, unused++)
        buf_printf(b, ",\n      \"<|unused_%lld|>\": %lld", (long long)unused, (long long)id);
}

static void put_merges(struct buf *b, const struct learned *l)
{
    for (int i = 0; i < l->merge_count; i++) {
        char *pair =
            xasprintf("%s %s", l->tokens[l->merges[i].left], l->tokens[l->merges[i].right]);
        buf_puts(b, i ? ",\n      " : "      ");
        json_put_text(b, pair);
        free(pair);
    }
}

// Adds the beginning-of-text token to a text that is encoded with special tokens.
static void put_post_processor(struct buf *b, const char *bos, int64_t id)
{
    buf_printf(b,
               "  \"post_processor\": {\"type\": \"Sequence\", \"processors\": [\n"
               "    {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": false, "
               "\"use_regex\": true},\n"
               "    {\"type\": \"TemplateProcessing\",\n"
               "     \"single\": [{\"SpecialToken\": {\"id\": \"%s\", \"type_id\": 0}}, "
               "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n"
               "     \"pair\": [{\"SpecialToken\": {\"id\": \"%s\", \"type_id\": 0}}, "
               "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
               "{\"SpecialToken\": {\"id\": \"%s\", \"type_id\": 1}}, "
               "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],\n"
               "     \"special_tokens\": {\"%s\": {\"id\": \"%s\", \"ids\": [%lld], \"tokens\": "
               "[\"%s\"]}}}]},\n",
               bos, bos, bos, bos, bos, (long long)id, bos);
}

static char *make_json(const struct shape *s, const struct specials *specials,
                       const struct learned *l, const struct new_tokenizer *t)
{
    struct buf b = { 0 };
    buf_puts(&b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                 "  \"added_tokens\": [\n");
    for (int i = 0; i < specials->count; i++)
        buf_printf(&b, "    {\"id\": %lld, \"content\": \"%s\", " TOKEN_FLAGS "}%s\n",
                   (long long)specials->list[i].id, specials->list[i].text,
                   i + 1 < specials->count ? "," : "");
    buf_puts(&b, "  ],\n  \"normalizer\": null,\n"
                 "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
                 "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    json_put_text(&b, split_pattern);
    buf_puts(&b,
             "}, \"behavior\": \"Isolated\", \"invert\": false},\n"
             "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
             "\"use_regex\": false}]},\n");
    put_post_processor(&b, special_text(specials, t->bos), t->bos);
    buf_puts(&b, "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                 "\"trim_offsets\": true, \"use_regex\": true},\n"
                 "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                 "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                 "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                 "    \"byte_fallback\": false,\n");
    buf_printf(&b, "    \"ignore_merges\": %s,\n    \"vocab\": {\n",
               s->tokens == TOKENS_LLAMA3 ? "true" : "false");
    put_vocabulary(&b, s, specials, l);
    buf_puts(&b, "\n    },\n    \"merges\": [\n");
    put_merges(&b, l);
    buf_puts(&b, "\n    ]\n  }\n}\n");
    return buf_take(&b);
}

static void put_named(struct buf *b, const struct specials *specials, const struct new_tokenizer *t)
{
    buf_printf(b, "  \"bos_token\": \"%s\",\n  \"eos_token\": \"%s\",\n  \"pad_token\": \"%s\"",
               special_text(specials, t->bos), special_text(specials, t->eos),
               special_text(specials, t->pad));
    if (t->image >= 0)
        buf_printf(b, ",\n  \"image_token\": \"%s\"", special_text(specials, t->image));
}

static char *make_config(const struct shape *s, const struct specials *specials,
                         const struct new_tokenizer *t)
{
    struct buf b = { 0 };
    buf_puts(&b, "{\n  \"added_tokens_decoder\": {\n");
    for (int i = 0; i < specials->count; i++)
        buf_printf(&b, "    \"%lld\": {\"content\": \"%s\", " TOKEN_FLAGS "}%s\n",
                   (long long)specials->list[i].id, specials->list[i].text,
                   i + 1 < specials->count ? "," : "");
    buf_puts(&b, "  },\n");
    put_named(&b, specials, t);
    buf_puts(&b, ",\n  \"chat_template\": ");
    json_put_text(&b, t->chat_template);
    buf_puts(&b, ",\n  \"clean_up_tokenization_spaces\": false,\n");
    if (s->context) // else config.json alone says it
        buf_printf(&b, "  \"model_max_length\": %lld,\n", (long long)s->context);
    buf_printf(&b, "%s  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n",
               t->image >= 0 ? "  \"processor_class\": \"LlavaProcessor\",\n" : "");
    return buf_take(&b);
}

// Vicuna's prompt, with the pictures of a message before its text.
static const char template_llama2[] =
    "{% for message in messages %}"
    "{% if message['role'] != 'system' %}{{ message['role'].upper() + ': ' }}{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] + ' ' }}{% else %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\\n' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ part['text'] + ' ' }}{% endfor %}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}";

#define TEMPLATE_LLAMA3(placeholder)                                             \
    "{{- bos_token }}{%- for message in messages %}"                             \
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}" \
    "{%- if message['content'] is string %}{{- message['content'] | trim }}"     \
    "{%- else %}{%- for part in message['content'] %}"                           \
    "{%- if part['type'] == 'image' %}{{- '" placeholder "\\n' }}"               \
    "{%- elif part['type'] == 'text' %}{{- part['text'] | trim }}{%- endif %}"   \
    "{%- endfor %}{%- endif %}{{- '<|eot_id|>' }}{%- endfor %}"                  \
    "{%- if add_generation_prompt %}"                                            \
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"

static const char *template_of(const struct shape *s)
{
    if (s->tokens == TOKENS_LLAMA2) return template_llama2;
    return strcmp(placeholder_of(s), "<image>") ? TEMPLATE_LLAMA3("<|image_pad|>")
                                                : TEMPLATE_LLAMA3("<image>");
}

void new_tokenizer_make(struct new_tokenizer *t, const struct shape *s, const char *text)
{
    struct specials specials = { 0 };
    struct buf map = { 0 };
    *t = (struct new_tokenizer){ 0 };
    if (s->tokens == TOKENS_LLAMA2)
        add_llama2(&specials, s, t);
    else
        add_llama3(&specials, s, t);
    struct learned *l = learn(s->words - specials.bytes_at, text);
    t->chat_template = xstrdup(template_of(s));
    t->json = make_json(s, &specials, l, t);
    t->config = make_config(s, &specials, t);
    buf_puts(&map, "{\n");
    put_named(&map, &specials, t);
    buf_puts(&map, "\n}\n");
    t->map = buf_take(&map);
    for (int i = 0; i < l->count; i++) free(l->tokens[i]);
    free(l);
    free(specials.list);
}

void new_tokenizer_release(struct new_tokenizer *t)
{
    free(t->json);
    free(t->config);
    free(t->map);
    free(t->chat_template);
    *t = (struct new_tokenizer){ 0 };
}
