// core/model/families/text.c -- what the text-only families share.
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
    // Base models are also published without the causal head's level.
    static const char *const prefixes[] = { "model.", "", NULL };
    const char *prefix = bind_prefix(c, prefixes, "embed_tokens.weight");
    struct binder b = {
        .checkpoint = c, .arena = &m->arena, .weights = &m->weights, .prefix = prefix, .err = err
    };
    return decoder_bind(&m->decoder, &b, "lm_head.weight");
}

enum model_part_kind text_part(const char *tensor)
{
    if (strstr(tensor, "embed_tokens.")) return PART_EMBEDDING;
    return strstr(tensor, "lm_head.") ? PART_HEAD : PART_DECODER;
}
