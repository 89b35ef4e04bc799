// commands/new.c -- /new and `vlmsh new`: writes a model folder: a new model with the shape of a
// published one, or a picture encoder joined to a language model.
#include <string.h>

#include "commands/command.h"
#include "core/files/content.h"
#include "core/new/join.h"
#include "core/new/new_model.h"

enum { TEXTS_MAX = 16 };

struct new_options {
    const char *shape, *encoder, *decoder, *folder, *texts[TEXTS_MAX];
    int text_count;
    int64_t seed;
    double scale; // factor of the initial weights of the projector's second layer
    int merge;    // side of the block of features that is merged into one visual token
    bool linear, dry, once, zeros;
};

// --- options -------------------------------------------------------------------------------------

static int take_text(void *self, const char *value, struct err *err)
{
    struct new_options *o = self;
    if (o->text_count == TEXTS_MAX) return err_set(err, "at most %d texts", TEXTS_MAX);
    o->texts[o->text_count++] = value;
    return 0;
}

#define AT(field) .at = offsetof(struct new_options, field)
static const struct option_row options[] = {
    { "DIR", NULL, NULL, OPTION_TEXT, AT(folder), .optional = true },
    { "--like", "SHAPE", NULL, OPTION_TEXT, AT(shape) },
    { "--encoder", "MODEL", NULL, OPTION_TEXT, AT(encoder) },
    { "--decoder", "MODEL", NULL, OPTION_TEXT, AT(decoder) },
    { "--scale", "S", "multiplies the initial weights of the projector's second layer (default 1)",
      OPTION_REAL, AT(scale), 0, 100 },
    { "--merge", "N",
      "merges N x N neighbouring features into one visual token in the projector (CLIP, SigLIP; "
      "default 1). transformers has no such model for N > 1",
      OPTION_INT, AT(merge), 1, 64 },
    { "--linear", NULL,
      "joins by one linear layer instead of two with a GELU, as in the paper on LayerNorm tuning "
      "(CLIP, SigLIP); transformers has no such model",
      OPTION_FLAG, AT(linear) },
    { "--text", "FILE",
      "trains the tokenizer on this file in addition to built-in common words: a data set (.json, "
      ".jsonl: its texts) or plain text; may be repeated",
      .take = take_text, .many = true },
    { "--seed", "N", "random seed of the weights (default 42)", OPTION_WHOLE, AT(seed), 0,
      INT64_MAX },
    { "--zeros", NULL,
      "writes all-zero weights to a sparse file, which takes no disk space, to test whether a "
      "model "
      "fits into memory",
      OPTION_FLAG, AT(zeros) },
    { "--dry", NULL, "shows parameter counts and size without writing anything", OPTION_FLAG,
      AT(dry) },
    { "--once", NULL, "does nothing if DIR already holds a model, for scripts that run repeatedly",
      OPTION_FLAG, AT(once) },
    { 0 },
};
#undef AT

static int name_shapes(const char *problem, struct err *err)
{
    struct buf b = { 0 };
    for (int i = 0; new_model_shape(i); i++) buf_printf(&b, i ? ", %s" : "%s", new_model_shape(i));
    err_set(err, "%s; shapes: %s", problem, b.data ? b.data : "none");
    buf_release(&b);
    return -1;
}

static int read_options(struct new_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct new_options){ .seed = -1, .scale = 1, .merge = 1 };
    if (options_parse(options, o, argc, argv, err) < 0) return -1;
    const bool joins = o->encoder || o->decoder;
    if (joins && (o->shape || o->text_count || o->zeros))
        return err_set(
            err, "--like, --text and --zeros cannot be combined with --encoder and --decoder");
    if (!joins && (o->scale != 1 || o->merge != 1 || o->linear))
        return err_set(err, "--scale, --merge and --linear need --encoder and --decoder");
    if (o->zeros && o->seed >= 0)
        return err_set(err, "--zeros and --seed cannot be combined: no weight is random");
    if (o->seed < 0) o->seed = 42;
    if (joins && !o->decoder) return err_set(err, "give --decoder MODEL, the language model");
    if (joins && !o->encoder) return err_set(err, "give --encoder MODEL, the picture encoder");
    if (!joins && !o->shape) return name_shapes("give --like SHAPE", err);
    bool known = joins;
    for (int i = 0; !joins && new_model_shape(i); i++)
        known |= !strcmp(new_model_shape(i), o->shape);
    if (!known) return name_shapes("unknown shape", err);
    if (!o->folder && !o->dry) return err_set(err, "give DIR, the output folder");
    return 0;
}

