// core/model/companions.h -- reports files that prompts and pictures need but that a model's folder
// or GGUF file lacks, and what replaces them.
//
//   char *list[COMPANIONS_MOST];
//   const int n = companions_missing(m, list);      // notices at load; free() each
//   char *text = companions_template(m);            // a row of /info; free() it
#ifndef CORE_MODEL_COMPANIONS_H
#define CORE_MODEL_COMPANIONS_H

struct model;

enum { COMPANIONS_MOST = 5 };

int companions_missing(const struct model *m, char *list[COMPANIONS_MOST]);
char *companions_template(const struct model *m);
char *companions_preprocessor(const struct model *m); // for a model with a vision encoder
char *companions_ends(const struct model *m);         // tokens that end an answer, and their source

// Lists notices of what vlmsh ignores in the model's files (core/model/unused.c): keys of
// generation_config.json that affect greedy answers, keys of preprocessor_config.json that may
// change pixels, and a head that config.json calls tied although the file has a different one.
// Returns their number; free() each.
enum { UNUSED_MOST = 3 };
int unused_notices(const struct model *m, char *list[UNUSED_MOST]);
// Returns the generation settings that the files recommend, for /info: "temperature 0.6, top_p
// 0.9"; NULL: none. The caller frees it.
char *unused_generation(const struct model *m);

#endif
