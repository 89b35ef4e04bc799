// commands/quantize.c -- /quantize and `vlmsh quantize`: writes the model as a quantised GGUF file
// and compares the file with the model.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/adapter/model_gguf.h"
#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/eval/compare_text.h"
#include "core/files/checkpoint.h"
#include "core/files/content.h"
#include "core/files/whole_file.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

struct quantize_options {
    const char *path, *type, *text;
    const char *encoder; // type of the encoder's weights; NULL: 16 bit
    bool write_only;     // without comparing
};

// --- options -------------------------------------------------------------------------------------

static const struct option_row options[] = {
    { "OUT.gguf", NULL, "the file to write", OPTION_TEXT,
      .at = offsetof(struct quantize_options, path) },
    { "--type", "TYPE", NULL, OPTION_TEXT, .at = offsetof(struct quantize_options, type) },
    { "--encoder", "TYPE", "type of the encoder's weights: q8_0, f16 or bf16", OPTION_TEXT,
      .at = offsetof(struct quantize_options, encoder), .check = model_mmproj_type },
    { "--text", "FILE", "text for the comparison (default: a short text that comes with vlmsh)",
      OPTION_TEXT, .at = offsetof(struct quantize_options, text) },
    { "--no-compare", NULL, "skips the comparison, which runs both models on the text", OPTION_FLAG,
      .at = offsetof(struct quantize_options, write_only) },
    { 0 },
};

static int read_options(struct quantize_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct quantize_options){ 0 };
    if (options_parse(options, o, argc, argv, err) < 0) return -1;
    const size_t n = strlen(o->path);
    if (n < 5 || strcmp(o->path + n - 5, ".gguf") != 0)
        return err_set(err, "the file to write must end in .gguf: '%s'", o->path);
    if (o->write_only && o->text) return err_set(err, "--text and --no-compare cannot be combined");
    return model_gguf_type(o->type, err);
}

static int quantize_check(int argc, char **argv, struct err *err)
{
    struct quantize_options o;
    return read_options(&o, argc, argv, err);
}

// --- writing -------------------------------------------------------------------------------------

// Reports the file's size and its number of matrices by type. Not all have the requested type:
// q4_k is not used for the embedding table and the head, and no type for rows that do not fit its
// blocks.
static void report_file(const struct shell *shell, const char *path, const char *what,
                        const struct gguf_summary *s)
{
    sinks_text(shell->sinks, "%s: %s, %.2f MB; matrices: %s", path, what, (double)s->bytes / 1e6,
               s->types);
}

static void report_model(const struct shell *shell, const struct quantize_options *o,
                         const struct gguf_summary *s)
{
    report_file(shell, o->path, "language model", s);
    if (s->misfits)
        sinks_notice(shell->sinks,
                     "%d of %d matrices get a different type, because their rows do not fit the "
                     "blocks of %s",
                     s->misfits, s->matrices, o->type);
    if (s->unread) sinks_notice(shell->sinks, "not written: %s", s->unread);
    if (s->ends > 3)
        sinks_notice(shell->sinks,
                     "%zu tokens end answers; llama.cpp reads three of them from the file, vlmsh "
                     "and ollama read all (tokenizer.ggml.eos_token_ids)",
                     s->ends);
}

static int check_free(const char *path, struct err *err)
{
    if (access(path, F_OK) < 0) return 0;
    return err_set(err, "'%s' already exists; remove it, or choose another name", path);
}

// Writes model and encoder; omits an encoder that cannot be written, with a notice. Renames the
// files to their final names, and reports them, only when both are complete.
static int write_files(struct shell *shell, const struct quantize_options *o, struct err *err)
{
    const struct model *m = engine_model(shell->engine);
    struct err why;
    const bool with_encoder = engine_has_vision(shell->engine) && model_mmproj_check(m, &why) == 0;
    char *path = model_mmproj_path(o->path);
    struct whole_file *encoder = NULL, *model = NULL;
    struct gguf_summary of_encoder = { 0 }, of_model = { 0 };
    int status = check_free(o->path, err);
    if (status == 0 && with_encoder) status = check_free(path, err);
    if (status == 0 && with_encoder) {
        const struct load_progress progress = engine_progress(shell->engine, "writing");
        status =
            model_write_mmproj(m, o->encoder, o->type, path, &progress, &of_encoder, &encoder, err);
    }
    if (status == 0) {
        const struct load_progress progress = engine_progress(shell->engine, "writing");
        status = model_write_gguf(m, o->type, o->path, &progress, &of_model, &model, err);
    }
    // Renames the model last: a model file without its encoder would silently be a text model.
    if (status < 0) {
        whole_file_abandon(encoder);
    } else if (encoder && (status = whole_file_finish(encoder, err)) < 0) {
        whole_file_abandon(model);
    } else {
        status = whole_file_finish(model, err);
        if (status < 0 && encoder) unlink(path);
    }
    if (status == 0 && with_encoder) {
        report_file(shell, path, "picture encoder and projector", &of_encoder);
        sinks_written(shell->sinks, "encoder", path, NULL);
    }
    if (status == 0) {
        report_model(shell, o, &of_model);
        sinks_written(shell->sinks, "model", o->path, NULL);
    }
    if (status == 0 && engine_has_vision(shell->engine) && !with_encoder)
        sinks_notice(shell->sinks, "the language model alone was written: %s", why.text);
    free(path);
    return status;
}

