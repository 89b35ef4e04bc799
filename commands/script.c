// commands/script.c -- runs a typed line, or the lines of a file: up to the first error, except for
// the configuration file.
#include "commands/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/picture/source.h"
#include "core/template/message.h"

enum { RUN_DEPTH = 16, LINE_LIMIT = 64 << 20 };

// --- logical lines -------------------------------------------------------------------------------

bool line_continues(const char *line, size_t length)
{
    size_t n = 0;
    while (n < length && line[length - 1 - n] == '\\') n++;
    return n % 2 == 1;
}

bool line_reader_add(struct line_reader *r, const char *line)
{
    if (!r->open) {
        buf_clear(&r->text);
        r->triple = r->first = 0;
        buf_puts(&r->text, line);
        const char *start = triple_start(line);
        if (start) r->triple = (size_t)(start - line);
    } else {
        buf_putc(&r->text, '\n');
        buf_puts(&r->text, line);
    }
    r->first = (size_t)(skip_blanks(r->text.data + r->first) - r->text.data);
    if (r->triple)
        r->open = !triple_closed(r->text.data + r->triple, r->text.length - r->triple);
    else
        r->open = r->text.data[r->first] != '#' && line_continues(r->text.data, r->text.length);
    if (r->open && !r->triple) r->text.data[--r->text.length] = 0; // the backslash
    return !r->open;
}

bool line_reader_open(const struct line_reader *r)
{
    return r->open;
}

void line_reader_reset(struct line_reader *r)
{
    buf_clear(&r->text);
    r->open = false;
}

void line_reader_release(struct line_reader *r)
{
    buf_release(&r->text);
    *r = (struct line_reader){ 0 };
}

// --- one line ------------------------------------------------------------------------------------

// Reports an unknown command. *several has a message if the name is an action of several commands.
static int unknown_command(const char *name, const struct err *several, struct err *err)
{
    if (several->text[0]) return err_set(err, "%s", several->text);
    const char *near = command_nearest(name);
    if (!near) near = command_also(name);
    if (near) return err_set(err, "unknown command '/%s': did you mean '/%s'?", name, near);
    if (!*name || strchr(name, '/'))
        return err_set(err,
                       "unknown command '/%s': to send text that begins with '/', start the line "
                       "with '//'; to attach a picture, use /image FILE",
                       name);
    return err_set(err, "unknown command '/%s': /help lists the commands", name);
}

// Runs a command; `line` begins with the slash.
static int run_command(struct shell *shell, const char *line, struct err *err)
{
    const char *end = name_end(line), *rest = skip_blanks(end);
    struct words args = { 0 };
    char *name = xstrndup(line + 1, (size_t)(end - line - 1));
    bool noun = false;
    struct err several = { 0 };
    int status;

    // The action may come first: "/pause 3", "/delete session trip". But "/save FILE" is a command
    // of its own.
    char *first = *rest ? xstrndup(rest, strcspn(rest, " \t\r\n")) : NULL;
    const struct command *command = command_find(name);
    const struct command *action = command_of_action(name, first, &noun, &several);
    free(first);
    if (command && !noun) action = NULL;
    if (action) command = action;

    // The command must not replace the files of the conversation's pictures.
    const struct engine_talk c = engine_talk(shell->engine);
    file_in_clear();
    for (size_t i = 0; i < c.picture_count; i++)
        if (c.pictures[i].path) file_in_record(c.pictures[i].path); // else removed or detached

    if (action) {
        if (noun) rest = skip_blanks(name_end(rest));
        status = text_parse(&args, name, shell, err) < 0
                     ? -1
                     : words_parse(&args, rest, command->question, shell, err);
    } else if (!command)
        status = unknown_command(name, &several, err);
    else if (command->rest && !(command->split && !strncmp(rest, "--", 2)))
        status = rest_parse(&args, rest, shell, err);
    else
        status = words_parse(&args, rest, command->question, shell, err);
    // Names the byte of the line; command_execute names that of a word with a variable's value.
    for (int i = 0; i < args.count && status == 0; i++) {
        const char *word = args.list[i];
        if (text_bad_byte(word, strlen(word)) < strlen(word) && access(word, F_OK) != 0)
            status = text_check_part(line, strlen(line), 0, err);
    }
    const char *outer = shell->typed; // the arguments of the /run whose file has this line, if any
    shell->typed = rest;
    if (status == 0) status = command_execute(command, shell, args.count, args.list, err);
    shell->typed = outer;
    words_release(&args);
    free(name);
    return status;
}

