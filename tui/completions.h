// tui/completions.h -- completions of the command line of vlmsh for bash, zsh and fish, from the
// tables of options, subcommands, commands and settings.
#ifndef TUI_COMPLETIONS_H
#define TUI_COMPLETIONS_H

#include "core/base/err.h"
#include "core/base/mem.h"

// Appends the script for `shell`. -1: unknown shell.
int completions_write(struct buf *b, const char *shell, struct err *err);

#endif
