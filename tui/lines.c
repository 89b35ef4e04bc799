// tui/lines.c -- runs lines from -c, -f, standard input and the prompt, and questions from -p.
#include "tui/lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "commands/jobs.h"
#include "commands/script.h"
#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "tui/input.h"
#include "tui/signals.h"
#include "tui/text.h"

enum { LINE_LIMIT = 64 << 20 }; // bytes, as in a script

// --- interrupts and lost output ------------------------------------------------------------------

static bool stopped(const struct lines *l)
{
    return (l->script && signals_interrupted()) || signals_terminated() || ferror(l->output);
}

// Runs right after the front end has written, so errno belongs to that write.
static void watch(void *self, const struct event *event)
{
    struct lines *l = self;
    if (ferror(l->output) && !l->why) l->why = errno;
    if (!stopped(l)) return;
    l->shell->quit = true;
    engine_cancel(l->shell->engine);
}

void lines_watch(struct lines *l)
{
    sinks_add(l->shell->sinks, (struct sink){ .emit = watch, .self = l });
}

int lines_status(const struct lines *l, int status)
{
    if (signals_terminated()) return 128 + signals_terminated();
    if (l->script && signals_interrupted()) return STATUS_INTERRUPTED;
    if (!ferror(l->output)) return status;
    if (l->why != EPIPE) // a closed pipe is not an error
        text_printf(stderr, "vlmsh: cannot write the output: %s\n", strerror(l->why));
    return STATUS_FAILED;
}

// --- one line, one file --------------------------------------------------------------------------

void lines_print_error(const struct lines *l, const char *where, const struct err *err)
{
    sinks_emit(l->shell->sinks,
               &(struct event){ .kind = EVENT_ERROR, .where = where, .text = err->text });
}

// Ends a line; if it failed, reports the error, unless everything stops (stopped()).
static int end_line(const struct lines *l, bool ok, const char *where, const struct err *err)
{
    if (!ok && !stopped(l)) lines_print_error(l, where, err);
    sinks_emit(l->shell->sinks, &(struct event){ .kind = EVENT_DONE, .ok = ok });
    return ok ? STATUS_OK : STATUS_FAILED;
}

static void refuse(const struct lines *l, const char *where, const char *why)
{
    struct err err;
    err_set(&err, "%s", why);
    end_line(l, false, where, &err);
}

static int run_line(struct lines *l, const char *line, const char *where)
{
    struct err err = { 0 };
    signals_busy(true);
    const int status = shell_line(l->shell, line, &err);
    signals_busy(false);
    return end_line(l, status == 0, where, &err);
}

// Runs a command with one argument, which is not parsed.
static int run_command(struct lines *l, const char *name, const char *argument, struct err *err)
{
    char *copy = xstrdup(argument);
    signals_busy(true);
    const int status = command_execute(command_find(name), l->shell, 1, &copy, err);
    signals_busy(false);
    free(copy);
    return status;
}

int lines_attach(struct lines *l, const struct step *steps, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (run_command(l, "image", steps[i].text, err) < 0) return -1;
    return 0;
}

// Splits the "NAME:LINE: reason" of shell_script: returns "NAME:LINE"; *err keeps the reason.
static char *take_place(struct err *err, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(err->text, name, n) != 0 || err->text[n] != ':') return xstrdup(name);
    size_t digits = n + 1;
    while (isdigit((unsigned char)err->text[digits])) digits++;
    if (digits == n + 1 || strncmp(err->text + digits, ": ", 2) != 0) return xstrdup(name);
    char *where = xstrndup(err->text, digits);
    memmove(err->text, err->text + digits + 2, strlen(err->text + digits + 2) + 1);
    return where;
}

static int run_file(struct lines *l, const char *path)
{
    struct err err = { 0 };
    signals_busy(true);
    const int status = shell_script(l->shell, path, &err);
    signals_busy(false);
    if (status == 0) return STATUS_OK;
    char *where = take_place(&err, strcmp(path, "-") ? path : "stdin");
    end_line(l, false, where, &err);
    free(where);
    return STATUS_FAILED;
}

// --- scripts -------------------------------------------------------------------------------------

