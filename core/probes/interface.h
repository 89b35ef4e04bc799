// core/probes/interface.h -- norms at the interface of vision and language (the norm alignment
// paper, Tables 1 and 2): of the encoder's output, the projector's input and output, and the text
// embeddings.
//
//   struct interface i = { 0 };
//   interface_table(&i, backend, &model->decoder.embed, config->embed_scale);
//   interface_norm(&i, backend, model);
//   interface_add(&i, model, site, args, rows);    // at the sites of a picture
//   interface_put(&i, &results);
#ifndef CORE_PROBES_INTERFACE_H
#define CORE_PROBES_INTERFACE_H

#include "core/probes/kit.h"

struct interface {
    // `normed`: the encoder's output after its final norm, if it has one.
    struct tally encoder, normed, projector, visual, aligned, table, text;
    float *gain, *bias; // [Dv] of the final norm; gain NULL: no such norm, bias NULL: RMSNorm
    double eps;
    bool changed; // a method changed the visual tokens; set by listeners at SITE_VISUAL
    struct rows rows;
};

// Adds the norms, times `scale`, of the rows of a text embedding table; omits rows with norms up to
// 1e-6, which are padding. The mean of the norms is T*.
void interface_table(struct interface *s, const struct backend *b, const struct tensor *table,
                     double scale);
// Reads the encoder's final norm: the tower's last norm (SigLIP, MoonViT, GLM-4V), or the merger's
// first norm (Qwen).
void interface_norm(struct interface *s, const struct backend *b, const struct model *m);
// Adds the norms of `rows`, which are on the host, from SITE_VISION_LAYER (the last block's output,
// without the class token), SITE_VISION, SITE_PROJECTED or SITE_VISUAL.
void interface_add(struct interface *s, const struct model *m, const struct site *site,
                   const struct site_args *args, const float *rows);
void interface_put(const struct interface *s, struct results *r);
void interface_release(struct interface *s);

// Makes the table for a model folder, which may have only an embedding table or only an encoder.
// Encodes the pictures if there is an encoder.
int interface_folder(const char *folder, const struct backend *backend,
                     const struct settings *settings, const struct picture *pictures, size_t count,
                     struct results *r, struct err *err);

#endif
