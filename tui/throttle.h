// tui/throttle.h -- limits progress events to five per second; the first and the last always pass.
//
//   struct throttle t = { 0 };
//   if (throttle_pass(&t, event->progress)) ... show it ...
#ifndef TUI_THROTTLE_H
#define TUI_THROTTLE_H

#include "core/base/event.h"

struct throttle {
    double last;    // seconds of the clock below; 0 = nothing passed yet
    bool running;   // a first one has passed and no last one
    double started; // when the first one came
};

bool throttle_pass(struct throttle *t, const struct event_progress *progress);

#endif
