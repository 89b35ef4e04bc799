// commands/image.c -- /image attaches pictures to the next message; /images lists all pictures.
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "core/picture/image.h"
#include "core/template/message.h"

static const char clipboard_name[] = "clipboard";

static const char *picture_name(const struct picture *p)
{
    return strcmp(p->path, "-") ? p->path : "standard input";
}

// Returns the index of the message with the picture; -1: none.
static int64_t message_with(const struct engine_talk *c, int picture)
{
    for (size_t i = 0; i < c->message_count; i++)
        for (size_t j = 0; j < c->messages[i].content_count; j++)
            if (!c->messages[i].content[j].text && c->messages[i].content[j].picture == picture)
                return (int64_t)i;
    return -1;
}

static bool is_waiting(const struct engine_talk *c, int picture)
{
    for (size_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i] == picture) return true;
    return false;
}

static int images_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct engine_talk c = engine_talk(shell->engine);
    struct table_builder t;
    table_begin(&t, "images", "picture#|width#|height#|tokens#|where|file|sha256");
    for (size_t i = 0; i < c.picture_count; i++) {
        const struct picture *p = &c.pictures[i];
        const int64_t message = message_with(&c, (int)i);
        if (!p->path) continue; // removed by /undo or detached
        table_row(&t, "%zu|%" PRId64 "|%" PRId64 "|%" PRId64, i, p->image.width, p->image.height,
                  p->tokens);
        if (is_waiting(&c, (int)i))
            table_add(&t, "next message");
        else if (message >= 0)
            table_add(&t, "message %" PRId64, message);
        else
            table_add(&t, "not used");
        table_row(&t, "%s|%.12s", picture_name(p), p->sha256);
    }
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_images = {
    .name = "images",
    .also = "pictures photos list",
    .usage = "/images",
    .help = "Lists the conversation's pictures with size and number of tokens.",
    .run = images_run,
};

// Reports the size of the picture attached last and, with a model, its number of visual tokens.
static void report_attached(const struct shell *shell)
{
    const struct engine_talk c = engine_talk(shell->engine);
    const struct picture *p = &c.pictures[c.picture_count - 1];
    struct engine_context x;
    char left[96];
    // Counting tokens needs a model; if none can be loaded, the number stays unknown.
    command_check_needs(shell, NEEDS_MODEL, NULL);
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_ATTACHED,
                                              .pictures = p,
                                              .id = (int32_t)c.picture_count - 1 });
    if (engine_model(shell->engine) && engine_context(shell->engine, &x, NULL) == 0) {
        const int64_t rest = x.limit - x.text - x.visual - x.waiting_visual;
        if (rest >= 0)
            snprintf(left, sizeof left, "%" PRId64 " of %" PRId64 " tokens left", rest, x.limit);
        else
            snprintf(left, sizeof left, "%" PRId64 " token%s too many for a context of %" PRId64,
                     -rest, rest == -1 ? "" : "s", x.limit);
        sinks_notice(shell->sinks,
                     "attached %s: %" PRId64 " x %" PRId64 " pixels, %" PRId64 " visual tokens; %s",
                     picture_name(p), p->image.width, p->image.height, p->tokens, left);
    } else
        sinks_notice(shell->sinks, "attached %s: %" PRId64 " x %" PRId64 " pixels", picture_name(p),
                     p->image.width, p->image.height);
}

// Attaches a file, or all files that match a name with wildcards, in order. A file with the literal
// name takes precedence.
static int attach(struct shell *shell, const char *name, int *attached, struct err *err)
{
    glob_t found = { 0 };
    const bool pattern = strpbrk(name, "*?[") && access(name, F_OK) != 0;
    const bool any = pattern && glob(name, 0, NULL, &found) == 0;
    const size_t count = any ? found.gl_pathc : 1;
    int status = pattern && !any ? err_set(err, "no file matches '%s'", name) : 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        status = engine_attach(shell->engine, any ? found.gl_pathv[i] : name, err);
        if (status < 0) break;
        report_attached(shell);
        (*attached)++;
    }
    globfree(&found);
    return status;
}

