// tui/main.c -- the program: reads its arguments, connects its parts, runs lines, ends.
//
// Order: options; device; database; front end; MODEL; session; then -c, -f, -p and --image in their
// order, or standard input, or the prompt. Exit status: 0; 1: a line of a script failed, output was
// lost, or part of a conversation could not be saved; 2: bad usage; 130: interrupted. A database
// that cannot be opened only causes a notice.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/changed.h"
#include "commands/jobs.h"
#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/names.h"
#include "core/base/places.h"
#include "core/engine/device.h"
#include "core/files/checkpoint.h"
#include "core/lists.h"
#include "core/new/new_model.h"
#include "sessions/jobs.h"
#include "tui/json.h"
#include "tui/keys.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/picker.h"
#include "tui/plain.h"
#include "tui/screen.h"
#include "tui/signals.h"
#include "tui/subcommands.h"
#include "tui/terminal.h"
#include "tui/text.h"
#include "tui/threads.h"
#include "tui/wrap.h"

enum front { FRONT_PLAIN, FRONT_JSON, FRONT_SCREEN };

struct program {
    struct options options;
    enum front front;
    struct plain *plain; // one of the three front ends
    struct json_sink *json;
    struct screen *screen;
    struct sinks sinks;
    struct shell shell;
    struct lines lines;
    struct keys *keys;
    struct shell_keys shell_keys;
    const struct err *no_store; // why no database is open
    bool interactive;           // a person types the lines
};

static int run_subcommand(const struct options *o, int argc, char **argv)
{
    const struct subcommand *word = subcommand_find(o->subcommand), *help = subcommand_find("help");
    char **rest = argv + o->rest; // after the subcommand
    struct err err = { 0 };
    int status;
    // An alias may add options of vlmsh, which a subcommand does not read.
    if (o->rest > 2 && !strcmp(rest[-1], word->name))
        text_printf(stderr, "vlmsh %s: not used: the options before '%s'; its own follow it\n",
                    word->name, word->name);
    if (o->rest < argc && (!strcmp(rest[0], "--help") || !strcmp(rest[0], "-h")))
        status = help->run(help, word != help, rest - 1, &err); // `help --help` shows all help
    else
        status = word->run(word, argc - o->rest, rest, &err);
    if (status != STATUS_OK && err.text[0])
        text_printf(stderr, "vlmsh %s: %s\n", word->name, err.text);
    if (status == STATUS_USAGE)
        text_printf(stderr, "usage: vlmsh %s %s\n", word->name, word->usage);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
        text_printf(stderr, "vlmsh: cannot write the output: %s\n", strerror(errno));
        if (status == STATUS_OK) status = STATUS_FAILED;
    }
    return status;
}

// --- connecting the parts ------------------------------------------------------------------------

// Reserves standard output for JSON: output of libraries goes to standard error.
static FILE *take_stdout(void)
{
    const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    FILE *output = copy < 0 ? NULL : fdopen(copy, "w");
    if (!output) return stdout;
    fflush(stdout);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return output;
}

static void open_front(struct program *p)
{
    p->lines.output = p->front == FRONT_JSON ? take_stdout() : stdout;
    if (p->front == FRONT_PLAIN) {
        p->plain = plain_new(p->interactive);
        sinks_add(&p->sinks, plain_sink(p->plain));
    } else if (p->front == FRONT_JSON) {
        p->json = json_sink_new(p->lines.output);
        sinks_add(&p->sinks, json_sink(p->json));
    } else {
        p->screen = screen_new();
        sinks_add(&p->sinks, screen_sink(p->screen));
    }
    lines_watch(&p->lines);
}

static void start(struct program *p, const struct backend *backend)
{
    struct options *o = &p->options;
    const bool steps = o->script;
    p->front = FRONT_PLAIN;
    if (o->json) p->front = FRONT_JSON;
    if (!o->plain && !o->json && !steps && terminal_possible()) p->front = FRONT_SCREEN;
    p->interactive = !steps && p->front != FRONT_JSON && isatty(STDIN_FILENO);
    p->keys = keys_new();
    p->shell_keys = (struct shell_keys){ p->keys, keys_bind, keys_each };
    p->shell = (struct shell){
        .engine = engine_new(backend, &p->sinks),
        .sinks = &p->sinks,
        .variables = o->variables,
        .variable_count = o->variable_count,
        .interactive = p->interactive,
        .keys = &p->shell_keys,
    };
    p->lines.shell = &p->shell;
    p->lines.script = steps || (p->front != FRONT_JSON && !p->interactive);
    const enum signals_how waits = p->lines.script ? SIGNALS_SCRIPT : SIGNALS_DIALOGUE;
    signals_start(p->shell.engine, p->interactive ? SIGNALS_PROMPT : waits);
    if (p->interactive) signals_save_terminal();
    fatal_set_hook(signals_restore_terminal);
}

