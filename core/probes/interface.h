// core/probes/interface.h -- norms where the picture enters the language model (methods page,
// section 1, Tables 1 and 2): of the encoder's output, of what enters and leaves the projector, and
// of the text embeddings.
//
//   struct interface i = { 0 };
//   interface_table(&i, backend, &model->decoder.embed);
//   interface_add(&i, model, site, args, rows);    // at the sites of a picture
//   interface_put(&i, &results);
#ifndef CORE_PROBES_INTERFACE_H
#define CORE_PROBES_INTERFACE_H

#include "core/probes/rows.h"

struct interface {
    struct tally encoder, projector, visual, aligned, table, text;
    bool changed; // a method changed the visual tokens: who listens at SITE_VISUAL says so
    struct rows rows;
};

// Rows of a text embedding table whose norm is above 1e-6: their mean is T*.
void interface_table(struct interface *s, const struct backend *b, const struct tensor *table);
// Rows of SITE_VISION_LAYER (the last block's output; the class token is left out), SITE_VISION,
// SITE_PROJECTED or SITE_VISUAL, on the host.
void interface_add(struct interface *s, const struct model *m, enum site site,
                   const struct site_args *args, const float *rows);
void interface_put(const struct interface *s, struct results *r);
void interface_release(struct interface *s);

// The table of a folder that may hold only an embedding table or only an encoder; pictures
// go through the encoder.
int interface_folder(const char *folder, const struct backend *backend,
                     const struct settings *settings, const struct picture *pictures, size_t count,
                     struct results *r, struct err *err);

#endif
