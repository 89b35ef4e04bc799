// commands/set.h -- parses the arguments of /set, also for keys that act during an answer.
#ifndef COMMANDS_SET_H
#define COMMANDS_SET_H

// The value; argv[0] becomes the bare key. NULL: the line asks for values. The caller frees it.
char *set_read(int argc, char **argv);

#endif
