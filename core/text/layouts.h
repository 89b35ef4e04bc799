// core/text/layouts.h -- what a row of the table of prompt layouts says (core/text/layouts.c), for
// core/text/template.c that writes messages by it.
//
// The texts are those of the published chat templates; the goldens hold what those templates
// render.
#ifndef CORE_TEXT_LAYOUTS_H
#define CORE_TEXT_LAYOUTS_H

#include <stdbool.h>

// What becomes of the system message.
enum system_place {
    SYSTEM_MESSAGE, // a message like the others; `system` (or the folder's own) when there is none
    SYSTEM_WITH_DATE, // always there, behind the knowledge cut-off and the date (Llama 3.2)
    SYSTEM_IN_USER,   // inside the first user message (Llama 2)
};

struct layout {
    const char *name;
    const char *marks[3];           // all of these in a folder's chat template: it is this layout
    const char *begin;              // at the very beginning
    const char *open[3], *close[3]; // around a message of ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT
    const char *generation;         // what opens the assistant's answer
    const char *text_open, *text_close; // around each text
    const char *picture_end;            // behind each picture
    bool pictures_first;                // before the texts of their message
    bool trim;                          // white space around a text is dropped
    bool bare_answers; // nothing ends an answer: in training the model's end token does
    enum system_place place;
    const char *system; // the system message when there is none, NULL: see template.h
};

extern const struct layout layouts[]; // ends with a row without a name

#endif