// Appends a word, quoted for a shell if necessary.
static void put_quoted(struct buf *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-+/:@%,=";
    if (*word && !word[strspn(word, plain)]) {
        buf_puts(b, word);
        return;
    }
    buf_putc(b, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *word);
    buf_putc(b, '\'');
}

// Reports the saved session and the jobs that continue after the program.
static void describe_remaining(const struct program *p, struct buf *b)
{
    struct job_row *rows;
    size_t count, running = 0;
    const char *name = store_session(p->shell.store);
    if (name) {
        struct buf command = { 0 };
        const int columns = text_terminal_columns(stdout);
        buf_puts(&command, p->options.db ? "vlmsh --db " : "vlmsh");
        if (p->options.db) put_quoted(&command, p->options.db);
        buf_puts(&command, " --session ");
        put_quoted(&command, name);
        char *saved = xasprintf("session '%s' is saved; to continue:", name);
        // The terminal would break a long line within words. The command, which is copied, stays
        // whole on its own line.
        if (!columns || text_width(saved) + 1 + text_width(command.data) <= columns) {
            buf_printf(b, "%s ", saved);
        } else {
            struct wrap w = wrap_begin(saved, columns);
            while (wrap_next(&w)) buf_printf(b, "%.*s\n", (int)w.length, w.line);
        }
        buf_printf(b, "%s\n", command.data);
        buf_release(&command);
        free(saved);
    }
    if (store_jobs_read(p->shell.store, &rows, &count, NULL) < 0) return;
    for (size_t i = count; i-- > 0;) {
        if (rows[i].state != STATE_RUNNING) continue;
        buf_printf(b, "%s %lld (%s)", running++ ? "," : "still running: job", (long long)rows[i].id,
                   rows[i].kind);
    }
    if (running) buf_puts(b, "; /jobs shows them\n");
    job_rows_free(rows, count);
}

// Prints which requests were never carried out, once the screen is closed.
static void report_waiting(struct program *p)
{
    const struct sinks before = p->sinks;
    struct plain *plain = plain_new(false);
    p->sinks = (struct sinks){ 0 };
    sinks_add(&p->sinks, plain_sink(plain));
    engine_report_unsent(p->shell.engine);
    engine_report_waiting(p->shell.engine);
    p->sinks = before;
    plain_free(plain);
}

// Closes everything. Returns the exit status: `status`, unless saving fails.
static int finish(struct program *p, int status)
{
    signals_stop();
    if (p->screen && status == STATUS_OK) report_waiting(p);
    engine_free(p->shell.engine);
    shell_jobs_release(&p->shell);
    changed_forget(&p->shell);
    struct buf remains = { 0 };
    struct err err = { 0 };
    if (p->interactive && p->shell.store) describe_remaining(p, &remains);
    const bool saved = store_finish(p->shell.store, &err) == 0;
    if (!saved && p->screen) // the screen is closed already
        text_printf(stderr, "vlmsh: %s\n", err.text);
    else if (!saved)
        lines_print_error(&p->lines, "", &err);
    store_close(p->shell.store);
    if (!saved && status == STATUS_OK) status = STATUS_FAILED;
    plain_free(p->plain);
    json_sink_free(p->json);
    screen_free(p->screen);
    if (p->lines.output != stdout) fclose(p->lines.output);
    if (saved && remains.length) text_printf(stdout, "%s", remains.data);
    buf_release(&remains);
    keys_free(p->keys);
    options_release(&p->options);
    return status;
}

// --- the model without MODEL ---------------------------------------------------------------------

// The default model is the demo model beside the program or installed with it; otherwise a small
// model with random weights, which vlmsh writes once to $XDG_CACHE_HOME/vlmsh, with a notice.

static bool is_model(const char *folder)
{
    char *config = xasprintf("%s/config.json", folder);
    bool there = access(config, R_OK) == 0;
    free(config);
    return there;
}

// How to get a small model that sees real pictures. Its repository also has files for other
// programs.
#define FIRST_MODEL                                                      \
    "For real pictures, on any laptop (0.5 GB): hf download " FIRST_NAME \
    " --exclude 'onnx/*'; then vlmsh " FIRST_NAME " opens it."
#define FIRST_NAME "HuggingFaceTB/SmolVLM-256M-Instruct"

// Returns the demo model's folder; NULL: not installed.
static char *find_demo(void)
{
    return places_installed("demo/model", "config.json");
}

static int write_tiny(const char *folder, struct err *err)
{
    if (places_make_parents(folder, err) < 0) return -1;
    // Another program that starts now may be faster.
    return new_model_write("tiny", folder, 1, NULL, NULL, err) < 0 && !is_model(folder) ? -1 : 0;
}

