// tui/default_model.h -- the default model, opened when needed and none was named.
//
// It is the demo model beside the program or installed with it; otherwise a small model with random
// weights, written once to $XDG_CACHE_HOME/vlmsh, with a notice.
#ifndef TUI_DEFAULT_MODEL_H
#define TUI_DEFAULT_MODEL_H

#include "commands/command.h"

// From now on shell->want_model loads it, until any model was loaded.
void default_model_offer(struct shell *shell);
// Whether this model folder is the demo model's, not the small random one that stands in for it.
bool default_model_is_demo(const char *folder);

#endif
