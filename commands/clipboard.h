// commands/clipboard.h -- the picture in the clipboard of the desktop.
#ifndef COMMANDS_CLIPBOARD_H
#define COMMANDS_CLIPBOARD_H

#include <stdatomic.h>
#include <stddef.h>

#include "core/base/err.h"

// Its bytes, as wl-paste (Wayland) or xclip (X11) gives them; the caller frees them. NULL: none of
// them is there, the clipboard holds no picture, or `cancel` was set.
char *clipboard_picture(const atomic_bool *cancel, size_t *size, struct err *err);

#endif
