// core/model/unused.h -- requests of the files beside a model's weights that vlmsh does not follow:
// penalties of generation_config.json, steps of preprocessor_config.json, a tied head.
//
//   char *list[UNUSED_MOST];
//   const int n = unused_notices(m, list);      // notices at load; free() each
#ifndef CORE_MODEL_UNUSED_H
#define CORE_MODEL_UNUSED_H

struct model;

enum { UNUSED_MOST = 3 };

int unused_notices(const struct model *m, char *list[UNUSED_MOST]);
// The sampling that the files recommend, "temperature 0.6, top_p 0.9", a row of /info; NULL: none.
// The caller frees it.
char *unused_generation(const struct model *m);

#endif