// Returns the spaces between words as typed: gaps[i] follows word i. Returns single spaces if the
// line was not typed, has a double quote, or does not split at its spaces (${NAME:-A B}).
static char **typed_gaps(const char *typed, int count)
{
    char **gaps = xcalloc((size_t)count, sizeof *gaps);
    const char *p = typed && !strchr(typed, '"') ? typed : "";
    int n = 0;
    for (; *p && n < count; n++) {
        const char *end = name_end(p);
        while (*end && end[-1] == '\\') end = name_end(end + 1);
        p = skip_blanks(end);
        gaps[n] = xstrndup(end, (size_t)(p - end));
    }
    const bool known = n == count && !*p;
    for (int i = 0; i < count && !known; i++) {
        free(gaps[i]);
        gaps[i] = xstrdup(" ");
    }
    return gaps;
}

// Returns the longest run of words that, with the spaces between them, names a file, or the first
// word if none does. *count: the number of words used.
static char *file_of_words(char **words, char **gaps, int most, int *count)
{
    for (*count = most; *count > 1; --*count) {
        struct buf name = { 0 };
        for (int i = 0; i < *count; i++)
            buf_printf(&name, "%s%s", words[i], i + 1 < *count ? gaps[i] : "");
        if (access(name.data, F_OK) == 0) return buf_take(&name);
        buf_release(&name);
    }
    return xstrdup(words[0]);
}

// --- the clipboard -------------------------------------------------------------------------------

// Terminals cannot send pictures: OSC 52 is for text, and most terminals do not answer it at all.
// So wl-paste (Wayland) or xclip (X11) reads the desktop's clipboard.
static const struct source {
    const char *display; // environment variable that is set if the program can be used
    const char *package;
    const char *argv[8];
} sources[] = {
    { "WAYLAND_DISPLAY", "wl-clipboard", { "wl-paste", "--no-newline", "--type", "image", NULL } },
    { "DISPLAY",
      "xclip",
      { "xclip", "-selection", "clipboard", "-target", "image/png", "-out", NULL } },
};

// Returns 0 if *bytes is the picture, or empty for lack of one; PROGRAM_MISSING; another positive
// number if there is no picture; -1 with a message.
static int ask_program(const struct source *s, const atomic_bool *cancel, struct buf *bytes,
                       struct err *err)
{
    const struct program p = { .argv = (char *const *)(uintptr_t)s->argv,
                               .patience_s = 5,
                               .most = IMAGE_MAX_FILE + 1,
                               .cancel = cancel };
    const int status = program_run(&p, bytes, err);
    if (bytes->length > IMAGE_MAX_FILE)
        return err_set(err, "%s returned more than %d MB, the limit of a picture", s->argv[0],
                       IMAGE_MAX_FILE >> 20);
    return status;
}

// Returns the bytes of the picture in the clipboard, which the caller frees; NULL with a message.
static char *clipboard_picture(const atomic_bool *cancel, size_t *size, struct err *err)
{
    struct buf bytes = { 0 };
    const struct source *missing = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        const char *display = getenv(s->display);
        if (!display || !*display) continue;
        buf_clear(&bytes);
        const int status = ask_program(s, cancel, &bytes, err);
        if (status == 0 && bytes.length) {
            *size = bytes.length;
            return buf_take(&bytes);
        }
        buf_release(&bytes);
        if (status == PROGRAM_MISSING) {
            missing = missing ? missing : s; // the other program may be installed
            continue;
        }
        if (status >= 0) err_set(err, "the clipboard holds no picture");
        return NULL;
    }
    if (missing)
        err_set(err, "cannot read the clipboard: install %s, or give the picture's file",
                missing->package);
    else
        err_set(err, "no clipboard: neither WAYLAND_DISPLAY nor DISPLAY is set (ssh does not "
                     "forward your desktop's clipboard); copy the picture's file here instead");
    return NULL;
}

static int attach_clipboard(struct shell *shell, struct err *err)
{
    size_t size;
    char *bytes = clipboard_picture(engine_cancel_flag(shell->engine), &size, err);
    if (!bytes) return -1;
    const int status = engine_attach_bytes(shell->engine, clipboard_name, bytes, size, err);
    free(bytes);
    if (status == 0) report_attached(shell);
    return status;
}

