// core/base/err.h -- how functions report errors.
//
// Functions that can fail return 0 or -1 and take `struct err *err` last. The message is one
// sentence for the user: what, where, why, what to do. Callers add context:
//
//   if (!f) return err_set(err, "cannot read '%s': %s", path, strerror(errno));
//   if (shard_open(...) < 0) return err_in(err, "load %s", name);   // "load NAME: cannot read ..."
//
// core/, kernels/ and sessions/ never print and never exit. A violated internal invariant calls
// BUG(). BUG, and a failed small allocation on the host, call the fatal hook and end the program.
//
// Room core/base/: basics that do not depend on models: errors, small allocations, JSON, CSV, files
// in and out, hashes, random numbers, statistics, events. Uses nothing else of core/.
#ifndef CORE_BASE_ERR_H
#define CORE_BASE_ERR_H

struct err {
    char text[1024];
};

// Replaces the message; err may be NULL. Returns -1.
int err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Prepends "CONTEXT: " to the message. Returns -1.
int err_in(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Sets a function that runs before fatal or BUG ends the program: the screen uses it to restore the
// terminal.
void fatal_set_hook(void (*hook)(void));
// Sets a file descriptor to which the message of fatal is also written, for background processes.
// -1: none.
void fatal_set_file(int file);
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define BUG(...) fatal("internal error: " __VA_ARGS__)

#endif