static bool is_picture_file(const char *path)
{
    struct stat st;
    return text_ends_with_any(path, picture_endings) && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

#define CLOSING "\"'`)>].,;:?!" // behind a name in a sentence

static bool ends_like_picture(const char *text, size_t length)
{
    while (length && strchr(CLOSING, text[length - 1])) length--;
    for (const char *const *end = picture_endings; *end; end++) {
        const size_t n = strlen(*end);
        if (length > n && !strncasecmp(text + length - n, *end, n)) return true;
    }
    return false;
}

// Returns the path of the picture file that a piece of text names, ignoring quotes and punctuation
// around the name; NULL: the text names none.
static char *picture_named(const char *text, size_t length)
{
    const char *link = memmem(text, length, "](", 2); // "[title](FILE)"
    if (link) length -= (size_t)(link + 2 - text), text = link + 2;
    while (length && strchr("\"'`(<[", *text)) text++, length--;
    while (length && strchr(CLOSING, text[length - 1])) length--;
    char *word = xstrndup(text, length), *plain = picture_source_path(word); // file://
    const char *home = !strncmp(plain, "~/", 2) ? getenv("HOME") : NULL;
    char *path = home ? xasprintf("%s%s", home, plain + 1) : xstrdup(plain);
    free(word);
    free(plain);
    if (is_picture_file(path)) return path;
    free(path);
    return NULL;
}

// Returns the length of the next piece: a picture's name in quotes, which may contain spaces, or a
// word.
static size_t piece_length(const char *p)
{
    const char *end = strchr("\"'`", *p) ? strchr(p + 1, *p) : NULL;
    if (end && end > p + 1) {
        char *path = picture_named(p, (size_t)(end + 1 - p));
        free(path);
        if (path) return (size_t)(end + 1 - p);
    }
    return strcspn(p, " \t\r\n");
}

// Returns the path of the picture file whose name ends with the last of `count` words, and begins
// with one of them: "photo (1).png".
static char *picture_of_words(const char *const words[], int count, const char *end)
{
    char *path = NULL;
    for (int i = count - 1; i >= 0 && !path; i--)
        path = picture_named(words[i], (size_t)(end - words[i]));
    return path;
}

// Emits a notice if a question contains the name of a picture file that is not attached: other
// programs attach the picture, but here the name is only text.
static void hint_picture(struct shell *shell, const char *text)
{
    enum { WORDS = 8, NAMES = 100 }; // words of a name with spaces; names looked up in a text
    const struct engine_talk c = engine_talk(shell->engine);
    const char *words[WORDS];
    int count = 0, names = 0;
    for (const char *p = skip_blanks(text); engine_has_vision(shell->engine) && *p && names < NAMES;
         p = skip_blanks(p)) {
        const size_t length = piece_length(p);
        if (count == WORDS) memmove(words, words + 1, (size_t)--count * sizeof *words);
        words[count++] = p;
        char *path = NULL;
        if (ends_like_picture(p, length) && ++names)
            path = picture_of_words(words, count, p + length);
        bool hint = path;
        for (size_t i = 0; i < c.picture_count && hint; i++)
            hint = !c.pictures[i].path || strcmp(c.pictures[i].path, path) != 0;
        if (hint)
            sinks_notice(shell->sinks,
                         "'%s' is a picture file, but the model gets only its name: /image %s "
                         "attaches it",
                         path, path);
        free(path);
        if (hint) return;
        p += length;
    }
}

static int run_text(struct shell *shell, const char *line, struct err *err)
{
    struct words args = { 0 };
    const char *first = skip_blanks(line);
    const bool marked = !strncmp(first, "\"\"\"", 3);
    if (text_check_part(line, strlen(line), 0, err) < 0) return -1;
    if (*first == '/') line = first + 1; // "//..."
    int status = command_check_needs(shell, NEEDS_MODEL, err);
    if (status == 0)
        status = marked ? rest_parse(&args, line, shell, err) : text_parse(&args, line, shell, err);
    if (status == 0) status = text_check_part(args.list[0], strlen(args.list[0]), 0, err);
    if (status == 0) hint_picture(shell, args.list[0]);
    if (status == 0) status = engine_ask(shell->engine, args.list[0], err);
    words_release(&args);
    return status;
}

// Returns whether the line is a word that quits other programs.
static bool is_quit_word(const char *line)
{
    static const char *const words[] = { "exit", "quit",  "bye",   ":q", ":q!",
                                         ":wq",  ".quit", ".exit", NULL };
    size_t n = strlen(line);
    while (n && (line[n - 1] == ' ' || line[n - 1] == '\n')) n--;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == n && !strncmp(line, words[i], n)) return true;
    return false;
}

