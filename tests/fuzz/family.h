// tests/fuzz/family.h -- configures a model's family from arbitrary configs, and sizes pictures for
// it. The family may refuse the configs; if it accepts them, it must be able to count the visual
// tokens of any picture.
#ifndef TESTS_FUZZ_FAMILY_H
#define TESTS_FUZZ_FAMILY_H

#include <stdlib.h>

#include "core/model/companions.h"
#include "core/model/families/family.h"
#include "core/model/unread.h"
#include "core/template/message.h"

static void size_pictures(const struct model *m)
{
    static const int64_t sizes[][2] = { { 640, 480 }, { 1, 1 }, { 3, 5000 }, { 9000, 7 } };
    static const struct picture_limit limits[] = { { 0 }, { .most = 64 }, { .share = 0.25 } };
    struct picture_tile tiles[8];
    struct err err;
    for (int i = 0; i < 12; i++) {
        struct picture p = { 0 };
        model_size_picture(m, &p, sizes[i % 4][0], sizes[i % 4][1], 1 + i % 2, limits[i / 4]);
        (void)model_check_picture(m, &p, &err);
        if (m->family->pictures->tiles) m->family->pictures->tiles(m, p.shape, tiles, 8);
    }
}

static void configure_family(struct checkpoint *c)
{
    struct err err;
    const struct family *family = c->config ? family_find(c->config, &err) : NULL;
    if (!family) return;
    struct model m = { .name = (char *)"fuzz", .checkpoint = c, .family = family };
    m.arena.backend = backend_cpu();
    if (family->configure(&m, c, &err) == 0) {
        char *notices[UNUSED_MOST];
        (void)config_keys_check(&m, &err);
        if (family->pictures) size_pictures(&m);
        for (int n = unused_notices(&m, notices); n > 0;) free(notices[--n]);
    }
    ids_release(&m.eos);
    arena_release(&m.arena);
}

#endif
