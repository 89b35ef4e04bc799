// core/data/dialogue.c -- JSON to messages, for /messages, /ask --data and data sets.
//
// The input is untrusted: every type is checked, and messages name the position.
#include "core/data/dialogue.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    for (size_t i = 0; i < d->mark_count; i++) free(d->marks[i]);
    free(d->messages);
    free(d->paths);
    free(d->marks);
    free(d->reference);
    *d = (struct dialogue){ 0 };
}

static struct message *add_message(struct dialogue *d, enum role role)
{
    d->messages = xreallocarray(d->messages, d->count + 1, sizeof *d->messages);
    d->messages[d->count] = (struct message){ .role = role };
    return &d->messages[d->count++];
}

// Index of the new path.
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

// --- marks -----------------------------------------------------------------------------------

static const char mark[] = "<image>";

static int too_many_marks(struct dialogue *d, const struct message *m, size_t given,
                          struct err *err)
{
    d->marks_differ = true;
    if (m->role != ROLE_USER) return err_set(err, "only user messages may contain pictures");
    return err_set(err, "the text has more \"<image>\" marks than pictures (%zu)", given);
}

// The next mark of the text; *picture is what it shows, -1: the next one. MiniCPM-V's samples name
// their marks ("<image_00>").
static const char *next_mark(const struct dialogue *d, const char *text, size_t *length,
                             int *picture)
{
    const char *first = strstr(text, mark);
    *length = strlen(mark);
    *picture = -1;
    for (size_t i = 0; i < d->mark_count; i++) {
        const char *p = *d->marks[i] ? strstr(text, d->marks[i]) : NULL;
        if (!p || (first && p >= first)) continue;
        first = p;
        *length = strlen(d->marks[i]);
        *picture = (int)i;
    }
    return first;
}

