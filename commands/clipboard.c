// commands/clipboard.c -- asks wl-paste or xclip for the picture in the clipboard.
//
// A terminal gives no pictures: OSC 52 is for text, and most terminals do not answer it at all. So
// the desktop is asked, through the program that its user has for that.
#include "commands/clipboard.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/program.h"
#include "core/picture/image.h"

static const double patience_s = 5;

static const struct source {
    const char *display; // variable of the environment that says it can be asked
    const char *package;
    const char *argv[8];
} sources[] = {
    { "WAYLAND_DISPLAY", "wl-clipboard", { "wl-paste", "--no-newline", "--type", "image", NULL } },
    { "DISPLAY",
      "xclip",
      { "xclip", "-selection", "clipboard", "-target", "image/png", "-out", NULL } },
};

// 0: *bytes; PROGRAM_MISSING; another number: it has no picture; -1 with a message.
static int ask(const struct source *s, const atomic_bool *cancel, struct buf *bytes,
               struct err *err)
{
    const struct program p = { .argv = (char *const *)(uintptr_t)s->argv,
                               .patience_s = patience_s,
                               .most = IMAGE_MAX_FILE + 1,
                               .cancel = cancel };
    const int status = program_run(&p, bytes, err);
    if (bytes->length > IMAGE_MAX_FILE)
        return err_set(err, "%s gives more than the %d MB of a picture", s->argv[0],
                       IMAGE_MAX_FILE >> 20);
    return status;
}

char *clipboard_picture(const atomic_bool *cancel, size_t *size, struct err *err)
{
    struct buf bytes = { 0 };
    const struct source *missing = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        const char *display = getenv(s->display);
        if (!display || !*display) continue;
        buf_clear(&bytes);
        const int status = ask(s, cancel, &bytes, err);
        if (status == 0 && bytes.length) {
            *size = bytes.length;
            return buf_take(&bytes);
        }
        buf_release(&bytes);
        if (status == PROGRAM_MISSING) {
            missing = missing ? missing : s; // where both can be asked, the other may be there
            continue;
        }
        if (status >= 0) err_set(err, "the clipboard holds no picture");
        return NULL;
    }
    if (missing)
        err_set(err, "cannot read the clipboard: install %s, or give the picture's file",
                missing->package);
    else
        err_set(err,
                "there is no clipboard here: neither WAYLAND_DISPLAY nor DISPLAY is set (over ssh "
                "the clipboard stays with your desktop); copy the picture's file here instead");
    return NULL;
}