// --remove N detaches a pending picture by its number in /images.
static int remove_one(struct shell *shell, const char *number, struct err *err)
{
    const struct engine_talk c = engine_talk(shell->engine);
    char *end;
    const long n = strtol(number, &end, 10);
    if (!*number || *end || n < 0 || (size_t)n >= c.picture_count || !c.pictures[n].path)
        return err_set(err, "no picture %s: /images lists them", number);
    if (!is_waiting(&c, (int)n))
        return err_set(err,
                       "picture %ld belongs to message %" PRId64 ": /undo removes messages with "
                       "their pictures",
                       n, message_with(&c, (int)n));
    char *name = xstrdup(picture_name(&c.pictures[n]));
    engine_detach_one(shell->engine, (int)n);
    sinks_notice(shell->sinks, "removed picture %ld, %s", n, name);
    free(name);
    return 0;
}

static void remove_all(struct shell *shell)
{
    const struct engine_talk c = engine_talk(shell->engine);
    struct buf names = { 0 };
    for (size_t i = 0; i < c.waiting_count; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", picture_name(&c.pictures[c.waiting[i]]));
    engine_detach(shell->engine);
    if (names.length)
        sinks_notice(shell->sinks, "removed %s", names.data);
    else
        sinks_notice(shell->sinks, "no picture is attached to the next message");
    buf_release(&names);
}

struct image_options {
    const char *remove;
    int files;
    bool clipboard, clear;
};

static int take_file(void *self, const char *value, struct err *err)
{
    ((struct image_options *)self)->files++;
    return 0;
}

static const struct option_row options[] = {
    { "FILE", NULL, NULL, .take = take_file, .optional = true, .many = true },
    { "--clipboard", NULL, "attaches the picture in the clipboard (through wl-paste or xclip)",
      OPTION_FLAG, .at = offsetof(struct image_options, clipboard) },
    { "--remove", "N", "detaches a pending picture, by its number in /images", OPTION_TEXT,
      .at = offsetof(struct image_options, remove) },
    { "--clear", NULL, "detaches all pending pictures", OPTION_FLAG,
      .at = offsetof(struct image_options, clear) },
    { 0 },
};

static int image_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct image_options o = { 0 };
    if (!argc) return images_run(shell, argc, argv, err);
    if (options_parse(options, &o, argc, argv, err) < 0) return -1;
    if ((o.files > 0) + o.clipboard + (o.remove != NULL) + o.clear > 1)
        return err_set(err, "give either files or one option: %s", shell->running->usage);
    if (o.clipboard) return attach_clipboard(shell, err);
    if (o.remove) return remove_one(shell, o.remove, err);
    if (o.clear) {
        remove_all(shell);
        return 0;
    }
    int attached = 0, status = 0;
    char **gaps = typed_gaps(shell->typed, argc);
    for (int i = 0, count; i < argc && status == 0; i += count) {
        char *name = file_of_words(argv + i, gaps + i, argc - i, &count);
        status = attach(shell, name, &attached, err);
        free(name);
    }
    for (int i = 0; i < argc; i++) free(gaps[i]);
    free(gaps);
    if (status < 0 && attached)
        return err_in(err, "%d picture%s attached, then", attached, attached > 1 ? "s" : "");
    return status;
}

const struct command command_image = {
    .name = "image",
    .also = "picture photo attach screenshot clipboard",
    .usage = "/image [FILE...|-|--clipboard|--remove N|--clear]",
    .help = "Attaches pictures (PNG, JPEG, WebP, GIF, BMP, PPM) to the next message.",
    .details =
        "Shows how many tokens each picture takes and how many are left. \"-\" reads a picture "
        "from standard input. Wildcards (*, ?, []) attach all matching files (/image "
        "scenes/*.png); put a pattern with spaces in quotes. Names of existing files need "
        "no quotes. Without arguments, lists all pictures.",
    .options = options,
    .complete = COMPLETE_PATH,
    .run = image_run,
};
