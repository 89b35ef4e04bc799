// tui/default_model.h -- the model that is opened when nobody named one, when it is first needed.
//
// It is the demo model beside the program or installed with it; where there is none, a small model
// with random weights, written once to $XDG_CACHE_HOME/vlmsh, and a notice says so.
#ifndef TUI_DEFAULT_MODEL_H
#define TUI_DEFAULT_MODEL_H

#include "commands/command.h"

// From now on shell->want_model loads it; it stops doing so once any model was loaded.
void default_model_offer(struct shell *shell);

#endif