// Returns whether standard input is a pipe or file with unread bytes; false for a terminal, or if
// unknown.
static bool input_left(void)
{
    struct stat st;
    int waiting = 0;
    if (fstat(STDIN_FILENO, &st) < 0) return false;
    if (S_ISREG(st.st_mode)) return lseek(STDIN_FILENO, 0, SEEK_CUR) < st.st_size;
    return (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) &&
           ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

// Reports unread standard input: with -c, -f and -p, nothing reads it but `-f -` and a picture `-`.
static void report_unread(const struct lines *l, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (steps[i].kind == STEP_FILE && !strcmp(steps[i].text, "-")) return;
    if (!stopped(l) && !file_standard_was_read() && input_left())
        sinks_notice(l->shell->sinks, "standard input was not read: -f - runs its lines, "
                                      "/image - attaches a picture from it");
}

// Ends the lines: unless the last one failed or everything stops, names what has had no effect.
// pictures: whether pictures were attached to be sent.
static int end_lines(const struct lines *l, bool pictures, int status)
{
    const struct shell *shell = l->shell;
    const bool well = status == STATUS_OK && !stopped(l);
    if (well && pictures) engine_report_unsent(shell->engine);
    if (well) engine_report_waiting(shell->engine);
    for (size_t i = 0;
         i < shell->variable_count && l->script && !shell->quit && status == STATUS_OK; i++)
        if (!shell->variables[i].used)
            sinks_notice(shell->sinks, "-D %s was not used: no line contains ${%s}",
                         shell->variables[i].name, shell->variables[i].name);
    return lines_status(l, status);
}

int lines_steps(struct lines *l, const struct step *steps, size_t count)
{
    static const char *const names[] = { "-c", "-f", "-p", "--image" };
    int status = STATUS_OK, numbers[4] = { 0 };
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const enum step_kind kind = steps[i].kind;
        struct err err = { 0 };
        if (l->shell->quit || stopped(l)) break;
        char *where = xasprintf("%s:%d", names[kind], ++numbers[kind]);
        if (kind == STEP_FILE)
            status = run_file(l, steps[i].text);
        else if (kind == STEP_LINE)
            status = run_line(l, steps[i].text, where);
        else
            status = end_line(
                l, run_command(l, kind == STEP_ASK ? "ask" : "image", steps[i].text, &err) == 0,
                where, &err);
        free(where);
    }
    report_unread(l, steps, count);
    bool pictures = false;
    for (size_t i = 0; i < count; i++) pictures |= steps[i].kind == STEP_IMAGE;
    return end_lines(l, pictures, status);
}

int lines_script(struct lines *l)
{
    return end_lines(l, false, run_file(l, "-"));
}

// --- a dialogue with a program -------------------------------------------------------------------

static const char zero_byte[] = "the line contains a zero byte";

// True for a line whose first key is one of a request: not a question, even if it is cut off.
static bool begins_request(const char *line)
{
    if (*line++ != '{') return false;
    line += strspn(line, " \t");
    return !strncmp(line, "\"id\"", 4) || !strncmp(line, "\"line\"", 6);
}

// Runs {"id": ..., "line": "..."}: a line whose events carry its id. Refuses other objects with an
// "id", and damaged requests. False: the line is no object with an "id".
static bool run_request(struct lines *l, const char *line, const char *where)
{
    line += strspn(line, " \t");
    const size_t size = strlen(line);
    const bool utf8 = text_bad_byte(line, size) == size;
    cJSON *o = *line == '{' && utf8 ? json_parse_exact(line, size, "line", NULL) : NULL;
    if (!o && utf8 && begins_request(line)) {
        refuse(
            l, where,
            "the line begins like a request, {\"id\": 1, \"line\": \"...\"}, but it is not valid "
            "JSON: it may be cut off");
        return true;
    }
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(o, "id");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(o, "line");
    char *name = id ? json_print(id) : NULL;
    if (name) {
        sinks_emit(l->shell->sinks, &(struct event){ .kind = EVENT_REQUEST, .text = name });
        if (json_has_nul(line, size)) // a C string would end there
            refuse(l, where, zero_byte);
        else if (cJSON_IsString(text) && cJSON_GetArraySize(o) == 2)
            run_line(l, text->valuestring, where);
        else
            refuse(l, where,
                   "an object with \"id\" is a request and needs \"line\", a text, and nothing "
                   "else: {\"id\": 1, \"line\": \"...\"}");
        sinks_emit(l->shell->sinks, &(struct event){ .kind = EVENT_REQUEST });
    }
    const bool request = id;
    free(name);
    cJSON_Delete(o);
    return request;
}

