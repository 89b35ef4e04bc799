// tui/device.c -- from a name to a backend.
#include "tui/device.h"

#include <string.h>

static const struct backend *open_cpu(const char *index, struct err *err)
{
    if (!index) return backend_cpu();
    err_set(err, "there is one CPU: --device cpu");
    return NULL;
}

static const struct backend *open_cuda(const char *index, struct err *err)
{
    err_set(err, "this build computes on the CPU only: leave --device cuda out");
    return NULL;
}

static const struct device {
    const char *name;
    const struct backend *(*open)(const char *index, struct err *err); // index: behind the colon
} devices[] = { { "cpu", open_cpu }, { "cuda", open_cuda } };

const struct backend *device_find(const char *name, struct err *err)
{
    if (!name) return backend_cpu();
    size_t n = strcspn(name, ":");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strlen(devices[i].name) == n && strncmp(devices[i].name, name, n) == 0)
            return devices[i].open(name[n] ? name + n + 1 : NULL, err);
    err_set(err, "unknown device '%s': cpu or cuda[:N]", name);
    return NULL;
}
