// commands/clipboard.h -- the picture in the clipboard of the desktop.
#ifndef COMMANDS_CLIPBOARD_H
#define COMMANDS_CLIPBOARD_H

#include <stddef.h>

#include "core/base/err.h"

// Its bytes, as wl-paste (Wayland) or xclip (X11) gives them; the caller frees them. NULL: none of
// them is there, or the clipboard holds no picture.
char *clipboard_picture(size_t *size, struct err *err);

#endif
