// commands/steer.c -- /steer: makes steering vectors, and sets their strengths in steer.vectors.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/adapter/provenance.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/methods/steer.h"
#include "core/probes/directions.h"
#include "core/probes/results.h"

// --- strengths -----------------------------------------------------------------------------------

// True if `name` is the name of the entry's file, without folder and ending.
static bool has_name(const struct file_factor *f, const char *name)
{
    char *short_name = steer_name(f->path);
    const bool same = !strcmp(short_name, name);
    free(short_name);
    return same;
}

// Finds the file that `name` refers to: the one at that path, or the only one in use with that name
// in another folder. *at: its index, or -1 if it is not in use; then it must exist. Refuses a name
// that several files have.
static int find_file(const struct file_factor *list, size_t count, const char *name,
                     const char *path, bool remove, int64_t *at, struct err *err)
{
    struct buf names = { 0 };
    const bool exists = access(path, F_OK) == 0;
    int64_t found = 0;
    *at = -1;
    for (size_t i = 0; i < count; i++)
        if (file_same(list[i].path, path)) {
            *at = (int64_t)i;
            return 0;
        }
    for (size_t i = 0; i < count; i++) {
        if (!has_name(&list[i], name)) continue;
        buf_printf(&names, "%s'%s'", found++ ? ", " : "", list[i].path);
        *at = (int64_t)i;
    }
    if (exists && !remove && found++) buf_printf(&names, ", '%s'", path);
    int status = 0;
    if (found > 1)
        status = err_set(err, "'%s' could be %s: write the path of the file, such as ./%s", name,
                         names.data, path);
    else if (*at < 0 && remove)
        status = err_set(err, "'%s' is not in use: /steer lists the vectors in use", name);
    else if (*at < 0 && !exists)
        status =
            err_set(err, "no steering vector '%s': there is no file '%s' (/steer make writes one)",
                    name, path);
    buf_release(&names);
    return status;
}

static int set_strength(struct shell *shell, const char *name, double strength, struct err *err)
{
    size_t count;
    struct file_factor *list =
        file_factors(settings_text(engine_settings(shell->engine), "steer.vectors"), &count);
    struct buf value = { 0 };
    char *path = steer_path(name);
    int64_t at;
    int status = find_file(list, count, name, path, strength == 0, &at, err);
    for (size_t i = 0; i < count; i++)
        if ((int64_t)i != at || strength != 0)
            buf_printf(&value, "%s%s=%.15g", value.length ? "," : "", list[i].path,
                       (int64_t)i == at ? strength : list[i].factor);
    if (at < 0) buf_printf(&value, "%s%s=%.15g", value.length ? "," : "", path, strength);
    if (status == 0)
        status =
            engine_set(shell->engine, "steer.vectors", value.length ? value.data : "none", err);
    file_factors_free(list, count);
    buf_release(&value);
    free(path);
    return status;
}

// Lists the vectors in use, including those whose files have vanished since.
static int list(struct shell *shell)
{
    size_t count;
    struct table_builder t;
    struct file_factor *files =
        file_factors(settings_text(engine_settings(shell->engine), "steer.vectors"), &count);
    if (!count) {
        sinks_text(shell->sinks, "no steering vector is in use: /steer NAME STRENGTH");
        return 0;
    }
    table_begin(&t, "steer", "name|strength#|layers|made as|file");
    for (size_t i = 0; i < count; i++) {
        struct steer_about about;
        struct err why;
        char *name = steer_name(files[i].path);
        if (steer_about(&about, files[i].path, &why) < 0)
            table_row(&t, "%s|%.6g||unreadable: %s|%s", name, files[i].factor, why.text,
                      files[i].path);
        else
            table_row(&t, "%s|%.6g|%s|%s|%s", name, files[i].factor, about.layers, about.source,
                      files[i].path);
        free(name);
        steer_about_release(&about);
    }
    table_emit(&t, shell->sinks);
    file_factors_free(files, count);
    return 0;
}

static int steer_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    char *end = NULL;
    if (!argc) return list(shell);
    if (argc == 1 && !strcmp(argv[0], "off"))
        return engine_set(shell->engine, "steer.vectors", "none", err);
    if (argc != 2)
        return err_set(err, "usage: /steer NAME STRENGTH, such as /steer %s 2.5", argv[0]);
    const double strength = strtod(argv[1], &end);
    if (end == argv[1] || *end || !isfinite(strength))
        return err_set(err, "the strength of '%s' must be a number, not '%s'", argv[0], argv[1]);
    return set_strength(shell, argv[0], strength, err);
}

