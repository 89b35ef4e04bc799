// core/data/dialogue.c -- turns JSON into messages, for /messages, /ask --data and data sets.
//
// The input is untrusted: every type is checked, and error messages name the position.
#include "core/data/dialogue.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/items.h"
#include "core/data/keys.h"
#include "core/picture/source.h"
#include "core/template/message.h"

char *path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return xstrdup(".");
    return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

void dialogue_release(struct dialogue *d)
{
    for (size_t i = 0; i < d->count; i++) message_release(&d->messages[i]);
    for (size_t i = 0; i < d->path_count; i++) free(d->paths[i]);
    names_release(&d->marks);
    free(d->messages);
    free(d->paths);
    free(d->reference);
    *d = (struct dialogue){ 0 };
}

static struct message *add_message(struct dialogue *d, enum role role)
{
    d->messages = xreallocarray(d->messages, d->count + 1, sizeof *d->messages);
    d->messages[d->count] = (struct message){ .role = role };
    return &d->messages[d->count++];
}

// Adds a path; returns its index.
static int add_path(struct dialogue *d, const char *path, const char *folder)
{
    d->paths = xreallocarray(d->paths, d->path_count + 1, sizeof *d->paths);
    d->paths[d->path_count] = picture_source(path, folder);
    return (int)d->path_count++;
}

char *dialogue_picture(const cJSON *item)
{
    static const char *const keys[] = { "path", "url", "image" };
    const char *bytes = cJSON_GetStringValue(json_get(item, "bytes"));
    if (cJSON_IsString(item)) return xstrdup(item->valuestring);
    if (bytes && *bytes)
        return !strncmp(bytes, "data:", 5) ? xstrdup(bytes) : xasprintf("data:;base64,%s", bytes);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *name = cJSON_GetStringValue(json_get(item, keys[i]));
        if (name) return xstrdup(name);
    }
    return NULL;
}

struct reading {
    struct dialogue *d;
    const char *folder;
    bool marked;  // texts may contain picture marks, as in samples but not in messages files
    size_t given; // number of pictures in the sample's own list
    struct err *err;
};

// --- marks ---------------------------------------------------------------------------------------

static const char mark[] = "<image>";

// Finds the next mark in the text; *picture is the index of the picture that the mark shows;
// -1: the next picture. MiniCPM-V's samples name their marks ("<image_00>"), from '<' to the next
// '>'.
static const char *next_mark(const struct dialogue *d, const char *text, size_t *length,
                             int *picture)
{
    enum { LONGEST = 64 };
    for (const char *p = text; (p = strchr(p, '<')); p++) {
        const char *end = memchr(p, '>', strnlen(p, LONGEST));
        size_t number;
        if (!end) continue;
        *length = (size_t)(end - p) + 1;
        *picture = -1;
        if (*length == strlen(mark) && !memcmp(p, mark, *length)) return p;
        if (!d->marks.count) continue;
        char *name = xstrndup(p, *length);
        const bool known = names_find(&d->marks, name, &number);
        free(name);
        if (known) *picture = (int)number;
        if (known) return p;
    }
    return NULL;
}

// Adds a text in which marks give the positions of pictures. Drops the newline beside a mark,
// because the prompt layout writes its own newline.
static int add_marked(struct reading *r, struct message *m, const char *text)
{
    struct dialogue *d = r->d;
    size_t size;
    int picture;
    for (const char *p; (p = next_mark(d, text, &size, &picture)); text = p + size) {
        size_t length = (size_t)(p - text);
        if (m->role != ROLE_USER || d->placed >= r->given) {
            d->marks_differ = true;
            if (m->role != ROLE_USER)
                return err_set(r->err, "only user messages may contain pictures");
            return err_set(r->err, "the text has more \"<image>\" marks than pictures (%zu)",
                           r->given);
        }
        const char *after = p + size;
        if (length && text[length - 1] == '\n' && !*after) length--;
        if (length) {
            char *before = xstrndup(text, length);
            message_add_text(m, before);
            free(before);
        }
        message_add_picture(m, picture < 0 ? (int)d->placed : picture);
        d->placed++;
        if (*after == '\n') p++;
    }
    if (*text) message_add_text(m, text);
    return 0;
}

// --- messages ------------------------------------------------------------------------------------

