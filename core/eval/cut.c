// core/eval/cut.c -- see cut.h.
#include "core/eval/cut.h"

#include <string.h>

#include "core/base/mem.h"

enum cut cut_of(const struct event_answer *a)
{
    if (!a->stop || strcmp(a->stop, "length") != 0) return CUT_NONE;
    return a->full ? CUT_CONTEXT : CUT_LENGTH;
}

char *cut_text(const int64_t counts[CUTS])
{
    static const char *const what[CUTS] = { [CUT_CONTEXT] = "hit the context limit (ctx.max)",
                                            [CUT_LENGTH] = "reached sample.max_tokens" };
    struct buf b = { 0 };
    for (int i = CUT_CONTEXT; i < CUTS; i++)
        if (counts[i])
            buf_printf(&b, "%s%lld %s", b.length ? "; " : "", (long long)counts[i], what[i]);
    return b.length ? buf_take(&b) : NULL;
}