// --- comparison ----------------------------------------------------------------------------------

// Compares the written file with the model. Loads the written encoder too, because the family may
// depend on it.
static int compare(struct shell *shell, const char *path, const char *text, struct err *err)
{
    struct text_difference d;
    struct err why;
    const struct model *m = engine_model(shell->engine);
    const bool with_encoder = engine_has_vision(shell->engine) && model_mmproj_check(m, &why) == 0;
    char *encoder = with_encoder ? model_mmproj_path(path) : xstrdup("none");
    char *name = checkpoint_with_encoder(path, encoder);
    free(encoder);
    const struct load_progress progress = engine_progress(shell->engine, "comparing");
    const int status =
        compare_text(m, name, text, &progress, engine_cancel_flag(shell->engine), &d, err);
    free(name);
    if (status < 0) return -1;
    struct table_builder t;
    table_begin(&t, "quantize", "measure|value#");
    table_row(&t, "tokens of the text|%" PRId64, d.tokens);
    table_row(&t, "KL divergence, mean|%.6f", d.kl);
    table_row(&t, "KL divergence, largest|%.6f", d.kl_most);
    table_row(&t, "same likeliest token|%.2f%%", 100 * d.same);
    table_row(&t, "perplexity before|%.4f", d.perplexity[0]);
    table_row(&t, "perplexity after|%.4f", d.perplexity[1]);
    table_emit(&t, shell->sinks);
    if (d.pictures)
        sinks_notice(
            shell->sinks,
            "with the file, pictures are preprocessed differently: GGUF has no keys for %s",
            d.pictures);
    free(d.pictures);
    return 0;
}

static int quantize_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct quantize_options o;
    size_t size;
    if (read_options(&o, argc, argv, err) < 0) return -1;
    char *text = o.text ? file_read(o.text, TEXT_BYTES_MAX, &size, err) : NULL;
    if (o.text && (!text || text_check(text, size, o.text, err) < 0)) {
        free(text);
        return -1;
    }
    const char *read = text ? text : compare_sample_text;
    int status = o.write_only ? 0 : compare_text_check(engine_model(shell->engine), read, err);
    if (status == 0) status = write_files(shell, &o, err);
    if (status == 0 && !o.write_only && (status = compare(shell, o.path, read, err)) < 0)
        err_in(err, "'%s' was written, but not compared", o.path);
    free(text);
    return status;
}

const struct command command_quantize = {
    .name = "quantize",
    .also = "gguf compress q4 q8",
    .usage = "/quantize OUT.gguf --type TYPE [--encoder TYPE] [--text FILE | --no-compare]",
    .help = "Quantises the model to a GGUF file and measures the loss in quality.",
    .details =
        "TYPE is q8_0, q4_k, f16 or bf16. With q4_k, the embedding table and the head become "
        "q6_k, and matrices whose row length is not a multiple of 256 become q8_0. With q4_k and "
        "q8_0, matrices whose row length is not a multiple of 32 become f16, and routers of "
        "experts f32. Norms and biases are f32. The picture encoder and the projector go to "
        "mmproj-OUT.gguf beside OUT.gguf, in 16 bits unless --encoder says otherwise. An applied "
        "adapter is included.\n"
        "\n"
        "Afterwards, the original and the quantised model predict each token of a text. "
        "/quantize reports the KL divergence of their distributions, how often their likeliest "
        "tokens agree, and both perplexities. A killed process leaves OUT.gguf.part-XXXXXX; the "
        "next process that writes OUT.gguf removes it.\n"
        "`vlmsh quantize MODEL OUT.gguf --type TYPE` does the same.",
    .options = options,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_PATH,
    .check = quantize_check,
    .run = quantize_run,
};