// Text with marks: each is where a picture of the `given` stands; the line end beside it belongs to
// the mark (the prompt layout writes its own).
static int add_marked(struct dialogue *d, struct message *m, const char *text, size_t given,
                      struct err *err)
{
    size_t size;
    int picture;
    for (const char *p; (p = next_mark(d, text, &size, &picture)); text = p + size) {
        size_t length = (size_t)(p - text);
        if (m->role != ROLE_USER || d->placed >= given) return too_many_marks(d, m, given, err);
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

// A sample's own list of pictures ("images") is there for items and marks without a path.
static int read_picture_item(struct dialogue *d, struct message *m, const cJSON *item,
                             const char *folder, size_t given, struct err *err)
{
    const cJSON *url = json_get(item, "image_url");
    if (m->role != ROLE_USER) return err_set(err, "only user messages may contain pictures");
    char *path = dialogue_picture(url ? url : item);
    if (!path) path = dialogue_picture(json_get(item, "image"));
    const bool named = path && *path;
    if (named) message_add_picture(m, add_path(d, path, folder));
    free(path);
    if (named) return 0;
    if (d->placed >= given) {
        d->marks_differ = given > 0;
        return err_set(err, "\"path\" of the picture is missing");
    }
    message_add_picture(m, (int)d->placed++);
    return 0;
}

static int read_item(struct dialogue *d, struct message *m, const cJSON *item, const char *folder,
                     size_t given, struct err *err)
{
    const char *type, *text;
    if (!cJSON_IsObject(item)) return err_set(err, "must be an object with a \"type\"");
    if (json_text(item, "type", NULL, &type, err) < 0) return -1;
    if (type &&
        (!strcmp(type, "text") || !strcmp(type, "input_text") || !strcmp(type, "output_text"))) {
        if (json_text(item, "text", NULL, &text, err) < 0) return -1;
        if (!text) return err_set(err, "\"text\" is missing");
        message_add_text(m, text);
        return 0;
    }
    if (type &&
        (!strcmp(type, "image") || !strcmp(type, "image_url") || !strcmp(type, "input_image")))
        return read_picture_item(d, m, item, folder, given, err);
    return err_set(err, "\"type\" must be \"text\", \"image\" or \"image_url\"");
}

// In a sample, marks in a text count; in a messages file they are text like any other.
struct message_form {
    bool marked;
    size_t given; // pictures of the sample's own list
};

static int read_content(struct dialogue *d, struct message *m, const cJSON *content,
                        const char *folder, struct message_form form, struct err *err)
{
    if (cJSON_IsString(content) && form.marked)
        return add_marked(d, m, content->valuestring, form.given, err);
    if (cJSON_IsString(content)) {
        message_add_text(m, content->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(content))
        return err_set(err, "\"content\" must be a string or a list of items");
    int index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, content)
    {
        if (read_item(d, m, item, folder, form.given, err) < 0)
            return err_in(err, "\"content\"[%d]", index);
        index++;
    }
    return 0;
}

static int read_message(struct dialogue *d, const cJSON *json, const char *folder,
                        struct message_form form, struct err *err)
{
    const char *name;
    if (!cJSON_IsObject(json))
        return err_set(err, "must be an object with \"role\" and \"content\"");
    if (json_text(json, "role", NULL, &name, err) < 0) return -1;
    const int role = name ? role_parse(name) : -1;
    if (role != ROLE_SYSTEM && role != ROLE_USER && role != ROLE_ASSISTANT)
        return err_set(err, "\"role\" must be \"system\", \"user\" or \"assistant\"");
    struct message *m = add_message(d, (enum role)role);
    m->untrained = keys_untrained(json);
    return read_content(d, m, json_get(json, "content"), folder, form, err);
}

static int read_messages(struct dialogue *d, const cJSON *list, const char *folder,
                         struct message_form form, struct err *err)
{
    if (!cJSON_IsArray(list)) return err_set(err, "must be a list of messages");
    int index = 0;
    const cJSON *json;
    cJSON_ArrayForEach(json, list)
    {
        if (read_message(d, json, folder, form, err) < 0) return err_in(err, "message %d", index);
        index++;
    }
    return index ? 0 : err_set(err, "the list of messages is empty");
}

int dialogue_read_messages(struct dialogue *d, const cJSON *list, const char *folder,
                           struct err *err)
{
    return read_messages(d, list, folder, (struct message_form){ 0 }, err);
}

// --- samples -------------------------------------------------------------------------------------

// Tables have "" in rows without a picture.
static void add_listed(struct dialogue *d, const char *path, const char *folder)
{
    if (*path) add_path(d, path, folder);
}

static int not_paths(struct err *err)
{
    return err_set(err, "\"image\" must be a path, {\"path\", \"bytes\"} or a list of them");
}

static int add_listed_item(struct dialogue *d, const cJSON *item, const char *folder,
                           struct err *err)
{
    char *path = dialogue_picture(item);
    if (path) add_listed(d, path, folder);
    free(path);
    return path ? 0 : not_paths(err);
}

// {"<image_00>": PATH, ...}: pictures by the marks in the texts (MiniCPM-V).
static int read_marked_paths(struct dialogue *d, const cJSON *image, const char *folder,
                             struct err *err)
{
    const cJSON *item;
    d->marks = xcalloc((size_t)cJSON_GetArraySize(image) + 1, sizeof *d->marks);
    cJSON_ArrayForEach(item, image)
    {
        const size_t before = d->path_count;
        if (add_listed_item(d, item, folder, err) < 0) return -1;
        if (d->path_count > before) d->marks[d->mark_count++] = xstrdup(item->string);
    }
    return 0;
}

// "image" or "images": a path or a list of paths.
static int read_paths(struct dialogue *d, const cJSON *sample, const char *folder, struct err *err)
{
    const cJSON *image = json_get(sample, "image"), *item;
    if (!image) image = json_get(sample, "images");
    if (!image) return 0;
    if (cJSON_IsObject(image) && image->child && *image->child->string == '<')
        return read_marked_paths(d, image, folder, err);
    if (!cJSON_IsArray(image)) return add_listed_item(d, image, folder, err);
    cJSON_ArrayForEach(item, image) if (add_listed_item(d, item, folder, err) < 0) return -1;
    return 0;
}

// Speakers of ShareGPT and of the programs that write its form; what tools say goes to the model as
// the user's.
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

static int read_turn(struct dialogue *d, const cJSON *turn, const char *folder, size_t given,
                     struct err *err)
{
    const char *from, *value;
    if (!cJSON_IsObject(turn)) return err_set(err, "must be an object with \"from\" and \"value\"");
    // MiniCPM-V's turns are written as messages.
    if (!json_get(turn, "from") && json_get(turn, "role"))
        return read_message(d, turn, folder, (struct message_form){ true, given }, err);
    if (json_text(turn, "from", NULL, &from, err) < 0) return -1;
    if (json_text(turn, "value", NULL, &value, err) < 0) return -1;
    const int role = role_from(from);
    if (role < 0)
        return err_set(err,
                       "\"from\" must be \"human\", \"gpt\", \"system\" or another speaker of "
                       "ShareGPT, not \"%.40s\"",
                       from ? from : "");
    if (!value) return err_set(err, "\"value\" is missing");
    struct message *m = add_message(d, (enum role)role);
    m->untrained = keys_untrained(turn);
    return add_marked(d, m, value, given, err);
}

static int read_turns(struct dialogue *d, const cJSON *turns, const char *folder, size_t given,
                      struct err *err)
{
    if (!cJSON_IsArray(turns)) return err_set(err, "\"conversations\" must be a list");
    int index = 0;
    const cJSON *turn;
    cJSON_ArrayForEach(turn, turns)
    {
        if (read_turn(d, turn, folder, given, err) < 0)
            return err_in(err, "\"conversations\"[%d]", index);
        index++;
    }
    return 0;
}

// Pictures without a mark come before the text of the first question.
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

// The message after the last question is the reference answer.
static int end_with_question(struct dialogue *d, struct err *err)
{
    while (d->count && d->messages[d->count - 1].role != ROLE_USER) {
        struct message *last = &d->messages[--d->count];
        free(d->reference);
        d->reference = message_text(last);
        message_release(last);
    }
    return d->count ? 0 : err_set(err, "no question: it has no user message");
}

static int read_question(struct dialogue *d, const cJSON *sample, struct err *err)
{
    // "text" in LLaVA's and POPE's evaluation files, "ctx" in HellaSwag.
    static const char *const keys[] = { "question", "text", "ctx" };
    const char *question = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !question; i++)
        if (json_text(sample, keys[i], NULL, &question, err) < 0) return -1;
    if (!question) return err_set(err, "needs \"question\", \"conversations\" or \"messages\"");
    if (add_marked(d, add_message(d, ROLE_USER), question, d->path_count, err) < 0) return -1;
    // Some evaluation files hold a number or a list there: no text to train on.
    const cJSON *answer = json_get(sample, "answer");
    if (cJSON_IsString(answer))
        message_add_text(add_message(d, ROLE_ASSISTANT), answer->valuestring);
    return 0;
}

// The system message that ShareGPT's samples may have beside their turns; one among them goes
// first.
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

// A video would be left out without a word.
static int refuse_videos(const cJSON *sample, struct err *err)
{
    static const char *const keys[] = { "video", "videos" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *video = json_get(sample, keys[i]);
        const bool none =
            cJSON_IsString(video) ? !*video->valuestring : !cJSON_IsArray(video) || !video->child;
        if (video && !none) return err_set(err, "it shows a video: only pictures can be read");
    }
    return 0;
}

// Is each of the sample's pictures shown exactly once? Only named marks can repeat one.
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

static int read_conversation(struct dialogue *d, const cJSON *sample, const char *folder,
                             struct err *err)
{
    if (cJSON_IsArray(sample)) return dialogue_read_messages(d, sample, folder, err);
    if (!cJSON_IsObject(sample)) return err_set(err, "a sample must be an object");
    const cJSON *messages = json_get(sample, "messages"),
                *turns = json_get(sample, "conversations");
    if (refuse_videos(sample, err) < 0 || read_paths(d, sample, folder, err) < 0) return -1;
    const size_t given = d->path_count;
    int status;
    if (messages)
        status = read_messages(d, messages, folder, (struct message_form){ true, given }, err);
    else if (turns)
        status = read_turns(d, turns, folder, given, err);
    else
        status = read_question(d, sample, err);
    if (status < 0 || read_system(d, sample, err) < 0) return -1;
    if (keys_untrained(sample))
        for (size_t i = 0; i < d->count; i++) d->messages[i].untrained = true;
    d->marks_differ = d->placed && (d->placed < given || !shown_once(d, given));
    // Messages that name their pictures themselves need no list beside them.
    if (d->path_count == given && !(d->marks && d->placed)) place_unmarked(d, given);
    return 0;
}

int dialogue_read_conversation(struct dialogue *d, const cJSON *sample, const char *folder,
                               struct err *err)
{
    const int status = read_conversation(d, sample, folder, err);
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
        why = "every answer is marked as not to be trained, or empty";
    }
    return why;
}

int dialogue_read_sample(struct dialogue *d, const cJSON *sample, const char *folder,
                         struct err *err)
{
    if (dialogue_read_conversation(d, sample, folder, err) < 0) return -1;
    return end_with_question(d, err);
}
