// commands/render.c -- /render: renders a chat template with messages, without a model.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/base/file_in.h"
#include "core/template/jinja.h"

enum { MESSAGES_LIMIT = 64 << 20, TEMPLATE_LIMIT = 4 << 20 };

static int read_messages(struct jinja_arena *arena, struct jinja_value variables, const char *path,
                         struct err *err)
{
    struct jinja_value messages;
    size_t size;
    char *json = file_read(path, MESSAGES_LIMIT, &size, err);
    if (!json) return -1;
    const int status = jinja_json(arena, json, size, path, 0, &messages, err);
    free(json);
    if (status < 0) return -1;
    if (messages.kind != JINJA_LIST) return err_set(err, "%s: not a list of messages", path);
    jinja_set(arena, variables, "messages", messages);
    return 0;
}

struct rendering {
    const char *layout, *messages;
    bool answered; // no generation prompt
    struct jinja_arena arena;
    struct jinja_value variables;
};

// Takes NAME=VALUE: reads VALUE as JSON if it is valid JSON, else as text.
static int take_variable(void *self, const char *word, struct err *err)
{
    struct rendering *r = self;
    const char *equal = strchr(word, '=');
    struct jinja_value value;
    if (!equal || equal == word) return err_set(err, "'%s' is not NAME=VALUE", word);
    char *name = xstrndup(word, (size_t)(equal - word));
    equal++;
    if (jinja_json(&r->arena, equal, strlen(equal), name, JINJA_TEMPLATE, &value, NULL) < 0)
        value = jinja_words(&r->arena, equal);
    jinja_set(&r->arena, r->variables, name, value);
    free(name);
    return 0;
}

static const struct option_row options[] = {
    { "FILE.jinja", NULL, "the chat template", OPTION_TEXT,
      .at = offsetof(struct rendering, layout) },
    { "MESSAGES.json", NULL, "the messages", OPTION_TEXT,
      .at = offsetof(struct rendering, messages) },
    { "NAME=VALUE", NULL, NULL, .take = take_variable, .optional = true, .many = true },
    { "--no-generation", NULL, "sets add_generation_prompt to false", OPTION_FLAG,
      .at = offsetof(struct rendering, answered) },
    { 0 },
};

static int render_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct rendering r = { 0 };
    struct jinja_output output = { 0 };
    struct jinja *t = NULL;
    char *text = NULL;
    size_t size;
    int status = -1;
    r.variables = jinja_dict(&r.arena);
    if (options_parse(options, &r, argc, argv, err) < 0) goto out;
    jinja_set(&r.arena, r.variables, "add_generation_prompt", jinja_bool(!r.answered));
    if (!(text = file_read(r.layout, TEMPLATE_LIMIT, &size, err)) ||
        !(t = jinja_parse(text, size, r.layout, err)) ||
        read_messages(&r.arena, r.variables, r.messages, err) < 0 ||
        jinja_render(t, &r.arena, r.variables, 0, &output, err) < 0)
        goto out;
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_RENDERED, .text = output.text.data });
    status = 0;
out:
    jinja_output_release(&output);
    jinja_arena_release(&r.arena);
    jinja_free(t);
    free(text);
    return status;
}

const struct command command_render = {
    .name = "render",
    .usage = "/render FILE.jinja MESSAGES.json [--no-generation] [NAME=VALUE...]",
    .help = "Renders a chat template with a list of messages and shows the text.",
    .details = "MESSAGES.json holds a list of messages, in whatever form the template expects. "
               "Renders the template as Hugging Face transformers does, with messages, "
               "add_generation_prompt and the variables given by NAME=VALUE, "
               "such as bos_token=<s> or tools=null. A VALUE that is JSON is read as JSON.",
    .options = options,
    .complete = COMPLETE_PATH,
    .run = render_run,
};
