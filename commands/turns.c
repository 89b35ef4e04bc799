// commands/turns.c -- /regen, /undo, /clear and /answer: the turns of the conversation.
#include "commands/command.h"

static int regen_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_regenerate(shell->engine, err);
}

const struct command command_regen = {
    .name = "regen",
    .also = "retry again another",
    .alias = "regenerate",
    .usage = "/regen",
    .help = "Answers the last question again.",
    .details = "With sample.temperature 0 the answer is the same unless a setting changed.",
    .needs = NEEDS_MODEL,
    .run = regen_run,
};

static int undo_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_undo(shell->engine, err);
}

const struct command command_undo = {
    .name = "undo",
    .also = "back revert",
    .usage = "/undo",
    .help = "Removes the last question and its answer.",
    .details = "The session keeps removed turns; they are no longer part of the conversation.",
    .run = undo_run,
};

static int clear_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    engine_report_unsent(shell->engine);
    engine_clear(shell->engine);
    return 0;
}

const struct command command_clear = {
    .name = "clear",
    .also = "new restart empty forget",
    .usage = "/clear",
    .help = "Clears the conversation: messages and pictures; the model stays.",
    .run = clear_run,
};

static int answer_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_answer(shell->engine, err);
}

const struct command command_answer = {
    .name = "answer",
    .also = "reply edit",
    .usage = "/answer",
    .help = "Answers the last user message, such as one that /messages added.",
    .details = "Attached pictures that wait join that message, or are a message of their own if it "
               "has an answer.",
    .needs = NEEDS_MODEL,
    .run = answer_run,
};
