// tests/lists.c -- linked into every test program: registers the lists before main.
#include "core/lists.h"

__attribute__((constructor)) static void register_lists(void)
{
    lists_register();
}
