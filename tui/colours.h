// tui/colours.h -- how many colours a terminal has, and maps with eight.
#ifndef TUI_COLOURS_H
#define TUI_COLOURS_H

// Colours of $TERM by terminfo; 0: none, or it is not known. fd: the terminal.
int colours_of_terminal(int fd);
// With eight colours, the one that stands for a share of a map (0..1); below 0: none.
int step_of_eight(double share);

#endif
