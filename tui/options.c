// tui/options.c -- vlmsh's own table of options.
#include "tui/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/parse.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/picture/source.h"
#include "sessions/store.h"
#include "tui/flow.h"
#include "tui/subcommands.h"
#include "tui/text.h"

static int add_step(struct options *o, enum step_kind kind, const char *text)
{
    o->steps = xreallocarray(o->steps, o->step_count + 1, sizeof *o->steps);
    o->steps[o->step_count++] = (struct step){ kind, text };
    o->script |= kind != STEP_IMAGE;
    return 0;
}

static int take_line(void *self, const char *value, struct err *err)
{
    return add_step(self, STEP_LINE, value);
}

static int take_file(void *self, const char *value, struct err *err)
{
    return add_step(self, STEP_FILE, value);
}

static int check_db(const char *value, struct err *err)
{
    return *value ? store_check_path(value, err) : err_set(err, "--db needs a file name");
}

static int check_mmproj(const char *value, struct err *err)
{
    return *value ? 0 : err_set(err, "--mmproj needs a file name, or none");
}

static int check_session(const char *value, struct err *err)
{
    return *value ? 0 : err_set(err, "--session needs a name");
}

static int take_text(void *self, const char *value, struct err *err)
{
    return *value ? add_step(self, STEP_ASK, value) : err_set(err, "-p needs a question");
}

static int take_image(void *self, const char *value, struct err *err)
{
    return *value ? add_step(self, STEP_IMAGE, value) : err_set(err, "--image needs a file name");
}

// If a name occurs several times, its last value counts.
static int take_variable(void *self, const char *value, struct err *err)
{
    struct options *o = self;
    size_t i = 0;
    const char *equals = strchr(value, '=');
    if (!equals || !parse_is_name(value, (size_t)(equals - value)))
        return err_set(err,
                       "-D needs NAME=VALUE, not '%s': a name has letters, digits and _, and does "
                       "not begin with a digit",
                       value);
    char *name = xstrndup(value, (size_t)(equals - value));
    while (i < o->variable_count && strcmp(o->variables[i].name, name) != 0) i++;
    if (i == o->variable_count) {
        o->variables = xreallocarray(o->variables, ++o->variable_count, sizeof *o->variables);
        o->variables[i] = (struct variable){ .name = xstrdup(name) };
    }
    free(name);
    free(o->variables[i].value);
    o->variables[i].value = xstrdup(equals + 1);
    return 0;
}

static int take_model(void *self, const char *value, struct err *err)
{
    struct options *o = self;
    if (text_ends_with_any(value, picture_endings) && access(value, R_OK) == 0)
        return err_set(err,
                       "'%s' is a picture, not a MODEL: put --image before each picture, or name "
                       "several by a quoted pattern: --image '*.png'",
                       value);
    if (o->model) return err_set(err, "give one MODEL only: '%s' or '%s'", o->model, value);
    if (!*value) return err_set(err, "MODEL is empty");
    o->model = value;
    return 0;
}

// Takes the question after `run MODEL`, as in `ollama run`.
static int take_question(struct options *o, const char *value, struct err *err)
{
    const struct step *last = o->step_count ? &o->steps[o->step_count - 1] : NULL;
    if (last && last->kind == STEP_ASK)
        return err_set(err, "unexpected '%s' after the question '%s': put a question in quotes",
                       value, last->text);
    return take_text(o, value, err);
}

// Takes MODEL; `run` before it, and then a question after it; or a subcommand, which reads the
// arguments after it.
static int take_positional(void *self, const char *value, struct err *err)
{
    struct options *o = self;
    if (!o->model && !o->run && !strcmp(value, "run")) {
        o->run = true;
        return 0;
    }
    if (!o->model && !o->run && subcommand_find(value)) {
        o->subcommand = value;
        return 1;
    }
    if (o->model && o->run) return take_question(o, value, err);
    return take_model(o, value, err);
}

// If the steps end with a question and pictures after it, moves these before it: -p TEXT --image
// FILE.
static void place_pictures(struct options *o)
{
    size_t i = o->step_count;
    while (i && o->steps[i - 1].kind == STEP_IMAGE) i--;
    if (!i || i == o->step_count || o->steps[i - 1].kind != STEP_ASK) return;
    const struct step question = o->steps[i - 1];
    memmove(&o->steps[i - 1], &o->steps[i], (o->step_count - i) * sizeof *o->steps);
    o->steps[o->step_count - 1] = question;
}