static int load_tiny(struct engine *e, struct err *err)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "tiny");
    if (!folder)
        return err_set(err, "MODEL is missing, and the default model cannot be stored because HOME "
                            "is unset: set HOME, or name a model");
    int status = is_model(folder) ? 0 : write_tiny(folder, err);
    if (status == 0 && engine_load(e, folder, err) < 0)
        status = err_in(err, "the small default model (delete '%s' to create it again)", folder);
    if (status == 0)
        sinks_notice(engine_sinks(e),
                     "No MODEL given: this is a small model with random weights, so its answers "
                     "are noise. " FIRST_MODEL);
    free(folder);
    return status;
}

static int load_default(void *self, struct err *err)
{
    struct shell *shell = self;
    shell->load_default = NULL; // tries only once
    char *demo = find_demo();
    int status = demo ? engine_load(shell->engine, demo, err) : load_tiny(shell->engine, err);
    free(demo);
    return status;
}

static bool is_demo(const char *folder)
{
    char *demo = find_demo();
    const bool same = demo && !strcmp(demo, folder);
    free(demo);
    return same;
}

// Once the user has opened a model, no default is loaded, not even after /unload.
static void notice_model(void *self, const struct event *event)
{
    struct shell *shell = self;
    if (event->kind == EVENT_MODEL) shell->load_default = NULL;
}

// Sets shell->load_default to load the default model, until any model is loaded.
static void offer_model(struct shell *shell)
{
    shell->load_default = load_default;
    shell->load_default_self = shell;
    sinks_add(shell->sinks, (struct sink){ .emit = notice_model, .self = shell });
}

// --- before the first line -----------------------------------------------------------------------

static void report_config_error(void *self, const struct err *err)
{
    const struct program *p = self;
    lines_print_error(&p->lines, "", err);
}

// Runs the user's startup file in interactive use. Uses lstat, so that a dangling link is reported.
static void run_config(struct program *p)
{
    struct stat st;
    char *path = places_file("XDG_CONFIG_HOME", ".config", "config");
    if (p->interactive && path && lstat(path, &st) == 0)
        shell_config(&p->shell, path, report_config_error, p);
    free(path);
}

// Opens the requested model and session. Reports errors; returns -1 after one, unless a person
// types the lines.
static int begin(struct program *p)
{
    const struct options *o = &p->options;
    struct err err = { 0 };
    // Sets the number of threads here, because it applies to the calling thread, which computes.
    // With a GPU, the number applies to the host's part of the computation.
    if (o->threads) device_set_threads(o->threads);
    if (!p->shell.store) sinks_notice(&p->sinks, "nothing will be saved: %s", p->no_store->text);
    run_config(p);
    if (o->model && engine_load(p->shell.engine, o->model, &err) < 0) {
        lines_print_error(&p->lines, "", &err);
        if (!p->interactive) return -1;
    }
    int status = 0;
    if (o->session && p->shell.store)
        status = store_use(p->shell.store, p->shell.engine, o->session, &err);
    else if (o->session)
        status = err_set(&err, "session %s: no database is open", o->session);
    if (status < 0) lines_print_error(&p->lines, "", &err);
    return p->interactive ? 0 : status;
}

// Attaches the pictures given with --image, unless a script attaches them itself. Returns as begin.
static int attach(struct program *p)
{
    const struct options *o = &p->options;
    struct err err = { 0 };
    if (o->script || lines_attach(&p->lines, o->steps, o->step_count, &err) == 0) return 0;
    lines_print_error(&p->lines, "", &err);
    return p->interactive ? 0 : -1;
}

// Without the start screen, which lists them: names the models of the hub cache and this folder.
static void list_models(struct program *p)
{
    enum { MOST = 4, ENTRIES = 300 }; // a large folder must not delay the start
    struct names cached = { 0 };
    struct buf b = { 0 };
    const char *what;
    int count = 0;
    char **here = folder_list(".");
    checkpoint_cached(&cached);
    for (size_t i = 0; i < cached.count && count < MOST; i++, count++)
        buf_printf(&b, "%s/load %s", b.length ? ", " : "", cached.list[i]);
    for (char **name = here; *name && name < here + ENTRIES && count < MOST; name++) {
        if (**name == '.' || !picker_command(*name, &what) || strcmp(what, "model") != 0) continue;
        char *quoted = picker_quote(*name);
        buf_printf(&b, "%s/load %s", b.length ? ", " : "", quoted);
        free(quoted);
        count++;
    }
    if (b.length) sinks_text(&p->sinks, "Models found: %s", b.data);
    folder_list_free(here);
    names_release(&cached);
    buf_release(&b);
}

