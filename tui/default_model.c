// tui/default_model.c -- the demo model, else a small random one.
#include "tui/default_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/new_model.h"
#include "tui/places.h"

// --- where it is
// ----------------------------------------------------------------------------------

static bool is_model(const char *folder)
{
    char *config = xasprintf("%s/config.json", folder);
    bool there = access(config, R_OK) == 0;
    free(config);
    return there;
}

// The demo model's folder, NULL when this installation has none.
static char *find_demo(void)
{
    static const char *const places[] = { "demo/model", "../../demo/model",
                                          "../share/vlmsh/demo/model" };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *folder = places_beside_program(places[i]);
        if (folder && is_model(folder)) return folder;
        free(folder);
    }
    return NULL;
}

// --- the small one with random weights
// ------------------------------------------------------------

static int write_tiny(const char *folder, struct err *err)
{
    const struct new_model_options options = { .shape = "tiny", .folder = folder };
    if (places_make_parents(folder, err) < 0) return -1;
    // Written beside and renamed: two programs that begin at once find a whole one.
    char *next = xasprintf("%s.%d", folder, (int)getpid());
    struct new_model_options beside = options;
    beside.folder = next;
    int status = new_model_write(&beside, NULL, err);
    if (status == 0 && rename(next, folder) < 0 && !is_model(folder))
        status = err_set(err, "cannot rename '%s' to '%s': %s", next, folder, strerror(errno));
    free(next);
    return status;
}