#define AT(field) .at = offsetof(struct options, field)
static const struct option_row rows[] = {
    { "MODEL", NULL, NULL, .take = take_positional, .optional = true, .many = true },
    { "-m", "MODEL", "open MODEL, as without -m", .take = take_model },
    { "-p", "TEXT", "ask TEXT, print the answer, then quit; may be repeated", .take = take_text,
      .many = true },
    { "--image", "FILE",
      "attach a picture to the next question, or to the last one; may be repeated",
      .take = take_image, .many = true },
    { "-c", "LINE", "run a line, then quit; may be repeated", .take = take_line, .many = true },
    { "-f", "FILE", "run a script (- = standard input), then quit; may be repeated",
      .take = take_file, .many = true },
    { "--plain", NULL, "plain lines instead of the full screen", OPTION_FLAG, AT(plain) },
    { "--json", NULL, "JSON events on standard output, one per line", OPTION_FLAG, AT(json) },
    { "--mmproj", "FILE", "picture encoder of a GGUF model (default: mmproj*.gguf beside it)",
      OPTION_TEXT, AT(mmproj), .check = check_mmproj },
    { "--ignore-weights", NULL,
      "open MODEL despite unknown weights or config keys; its answers are then wrong", OPTION_FLAG,
      AT(ignore) },
    { "--device", "cpu|cuda[:N[,N...]]",
      "device to compute on; several GPUs share the layers of a model", OPTION_TEXT, AT(device),
      .many = true }, // the last one counts, so that an alias may set a default
    { "--threads", "N", "compute threads (default: one per core)", OPTION_INT, AT(threads), 1, 1024,
      .many = true },
    { "--db", "FILE", "session database ($XDG_STATE_HOME/vlmsh/vlmsh.db)", OPTION_TEXT, AT(db),
      .check = check_db, .many = true },
    { "--session", "NAME", "resume the session, or start it", OPTION_TEXT, AT(session),
      .check = check_session, .many = true },
    { "--no-session", NULL, "do not save the conversation (jobs and presets are saved)",
      OPTION_FLAG, AT(unsaved) },
    { "-D", "NAME=VALUE", "define ${NAME} for lines and scripts", .take = take_variable,
      .many = true },
    { "--help", NULL, "show this help", OPTION_FLAG, AT(help) },
    { "-h", NULL, "show this help", OPTION_FLAG, AT(help) },
    { "--version", NULL, "show the version", OPTION_FLAG, AT(version) },
    { 0 },
};
#undef AT

const struct option_row *options_rows(void)
{
    return rows;
}

int options_read(struct options *o, int argc, char **argv, struct err *err)
{
    const int read = options_parse(rows, o, argc - 1, argv + 1, err);
    if (read < 0) return -1;
    o->rest = read + 1;
    place_pictures(o);
    if (!o->subcommand && (o->help || o->version)) o->subcommand = o->help ? "help" : "version";
    if (o->plain && o->json) return err_set(err, "--plain and --json cannot be combined");
    if (o->run && !o->model) return err_set(err, "run needs a MODEL (a folder 'run': ./run)");
    if (o->session && o->unsaved)
        return err_set(err, "--session and --no-session cannot be combined");
    if (o->mmproj && !o->model) return err_set(err, "--mmproj needs a MODEL that is a GGUF file");
    if (o->ignore && !o->model) return err_set(err, "--ignore-weights needs a MODEL");
    if (o->mmproj) o->model = o->pair = checkpoint_with_encoder(o->model, o->mmproj);
    if (!o->ignore) return 0;
    char *joined = engine_ignoring(o->model);
    free(o->pair);
    o->model = o->pair = joined;
    return 0;
}

void options_release(struct options *o)
{
    for (size_t i = 0; i < o->variable_count; i++) {
        free(o->variables[i].name);
        free(o->variables[i].value);
    }
    free(o->variables);
    free(o->steps);
    free(o->pair);
    *o = (struct options){ 0 };
}

void options_print_help(FILE *out)
{
    struct buf b = { 0 };
    struct flow f = { 0 };
    buf_puts(&b,
             "usage: vlmsh [MODEL] [--image FILE]... [-p TEXT]... [-c LINE]... [-f FILE]... "
             "[--mmproj FILE] [--ignore-weights] [--plain|--json] [--device cpu|cuda[:N[,N...]]] "
             "[--threads N] [--db FILE] "
             "[--session NAME|--no-session] [-D NAME=VALUE]\n"
             "\n"
             "Talk to a vision-language model. MODEL is a folder in Hugging Face format, a GGUF "
             "file, or org/name from the local hub cache; `vlmsh run MODEL` is the same, and takes "
             "a question after MODEL. Without "
             "-p, -c and -f, lines are read from standard input; a line that begins with / is a "
             "command (/help lists them).\n"
             "\n");
    for (const struct option_row *row = rows + 1; row->name; row++)
        buf_printf(&b, "%s%s%s  %s\n", row->name, row->argument ? " " : "",
                   row->argument ? row->argument : "", row->help);
    buf_puts(&b, "\nSubcommands:\n");
    subcommands_help(&b);
    buf_puts(
        &b,
        "\n"
        "Examples:\n"
        "\n"
        "vlmsh model.gguf  chat on the full screen\n"
        "vlmsh MODEL --image cat.png -p 'What is this?'  ask about a picture\n"
        "vlmsh MODEL -c '/ask --each pics What is this? --out answers.jsonl'  ask about each "
        "picture in the folder pics\n"
        "vlmsh MODEL -c '/train data.json run1' -c /wait  train an adapter\n"
        "\n"
        "If --device, --threads, --db or --session is repeated, the last one counts. "
        "If a model folder has the name of a subcommand, write ./new or ./run. Exit status: 0 on "
        "success; 1 if a line of a script failed or part of a conversation could not be "
        "saved (a database that cannot be opened at all only causes a notice); 2 for "
        "wrong usage; 130 if interrupted.");
    flow_add_text(&f, b.data, text_wrap_columns(out));
    for (size_t i = 0; i < f.count; i++) text_printf(out, "%s\n", f.lines[i].text);
    flow_release(&f);
    buf_release(&b);
}