// Items without a path take the next picture of the sample's own list ("images").
static int read_picture_item(struct reading *r, struct message *m, const cJSON *item)
{
    struct dialogue *d = r->d;
    const cJSON *url = json_get(item, "image_url");
    if (m->role != ROLE_USER) return err_set(r->err, "only user messages may contain pictures");
    char *path = dialogue_picture(url ? url : item);
    if (!path) path = dialogue_picture(json_get(item, "image"));
    const bool named = path && *path;
    if (named) message_add_picture(m, add_path(d, path, r->folder));
    free(path);
    if (named) return 0;
    if (d->placed >= r->given) {
        d->marks_differ = r->given > 0;
        return err_set(r->err, "\"path\" of the picture is missing");
    }
    message_add_picture(m, (int)d->placed++);
    return 0;
}

static int read_item(struct reading *r, struct message *m, const cJSON *item)
{
    const char *type, *text;
    if (!cJSON_IsObject(item)) return err_set(r->err, "must be an object with a \"type\"");
    if (json_text(item, "type", "", &type, r->err) < 0) return -1;
    if (items_has("image image_url input_image", type, " ")) return read_picture_item(r, m, item);
    if (!items_has("text input_text output_text", type, " "))
        return err_set(r->err, "\"type\" must be \"text\", \"image\" or \"image_url\"");
    if (json_text(item, "text", NULL, &text, r->err) < 0) return -1;
    if (!text) return err_set(r->err, "\"text\" is missing");
    message_add_text(m, text);
    return 0;
}

