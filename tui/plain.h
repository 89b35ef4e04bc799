// tui/plain.h -- the plain line sink: events as lines of text, for a person or a pipe.
//
//   struct plain *p = plain_new(true);
//   sinks_add(&sinks, plain_sink(p));
//
// Answers and requested output go to standard output. Notices, errors and progress go to standard
// error, so that the standard output of a script has only answers and requested output; on an
// interactive terminal everything goes to one stream. Colours and the progress line appear on
// terminals only (no colours with NO_COLOR).
#ifndef TUI_PLAIN_H
#define TUI_PLAIN_H

#include "core/base/event.h"

struct plain;

// interactive: a person types; measures follow each answer.
struct plain *plain_new(bool interactive);
void plain_free(struct plain *p);
struct sink plain_sink(struct plain *p);

#endif
