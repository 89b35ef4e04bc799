// commands/tokenize.c -- /tokenizer, /tokenize and /detokenize: text to token ids and back.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/tokenizer/tokenizer.h"

static int tokenizer_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (engine_load_tokenizer(shell->engine, argv[0], err) < 0) return -1;
    sinks_notice(shell->sinks, "tokenizer '%s': %d tokens", argv[0],
                 (int)tokenizer_size(engine_tokenizer(shell->engine)));
    return 0;
}

const struct command command_tokenizer = {
    .name = "tokenizer",
    .usage = "/tokenizer FILE",
    .help = "Loads a tokenizer on its own, for /tokenize and /detokenize.",
    .details = "FILE is a tokenizer.json, a tiktoken.model, a SentencePiece tokenizer.model, a "
               "vocab.json "
               "with its merges.txt, a GGUF file, or a model folder. tokenizer_config.json, "
               "special_tokens_map.json and added_tokens.json beside FILE define added tokens "
               "and, as in transformers 4, the special tokens that the tokenizer's class puts "
               "around a text; a notice reports where these files disagree, or where "
               "transformers 5 acts differently.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_PATH,
    .run = tokenizer_run,
};

struct tokenize_options {
    const char *text;
    bool table, plain;
};

static const struct option_row options[] = {
    { "TEXT", NULL, "a text", OPTION_TEXT, .at = offsetof(struct tokenize_options, text) },
    { "--no-special", NULL, "leaves out the special tokens that the tokenizer adds (BOS)",
      OPTION_FLAG, .at = offsetof(struct tokenize_options, plain) },
    { "--table", NULL, "shows the text of each token", OPTION_FLAG,
      .at = offsetof(struct tokenize_options, table) },
    { 0 },
};

// Returns whether the line consists of an option, without a text.
static bool is_option(const char *typed)
{
    for (const struct option_row *row = options + 1; typed && row->name; row++)
        if (!strcmp(typed, row->name)) return true;
    return false;
}

static int tokenize_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct tokenizer *t = engine_tokenizer(shell->engine);
    const bool quoted = argc == 1 && !is_option(shell->typed); // it may begin with "--"
    struct tokenize_options o = { .text = argv[0] };
    struct ids ids = { 0 };
    if (!quoted && options_parse(options, &o, argc, argv, err) < 0)
        return err_in(err, "put a text that begins with '--' in double quotes");
    const int flags = o.plain ? 0 : TOKENIZE_SPECIAL;
    const int status = tokenizer_encode(t, o.text, strlen(o.text), flags, &ids, err);
    if (status == 0)
        sinks_emit(
            shell->sinks,
            &(struct event){ .kind = EVENT_IDS, .ids = ids.data, .count = (int64_t)ids.count });
    if (status == 0 && o.table) {
        struct table_builder table;
        table_begin(&table, "tokens", "position#|id#|token|special");
        for (size_t i = 0; i < ids.count; i++) {
            const int32_t id = ids.data[i];
            table_row(&table, "%zu|%d|%s|%s", i, (int)id, tokenizer_token(t, id),
                      tokenizer_is_special(t, id) ? "yes" : "");
        }
        table_emit(&table, shell->sinks);
    }
    ids_release(&ids);
    return status;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .usage = "/tokenize [--no-special] [--table] TEXT",
    .help = "Shows the token ids of a text.",
    .details =
        "Special tokens spelled in TEXT are recognised. After an option, TEXT must be in double "
        "quotes.",
    .options = options,
    .min = 1,
    .rest = true,
    .split = true,
    .needs = NEEDS_TOKENIZER,
    .run = tokenize_run,
};

static int detokenize_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct tokenizer *t = engine_tokenizer(shell->engine);
    struct ids ids = { 0 };
    struct buf text = { 0 };
    const int status = token_ids_read(&ids, argc, argv, tokenizer_size(t), err);
    if (status == 0) {
        tokenizer_decode(t, ids.data, ids.count, false, &text);
        sinks_text(shell->sinks, "%s", text.data ? text.data : "");
    }
    ids_release(&ids);
    buf_release(&text);
    return status;
}

const struct command command_detokenize = {
    .name = "detokenize",
    .usage = "/detokenize ID...",
    .help = "Shows the text of token ids, separated by spaces or commas.",
    .min = 1,
    .max = -1,
    .needs = NEEDS_TOKENIZER,
    .run = detokenize_run,
};
