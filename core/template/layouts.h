// core/template/layouts.h -- a row of the table of chat templates (core/template/layouts.c), for
// core/template/template.c, which renders them.
//
// The strings are those of the published chat templates; the goldens contain what those templates
// render.
#ifndef CORE_TEMPLATE_LAYOUTS_H
#define CORE_TEMPLATE_LAYOUTS_H

#include <stdbool.h>

// Handling of the system message.
enum system_place {
    SYSTEM_MESSAGE,   // a normal message; `system` (or the folder's own) if there is none
    SYSTEM_WITH_DATE, // always present, after the knowledge cut-off and the date (Llama 3.2)
    SYSTEM_IN_USER,   // inside the first user message (Llama 2)
};

struct layout {
    const char *name;
    const char *marks[3];           // marks: the layout applies if the folder's chat template
                                    // contains all of them
    const char *begin;              // at the very beginning
    const char *open[3], *close[3]; // around a message of ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT
    const char *generation;         // what opens the assistant's answer
    const char *text_open, *text_close; // around each text
    const char *picture_end;            // behind each picture
    bool pictures_first;                // before the texts of their message
    bool trim;                          // white space around a text is dropped
    bool bare_answers; // nothing ends an answer: training uses the model's end token
    enum system_place place;
    const char *system; // the default system message, NULL: see template.h
};

extern const struct layout layouts[]; // ends with a row without a name

#endif
