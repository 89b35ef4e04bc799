// tests/toys/lists.c -- the lists of core/lists.h with the toys appended.
#include "core/methods/method.h"
#include "core/model/families/family.h"
#include "core/probes/probe.h"
#include "tests/toys/toys.h"

#define X(name) &method_##name,
static const struct method *const methods[] = { METHODS(X) & method_toy, &method_toy_values, NULL };
#undef X
#define X(name) &probe_##name,
static const struct probe *const probes[] = { PROBES(X) & probe_toy, NULL };
#undef X
#define X(name) &family_##name,
static const struct family *const families[] = { FAMILIES(X) & family_toy, NULL };
#undef X
static const struct command *const commands[] = { &command_toy, NULL };

void toys_register(void)
{
    families_register(families);
    methods_register(methods);
    lists_register_settings(); // includes the settings of methods
    probes_register(probes);
    commands_register(commands);
}
