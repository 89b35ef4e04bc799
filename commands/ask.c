// commands/ask.c -- /ask: asks one question in the conversation; or every question of a file, or
// one question about each of many pictures, here or as a job.
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/command.h"
#include "commands/jobs.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/eval/ask.h"
#include "core/picture/source.h"
#include "core/template/message.h"

static char *system_text(const struct engine *e)
{
    const struct engine_talk c = engine_talk(e);
    if (!c.message_count || c.messages[0].role != ROLE_SYSTEM) return NULL;
    return message_text(&c.messages[0]);
}

// --- here ----------------------------------------------------------------------------------------

static void report_end(const struct shell *shell, const struct ask_report *report, const char *out)
{
    char *text = ask_report_text(report, out), *beside = ask_temporary(out);
    sinks_notice(shell->sinks, "%s", text);
    if (report->waits)
        sinks_notice(shell->sinks,
                     "'%s' is unchanged until all samples are answered again; '%s' holds the new "
                     "answers so far: repeat the command to continue",
                     out, beside);
    free(beside);
    free(text);
}

static int ask_here(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct ask_work w = { 0 };
    if (ask_options_read(&w.options, argc, argv, err) < 0) return -1;
    char *system = system_text(shell->engine);
    if (!w.options.system) w.options.system = system;
    struct grid g = grid_of_engine(shell->engine);
    g.self = &w;
    grid_add(&g, NULL, settings_copy(engine_settings(shell->engine)))->set = w.options.set;
    const int status = grid_run(&g, &ask_plan, err);
    if (status >= 0) report_end(shell, &w.report, w.options.out);
    ask_report_release(&w.report);
    grid_release(&g);
    free(system);
    return status < 0 ? -1 : 0;
}

// --- as a job ------------------------------------------------------------------------------------

static const char *value_of(const char *name, int argc, char **argv)
{
    const size_t n = strlen(name);
    for (int i = 0; i < argc && argv[i]; i++) {
        if (!strcmp(argv[i], name)) return i + 1 < argc ? argv[i + 1] : NULL;
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=') return argv[i] + n + 1;
    }
    return NULL;
}

static int ask_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *data = value_of("--data", argc, argv);
    char *system = value_of("--system", argc, argv) ? NULL : system_text(shell->engine);
    char *out = NULL;
    if (data && !value_of("--out", argc, argv)) { // "questions.answers.jsonl" in the current folder
        const char *name = text_file_name(data), *dot = strrchr(name, '.');
        out = xasprintf("%.*s.answers.jsonl", (int)(dot > name ? dot - name : (long)strlen(name)),
                        name);
    }
    char **words = xcalloc((size_t)argc + 4, sizeof *words);
    char out_option[] = "--out", system_option[] = "--system";
    int count = 0;
    for (int i = 0; i < argc && argv[i]; i++)
        if (strcmp(argv[i], "--job") != 0) words[count++] = argv[i];
    if (out) words[count++] = out_option, words[count++] = out;
    if (system) words[count++] = system_option, words[count++] = system;
    const int status = shell_start_job(shell, "ask", count, words, err);
    free(words);
    free(out);
    free(system);
    return status;
}

// --- one question about many pictures ------------------------------------------------------------

// Adds the pictures in a folder, or the files that match a pattern.
static void find_pictures(const char *pattern, struct names *found)
{
    struct stat st;
    if (stat(pattern, &st) == 0 && S_ISDIR(st.st_mode)) {
        char **names = folder_list(pattern);
        for (char **name = names; *name; name++) {
            char *path = xasprintf("%s%s%s", pattern, text_ends(pattern, "/") ? "" : "/", *name);
            if (text_ends_with_any(*name, picture_endings)) names_add(found, path, NULL);
            free(path);
        }
        folder_list_free(names);
        return;
    }
    glob_t paths = { 0 };
    glob(pattern, 0, NULL, &paths);
    for (size_t i = 0; i < paths.gl_pathc; i++) names_add(found, paths.gl_pathv[i], NULL);
    globfree(&paths);
}

