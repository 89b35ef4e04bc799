// core/model/families/text.c -- shared by the text-only families; others use text_part too.
#include "core/model/families/text.h"

#include <string.h>

#include "core/model/bind.h"

int text_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->placeholder = -1;
    const struct decoder_kind *kind = family_decoder(c->config, err);
    if (!kind || decoder_config_read(&m->decoder.config, kind, c->config, err) < 0)
        return err_in(err, "config.json");
    return 0;
}

int text_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    // Base models are also published without the "model." level; the files of vision-language
    // models have one level more.
    static const char *const prefixes[] = { "model.", "", "model.language_model.", NULL };
    const char *prefix = decoder_prefix(c, m->decoder.config.kind, prefixes, "embed_tokens");
    struct binder b = {
        .checkpoint = c, .arena = &m->arena, .weights = &m->weights, .prefix = prefix, .err = err
    };
    return decoder_bind(&m->decoder, &b, "");
}

// True if `tensor` is this family's name for the tensor that Llama calls `ours`.
static bool is(const struct model *m, const char *tensor, const char *ours)
{
    const char *theirs = decoder_name(m->decoder.config.kind, ours), *at = strstr(tensor, theirs);
    return at && at[strlen(theirs)] == '.';
}

enum model_part_kind text_part(const struct model *m, const char *tensor)
{
    if (is(m, tensor, "embed_tokens")) return PART_EMBEDDING;
    return is(m, tensor, "lm_head") ? PART_HEAD : PART_DECODER;
}
