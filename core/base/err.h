// core/base/err.h -- the one error idiom.
//
// What can fail returns 0 or -1 and takes `struct err *err` last. The message is one sentence for a
// person: what, where, why, what to do. Context is added on the way up:
//
//   if (!f) return err_set(err, "cannot read '%s': %s", path, strerror(errno));
//   if (shard_open(...) < 0) return err_in(err, "load %s", name);   // "load NAME: cannot read ..."
//
// core/, kernels/ and sessions/ never print and never exit. Broken promises of the program itself
// are BUG(); both BUG and running out of small host memory end it through the fatal hook.
//
// Room core/base/: what every room needs and no model: errors, small memory, JSON, CSV, files in
// and out, hashes, random numbers, statistics, events. It uses nothing else of core/.
#ifndef CORE_BASE_ERR_H
#define CORE_BASE_ERR_H

struct err {
    char text[1024];
};

// Replaces the message; err may be NULL. Returns -1.
int err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Puts "CONTEXT: " before the message. Returns -1.
int err_in(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Called before the program ends by BUG or for want of memory: the screen restores the terminal.
void fatal_set_hook(void (*hook)(void));
// A file that gets the message too: what is known of a process that nobody sees end. -1: none.
void fatal_set_file(int file);
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define BUG(...) fatal("internal error: " __VA_ARGS__)

#endif
