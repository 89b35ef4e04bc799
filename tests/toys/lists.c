// tests/toys/lists.c -- the lists of core/lists.h with the toys behind.
#include "tests/toys/toys.h"

#define X(name) &method_##name,
static const struct method *const methods[] = { METHODS(X) & method_toy, NULL };
#undef X
#define X(name) &probe_##name,
static const struct probe *const probes[] = { PROBES(X) & probe_toy, NULL };
#undef X
#define X(name) &family_##name,
static const struct family *const families[] = { FAMILIES(X) & family_toy, NULL };
#undef X
static const struct command *const commands[] = { &command_toy, NULL };

void toys_hand_over(void)
{
    static const struct setting *settings[64];
    int n = 0;
    families_hand_over(families);
    methods_hand_over(methods);
    probes_hand_over(probes);
    commands_hand_over(commands);
#define X(name) settings[n++] = name##_settings;
    SETTINGS_FIRST(X)
    for (int i = 0; methods[i]; i++) settings[n++] = method_shown(i)->settings;
    SETTINGS_LAST(X)
#undef X
    settings[n++] = plaything_settings;
    settings_hand_over(settings);
}