// --- the command ---------------------------------------------------------------------------------

static void show_counts(const struct sinks *sinks, const struct new_model_counts *n)
{
    const bool large = n->bytes >= 100000000;
    struct table_builder t;
    table_begin(&t, "parameters", "part|parameters#");
    for (int i = 0; i < MODEL_PARTS; i++) {
        if (!n->parts[i].parameters) continue;
        table_row(&t, "%s|%lld", n->parts[i].name, (long long)n->parts[i].parameters);
    }
    table_row(&t, "total|%lld", (long long)n->total);
    table_emit(&t, sinks);
    sinks_text(sinks, large ? "%.2f GB of bf16 weights" : "%.2f MB of bf16 weights",
               (double)n->bytes / (large ? 1e9 : 1e6));
}

static int write_model(struct shell *shell, const struct new_options *o, struct err *err)
{
    const struct load_progress progress = engine_progress(shell->engine, "writing");
    struct buf text = { 0 };
    int status = 0;
    for (int i = 0; i < o->text_count && status == 0; i++)
        status = new_text_read(&text, o->texts[i], err);
    if (status == 0 && o->zeros)
        status = new_model_write_zeros(o->shape, o->folder, text.data, err);
    else if (status == 0)
        status = new_model_write(o->shape, o->folder, (uint64_t)o->seed, text.data, &progress, err);
    buf_release(&text);
    return status;
}

static int new_check(int argc, char **argv, struct err *err)
{
    struct new_options o;
    return read_options(&o, argc, argv, err);
}

static int new_like(struct shell *shell, const struct new_options *o, struct err *err)
{
    struct new_model_counts counts;
    if (new_model_count(o->shape, &counts, err) < 0) return -1;
    show_counts(shell->sinks, &counts);
    return o->dry ? 0 : write_model(shell, o, err);
}

static int new_joined(struct shell *shell, const struct new_options *o, struct err *err)
{
    const struct load_progress progress = engine_progress(shell->engine, "writing");
    struct new_model_counts counts;
    struct join *j = join_open(
        o->encoder, o->decoder,
        &(struct join_options){
            .seed = (uint64_t)o->seed, .scale = o->scale, .merge = o->merge, .linear = o->linear },
        err);
    if (!j) return -1;
    join_count(j, &counts);
    show_counts(shell->sinks, &counts);
    const int status = o->dry ? 0 : join_write(j, o->folder, &progress, err);
    join_free(j);
    return status;
}

static int new_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct new_options o;
    if (read_options(&o, argc, argv, err) < 0) return -1;
    if (!o.dry && o.once && new_model_written(o.folder)) {
        sinks_notice(shell->sinks, "%s already holds a model: nothing to do", o.folder);
        return 0;
    }
    if ((o.shape ? new_like : new_joined)(shell, &o, err) < 0) return -1;
    if (o.dry) return 0;
    sinks_written(shell->sinks, "model", o.folder, NULL);
    sinks_text(shell->sinks, "written to %s; open it with: vlmsh %s", o.folder, o.folder);
    return 0;
}

const struct command command_new = {
    .name = "new",
    .usage = "/new --like SHAPE | --encoder MODEL --decoder MODEL DIR [--text FILE]... [--seed N] "
             "[--scale S] [--merge N] [--linear] [--zeros] [--dry] [--once]",
    .help = "Writes a model folder: random weights, or an encoder joined to a language model.",
    .details =
        "SHAPE names the shape of a published model (/new without arguments lists them), or "
        "`demo`, a small "
        "model for training. DIR must be new or empty. `vlmsh new` does the same.\n"
        "--encoder MODEL --decoder MODEL  joins the picture encoder of one model (CLIP, SigLIP, "
        "MoonViT) to the language model of another through a new projector, in LLaVA's layout, and "
        "adds the token <image>. MODEL is a folder, a GGUF file or a name in the hub cache",
    .options = options,
    .complete = COMPLETE_PATH,
    .check = new_check,
    .run = new_run,
};