static int read_message(struct reading *r, const cJSON *json)
{
    const cJSON *content = json_get(json, "content"), *item;
    const char *name;
    int index = 0;
    if (!cJSON_IsObject(json))
        return err_set(r->err, "must be an object with \"role\" and \"content\"");
    if (json_text(json, "role", "", &name, r->err) < 0) return -1;
    const int role = role_parse(name);
    if (role != ROLE_SYSTEM && role != ROLE_USER && role != ROLE_ASSISTANT)
        return err_set(r->err, "\"role\" must be \"system\", \"user\" or \"assistant\"");
    struct message *m = add_message(r->d, (enum role)role);
    m->untrained = keys_untrained(json);
    if (cJSON_IsString(content) && r->marked) return add_marked(r, m, content->valuestring);
    if (cJSON_IsString(content)) {
        message_add_text(m, content->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(content))
        return err_set(r->err, "\"content\" must be a string or a list of items");
    cJSON_ArrayForEach(item, content)
    {
        if (read_item(r, m, item) < 0) return err_in(r->err, "\"content\"[%d]", index);
        index++;
    }
    return 0;
}

static int read_messages(struct reading *r, const cJSON *list)
{
    if (!cJSON_IsArray(list)) return err_set(r->err, "must be a list of messages");
    int index = 0;
    const cJSON *json;
    cJSON_ArrayForEach(json, list)
    {
        if (read_message(r, json) < 0) return err_in(r->err, "message %d", index);
        index++;
    }
    return index ? 0 : err_set(r->err, "the list of messages is empty");
}

int dialogue_read_messages(struct dialogue *d, const cJSON *list, const char *folder,
                           struct err *err)
{
    return read_messages(&(struct reading){ .d = d, .folder = folder, .err = err }, list);
}

// --- samples -------------------------------------------------------------------------------------

// Adds a picture of the sample's list. Adds none for "", with which tables mark rows without a
// picture.
static int add_listed(struct reading *r, const cJSON *item)
{
    char *path = dialogue_picture(item);
    const bool named = path != NULL;
    if (named && *path) add_path(r->d, path, r->folder);
    free(path);
    if (named) return 0;
    return err_set(r->err, "\"image\" must be a path, {\"path\", \"bytes\"} or a list of them");
}

// Reads "image" or "images": a path, a list of paths, or an object that maps the marks in the
// texts to paths: {"<image_00>": PATH, ...} (MiniCPM-V).
static int read_paths(struct reading *r, const cJSON *sample)
{
    struct dialogue *d = r->d;
    const cJSON *image = json_get(sample, "image"), *item;
    if (!image) image = json_get(sample, "images");
    if (!image) return 0;
    const bool marks = cJSON_IsObject(image) && image->child && *image->child->string == '<';
    if (!marks && !cJSON_IsArray(image)) return add_listed(r, image);
    cJSON_ArrayForEach(item, image)
    {
        const size_t before = d->path_count;
        if (add_listed(r, item) < 0) return -1;
        if (marks && d->path_count > before) names_add(&d->marks, item->string, NULL);
    }
    return 0;
}

// Converts speakers of ShareGPT and compatible formats to roles; tools speak as the user.
static int role_from(const char *from)
{
    static const struct {
        const char *name;
        enum role role;
    } names[] = {
        { "human", ROLE_USER },       { "user", ROLE_USER },
        { "prompter", ROLE_USER },    { "observation", ROLE_USER },
        { "tool", ROLE_USER },        { "function_response", ROLE_USER },
        { "gpt", ROLE_ASSISTANT },    { "chatgpt", ROLE_ASSISTANT },
        { "gpt4", ROLE_ASSISTANT },   { "gpt-4", ROLE_ASSISTANT },
        { "bing", ROLE_ASSISTANT },   { "bard", ROLE_ASSISTANT },
        { "claude", ROLE_ASSISTANT }, { "gemini", ROLE_ASSISTANT },
        { "model", ROLE_ASSISTANT },  { "assistant", ROLE_ASSISTANT },
        { "bot", ROLE_ASSISTANT },    { "function_call", ROLE_ASSISTANT },
        { "system", ROLE_SYSTEM },
    };
    for (size_t i = 0; from && i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(names[i].name, from)) return (int)names[i].role;
    return -1;
}

static int read_turn(struct reading *r, const cJSON *turn)
{
    const char *from, *value;
    if (!cJSON_IsObject(turn))
        return err_set(r->err, "must be an object with \"from\" and \"value\"");
    // MiniCPM-V's turns are messages with "role" and "content".
    if (!json_get(turn, "from") && json_get(turn, "role")) return read_message(r, turn);
    if (json_text(turn, "from", NULL, &from, r->err) < 0) return -1;
    if (json_text(turn, "value", NULL, &value, r->err) < 0) return -1;
    const int role = role_from(from);
    if (role < 0)
        return err_set(r->err,
                       "\"from\" must be \"human\", \"gpt\", \"system\" or another speaker of "
                       "ShareGPT, not \"%.40s\"",
                       from ? from : "");
    if (!value) return err_set(r->err, "\"value\" is missing");
    struct message *m = add_message(r->d, (enum role)role);
    m->untrained = keys_untrained(turn);
    return add_marked(r, m, value);
}

static int read_turns(struct reading *r, const cJSON *turns)
{
    if (!cJSON_IsArray(turns)) return err_set(r->err, "\"conversations\" must be a list");
    int index = 0;
    const cJSON *turn;
    cJSON_ArrayForEach(turn, turns)
    {
        if (read_turn(r, turn) < 0) return err_in(r->err, "\"conversations\"[%d]", index);
        index++;
    }
    return 0;
}

// Puts pictures without a mark before the content of the first question.
static void place_unmarked(struct dialogue *d, size_t given)
{
    size_t first = 0, next = d->placed;
    while (first < d->count && d->messages[first].role != ROLE_USER) first++;
    if (first == d->count || next >= given) return;
    struct message whole = { .role = ROLE_USER }, *m = &d->messages[first];
    for (; next < given; next++) message_add_picture(&whole, (int)next);
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text)
            message_add_text(&whole, m->content[i].text);
        else
            message_add_picture(&whole, m->content[i].picture);
    }
    message_release(m);
    *m = whole;
}

static int read_question(struct reading *r, const cJSON *sample)
{
    // LLaVA's and POPE's evaluation files call the question "text", HellaSwag calls it "ctx".
    static const char *const keys[] = { "question", "text", "ctx" };
    struct dialogue *d = r->d;
    const char *question = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !question; i++)
        if (json_text(sample, keys[i], NULL, &question, r->err) < 0) return -1;
    if (!question) return err_set(r->err, "needs \"question\", \"conversations\" or \"messages\"");
    if (add_marked(r, add_message(d, ROLE_USER), question) < 0) return -1;
    // In some evaluation files the answer is a number or a list, which cannot be trained on.
    const cJSON *answer = json_get(sample, "answer");
    if (cJSON_IsString(answer))
        message_add_text(add_message(d, ROLE_ASSISTANT), answer->valuestring);
    return 0;
}

