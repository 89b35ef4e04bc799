// core/data/keys.c -- finds keys of a sample that nothing reads: tables of known keys, and a walk
// over the sample.
//
// Data sets for other programs have additional keys. An unread key may be a remark or half of the
// training signal, so a notice names every key that is neither read nor known to be harmless.
#include "core/data/keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/items.h"
#include "core/base/json.h"

enum { KEYS_OF_SAMPLE = 64, KEY_SHOWN = 40 }; // KEY_SHOWN: bytes of a key

// Spaces separate the keys in these lists.

// --- marks ---------------------------------------------------------------------------------------

// If one of these keys is 0 or false, the turn is context, not a target.
static const char marks[] =
    "weight loss train training trainable trained loss_mask loss_weight loss_scale train_on_turn";
// If this key is 1 or true, the turn is context (torchtune).
static const char masks[] = "masked";

// Returns 0 or 1; -1 for other values, such as a weight of 0.5.
static int mark_value(const cJSON *mark)
{
    static const char *const words[2][5] = { { "0", "0.0", "false", "no", "off" },
                                             { "1", "1.0", "true", "yes", "on" } };
    if (cJSON_IsBool(mark)) return cJSON_IsTrue(mark);
    if (cJSON_IsNumber(mark) && (mark->valuedouble == 0 || mark->valuedouble == 1))
        return mark->valuedouble == 1;
    for (int value = 0; cJSON_IsString(mark) && value < 2; value++)
        for (int i = 0; i < 5; i++)
            if (!strcasecmp(mark->valuestring, words[value][i])) return value;
    return -1;
}

bool keys_untrained(const cJSON *turn)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, turn)
    {
        const int value = item->string ? mark_value(item) : -1;
        if (value == 0 && items_has(marks, item->string, " ")) return true;
        if (value == 1 && items_has(masks, item->string, " ")) return true;
    }
    return false;
}

// --- unread keys ---------------------------------------------------------------------------------

// Keys that only describe a sample or turn.
static const char harmless[] =
    "id uid uuid idx index sample_id image_id img_id image_name file_name filename "
    "conversation_id question_id source sources data_source dataset dataset_name subset split "
    "meta metadata meta_data extra_info url coco_url flickr_url license lang language model "
    "created create_time update_time timestamp date date_captured version author annotator tags "
    "tag topic domain difficulty level score rating height width image_height image_width "
    "height_list width_list length num_tokens token_count num_turns hash md5 sha256 kind type "
    "category task task_type strategy planted_cause turn_id message_id parent_id";

static const char sample_keys[] = "metric image images choices endings answer answers references "
                                  "captions caption label system video videos";
static const char message_keys[] = "role content", turn_keys[] = "from value";
static const char item_keys[] = "type text image image_url path url bytes";
// The first of these keys that a sample has contains its dialogue.
static const char *const forms[] = { "messages", "conversations", "question", "text", "ctx", NULL };

static bool is_empty(const cJSON *value)
{
    if (cJSON_IsString(value)) return !*value->valuestring;
    return cJSON_IsNull(value) ||
           ((cJSON_IsArray(value) || cJSON_IsObject(value)) && !value->child);
}

static void add(struct names *unread, const char *key, const char *of)
{
    if (unread->count >= KEYS_OF_SAMPLE) return;
    char *name = xasprintf("\"%.*s\"%s", KEY_SHOWN, key, of);
    names_add(unread, name, NULL);
    free(name);
}

// Adds unread keys of an object. `read`: keys that are read, besides `form`; `trained`: marks apply
// to the object.
static void add_object(struct names *unread, const cJSON *object, const char *read,
                       const char *form, bool trained)
{
    const cJSON *value;
    if (!cJSON_IsObject(object)) return;
    cJSON_ArrayForEach(value, object)
    {
        const char *key = value->string;
        const bool mark = items_has(marks, key, " "), mask = items_has(masks, key, " ");
        if (is_empty(value) || items_has(read, key, " ") || items_has(harmless, key, " ")) continue;
        if (form && !strcmp(key, form)) continue;
        if (!mark && !mask)
            add(unread, key, "");
        else if (mark_value(value) < 0)
            add(unread, key, " other than 0 and 1");
        else if (!trained && mark_value(value) == mark)
            add(unread, key, " of a message that is not an answer");
    }
}

void keys_unread_row(const cJSON *row, const char *read, struct names *unread)
{
    add_object(unread, row, read, NULL, true);
}

// Adds unread keys of content items. *pictures: number of image items so far; the prompt shows them
// in this order.
static void add_items(struct names *unread, const cJSON *content, int64_t *pictures)
{
    const cJSON *item;
    if (!cJSON_IsArray(content)) return;
    cJSON_ArrayForEach(item, content)
    {
        const cJSON *index = json_get(item, "index"), *type = json_get(item, "type");
        const bool picture = cJSON_IsString(type) && strcmp(type->valuestring, "image") == 0;
        if (picture && cJSON_IsNumber(index) && index->valuedouble != (double)*pictures)
            add(unread, "index", " of a picture out of order");
        *pictures += picture;
        add_object(unread, item, item_keys, NULL, false);
        add_object(unread, json_get(item, "image_url"), "url path bytes", NULL, false);
    }
}

static const char *speaker(const cJSON *turn)
{
    const cJSON *role = json_get(turn, "from");
    if (!role) role = json_get(turn, "role");
    return cJSON_IsString(role) ? role->valuestring : "";
}

// True for a turn that is not an answer and so is never trained on. ShareGPT has many names for
// speakers.
static bool is_question(const cJSON *turn)
{
    return items_has("user human system prompter tool observation function_response", speaker(turn),
                     " ");
}

