// tests/lists.c -- linked to every program of the tests: hands over the lists before main.
#include "core/lists.h"

__attribute__((constructor)) static void hand_over(void)
{
    lists_hand_over();
}
