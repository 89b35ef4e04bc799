// tui/default_model.h -- the default model, opened when needed and none was named.
//
// It is the demo model beside the program or installed with it; otherwise a small model with random
// weights, written once to $XDG_CACHE_HOME/vlmsh, with a notice.
#ifndef TUI_DEFAULT_MODEL_H
#define TUI_DEFAULT_MODEL_H

#include "commands/command.h"

// Sets shell->want_model to load it, until any model is loaded.
void default_model_offer(struct shell *shell);
// Whether this folder is the demo model, not the random one that replaces it.
bool default_model_is_demo(const char *folder);

#endif