// --- marks of pictures ---------------------------------------------------------------------------

// Other programs' marks of pictures, videos or sounds, which vlmsh reads as plain text.
static const char foreign_marks[] =
    "<ImageHere> <video> <audio> <IMG_CONTEXT> [IMG] <image_placeholder> <|image|> <|image_pad|> "
    "<|video_pad|> <start_of_image> <image_soft_token> <VideoHere> <|vision_start|>";

// Returns the length of a mark "<image 1>", "<image_01>" or "<|image_1|>" at `text`, or 0.
static size_t numbered_mark(const char *text)
{
    const bool bars = !strncmp(text, "<|", 2);
    const char *p = text + (bars ? 2 : 1);
    if (strncasecmp(p, "image", 5) != 0) return 0;
    p += 5;
    if (*p == ' ' || *p == '_' || *p == '-') p++;
    const size_t digits = strspn(p, "0123456789");
    const char *end = bars ? "|>" : ">";
    // vlmsh reads "<image>" itself, but only in lower case.
    if (!digits && (bars || !strncmp(text, "<image>", 7))) return 0;
    p += digits;
    return strncmp(p, end, strlen(end)) != 0 ? 0 : (size_t)(p - text) + strlen(end);
}

// Adds marks in the text that vlmsh reads as plain text. `named`: marks that vlmsh reads as
// pictures (keys of MiniCPM-V's "image").
static void add_marks(struct names *unread, const char *text, const struct names *named)
{
    static const char of[] = " as text, not as a picture";
    const char *rest = foreign_marks;
    for (char *mark; text && (mark = items_take(&rest, " ")); free(mark))
        if (strstr(text, mark)) add(unread, mark, of);
    const char *open = text ? strstr(text, "<img>") : NULL;
    if (open && strstr(open, "</img>")) add(unread, "<img>", of); // Qwen-VL's mark around a path
    for (const char *p = text ? strchr(text, '<') : NULL; p; p = strchr(p + 1, '<')) {
        const size_t n = numbered_mark(p);
        size_t number;
        char *mark = xstrndup(p, n);
        if (n && !names_find(named, mark, &number)) add(unread, mark, of);
        free(mark);
    }
}

static void add_turns(struct names *unread, const cJSON *turns, const struct names *named)
{
    const cJSON *turn, *item;
    int64_t pictures = 0;
    cJSON_ArrayForEach(turn, turns)
    {
        const bool from = json_get(turn, "from") != NULL;
        const cJSON *text = json_get(turn, from ? "value" : "content"); // whole or in parts
        add_object(unread, turn, from ? turn_keys : message_keys, NULL, !is_question(turn));
        if (!from) add_items(unread, text, &pictures);
        add_marks(unread, cJSON_GetStringValue(text), named);
        if (!cJSON_IsArray(text)) continue;
        cJSON_ArrayForEach(item, text)
            add_marks(unread, cJSON_GetStringValue(json_get(item, "text")), named);
    }
}

void keys_unread(const cJSON *sample, struct names *unread)
{
    struct names named = { 0 };
    if (cJSON_IsArray(sample)) {
        add_turns(unread, sample, &named);
        return;
    }
    const cJSON *picture;
    cJSON_ArrayForEach(picture, json_get(sample, "image"))
    {
        if (picture->string) names_add(&named, picture->string, NULL);
    }
    size_t form = 0;
    while (forms[form] && !json_get(sample, forms[form])) form++;
    const cJSON *turns = form < 2 ? json_get(sample, forms[form]) : NULL;
    add_object(unread, sample, sample_keys, forms[form], true);
    if (json_get(sample, "image") && json_get(sample, "images") &&
        !is_empty(json_get(sample, "images")))
        add(unread, "images", " beside \"image\"");
    // "system" is not read if the turns begin with a system message.
    if (json_get(sample, "system") && turns && cJSON_IsArray(turns) &&
        !strcasecmp(speaker(turns->child), "system"))
        add(unread, "system", " beside a system message");
    if (cJSON_IsArray(turns)) add_turns(unread, turns, &named);
    names_release(&named);
    add_marks(unread, cJSON_GetStringValue(json_get(sample, "question")), &(struct names){ 0 });
}

// --- counts --------------------------------------------------------------------------------------

// Counts a key; returns false for a new one beyond KEYS_COUNTED.
static bool count_key(struct key_counts *c, const char *key)
{
    size_t number;
    if (!names_find(&c->keys, key, &number)) {
        if (c->keys.count == KEYS_COUNTED) return false;
        number = names_add(&c->keys, key, NULL);
    }
    c->samples[number]++;
    return true;
}

void key_counts_add(struct key_counts *c, const struct names *unread, const char *other)
{
    bool all = !other || count_key(c, other);
    for (size_t i = 0; i < unread->count; i++) all &= count_key(c, unread->list[i]);
    c->more += !all;
}

char *key_counts_text(const struct key_counts *c)
{
    struct buf b = { 0 };
    if (!c->keys.count) return NULL;
    buf_puts(&b, "not used: ");
    for (size_t i = 0; i < c->keys.count; i++)
        buf_printf(&b, "%s%s (%lld sample%s)", i ? ", " : "", c->keys.list[i],
                   (long long)c->samples[i], c->samples[i] == 1 ? "" : "s");
    if (c->more)
        buf_printf(&b, ", and others (%lld sample%s)", (long long)c->more, c->more == 1 ? "" : "s");
    return buf_take(&b);
}

void key_counts_release(struct key_counts *c)
{
    names_release(&c->keys);
    *c = (struct key_counts){ 0 };
}
