// tui/agent.c -- `vlmsh help --agent`: a manual in JSON for programs that drive vlmsh --json.
#include "tui/agent.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "commands/command.h"
#include "commands/reference.h"
#include "core/base/json.h"
#include "tui/options.h"
#include "tui/subcommands.h"

// The events, as docs/events.schema.json describes them.
static const struct {
    const char *event, *fields;
} events[] = {
    { "token", "text, reasoning, was_reasoning, id, probability, entropy, picture_share" },
    { "answer",
      "text, reasoning, reasoning_tokens, ids, prompt_tokens, visual_tokens, computed_tokens, "
      "drafted, accepted, vision_s, prefill_s, decode_s, stop, picture, boxes, points" },
    { "text", "text" },
    { "ids", "ids" },
    { "rendered", "text" },
    { "table", "name, columns, rows" },
    { "heatmap", "name, picture, layer, head, token, rows, cols, values, min, max, tile, "
                 "condition, words, dropped" },
    { "columns", "titles, texts, common, starts" },
    { "changed", "number, count, which, titles, id, kind, question, reference, answers, metric, "
                 "scores, pictures" },
    { "progress", "job, what, step, steps, loss, eta_s" },
    { "setting", "key, value" },
    { "notice", "text" },
    { "error", "where, message" },
    { "done", "ok" },
    { "attached", "picture, file, width, height, visual_tokens, sha256" },
    { "job", "job, change, kind, state, message, step, steps, loss, eta_s, created, started, "
             "ended, folder, model, arguments" },
    { "session", "change, name, database, file, model, began, ended, title, turns, pictures" },
    { "model",
      "family, path, fingerprint, device, arithmetic, parameters, layers, width, heads, kv_heads, "
      "ffn, vocabulary, positions, visual_layers, visual_width, patch, side, visual_tokens" },
    { "written", "what, file" },
};

static const char *const rules[] = {
    "Start `vlmsh MODEL --json`, write lines to its standard input and read one JSON object per "
    "line from its standard output. Without MODEL it opens a demo model.",
    "A line that begins with / is a command; every other line is a question to the model.",
    "Every line ends with the event `done`; its field `ok` says whether the line worked. An event "
    "`error` before it says why it did not. An error does not end the dialogue.",
    "A line {\"id\": ANY, \"line\": \"TEXT\"} names its events: they have the name in `request`.",
    "The event `answer` has the whole answer; events `token` come before it.",
    "Measurements are events `table` (columns, rows) and `heatmap` (rows, cols, values).",
    "Long work can run as a job (/train, /eval, /checkup, /ask --job): /wait N waits for it, /job "
    "N "
    "shows it, and events `job` report it.",
    "Without a dialogue: -c LINE, -p QUESTION, --image FILE and -f SCRIPT run and end; the exit "
    "status is 0, 1 if a line failed, 2 for wrong usage, 130 if interrupted.",
    "--no-session saves no conversation.",
};

static const struct {
    const char *task, *lines;
} examples[] = {
    { "ask about a picture", "/image FILE.png\nWhat is in the picture?" },
    { "see where an answer attends", "/attention --layer all" },
    { "see how sure it was and where it comes from", "/why" },
    { "switch a method on", "/set prune.score contribution" },
    { "compare two settings",
      "/compare off | prune.score=contribution prune.layer=2 What is in the picture?" },
    { "ask one question about many pictures",
      "/ask --each pics/*.png What is in the picture? --out answers.jsonl" },
    { "score a data set, and fail below 90%",
      "/eval DATA.json --metric exact --expect exact>=0.9\n/wait" },
    { "train and use the result",
      "/set train.steps 100\n/train DATA.json OUT\n/wait\n/adapter load OUT" },
};

static cJSON *add_row(cJSON *list)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(list, row);
    return row;
}

static void add_needs(cJSON *row, unsigned needs)
{
    static const struct {
        unsigned bit;
        const char *name;
    } all[] = { { NEEDS_MODEL, "model" },
                { NEEDS_TOKENIZER, "tokenizer" },
                { NEEDS_STORE, "database" } };
    cJSON *list = cJSON_AddArrayToObject(row, "needs");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (needs & all[i].bit) cJSON_AddItemToArray(list, cJSON_CreateString(all[i].name));
}

static void add_commands(cJSON *list)
{
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++) {
        cJSON *row = add_row(list);
        cJSON_AddStringToObject(row, "usage", c->usage);
        cJSON_AddStringToObject(row, "help", c->help);
        cJSON_AddStringToObject(row, "group", command_group(i));
        add_needs(row, c->needs);
    }
}

static void add_settings(cJSON *list)
{
    const struct setting *s;
    for (int i = 0; (s = settings_shown(i)); i++) {
        cJSON *row = add_row(list);
        char *allowed = setting_allowed(s);
        cJSON_AddStringToObject(row, "key", s->key);
        cJSON_AddStringToObject(row, "allowed", allowed);
        cJSON_AddStringToObject(row, "default", s->def);
        cJSON_AddStringToObject(row, "help", s->help);
        free(allowed);
    }
}

static void add_options(cJSON *list)
{
    const struct subcommand *sub;
    for (const struct option_row *o = options_rows() + 1; o->name; o++) {
        cJSON *row = add_row(list);
        cJSON_AddStringToObject(row, "option", o->name);
        if (o->argument) cJSON_AddStringToObject(row, "argument", o->argument);
        cJSON_AddStringToObject(row, "help", o->help);
    }
    for (int i = 0; (sub = subcommand_at(i)); i++) {
        cJSON *row = add_row(list);
        cJSON_AddStringToObject(row, "subcommand", sub->name);
        cJSON_AddStringToObject(row, "argument", sub->usage);
        cJSON_AddStringToObject(row, "help", sub->help);
    }
}

void agent_write(struct buf *to)
{
    cJSON *manual = cJSON_CreateObject(), *list;
    cJSON_AddStringToObject(manual, "program", "vlmsh");
    cJSON_AddStringToObject(manual, "version", VERSION);
    list = cJSON_AddArrayToObject(manual, "rules");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(rules[i]));
    list = cJSON_AddArrayToObject(manual, "examples");
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        cJSON *row = add_row(list);
        cJSON_AddStringToObject(row, "task", examples[i].task);
        cJSON_AddStringToObject(row, "lines", examples[i].lines);
    }
    list = cJSON_AddArrayToObject(manual, "events");
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        cJSON *row = add_row(list);
        cJSON_AddStringToObject(row, "event", events[i].event);
        cJSON_AddStringToObject(row, "fields", events[i].fields);
    }
    add_commands(cJSON_AddArrayToObject(manual, "commands"));
    add_settings(cJSON_AddArrayToObject(manual, "settings"));
    add_options(cJSON_AddArrayToObject(manual, "command_line"));
    char *text = cJSON_Print(manual);
    if (text) buf_printf(to, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(manual);
}
