// commands/boxes.c -- /boxes: the boxes and points of the last answer, as a table or in a file.

#include "core/picture/boxes.h"
#include "commands/command.h"
#include "commands/figure.h"
#include "core/base/text.h"
#include "core/draw/boxes_figure.h"
#include "core/draw/figure.h"
#include "core/template/message.h"

static void fill_table(struct table_builder *t, const struct boxes *b)
{
    table_begin(t, "boxes", "label|kind|x#|y#|w#|h#");
    for (size_t i = 0; i < b->count; i++) {
        const struct picture_box *x = &b->list[i];
        table_row(t, "%s|%s|%.6g|%.6g", x->label, x->point ? "point" : "box", x->x, x->y);
        if (x->point)
            table_row(t, "%s|%s", "", "");
        else
            table_row(t, "%.6g|%.6g", x->w, x->h);
    }
}

static int save(struct shell *shell, const char *path, const struct picture *p,
                const struct boxes *b, struct err *err)
{
    struct table_builder t;
    if (text_ends(path, ".csv")) {
        fill_table(&t, b);
        return table_write(&t, path, shell->sinks, err);
    }
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    if (boxes_figure(path, &look, &p->image, b, err) < 0) return -1;
    figure_written(shell, "picture with boxes", path);
    return 0;
}

static int boxes_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct boxes b;
    struct table_builder t;
    const struct box_style *style;
    int status = 0;
    // Loads the default model if none is loaded: unless image.boxes is set, the model's family
    // determines the notation of boxes. Without a model, engine_boxes guesses it.
    command_check_needs(shell, NEEDS_MODEL, NULL);
    const int picture = engine_boxes(shell->engine, &style, &b);
    if (picture < 0)
        status = err_set(err, "no answer about a picture: attach one with /image, then ask");
    else if (!b.count)
        status = err_set(err,
                         b.outside ? "the last answer has no box within the picture; boxes left "
                                     "out: %zu. Their numbers were read as %s (%s); image.boxes "
                                     "changes that"
                                   : "the last answer has no boxes",
                         b.outside, style->name, box_unit_text(style->unit));
    if (status == 0 && argc) {
        status = save(shell, argv[0], &engine_talk(shell->engine).pictures[picture], &b, err);
    } else if (status == 0) {
        fill_table(&t, &b);
        table_emit(&t, shell->sinks);
    }
    if (status == 0)
        sinks_notice(shell->sinks,
                     "picture %d, in its pixels; numbers read as %s: %s (image.boxes)", picture,
                     style->name, box_unit_text(style->unit));
    if (status == 0 && b.outside)
        sinks_notice(shell->sinks, "left out: %zu box%s outside the picture", b.outside,
                     b.outside == 1 ? "" : "es");
    boxes_release(&b);
    return status;
}

const struct command command_boxes = {
    .name = "boxes",
    .also = "bounding box bbox grounding points detection coordinates",
    .usage = "/boxes [FILE]",
    .help = "Lists or saves the boxes and points in the last answer.",
    .details =
        "Shows left, top, width and height in pixels of the original picture. FILE.csv saves "
        "this table; FILE.png, .svg or .pdf saves the picture with its boxes and labels. Boxes "
        "belong to the last picture before the answer. The model family determines how the "
        "numbers in an answer are read; the setting image.boxes overrides it (docs/chat.md).",
    .max = 1,
    .writes = true,
    .complete = COMPLETE_PATH,
    .run = boxes_run,
};
