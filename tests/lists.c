// tests/lists.c -- linked to every program of the tests: registers the lists before main.
#include "core/lists.h"

__attribute__((constructor)) static void register_lists(void)
{
    lists_register();
}
