// tui/plain.h -- the plain line sink: events as lines of text, for a person or a pipe.
//
//   struct plain *p = plain_new(true);
//   sinks_add(&sinks, plain_sink(p));
//
// Answers and what was asked for go to standard output. Notices, errors and progress go to standard
// error, so that a script's output is its answers; on an interactive terminal all is in one place.
// Colours and the progress line appear on terminals only (and no colours with NO_COLOR).
#ifndef TUI_PLAIN_H
#define TUI_PLAIN_H

#include "core/base/event.h"

struct plain;

// interactive: a person types; answers are followed by their measures.
struct plain *plain_new(bool interactive);
void plain_free(struct plain *p);
struct sink plain_sink(struct plain *p);

#endif
