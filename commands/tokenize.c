// commands/tokenize.c -- /tokenizer, /tokenize and /detokenize: text to token ids and back.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/numbers.h"
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
    .details =
        "FILE is a tokenizer.json, a tiktoken.model, a SentencePiece tokenizer.model, a "
        "vocab.json\n"
        "with its merges.txt, a GGUF file, or a model folder. tokenizer_config.json,\n"
        "special_tokens_map.json and added_tokens.json beside it name added tokens, and what\n"
        "its class puts around texts, as in transformers 4; a notice says where the files, or\n"
        "transformers 5, differ.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_PATH,
    .run = tokenizer_run,
};

static void show_tokens(const struct shell *shell, const struct tokenizer *t, const struct ids *ids)
{
    static const char *const columns[] = { "place", "id", "token", "special" };
    static const bool numeric[] = { true, true, false, false };
    struct table_builder table;
    table_begin(&table, "tokens", 4, columns, numeric);
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = tokenizer_token(t, ids->data[i]);
        table_add(&table, "%zu", i);
        table_add(&table, "%d", (int)ids->data[i]);
        table_add(&table, "%s", token ? token : "");
        table_add(&table, "%s", tokenizer_is_special(t, ids->data[i]) ? "yes" : "");
    }
    table_emit(&table, shell->sinks);
}

static int tokenize_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct tokenizer *t = engine_tokenizer(shell->engine);
    const char *text = argv[argc - 1];
    bool table = false;
    int flags = TOKENIZE_SPECIAL;
    struct ids ids = { 0 };
    for (int i = 0; i < argc - 1; i++) {
        if (!strcmp(argv[i], "--table"))
            table = true;
        else if (!strcmp(argv[i], "--no-special"))
            flags &= ~TOKENIZE_SPECIAL;
        else
            return err_set(err,
                           "/tokenize has no option '%s' (--table, --no-special); put a text that "
                           "begins with '--' in double quotes",
                           argv[i]);
    }
    const int status = tokenizer_encode(t, text, strlen(text), flags, &ids, err);
    if (status == 0)
        sinks_emit(
            shell->sinks,
            &(struct event){ .kind = EVENT_IDS, .ids = ids.data, .count = (int64_t)ids.count });
    if (status == 0 && table) show_tokens(shell, t, &ids);
    ids_release(&ids);
    return status;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .usage = "/tokenize [--no-special] [--table] TEXT",
    .help = "Shows the token ids of a text.",
    .details =
        "Includes the special tokens that the tokenizer adds (BOS); --no-special leaves them\n"
        "out. Special tokens spelled in TEXT are recognised. --table shows the text of each\n"
        "token. After an option, TEXT must be in double quotes.",
    .min = 1,
    .max = 1,
    .rest = true,
    .options = true,
    .needs = NEEDS_TOKENIZER,
    .run = tokenize_run,
};

static int detokenize_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct tokenizer *t = engine_tokenizer(shell->engine);
    struct ids ids = { 0 };
    struct buf text = { 0 };
    const int status = numbers_read(&ids, argc, argv, tokenizer_size(t), err);
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
