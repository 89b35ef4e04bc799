// commands/compare_table.c -- the tables of /compare.
#include "commands/compare_table.h"

#include <math.h>

void compare_row(struct table_builder *t, const char *what, double a, double b, int digits)
{
    table_add(t, "%s", what);
    const double x[] = { a, b, b / a };
    for (int k = 0; k < 3; k++) {
        if (!isfinite(x[k]) || (k == 2 && !(a > 0)))
            table_add(t, "%s", "");
        else
            table_add(t, "%.*f", k == 2 ? 3 : digits, x[k]);
    }
}

void compare_costs_begin(struct table_builder *t)
{
    static const char *const columns[] = { "what", "A", "B", "B/A" };
    static const bool numeric[] = { false, true, true, true };
    table_begin(t, "compare", 4, columns, numeric);
}

static double prompt_tokens(const struct compare_cost *c)
{
    return (double)c->prompt_tokens;
}

static double visual_tokens(const struct compare_cost *c)
{
    return (double)c->visual_tokens;
}

static double kept(const struct compare_cost *c)
{
    return (double)c->kept;
}

static double prefill_gflop(const struct compare_cost *c)
{
    return c->prefill_flops / 1e9;
}

static double decode_gflop(const struct compare_cost *c)
{
    return c->decode_flops / 1e9;
}

static double vision_s(const struct compare_cost *c)
{
    return c->vision_s;
}

static double prefill_s(const struct compare_cost *c)
{
    return c->prefill_s;
}

static double decode_s(const struct compare_cost *c)
{
    return c->decode_s;
}

static double kv_mib(const struct compare_cost *c)
{
    return (double)c->kv_bytes / 1048576;
}

static double visual_norm_first(const struct compare_cost *c)
{
    return c->norm[0][0];
}

static double text_norm_first(const struct compare_cost *c)
{
    return c->norm[0][1];
}

static double visual_norm_last(const struct compare_cost *c)
{
    return c->norm[1][0];
}

static double text_norm_last(const struct compare_cost *c)
{
    return c->norm[1][1];
}

const struct compare_cost_row compare_cost_rows[] = {
    { "prompt tokens", prompt_tokens, 0 },
    { "visual tokens", visual_tokens, 0 },
    { "visual tokens kept", kept, 0 },
    { "prefill GFLOP", prefill_gflop, 4 },
    { "decode GFLOP", decode_gflop, 4 },
    { "pictures s", vision_s, 4 },
    { "prefill s", prefill_s, 4 },
    { "decode s", decode_s, 4 },
    { "KV cache MiB", kv_mib, 4 },
    { "norm of visual tokens, first layer", visual_norm_first, 4 },
    { "norm of text tokens, first layer", text_norm_first, 4 },
    { "norm of visual tokens, after the last", visual_norm_last, 4 },
    { "norm of text tokens, after the last", text_norm_last, 4 },
    { 0 },
};

void compare_distance_begin(struct table_builder *t)
{
    static const char *const columns[] = { "what", "value" };
    static const bool numeric[] = { false, true };
    table_begin(t, "compare.distance", 2, columns, numeric);
}

void compare_number(struct table_builder *t, const char *what, double x)
{
    table_add(t, "%s", what);
    if (isfinite(x))
        table_add(t, "%.6g", x);
    else
        table_add(t, "%s", "");
}
