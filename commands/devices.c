// commands/devices.c -- /devices: the devices available to --device, with their memory.
#include "commands/command.h"
#include "core/engine/device.h"

// Adds a size in MB; 0 bytes: unknown.
static void add_memory(struct table_builder *t, size_t bytes)
{
    if (bytes)
        table_add(t, "%.0f", (double)bytes / 1e6);
    else
        table_add(t, "?");
}

static void add_device(void *self, const struct device_row *row)
{
    struct table_builder *t = self;
    table_row(t, "%s|%s", row->name, row->text);
    add_memory(t, row->unused);
    add_memory(t, row->total);
}

static int devices_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct table_builder t;
    struct err why;
    table_begin(&t, "devices", "device|description|MB free#|MB total#");
    device_each(add_device, &t, &why);
    table_emit(&t, shell->sinks);
    if (why.text[0]) sinks_text(shell->sinks, "no GPU: %s", why.text);
    return 0;
}

const struct command command_devices = {
    .name = "devices",
    .also = "gpu cuda cpu",
    .usage = "/devices",
    .help = "Lists the devices available to --device, with their memory.",
    .run = devices_run,
};
