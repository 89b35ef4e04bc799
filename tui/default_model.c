// tui/default_model.c -- the demo model, else a small random one.
#include "tui/default_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/places.h"
#include "core/new/new_model.h"

// --- where it is ---------------------------------------------------------------------------------

static bool is_model(const char *folder)
{
    char *config = xasprintf("%s/config.json", folder);
    bool there = access(config, R_OK) == 0;
    free(config);
    return there;
}

// Returns the demo model's folder; NULL: not installed.
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

// --- the small one with random weights -----------------------------------------------------------

static int write_tiny(const char *folder, struct err *err)
{
    if (places_make_parents(folder, err) < 0) return -1;
    // Written beside it and renamed: a second program that starts meanwhile finds a whole model.
    char *next = xasprintf("%s.%d", folder, (int)getpid());
    int status = new_model_write("tiny", next, 1, NULL, NULL, err);
    if (status == 0 && rename(next, folder) < 0 && !is_model(folder))
        status = err_set(err, "cannot rename '%s' to '%s': %s", next, folder, strerror(errno));
    if (status == 0 && is_model(next)) folder_remove(next); // the other program was faster
    free(next);
    return status;
}

static int load_tiny(struct engine *e, struct err *err)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "tiny");
    if (!folder)
        return err_set(err, "MODEL is missing, and without HOME there is no place for the default "
                            "model: set HOME, or name a model");
    int status = is_model(folder) ? 0 : write_tiny(folder, err);
    if (status == 0 && engine_load(e, folder, err) < 0)
        status = err_in(err, "the small default model (delete '%s' to create it again)", folder);
    if (status == 0)
        sinks_notice(engine_sinks(e),
                     "No MODEL given: this is a small model with random weights, so its answers "
                     "are noise. For a real one, download a folder from Hugging Face (for instance "
                     "llava-hf/llava-1.5-7b-hf) and open it with /load FOLDER or 'vlmsh FOLDER'.");
    free(folder);
    return status;
}

// --- when ----------------------------------------------------------------------------------------

static int want_model(void *self, struct err *err)
{
    struct shell *shell = self;
    shell->want_model = NULL; // one try
    char *demo = find_demo();
    int status = demo ? engine_load(shell->engine, demo, err) : load_tiny(shell->engine, err);
    free(demo);
    return status;
}

bool default_model_is_demo(const char *folder)
{
    char *demo = find_demo();
    const bool same = demo && !strcmp(demo, folder);
    free(demo);
    return same;
}

// After a person has opened and closed a model, no default is loaded.
static void notice_model(void *self, const struct event *event)
{
    struct shell *shell = self;
    if (event->kind == EVENT_MODEL) shell->want_model = NULL;
}

void default_model_offer(struct shell *shell)
{
    shell->want_model = want_model;
    shell->want_self = shell;
    sinks_add(shell->sinks, (struct sink){ .emit = notice_model, .self = shell });
}
