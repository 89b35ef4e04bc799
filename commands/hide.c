// commands/hide.c -- /hide: hides tokens of the conversation from the attention of all other
// positions, in hide.tokens.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/methods/hide.h"
#include "core/probes/measure_data.h"
#include "core/settings/settings.h"

struct hide_options {
    struct buf names; // the words before the first option
    const char *objects;
    bool boxes;
    int picture;
};

static int take_name(void *self, const char *value, struct err *err)
{
    struct hide_options *o = self;
    buf_printf(&o->names, "%s%s", o->names.length ? " " : "", value);
    return 0;
}

#define AT(field) .at = offsetof(struct hide_options, field)
static const struct option_row hide_rows[] = {
    { "POSITIONS", NULL, "names of positions (/help positions)", OPTION_CALL, .take = take_name,
      .optional = true, .many = true },
    { "--picture", "I", "the picture that shows `object NAME` (default: the last one)", OPTION_INT,
      AT(picture), 0, INT32_MAX },
    { "--objects", "FILE",
      "annotations of the pictures, for `object NAME`, in the format of objects.jsonl (/scenes), "
      "of COCO's instances or of RefCOCO's rows as JSON",
      OPTION_TEXT, AT(objects) },
    { "--boxes", NULL, "uses the boxes of objects even if the file has their outlines", OPTION_FLAG,
      AT(boxes) },
    { 0 },
};
#undef AT

// Appends "78" or "91-94".
static void put_range(struct buf *b, int64_t first, int64_t last)
{
    buf_printf(b, "%s%lld", b->length ? "," : "", (long long)first);
    if (last > first) buf_printf(b, "-%lld", (long long)last);
}

// Returns the hidden positions as flags [*end], at least `least` of them; the caller frees them.
static bool *hidden_now(const struct shell *shell, int64_t least, int64_t *end)
{
    struct err err;
    bool *hidden = hide_positions(engine_settings(shell->engine), end, &err);
    if (!hidden) BUG("hide.tokens was not checked: %s", err.text);
    if (*end >= least) return hidden;
    hidden = xreallocarray(hidden, (size_t)least, sizeof *hidden);
    memset(hidden + *end, 0, (size_t)(least - *end) * sizeof *hidden);
    *end = least;
    return hidden;
}

// Positions ascend, so the last one is the largest.
static int64_t length_of(const struct ids *positions)
{
    return positions->count ? positions->data[positions->count - 1] + 1 : 0;
}

// Hides positions, or (`show`) no longer hides them.
static int change(struct shell *shell, const struct ids *positions, bool show, struct err *err)
{
    struct buf value = { 0 };
    int64_t end;
    bool *hidden = hidden_now(shell, length_of(positions), &end);
    for (size_t i = 0; i < positions->count; i++) hidden[positions->data[i]] = !show;
    for (int64_t i = 0, last; i < end; i = last + 1) {
        last = i;
        if (!hidden[i]) continue;
        while (last + 1 < end && hidden[last + 1]) last++;
        put_range(&value, i, last);
    }
    const int status =
        engine_set(shell->engine, "hide.tokens", value.length ? value.data : "none", err);
    buf_release(&value);
    free(hidden);
    return status;
}

static bool all_hidden(const struct shell *shell, const struct ids *positions)
{
    int64_t end;
    bool all = true, *hidden = hidden_now(shell, length_of(positions), &end);
    for (size_t i = 0; i < positions->count; i++) all &= hidden[positions->data[i]];
    free(hidden);
    return all;
}

enum action { HIDE, SHOW, TOGGLE };

static int named(struct shell *shell, enum action action, int argc, char **argv, struct err *err)
{
    struct hide_options o = { .picture = -1 };
    struct ids positions = { 0 };
    int status = options_parse(hide_rows, &o, argc, argv, err) < 0 ? -1 : 0;
    if (status == 0 && o.boxes && !o.objects) status = err_set(err, "--boxes needs --objects FILE");
    if (status == 0 && !o.names.length)
        status = err_set(err,
                         "name the positions: /hide %s picture[0,0,50%%,50%%] (/help "
                         "positions)",
                         action == SHOW     ? "show"
                         : action == TOGGLE ? "toggle"
                                            : "");
    if (status == 0) {
        struct measure_request request = { .options = probe_defaults,
                                           .objects = o.objects,
                                           .boxes = o.boxes };
        request.options.words = o.names.data;
        request.options.picture = o.picture;
        status = engine_positions(shell->engine, &request, &positions, err);
    }
    if (status == 0) {
        const bool show = action == SHOW || (action == TOGGLE && all_hidden(shell, &positions));
        status = change(shell, &positions, show, err);
    }
    ids_release(&positions);
    buf_release(&o.names);
    return status;
}

static int off_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_set(shell->engine, "hide.tokens", "none", err);
}

static int show_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return named(shell, SHOW, argc, argv, err);
}

static int toggle_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return named(shell, TOGGLE, argc, argv, err);
}

static int hide_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct settings *s = engine_settings(shell->engine);
    if (argc) return named(shell, HIDE, argc, argv, err);
    if (settings_is(s, "hide.tokens", "none"))
        sinks_text(shell->sinks, "no token is hidden: /hide POSITIONS");
    else
        sinks_text(shell->sinks, "hidden positions: %s, in layers %s",
                   settings_text(s, "hide.tokens"), settings_text(s, "hide.layers"));
    return 0;
}

#define OPTIONS "[--picture I] [--objects FILE [--boxes]]"
static const struct command_action actions[] = {
    { "show", "POSITIONS", "no longer hides them", 1, -1, .run = show_run },
    { "toggle", "POSITIONS", "hides them, or shows them if all of them are hidden", 1, -1,
      .run = toggle_run },
    { "off", NULL, "hides no token", 0, 0, .run = off_run },
    { 0 },
};

const struct command command_hide = {
    .name = "hide",
    .also = "mask remove drop visual tokens attention knockout intervention",
    .usage = "/hide [POSITIONS " OPTIONS " | show POSITIONS | toggle POSITIONS | off]",
    .help = "Hides tokens from the attention of all other positions, from the next token on.",
    .details =
        "The next answers are those of a model that never attends to these tokens. /hide lists "
        "the hidden positions, which the setting hide.tokens stores; hide.layers chooses the "
        "layers (default: all). POSITIONS are names (/help positions): picture[50%,0,50%,50%], "
        "object red circle, sinks, or numbers. They add to those hidden already.\n"
        "\n"
        "In the full screen, a right click on the picture hides or shows the visual token there; "
        "the key x in the picture panel does the same for the map's highest value, or for a "
        "selected box.",
    .max = -1,
    .needs = NEEDS_MODEL,
    .live = "off",
    .complete = COMPLETE_POSITIONS,
    .options = hide_rows,
    .actions = actions,
    .run = hide_run,
};