// "help", "?" and "help train" mean /help; "help me with this picture" does not.
static bool is_help_request(const char *line)
{
    const size_t n = strcspn(line, " \t\n");
    const bool help = (n == 4 && !strncasecmp(line, "help", n)) || (n == 1 && *line == '?');
    const char *topic = skip_blanks(line + n), *end = name_end(topic);
    if (!help || *skip_blanks(end)) return false;
    char *name = xstrndup(topic, (size_t)(end - topic));
    const bool known = !*name || *name == '/' || command_find(name) || settings_find(name);
    free(name);
    return known;
}

// Emits a notice if the line is a command's name without its slash: such a line is sent to the
// model.
static void hint_command(const struct shell *shell, const char *line)
{
    const char *end = name_end(line);
    char *name = xstrndup(line, (size_t)(end - line));
    const struct command *command = *skip_blanks(end) ? NULL : command_find(name);
    if (command && end - line > 1)
        sinks_notice(shell->sinks, "'%s' was sent to the model; the command is /%s", name, name);
    free(name);
}

static void report_loaded(struct shell *shell)
{
    model_report(shell);
    adapter_report(shell);
}

int shell_line(struct shell *shell, const char *line, struct err *err)
{
    const char *p = skip_blanks(line);
    if (!*p || *p == '#') return 0;
    if (shell->interactive && is_help_request(p)) {
        char *command = xasprintf("/help %s", skip_blanks(p + strcspn(p, " \t\n")));
        const int status = run_command(shell, command, err);
        free(command);
        return status;
    }
    if (shell->interactive && is_quit_word(p))
        return err_set(err,
                       "'%s' was not sent to the model: to quit, type /quit, or press Ctrl-D, "
                       "or Ctrl-C twice",
                       p);
    const bool command = p[0] == '/' && p[1] != '/';
    if (shell->interactive && !command) hint_command(shell, p);
    if (!command) report_loaded(shell);
    const int status = command ? run_command(shell, p, err) : run_text(shell, line, err);
    if (command) report_loaded(shell);
    engine_report_identity(shell->engine);
    return status;
}

bool shell_line_live(const char *line)
{
    const char *p = skip_blanks(line), *end = name_end(p);
    if (*p != '/' || end == p) return false;
    char *name = xstrndup(p + 1, (size_t)(end - p - 1));
    const struct command *command = command_find(name);
    const char *first = skip_blanks(end);
    free(name);
    if (!command || !command->live) return false;
    const bool all_but = *command->live == '!';
    const char *words = command->live + all_but;
    return !*words || word_among(words, first, strcspn(first, " \t\n")) != all_but;
}

// --- a file of lines -----------------------------------------------------------------------------

struct script {
    struct shell *shell;
    FILE *file;
    const char *name;  // for messages
    struct buf line;   // the physical line
    int number, first; // line numbers: of the physical line; of the start of the logical line
    struct line_reader reader;
};

static int wait_for(const struct script *s, struct err *err)
{
    return file_in_wait(fileno(s->file), engine_cancel_flag(s->shell->engine), err);
}

// Returns the next byte; EOF at the end and on an error (ferror). Waits for data from a pipe;
// Ctrl-C ends the wait.
static int next_byte(struct script *s, struct err *err)
{
    for (;;) {
        const int c = getc(s->file);
        if (c != EOF || !ferror(s->file)) return c;
        if (errno != EAGAIN) err_set(err, "cannot read the script: %s", strerror(errno));
        if (errno != EAGAIN || wait_for(s, err) < 0) return EOF;
        clearerr(s->file);
    }
}

// Refuses a line with a zero byte, which the file's first characters have in UTF-16 and UTF-32.
static int zero_byte(struct script *s, struct err *err)
{
    int c = 0;
    do buf_putc(&s->line, (char)c);
    while (s->line.length < 4 && (c = getc(s->file)) != EOF);
    const char *wide = s->number == 1 ? text_wide(s->line.data, s->line.length) : NULL;
    if (!wide) return err_set(err, "the line contains a zero byte: this is not a script");
    return err_set(err, "the file is %s: convert it, with iconv -f %s -t UTF-8", wide, wide);
}