static void welcome(struct program *p)
{
    struct err err = { 0 };
    const struct engine *e = p->shell.engine;
    if (!engine_model_name(e) && command_check_needs(&p->shell, NEEDS_MODEL, &err) < 0 &&
        !p->options.model)
        lines_print_error(&p->lines, "", &err);
    const char *model = engine_model_name(e); // command_check_needs may have opened it
    sinks_text(&p->sinks, "vlmsh %s: %s on %s\n%s%s", VERSION, model ? model : "no model",
               device_text(engine_backend(e)),
               !model ? "/load MODEL opens a model folder, /help lists the commands."
               : engine_has_vision(e)
                   ? "Type a question, /image FILE to attach a picture, /help for the commands."
                   : "Type a question, /help for the commands.",
               p->screen ? "\nF1 shows the keys, Ctrl-P finds any command or setting." : "");
    const bool asked = p->options.model || p->options.session;
    if (model && !asked && is_demo(model))
        sinks_text(&p->sinks,
                   "This is the demo model, trained on scenes of coloured shapes and letters. "
                   "/tour shows step by step what you can do with it.\n" FIRST_MODEL);
    else if (model && p->screen && !p->options.session)
        sinks_text(&p->sinks, "Check this model: /checkup");
    if (!asked && p->screen)
        p->shell.screen->open(p->shell.screen->self, "begin", &err);
    else if (!asked)
        list_models(p);
}

static int run(struct program *p)
{
    if (p->options.script) return lines_steps(&p->lines, p->options.steps, p->options.step_count);
    if (p->json) return lines_dialogue(&p->lines);
    return p->interactive ? lines_prompt(&p->lines) : lines_script(&p->lines);
}

static void begin_screen(void *self)
{
    begin(self);
    if (signals_terminated()) return;
    welcome(self);
    attach(self);
}

// Opens model and session, then runs lines. Ctrl-C during a long load ends the program.
static int begin_and_run(struct program *p)
{
    if (p->screen) return screen_run(p->screen, &p->shell, p->keys, begin_screen, p);
    signals_busy(true);
    int status = begin(p);
    if (status == 0 && p->interactive) welcome(p);
    if (status == 0) status = attach(p);
    signals_busy(false);
    if (signals_terminated()) return 128 + signals_terminated();
    if (signals_interrupted()) return STATUS_INTERRUPTED;
    return status < 0 ? lines_status(&p->lines, STATUS_FAILED) : run(p);
}

// Returns large freed blocks to the system. By default, the allocator keeps freed blocks up to the
// size of the largest block freed so far (at most 32 MB): hundreds of megabytes after the first
// pass of a training run.
static void give_memory_back(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

// Occupies closed standard streams, so that no file gets their numbers and receives vlmsh's output.
// Reading and writing them still fail.
static void occupy_standard_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    struct program p = { 0 };
    struct err err = { 0 };
    const struct backend *backend = NULL;
    lists_register();
    commands_register(NULL);
    occupy_standard_streams();
    signal(SIGCHLD, SIG_DFL); // if inherited as ignored, waiting for a child would fail
    threads_wait_asleep(argv);
    give_memory_back();
    setlocale(LC_CTYPE, ""); // only characters: numbers and messages are English everywhere
    // In Turkish, 'I' is not the capital letter of 'i', even in names of settings and files.
    // Readline sets the environment's locale again.
    if (tolower('I') != 'i' && setlocale(LC_CTYPE, "C.UTF-8")) setenv("LC_ALL", "C.UTF-8", 1);
    int status = options_read(&p.options, argc, argv, &err);
    if (status < 0) {
        text_printf(stderr, "vlmsh: %s (see vlmsh --help)\n", err.text);
        status = STATUS_USAGE;
    } else if (device_check_isa(&err) < 0 ||
               (!p.options.subcommand && !(backend = device_find(p.options.device, &err)))) {
        text_printf(stderr, "vlmsh: %s\n", err.text);
        status = STATUS_USAGE;
    } else if (p.options.subcommand) {
        status = run_subcommand(&p.options, argc, argv);
    } else {
        if (err.text[0]) text_printf(stderr, "vlmsh: %s; computing on the CPU\n", err.text);
        err.text[0] = '\0';
        file_in_guard();
        start(&p, backend);
        // The database's sink precedes the front end's: every answer on the screen is stored.
        p.shell.store = store_open(p.options.db, &err);
        if (p.shell.store) sinks_add(&p.sinks, store_sink(p.shell.store, &p.sinks));
        if (p.shell.store && p.options.unsaved) store_unsave(p.shell.store);
        open_front(&p);
        if (!p.options.model) offer_model(&p.shell);
        p.no_store = &err;
        return finish(&p, begin_and_run(&p));
    }
    options_release(&p.options);
    return status;
}
