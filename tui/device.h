// tui/device.h -- the devices --device knows.
#ifndef TUI_DEVICE_H
#define TUI_DEVICE_H

#include "core/err.h"
#include "kernels/backend.h"

// "cpu", "cuda", "cuda:1"; NULL name: the CPU. NULL with a message when it is not to be had.
const struct backend *device_find(const char *name, struct err *err);

#endif