// --- files ---------------------------------------------------------------------------------------

struct make_options {
    const char *name, *method;
    struct directions_request request;
    bool once;
};

#define AT(field) .at = offsetof(struct make_options, field)
static const struct option_row make_rows[] = {
    { "NAME", NULL, "the name of the vector", OPTION_TEXT, AT(name) },
    { "--plus", "FILE",
      "samples of the behaviour that a positive strength increases: a data set (.json, .jsonl; "
      "with pictures), or a text file with one question per line",
      OPTION_TEXT, AT(request.plus) },
    { "--minus", "FILE", "samples of the opposite behaviour", OPTION_TEXT, AT(request.minus) },
    { "--layer", "L",
      "layer whose output is compared and changed: one (default: the middle layer), a list such "
      "as 3,8-15, or all",
      OPTION_TEXT, AT(request.layers) },
    { "--method", "mean|pca",
      "mean (default): difference of the mean hidden states; pca: first principal component of the "
      "pairs' differences (sample i of both files)",
      OPTION_TEXT, AT(method) },
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of the data)",
      OPTION_TEXT, AT(request.images) },
    { "--limit", "N", "samples to read from each file (default 100)", OPTION_WHOLE,
      AT(request.limit), 1, INT32_MAX },
    { "--once", NULL, "does nothing if the file already exists", OPTION_FLAG, AT(once) },
    { 0 },
};

// Returns the path of a new file: NAME.safetensors, unless the name ends in .safetensors or .gguf.
static char *new_path(const char *name)
{
    const bool whole = text_ends(name, ".safetensors") || text_ends(name, ".gguf");
    return whole ? xstrdup(name) : xasprintf("%s.safetensors", name);
}

static int check_new(const char *path, struct err *err)
{
    if (strpbrk(path, ",="))
        return err_set(
            err, "'%s' cannot name a steering vector: the name must not contain , or =", path);
    if (!strcmp(text_file_name(path), ".safetensors"))
        return err_set(err, "the name of the steering vector is empty");
    if (access(path, F_OK) == 0)
        return err_set(err, "'%s' already exists: choose another name", path);
    return file_out_check(path, err);
}

// Shows the vectors and records the line in the session, with --once, so that a script that repeats
// it keeps the file.
static void show_made(const struct shell *shell, const struct directions *d, const char *name,
                      const char *path, int argc, char **argv)
{
    struct results r = { 0 };
    struct result_table *t =
        results_table(&r, "steer.made", "layer|vector norm|state norm|separated");
    for (int64_t l = 0; l < d->layers; l++) {
        if (!d->there[l]) continue;
        double *v = result_row(t, "%lld", (long long)l);
        v[0] = d->norm[l], v[1] = d->state[l], v[2] = d->separated[l];
    }
    char **words = xcalloc((size_t)argc + 3, sizeof *words);
    char make[] = "make", once[] = "--once";
    words[0] = make;
    for (int i = 0; i < argc; i++)
        words[i + 1] = argv[i] == name ? (char *)(uintptr_t)path : argv[i];
    words[argc + 1] = once;
    char *kept = shell_kept_words(shell, argc + 2, words);
    results_show(&r, shell->sinks);
    results_emit(&r, "steer", kept, true, shell->sinks);
    free(kept);
    free(words);
    results_release(&r);
}

static int make_file(struct shell *shell, const struct make_options *o, const char *path, int argc,
                     char **argv, struct err *err)
{
    static const char position[] = "last position of the prompt";
    struct directions d;
    struct provenance from;
    if (engine_directions(shell->engine, &o->request, &d, &from, err) < 0) {
        provenance_release(&from);
        return -1;
    }
    char *state = provenance_state(&from);
    const struct steer_source source = { .model = engine_checkpoint(shell->engine)->weights,
                                         .state = state,
                                         .family = engine_family_name(shell->engine),
                                         .method =
                                             o->request.method == DIRECTION_PCA ? "pca" : "mean",
                                         .position = position,
                                         .plus = d.plus,
                                         .minus = d.minus };
    const int status = steer_write(path, d.vectors, d.there, d.layers, d.width, &source, err);
    if (status == 0) {
        show_made(shell, &d, o->name, path, argc, argv);
        sinks_written(shell->sinks, "steering vector", path, NULL);
        sinks_notice(shell->sinks,
                     "'%s' written: %lld and %lld samples compared at the %s; /steer %s STRENGTH "
                     "uses it",
                     path, (long long)d.plus, (long long)d.minus, position, o->name);
    }
    free(state);
    provenance_release(&from);
    directions_release(&d);
    return status;
}

