// commands/tour.c -- /tour: a guided tour whose steps are input lines to run.
#include "commands/tour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/base/places.h"

static const struct tour_step steps[] = {
    { "/image \"PICTURE\"", "Attach a picture. It becomes visual tokens of the prompt." },
    { "What is in the picture?",
      "Ask about it. During the answer, a map shows where its newest token attends." },
    { "/attention --layer 2", "Where the whole answer attends, in layer 2. F3: arrows step through "
                              "layers and tokens, o shows picture and map side by side." },
    { "/knockout picture > answer",
      "What the answer depends on: the model computes it again without attention to the "
      "picture, in all layers, then in two layers at a time. More such commands: /patch, "
      "/attribute, /faithful, /why." },
    { "/toggle prune.score off contribution",
      "Switch CAPA pruning on: it keeps a quarter of the visual tokens, from the next answer on. "
      "Its map shows dropped tokens in grey. Alt-2 switches pruning on and off, even during an "
      "answer." },
    { "/compare off | prune.score=contribution prune.layer=2 What is in the picture?",
      "Two settings side by side: answers, speed, maps. F12, then arrow keys: step through the "
      "tokens of both answers." },
    { "/compare off | @norm-alignment What is in the picture?",
      "Norm alignment: visual tokens enter the first layer with the norm of text embeddings, 3 "
      "instead of 22 (row \"norm of visual tokens, first layer\"). The model was trained without "
      "it "
      "and sees less: /preset load norm-alignment-1 prepares training with it. Alt-1 toggles it." },
    { "/redundancy",
      "Measure: how little the FFN of each layer changes visual and text tokens. Esc "
      "goes back to the layout that shows the curves." },
    { "/scenes 64 \"FOLDER-world\" --once",
      "Make a small data set: pictures, questions, answers." },
    { "/set train.steps 30", "Set training to 30 steps. train.method selects the weights to train: "
                             "the norms, by default." },
    { "/train \"FOLDER-world/dense.json\" \"FOLDER-norms\"",
      "Train in the background; the conversation continues. F6 shows the job." },
    { "/wait", "Wait for it (Ctrl-C stops waiting, not the job)." },
    { "/adapter load \"FOLDER-norms\"",
      "Apply the trained weights in the middle of the conversation." },
    { "/plot \"FOLDER-norms\" loss", "Draw the training loss. --figure FILE.pdf writes a figure." },
    { "/checkup --only opens,identities,sees --out \"FOLDER-checkup\"",
      "Check the model in the background: what works here, what does not. Without --only, it also "
      "shows what the methods do to the model. A page in the folder has the findings." },
};
enum { STEPS = sizeof steps / sizeof steps[0] };

// The steps of the tour for text-only models.
static const struct tour_step text_steps[] = {
    { "Name three colours.", "Ask something. Ctrl-C stops an answer; /regen answers again." },
    { "/context", "How much of the context the conversation takes. Only new tokens are computed." },
    { "/compare off | sample.repeat_penalty=1.3 Name three colours.",
      "Two settings side by side: answers, speed, and where their distributions diverge." },
    { "/redundancy", "Measure: how little the FFN of each layer changes the tokens. Esc goes back "
                     "to the layout that shows the curves." },
    { "/tokenize --table \"Name three colours.\"", "The tokens of a text." },
    { "/help training", "Data sets, training, evaluation: /train and /eval run as jobs beside the "
                        "chat. This model sees no pictures; start vlmsh without a model for the "
                        "tour with pictures." },
    { "/checkup --only opens,identities --out \"FOLDER-checkup\"",
      "Check the model in the background: what works here, what does not. A page in the folder has "
      "the findings." },
};
enum { TEXT_STEPS = sizeof text_steps / sizeof text_steps[0] };

const struct tour_step *tour_step(bool has_vision, int index)
{
    if (index < 0 || index >= tour_count(has_vision)) return NULL;
    return has_vision ? &steps[index] : &text_steps[index];
}

int tour_count(bool has_vision)
{
    return has_vision ? STEPS : TEXT_STEPS;
}

static void replace(struct buf *b, const char *text, const char *word, const char *with)
{
    const char *at = strstr(text, word);
    if (!at) {
        buf_puts(b, text);
        return;
    }
    buf_add(b, text, (size_t)(at - text));
    buf_puts(b, with);
    replace(b, at + strlen(word), word, with);
}

char *tour_line(bool has_vision, int index)
{
    struct buf b = { 0 };
    const char *line = tour_step(has_vision, index)->line;
    const bool picture = strstr(line, "PICTURE") != NULL;
    const char *temporary = getenv("TMPDIR");
    char *folder = picture ? places_installed("demo/pictures", "scene-1.png") : NULL;
    char *path = picture ? xasprintf("%s/scene-1.png", folder ? folder : "demo/pictures")
                         : xasprintf("%s/vlmsh-tour-%d",
                                     temporary && *temporary ? temporary : "/tmp", (int)getpid());
    replace(&b, line, picture ? "PICTURE" : "FOLDER", path);
    free(folder);
    free(path);
    return buf_take(&b);
}

static int run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (shell->screen) return shell->screen->open(shell->screen->self, "tour", err);
    const bool has_vision = !engine_model(shell->engine) || engine_has_vision(shell->engine);
    struct buf b = { 0 };
    for (int i = 0; i < tour_count(has_vision); i++) {
        char *line = tour_line(has_vision, i);
        buf_printf(&b, "%2d. %s\n      %s\n", i + 1, tour_step(has_vision, i)->text, line);
        free(line);
    }
    sinks_text(shell->sinks, "%s", b.data);
    buf_release(&b);
    return 0;
}

const struct command command_tour = {
    .name = "tour",
    .also = "tutorial intro guide",
    .usage = "/tour",
    .help = "Guided tour, step by step: from a question to an adapter.",
    .details =
        "The full screen writes each step into the input line: Enter runs it, Esc ends the tour.\n"
        "Without the full screen, lists the steps. Training writes to a temporary folder. "
        "Text-only models have a shorter tour.",
    .run = run,
};
