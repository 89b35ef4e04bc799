// tui/agent.h -- the manual for programs (`vlmsh help --agent`).
#ifndef TUI_AGENT_H
#define TUI_AGENT_H

struct buf;

// Appends rules, examples, events, commands, settings, options and subcommands, as one JSON object.
void agent_write(struct buf *to);

#endif