static int make(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct make_options o = { .request.limit = 100 };
    if (options_parse(make_rows, &o, argc, argv, err) < 0) return -1;
    if (!o.request.plus || !o.request.minus)
        return err_set(err, "/steer make %s needs --plus FILE and --minus FILE", o.name);
    const char *method = o.method ? o.method : "mean";
    if (strcmp(method, "mean") != 0 && strcmp(method, "pca") != 0)
        return err_set(err, "--method takes mean or pca, not '%s'", method);
    o.request.method = strcmp(method, "pca") ? DIRECTION_MEAN : DIRECTION_PCA;
    char *path = new_path(o.name);
    int status = 0;
    if (o.once && access(path, F_OK) == 0)
        sinks_notice(shell->sinks, "'%s' already exists: nothing to do", path);
    else if ((status = check_new(path, err)) == 0)
        status = make_file(shell, &o, path, argc, argv, err);
    free(path);
    return status;
}

static int convert(struct shell *shell, int argc, char **argv, struct err *err)
{
    char *from = steer_path(argv[0]), *to = new_path(argv[1]);
    int status = check_new(to, err);
    if (status == 0) status = steer_convert(from, to, err);
    if (status == 0) {
        sinks_written(shell->sinks, "steering vector", to, NULL);
        sinks_notice(shell->sinks, "'%s' written", to);
    }
    free(from);
    free(to);
    return status;
}

static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct steer_about about;
    char *path = steer_path(argv[0]);
    const int status = steer_about(&about, path, err);
    if (status == 0) {
        sinks_text(
            shell->sinks, "%s: layers %s, width %lld, %s, weights %.12s%s%s", path, about.layers,
            (long long)about.width, *about.source ? about.source : "origin unknown",
            *about.model ? about.model : "unknown", *about.state ? ", with " : "", about.state);
        steer_about_release(&about);
    }
    free(path);
    return status;
}

static const struct command_action actions[] = {
    { "make",
      "NAME --plus FILE --minus FILE [--layer L] [--method mean|pca] [--images DIR] [--limit N] "
      "[--once]",
      "makes a vector from the hidden states of two files of samples and writes NAME.safetensors, "
      "or llama.cpp's format if NAME ends in .gguf",
      1, -1, .needs = NEEDS_MODEL, .run = make, .options = make_rows },
    { "show", "NAME", "shows the layers of a vector and how it was made", 1, 1, .run = show },
    { "convert", "NAME FILE", "copies a vector to FILE.safetensors or FILE.gguf", 2, 2,
      .run = convert },
    { 0 },
};

const struct command command_steer = {
    .name = "steer",
    .also = "steering control vector activation addition representation engineering concept",
    .usage = "/steer [NAME STRENGTH | off] | make NAME --plus FILE --minus FILE [--layer L] "
             "[--method mean|pca] [--images DIR] [--limit N] [--once] | show NAME | convert NAME "
             "FILE",
    .help = "Makes steering vectors, and adds them to the model's hidden states while it answers.",
    .details =
        "A steering vector is the difference of the model's hidden states between two sets of "
        "prompts. /steer NAME STRENGTH adds STRENGTH times the vector to the output of its layer, "
        "from the next token on. A negative strength steers the other way; 0 removes the vector. "
        "/steer off removes all vectors; /steer lists them. The setting steer.vectors keeps the "
        "files and strengths; steer.at chooses the positions (all, text or visual), steer.layers "
        "the layers. NAME is the file NAME, NAME.safetensors or NAME.gguf.\n"
        "\n"
        "The hidden states are those of the last position of each prompt, which predicts the "
        "first token of the answer. The table of /steer make has the norm of each vector, the mean "
        "norm of the hidden states, and the share of samples that the vector separates correctly "
        "(0.5 is chance). /steer make itself runs without steering vectors.\n"
        "\n"
        "Files that end in .gguf are llama.cpp's control vectors, which have none for layer 0.",
    .live = "!make convert",
    .complete = COMPLETE_PATH,
    .actions = actions,
    .run = steer_run,
};