static void add_physical(struct lines *l, struct line_reader *reader, char *line, size_t length,
                         int number, int *first)
{
    if (length && line[length - 1] == '\n') line[--length] = '\0';
    if (length && line[length - 1] == '\r') line[--length] = '\0';
    const size_t mark = number == 1 ? text_mark(line, length) : 0;
    line += mark;
    length -= mark;
    if (!line_reader_open(reader)) *first = number;
    char *where = xasprintf("stdin:%d", *first);
    if (strlen(line) != length) {
        struct err err = { 0 };
        const bool wide = number == 1 && text_check_part(line, length, number, &err) < 0;
        line_reader_reset(reader);
        refuse(l, where, wide ? err.text : zero_byte);
    } else if (!line_reader_open(reader) && run_request(l, line, where)) {
        line_reader_reset(reader);
    } else if (line_reader_add(reader, line)) {
        run_line(l, reader->text.data, where);
    }
    free(where);
}

// Reads the next line with its newline; false at the end of the input. *endless: the line exceeds
// LINE_LIMIT, as it does in /dev/zero.
static bool read_line(struct buf *line, bool *endless)
{
    int c = 0;
    buf_clear(line);
    while (c != '\n' && (c = getc(stdin)) != EOF) {
        if (line->length == LINE_LIMIT) return *endless = true;
        buf_putc(line, (char)c);
    }
    return line->length > 0 && !ferror(stdin); // a line that an interrupt cuts off is not run
}

int lines_dialogue(struct lines *l)
{
    struct line_reader reader = { 0 };
    struct buf line = { 0 };
    int number = 0, first = 1;
    struct err err;
    struct stat st;
    const bool kernel = file_in_check(STDIN_FILENO, "standard input", &st, &err) < 0;
    bool endless = false;
    while (!kernel && !l->shell->quit && !stopped(l) && read_line(&line, &endless) && !endless)
        add_physical(l, &reader, line.data, line.length, ++number, &first);
    const bool broken = kernel || endless;
    char *where = xasprintf("stdin:%d", broken ? number + 1 : first);
    if (endless)
        err_set(&err, "the line is longer than %d MB: nothing after it is read", LINE_LIMIT >> 20);
    if (broken)
        end_line(l, false, where, &err);
    else if (line_reader_open(&reader) && !l->shell->quit && !stopped(l))
        refuse(
            l, where,
            "the input ends within an unfinished line (the closing \"\"\" is missing, or the last "
            "line ends in \\)");
    free(where);
    buf_release(&line);
    line_reader_release(&reader);
    return end_lines(l, false, broken ? STATUS_FAILED : STATUS_OK);
}

// --- the prompt ----------------------------------------------------------------------------------

// Keys typed during an answer wait for the next prompt; without echo they do not appear inside the
// answer.
static void set_echo(bool on)
{
    struct termios t;
    if (tcgetattr(STDIN_FILENO, &t) < 0) return;
    if (on)
        t.c_lflag |= ECHO;
    else
        t.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

int lines_prompt(struct lines *l)
{
    struct input *in = input_new(l->shell);
    enum input_result result = INPUT_END;
    char *line;
    while (!l->shell->quit && !stopped(l)) {
        shell_job_news(l->shell);
        if ((result = input_read(in, &line)) != INPUT_LINE) break;
        set_echo(false);
        run_line(l, line, "");
        set_echo(true);
        if (signals_interrupted()) input_flush(in);
        free(line);
    }
    input_free(in);
    return end_lines(l, true, result == INPUT_LEAVE ? STATUS_INTERRUPTED : STATUS_OK);
}
