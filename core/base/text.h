// core/base/text.h -- questions about texts.
//
//   if (text_ends(path, ".gguf")) ...
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>

// Does a text end so? "" ends every text.
bool text_ends(const char *text, const char *end);

#endif
