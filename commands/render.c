// commands/render.c -- /render: a chat template with messages, as text, without a model.
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
    if (messages.kind != JINJA_LIST) return err_set(err, "%s: this is no list of messages", path);
    jinja_set(arena, variables, "messages", messages);
    return 0;
}

// NAME=VALUE: VALUE is read as JSON if it is JSON, else as text.
static int read_variable(struct jinja_arena *arena, struct jinja_value variables, const char *word,
                         struct err *err)
{
    const char *equal = strchr(word, '=');
    struct jinja_value value;
    if (!equal || equal == word)
        return err_set(err, "'%s' is no variable: write NAME=VALUE, or --no-generation", word);
    char *name = xstrndup(word, (size_t)(equal - word));
    equal++;
    if (jinja_json(arena, equal, strlen(equal), name, JINJA_TEMPLATE, &value, NULL) < 0)
        value = jinja_words(arena, equal);
    jinja_set(arena, variables, name, value);
    free(name);
    return 0;
}

static int render_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct jinja_arena arena = { 0 };
    struct jinja_output output = { 0 };
    size_t size;
    int status = -1;
    char *text = file_read(argv[0], TEMPLATE_LIMIT, &size, err);
    if (!text) return -1;
    struct jinja *t = jinja_parse(text, size, argv[0], err);
    const struct jinja_value variables = jinja_dict(&arena);
    jinja_set(&arena, variables, "add_generation_prompt", jinja_bool(true));
    if (!t || read_messages(&arena, variables, argv[1], err) < 0) goto out;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--no-generation"))
            jinja_set(&arena, variables, "add_generation_prompt", jinja_bool(false));
        else if (read_variable(&arena, variables, argv[i], err) < 0)
            goto out;
    }
    if (jinja_render(t, &arena, variables, 0, &output, err) < 0) goto out;
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_RENDERED, .text = output.text.data });
    status = 0;
out:
    jinja_output_release(&output);
    jinja_arena_release(&arena);
    jinja_free(t);
    free(text);
    return status;
}

const struct command command_render = {
    .name = "render",
    .usage = "/render FILE.jinja MESSAGES.json [--no-generation] [NAME=VALUE...]",
    .help = "Renders a chat template with a list of messages and shows the text.",
    .details =
        "MESSAGES.json holds a list of messages, in whatever form the template expects. The\n"
        "template is rendered as Hugging Face transformers does, with messages,\n"
        "add_generation_prompt (--no-generation: false) and the variables given by NAME=VALUE,\n"
        "such as bos_token=<s> or tools=null. A VALUE that is JSON is read as JSON.",
    .min = 2,
    .max = -1,
    .complete = COMPLETE_PATH,
    .run = render_run,
};
