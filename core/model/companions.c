// core/model/companions.c -- describes the files missing beside the weights, and their
// replacements.
//
// A folder without a chat template, preprocessor_config.json or tokenizer_config.json loads, with a
// notice of each replacement. The tokenizer itself and config.json cannot be replaced.
#include "core/model/companions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/families/family.h"

static const char *kind_of(const struct model *m)
{
    return m->checkpoint->gguf_count ? "file" : "folder";
}

static bool bare(const struct model *m)
{
    return !strcmp(layout_title(m->layout), "plain");
}

static char *missing_template(const struct model *m)
{
    char *what = bare(m) ? xstrdup("the model gets the bare text, and nothing separates the turns")
                         : xasprintf("that of its family, '%s', is used", layout_title(m->layout));
    char *text = xasprintf(
        "the %s has no chat template (%s): %s; /set chat.template NAME chooses another one (see "
        "/help templates)",
        kind_of(m),
        m->checkpoint->gguf_count
            ? "tokenizer.chat_template"
            : "chat_template.jinja, chat_template.json, or in tokenizer_config.json",
        what);
    free(what);
    return text;
}

// Describes the default size and normalisation of pictures.
static char *defaults_text(const struct model *m)
{
    const struct picture_config *p = &m->picture;
    char *size;
    if (p->fit == FIT_NATIVE)
        size = xasprintf("resized to %lld to %lld pixels", (long long)p->min_pixels,
                         (long long)p->max_pixels);
    else if (p->fit == FIT_PATCHES)
        size = xasprintf("resized to at most %lld patches", (long long)p->most_patches);
    else if (p->fit == FIT_BUDGET)
        size = xasprintf("resized to at most %lld visual tokens", (long long)p->budget);
    else if (p->fit == FIT_WITHIN)
        size = xasprintf("resized to at most %lld pixels a side", (long long)p->longest);
    else if (p->fit == FIT_SLICES)
        size = xasprintf("an overview and at most %lld slices of the area of %lld x %lld pixels",
                         (long long)p->max_tiles, (long long)p->scale, (long long)p->scale);
    else
        size = xasprintf("%s to %lld x %lld pixels%s", p->crop ? "resized and cropped" : "resized",
                         (long long)p->width, (long long)p->height, p->max_tiles ? " a tile" : "");
    if (!p->normalize) return size;
    char *text = xasprintf("%s, mean %g %g %g, deviation %g %g %g", size, (double)p->mean[0],
                           (double)p->mean[1], (double)p->mean[2], (double)p->std[0],
                           (double)p->std[1], (double)p->std[2]);
    free(size);
    return text;
}

int companions_missing(const struct model *m, char *list[COMPANIONS_MOST])
{
    const struct checkpoint *c = m->checkpoint;
    int n = 0;
    if (!m->conversation && !c->chat_template) list[n++] = missing_template(m);
    if (model_has_vision(m) && !c->preprocessor) {
        char *defaults = defaults_text(m);
        list[n++] = xasprintf("the folder has no preprocessor_config.json: pictures are "
                              "preprocessed with the defaults of the "
                              "family %s (%s), which may differ from training",
                              m->family->name, defaults);
        free(defaults);
    }
    if (c->tokenizer_config_missing)
        list[n++] = xstrdup("the folder has no tokenizer_config.json: special tokens are those of "
                            "its other files, and the defaults of the tokenizer's class");
    if (!m->eos.count)
        list[n++] = xasprintf("no file of the %s names a token that ends answers: answers end at "
                              "sample.max_tokens",
                              kind_of(m));
    if (tokenizer_notice(m->tokenizer)) list[n++] = xstrdup(tokenizer_notice(m->tokenizer));
    return n;
}

char *companions_template(const struct model *m)
{
    const char *name = layout_title(m->layout);
    if (m->conversation) return xasprintf("'%s', as config.json says", m->conversation);
    if (!m->checkpoint->chat_template)
        return bare(m) ? xstrdup("none; bare text") : xasprintf("none; its family's, '%s'", name);
    if (!m->template_problem) return xasprintf("the %s's", kind_of(m));
    return xasprintf("the %s's cannot be rendered; '%s'", kind_of(m), name);
}

char *companions_preprocessor(const struct model *m)
{
    const struct checkpoint *c = m->checkpoint;
    if (c->gguf_count) return xstrdup("the encoder file's");
    if (c->preprocessor) return xstrdup(checkpoint_preprocessor_file(c));
    char *defaults = defaults_text(m);
    char *text = xasprintf("none; the family's defaults: %s", defaults);
    free(defaults);
    return text;
}

// Returns the tokenizer's eos_token if it does not end answers; else NULL.
static const char *other_end(const struct model *m)
{
    const cJSON *word = json_get(m->checkpoint->tokenizer_config, "eos_token");
    if (cJSON_IsObject(word)) word = json_get(word, "content");
    if (!cJSON_IsString(word) || m->checkpoint->gguf_count) return NULL;
    const int32_t id = tokenizer_id(m->tokenizer, word->valuestring);
    for (size_t i = 0; i < m->eos.count; i++)
        if (m->eos.data[i] == id) return NULL;
    return word->valuestring;
}

char *companions_ends(const struct model *m)
{
    struct buf b = { 0 };
    const char *other = other_end(m);
    if (!m->eos.count) return xstrdup("none; sample.max_tokens");
    for (size_t i = 0; i < m->eos.count; i++) {
        const char *text = tokenizer_token(m->tokenizer, m->eos.data[i]);
        if (m->checkpoint->gguf_count && i && i == m->checkpoint->ends_named)
            buf_printf(&b, " (%s)", m->ends_from);
        buf_puts(&b, i ? ", " : "");
        if (text)
            buf_puts(&b, text);
        else
            buf_printf(&b, "%d, which is not a token", m->eos.data[i]);
    }
    const bool by_text = m->checkpoint->gguf_count && m->checkpoint->ends_named < m->eos.count;
    buf_printf(&b, " (%s)", by_text ? "by text" : m->ends_from);
    if (other) buf_printf(&b, ", not tokenizer_config.json's %.40s", other);
    return buf_take(&b);
}