// Adds the system message that ShareGPT's samples may have outside their turns; a system message
// among the turns takes precedence.
static int read_system(struct dialogue *d, const cJSON *sample, struct err *err)
{
    const char *text;
    if (json_text(sample, "system", NULL, &text, err) < 0) return -1;
    if (!text || !*text || (d->count && d->messages[0].role == ROLE_SYSTEM)) return 0;
    add_message(d, ROLE_SYSTEM);
    memmove(d->messages + 1, d->messages, (d->count - 1) * sizeof *d->messages);
    d->messages[0] = (struct message){ .role = ROLE_SYSTEM };
    message_add_text(&d->messages[0], text);
    return 0;
}

// Refuses videos instead of silently ignoring them.
static int refuse_videos(const cJSON *sample, struct err *err)
{
    static const char *const keys[] = { "video", "videos" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *video = json_get(sample, keys[i]);
        const bool none =
            cJSON_IsString(video) ? !*video->valuestring : !cJSON_IsArray(video) || !video->child;
        if (video && !none) return err_set(err, "it contains a video: vlmsh reads only pictures");
    }
    return 0;
}

// True if the texts show each picture of the sample exactly once. Only named marks can show one
// twice.
static bool shown_once(const struct dialogue *d, size_t given)
{
    size_t *times = xcalloc(d->path_count + 1, sizeof *times);
    for (size_t i = 0; i < d->count; i++)
        for (size_t k = 0; k < d->messages[i].content_count; k++)
            if (!d->messages[i].content[k].text) times[d->messages[i].content[k].picture]++;
    bool once = true;
    for (size_t i = 0; i < given; i++) once &= times[i] == 1;
    free(times);
    return once;
}

static int read_conversation(struct reading *r, const cJSON *sample)
{
    struct dialogue *d = r->d;
    if (cJSON_IsArray(sample)) return read_messages(r, sample);
    if (!cJSON_IsObject(sample)) return err_set(r->err, "a sample must be an object");
    const cJSON *messages = json_get(sample, "messages"),
                *turns = json_get(sample, "conversations");
    if (refuse_videos(sample, r->err) < 0 || read_paths(r, sample) < 0) return -1;
    const size_t given = r->given = d->path_count;
    int status;
    r->marked = true;
    if (messages)
        status = read_messages(r, messages);
    else
        status = turns ? read_turns(r, turns) : read_question(r, sample);
    if (status < 0 || read_system(d, sample, r->err) < 0) return -1;
    if (keys_untrained(sample))
        for (size_t i = 0; i < d->count; i++) d->messages[i].untrained = true;
    d->marks_differ = d->placed && (d->placed < given || !shown_once(d, given));
    // If messages name their own pictures, the pictures of the list are not added.
    if (d->path_count == given && !(d->marks.count && d->placed)) place_unmarked(d, given);
    return 0;
}

int dialogue_read_conversation(struct dialogue *d, const cJSON *sample, const char *folder,
                               struct err *err)
{
    struct reading r = { .d = d, .folder = folder, .err = err };
    const int status = read_conversation(&r, sample);
    for (size_t i = 0; i < d->count; i++) d->messages[i].from_data = true;
    return status;
}

size_t dialogue_question(const struct dialogue *d)
{
    size_t count = d->count;
    while (count && d->messages[count - 1].role != ROLE_USER) count--;
    return count;
}

const char *dialogue_unanswered(const struct message *messages, size_t count)
{
    const char *why = "no answer is text";
    for (size_t i = 0; i < count; i++) {
        if (messages[i].role != ROLE_ASSISTANT) continue;
        if (!messages[i].untrained) return "every answer is empty";
        why = "every answer is empty or excluded from training";
    }
    return why;
}

int dialogue_read_sample(struct dialogue *d, const cJSON *sample, const char *folder,
                         struct err *err)
{
    if (dialogue_read_conversation(d, sample, folder, err) < 0) return -1;
    // The first message after the last question is the reference answer.
    while (d->count && d->messages[d->count - 1].role != ROLE_USER) {
        struct message *last = &d->messages[--d->count];
        free(d->reference);
        d->reference = message_text(last);
        message_release(last);
    }
    return d->count ? 0 : err_set(err, "no question: it has no user message");
}
