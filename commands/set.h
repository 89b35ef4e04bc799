// commands/set.h -- what /set is given, for who obeys it without the command: a key while an answer
// comes.
#ifndef COMMANDS_SET_H
#define COMMANDS_SET_H

// The value; argv[0] becomes the key alone. NULL: the line asks for values. free() it.
char *set_read(int argc, char **argv);

#endif
