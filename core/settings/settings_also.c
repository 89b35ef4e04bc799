// core/settings/settings_also.c -- other words that people look for when they mean a setting.
#include "core/settings/settings.h"

#include <string.h>

static const struct {
    const char *key, *words;
} others[] = {
    { "sample.temperature", "creativity randomness greedy" },
    { "sample.top_p", "nucleus" },
    { "sample.max_tokens", "length limit longer shorter cut" },
    { "sample.seed", "random reproducible" },
    { "sample.lookahead", "speculative drafts" },
    { "ctx.max", "context window memory" },
    { "chat.template", "prompt format" },
    { "prune.score", "fastv capa pruning" },
    { "prune.keep", "ratio share" },
    { "ffn.approx", "skip approximation" },
    { "norm.align", "alignment norms" },
    { "train.lr", "learning rate" },
    { "train.steps", "epochs iterations" },
    { "train.method", "lora finetune fine-tune" },
    { "compute.matmul", "precision bf16 f32" },
    { "screen.theme", "dark light colours colors" },
    { "screen.map", "heatmap colours colors colormap" },
    { "screen.graphics", "sixel kitty iterm images" },
    { "screen.markdown", "bold tables formatting" },
    { "screen.layout", "panels view" },
    { "screen.mouse", "click select" },
    { "screen.live", "heatmap attention" },
};

const char *settings_also_lost(void)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!settings_find(others[i].key)) return others[i].key;
    return NULL;
}

const char *setting_also(const char *key)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i].key, key)) return others[i].words;
    return NULL;
}