// Writes the questions to a file and returns its name, which the caller frees.
static char *write_questions(const char *pattern, const char *question, const char *out,
                             struct err *err)
{
    struct names found = { 0 };
    struct buf lines = { 0 };
    const size_t length = text_ends(out, ".jsonl") ? strlen(out) - strlen(".jsonl") : strlen(out);
    char *path = xasprintf("%.*s.questions.jsonl", (int)length, out);
    find_pictures(pattern, &found);
    int status = found.count ? 0 : err_set(err, "--each: no picture matches '%s'", pattern);
    for (size_t i = 0; i < found.count && status == 0; i++) {
        // The answers have the name as their id, and JSON is UTF-8.
        if (text_bad_byte(found.list[i], strlen(found.list[i])) < strlen(found.list[i])) {
            status =
                err_set(err, "--each: the name of '%s' is not UTF-8: rename it", found.list[i]);
            break;
        }
        char *whole = realpath(found.list[i], NULL);
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "id", found.list[i]);
        cJSON_AddStringToObject(o, "image", whole ? whole : found.list[i]);
        cJSON_AddStringToObject(o, "question", question);
        char *line = json_print(o);
        buf_printf(&lines, "%s\n", line);
        free(line);
        free(whole);
        cJSON_Delete(o);
    }
    if (status == 0) status = file_out_write(path, lines.data, lines.length, err);
    buf_release(&lines);
    names_release(&found);
    if (status == 0) return path;
    free(path);
    return NULL;
}

static bool is_each(const char *word)
{
    return !strncmp(word, "--each", 6) && (!word[6] || word[6] == '=');
}

static bool takes_value(const char *word)
{
    for (const struct option_row *row = ask_rows; row->name; row++)
        if (!strcmp(word, row->name)) return row->argument;
    return false;
}

// Runs --each PATTERN QUESTION...: writes the questions to a FILE and passes the other options on
// with --data FILE.
static int ask_each(struct shell *shell, int argc, char **argv, bool job, struct err *err)
{
    static char data[] = "--data";
    const char *pattern = value_of("--each", argc, argv), *out = value_of("--out", argc, argv);
    char **words = xcalloc((size_t)argc + 3, sizeof *words), *path = NULL;
    struct buf question = { 0 };
    int count = 0, status = -1;
    for (int i = 0; i < argc; i++) {
        const bool valued = takes_value(argv[i]);
        if (valued && i + 1 == argc) {
            err_set(err, "%s needs a value", argv[i]);
            goto out;
        }
        if (strncmp(argv[i], "--", 2) != 0) { // -5 is also a word of the question
            buf_printf(&question, "%s%s", question.length ? " " : "", argv[i]);
        } else if (!is_each(argv[i])) {
            words[count++] = argv[i];
            if (valued) words[count++] = argv[i + 1];
        }
        i += valued;
    }
    if (!pattern || !question.length || value_of(data, argc, argv))
        err_set(err, "usage: /ask --each PATTERN QUESTION --out FILE.jsonl");
    else if (!out)
        err_set(err, "--each needs --out FILE.jsonl, to which it writes the answers");
    else if (value_of("--images", argc, argv))
        err_set(err, "--images is for --data: --each names the pictures themselves");
    else if ((path = write_questions(pattern, question.data, out, err))) {
        words[count++] = data;
        words[count++] = path;
        sinks_written(shell->sinks, "questions", path, NULL);
        status = job ? ask_job(shell, count, words, err) : ask_here(shell, count, words, err);
    }
out:
    buf_release(&question);
    free(path);
    free(words);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static int ask_run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    bool job = false, each = false;
    for (int i = 0; i < argc; i++) job |= !strcmp(argv[i], "--job");
    for (int i = 0; argc > 1 && i < argc; i++) each |= is_each(argv[i]);
    if (argc == 1 && !job && !ask_is_option(argv[0]))
        return engine_ask(shell->engine, argv[0], err);
    if (job && command_check_needs(shell, NEEDS_STORE, err) < 0) return -1;
    if (each) return ask_each(shell, argc, argv, job, err);
    return job ? ask_job(shell, argc, argv, err) : ask_here(shell, argc, argv, err);
}

const struct command command_ask = {
    .name = "ask",
    .also = "batch each folder many question prompt",
    .usage = "/ask TEXT | /ask --data FILE|--each PATTERN QUESTION --out FILE.jsonl [--images DIR] "
             "[--limit N] [--system TEXT] [--again] [--job [--ranks N]]",
    .help = "Asks a question, every question of a data file, or one question about each picture.",
    .details =
        "With --data or --each, each sample is a separate conversation, with the current system "
        "message and settings. The current conversation stays as it is.",
    .options = ask_rows,
    .min = 1,
    .rest = true,
    .split = true,
    .question = true,
    .writes = true,
    .needs = NEEDS_MODEL,
    .run = ask_run_command,
};
