// core/graph/replay.c -- a device's recording of a step, with its memory and key.
#include "core/graph/replay.h"
#include "kernels/backend.h"

void replay_forget(struct replay *r)
{
    if (r->recording) r->arena.backend->recorder->forget(r->recording);
    if (r->arena.backend) arena_release(&r->arena);
    *r = (struct replay){ 0 };
}

bool replay_again(struct replay *r, const struct backend *b, uint64_t key)
{
    if (r->key == key) return !r->refused;
    replay_forget(r);
    r->key = key;
    r->arena.backend = b;
    return false;
}
