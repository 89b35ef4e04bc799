// tui/guard.h -- keeps readline (8.2) from ending the program, and from losing history lines that
// were edited but not sent.
//
//   guard_keys();        // before a line, after the user's own key bindings were read
//   guard_again();       // after each key
//   guard_leave();       // before another entry becomes the line, where we do that ourselves
//   guard_restore();     // a line was sent: the history is again as it was sent
#ifndef TUI_GUARD_H
#define TUI_GUARD_H

void guard_keys(void);
void guard_again(void);
void guard_leave(void);
void guard_restore(void);

#endif
