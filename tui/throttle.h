// tui/throttle.h -- limits progress events to five per second; the first and the last always pass.
//
//   struct throttle t = { 0 };
//   if (throttle_pass(&t, event->progress)) ... show it ...
#ifndef TUI_THROTTLE_H
#define TUI_THROTTLE_H

#include "core/base/event.h"

struct throttle {
    double last;    // seconds of the clock below; 0 = nothing passed yet
    bool running;   // the first one has passed, the last one has not
    double started; // time of the first one
};

bool throttle_pass(struct throttle *t, const struct event_progress *progress);

#endif
