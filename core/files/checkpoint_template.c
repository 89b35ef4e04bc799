// core/files/checkpoint_template.c -- finds the chat template among a folder's files.
// As in transformers, the processor of a vision model and the tokenizer of a text model prefer
// different files. (Version 4 of transformers reads processor_config.json last.)
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/files/checkpoint_parts.h"

#define FOLDER "additional_chat_templates"
#define MORE   "additional_chat_templates/default.jinja"

static const char *const orders[2][6] = {
    { MORE, "chat_template.jinja", "tokenizer_config.json", "chat_template.json",
      "processor_config.json" },
    { "processor_config.json", "chat_template.json", "chat_template.jinja", MORE,
      "tokenizer_config.json" },
};

// "chat_template" is a text, a list of {name, template} or {"name": text}. If there are several,
// takes "default", else the first ("tool_use" is for tools), whose name goes to *other. NULL: none.
static const char *template_of(const cJSON *json, const char **other)
{
    const cJSON *value = json_get(json, "chat_template"), *item, *best = NULL;
    const bool named = cJSON_IsObject(value);
    *other = NULL;
    if (cJSON_IsString(value)) return value->valuestring;
    if (!named && !cJSON_IsArray(value)) return NULL;
    cJSON_ArrayForEach(item, value)
    {
        const cJSON *label = json_get(item, "name");
        const cJSON *text = named ? item : json_get(item, "template");
        const char *name = named ? item->string : cJSON_IsString(label) ? label->valuestring : "";
        if (!cJSON_IsString(text)) continue;
        const bool chosen = !strcmp(name, "default");
        if (!best || chosen) {
            best = text;
            *other = chosen ? NULL : name;
        }
        if (chosen) break;
    }
    return best ? best->valuestring : NULL;
}

// Reads the template of one file. *text stays NULL if the file is absent or has no template; the
// caller frees it.
static int read_one(struct checkpoint *c, const char *name, char **text, char **other,
                    struct err *err)
{
    const char *found = NULL, *label = NULL;
    cJSON *json = NULL;
    int status = 0;
    if (text_ends(name, ".jinja")) {
        char *path = xasprintf("%s/%s", c->folder, name);
        size_t size;
        if (access(path, F_OK) == 0) {
            *text = file_read(path, CHECKPOINT_CONFIG_LIMIT, &size, err);
            status = *text ? text_check(*text, size, path, err) : -1;
        }
        free(path);
        return status;
    }
    if (!strcmp(name, "tokenizer_config.json"))
        found = template_of(c->tokenizer_config, &label);
    else if (!strcmp(name, "processor_config.json"))
        found = template_of(c->processor, &label);
    else if ((status = checkpoint_read_json(c, name, &json, err)) == 0)
        found = template_of(json, &label);
    if (found) *text = xstrdup(found);
    if (found && label) *other = xstrdup(label);
    cJSON_Delete(json);
    return status;
}

bool checkpoint_same_template(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    const size_t x = n - (n && a[n - 1] == '\n'), y = m - (m && b[m - 1] == '\n');
    return x == y && !memcmp(a, b, x);
}

static void note_other_template(struct checkpoint *c, const char *where, const char *name)
{
    text_append(&c->notice,
                xasprintf("%s has no chat template with the name \"default\": \"%.40s\" is used",
                          where, name));
}

// Without any other template, uses the first one, by name, of the folder of named templates.
static int use_first(struct checkpoint *c, struct err *err)
{
    char *folder = xasprintf("%s/" FOLDER, c->folder), **names = folder_list(folder),
         **first = names;
    char *other;
    int status = 0;
    while (*first && !text_ends(*first, ".jinja")) first++;
    if (*first) {
        c->template_file = xasprintf(FOLDER "/%s", *first);
        status = read_one(c, c->template_file, &c->chat_template, &other, err);
        (*first)[strlen(*first) - strlen(".jinja")] = 0;
        if (status == 0) note_other_template(c, FOLDER, *first);
    }
    folder_list_free(names);
    free(folder);
    return status;
}

int checkpoint_read_template(struct checkpoint *c, struct err *err)
{
    const bool sees = c->preprocessor || c->processor || json_get(c->config, "vision_config");
    for (const char *const *order = orders[sees]; *order; order++) {
        char *text = NULL, *other = NULL;
        if (!sees && c->chat_template && !strcmp(*order, "chat_template.json"))
            break; // a processor's template, used only if no other exists
        if (read_one(c, *order, &text, &other, err) < 0) {
            free(text);
            return -1;
        }
        if (text && !c->chat_template) {
            c->chat_template = text;
            c->template_file = xstrdup(*order);
            if (other) note_other_template(c, *order, other);
            text = NULL;
        } else if (text && !checkpoint_same_template(text, c->chat_template) &&
                   strcmp(*order, "tokenizer_config.json") != 0) { // other files override it
            text_append(
                &c->notice,
                xasprintf("the chat templates of %s and %s differ: the first is used, as in "
                          "transformers 5",
                          c->template_file, *order));
        }
        free(text);
        free(other);
    }
    return c->chat_template ? 0 : use_first(c, err);
}

char *checkpoint_template_in(const struct checkpoint *c, const char *folder,
                             cJSON *tokenizer_config)
{
    struct err err;
    char *copy = xstrdup(folder);
    struct checkpoint other = { .folder = copy,
                                .config = c->config,
                                .preprocessor = c->preprocessor,
                                .tokenizer_config = tokenizer_config };
    checkpoint_read_template(&other, &err); // an unreadable file ends the search
    free(other.notice);
    free(other.template_file);
    free(copy);
    return other.chat_template;
}
