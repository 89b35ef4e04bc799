// tui/guard.h -- keeps readline (8.2) from ending the program, and from losing history lines that
// were edited but not sent.
//
//   guard_keys();        // before each line; the user's own key bindings have been read
//   guard_after_key();   // repairs the cursor; guards searches again once a search has ended
//   guard_leave();       // before code of vlmsh replaces the line with another history entry
//   guard_restore();     // after a line was sent: restores the text of edited history entries
#ifndef TUI_GUARD_H
#define TUI_GUARD_H

void guard_keys(void);
void guard_after_key(void);
void guard_leave(void);
void guard_restore(void);

#endif