// Reads the next physical line without its newline. Returns 1, 0 at the end of the file, or -1.
static int read_physical(struct script *s, struct err *err)
{
    int c;
    buf_clear(&s->line);
    s->number++;
    while ((c = next_byte(s, err)) != EOF && c != '\n') {
        if (!c) return zero_byte(s, err);
        if (s->line.length + s->reader.text.length > LINE_LIMIT)
            return err_set(err, "the line is longer than %d MB", LINE_LIMIT >> 20);
        buf_putc(&s->line, (char)c);
    }
    if (ferror(s->file)) return -1;
    if (c == EOF && !s->line.length) return 0;
    if (s->line.length && s->line.data[s->line.length - 1] == '\r')
        s->line.data[--s->line.length] = 0;
    return 1;
}

// Reads the next logical line into s->reader.text. Returns 1, 0 at the end of the file, or -1.
static int read_logical(struct script *s, struct err *err)
{
    s->first = s->number + 1;
    for (;;) {
        const int got = read_physical(s, err);
        if (got < 0) return -1;
        if (!got && !line_reader_open(&s->reader)) return 0;
        if (!got)
            return err_set(err, s->reader.triple ? "the file ends before the closing \"\"\""
                                                 : "the file ends after a \\ at the end of a line");
        const char *text = s->line.length ? s->line.data : "";
        if (s->number == 1 && !strncmp(text, "\xef\xbb\xbf", 3)) text += 3; // a byte order mark
        if (line_reader_add(&s->reader, text)) return 1;
    }
}

static FILE *stream_of(int fd)
{
    FILE *f = fdopen(fd, "r");
    if (!f) BUG("no stream for a descriptor: %s", strerror(errno));
    return f;
}

// Opens `path` or standard input. Waits until a pipe has a writer: before that, a read would return
// end of file.
static int script_open(struct script *s, const char *path, struct err *err)
{
    if (!strcmp(path, "-")) {
        s->name = "stdin";
        s->file = stdin;
        if (s->shell->interactive)
            return err_set(err, "standard input is your terminal: name a file to run");
        return file_in_check(STDIN_FILENO, "standard input", &(struct stat){ 0 }, err);
    }
    const int fd = file_in_open_any(path, err);
    if (fd < 0) return -1;
    s->file = stream_of(fd);
    return wait_for(s, err);
}

static void script_release(struct script *s)
{
    line_reader_release(&s->reader);
    buf_release(&s->line);
    if (s->file && s->file != stdin) fclose(s->file);
}

static int run_lines(struct shell *shell, struct script *s, struct err *err)
{
    while (!shell->quit) {
        const int got = read_logical(s, err);
        if (got == 0) break;
        if (got < 0 || shell_line(shell, s->reader.text.data, err) < 0)
            return err_in(err, "%s:%d", s->name, s->first);
        if (shell->depth && engine_cancelled(shell->engine))
            return err_set(err, "stopped after line %d of '%s'", s->number, s->name);
        if (!shell->depth)
            sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_DONE, .ok = true });
    }
    return 0;
}

void shell_config(struct shell *shell, const char *path,
                  void (*report)(void *self, const struct err *err), void *self)
{
    struct script s = { .shell = shell, .name = path };
    struct err err;
    const int fd = file_in_open(path, &err);
    if (fd < 0) report(self, &err);
    s.file = fd < 0 ? NULL : stream_of(fd);
    for (int got; s.file && !shell->quit && (got = read_logical(&s, &err)) != 0;) {
        const bool ok = got > 0 && shell_line(shell, s.reader.text.data, &err) == 0;
        if (!ok) err_in(&err, "%s:%d", path, s.first);
        if (!ok) report(self, &err);
        if (got < 0) break;
        sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_DONE, .ok = ok });
    }
    script_release(&s);
}

int shell_script(struct shell *shell, const char *path, struct err *err)
{
    struct script s = { .shell = shell, .name = path };
    if (shell->depth > RUN_DEPTH)
        return err_set(err, "scripts are nested more than %d deep: does '%s' run itself?",
                       RUN_DEPTH, path);
    const int status = script_open(&s, path, err) < 0 ? -1 : run_lines(shell, &s, err);
    script_release(&s);
    return status;
}
