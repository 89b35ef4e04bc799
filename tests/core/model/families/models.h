// tests/core/model/families/models.h -- lists of reference models under tests/goldens/, by what
// their goldens contain.
#ifndef TESTS_CORE_MODEL_FAMILIES_MODELS_H
#define TESTS_CORE_MODEL_FAMILIES_MODELS_H

// Vision models with goldens of norm alignment, pruning, FFN approximation, IRA, several probes and
// training.
#define GOLDEN_SEEING                                                                             \
    "llava-1.5", "llava-siglip-llama3", "internvl3", "qwen2.5-vl", "glm-4.1v", "llava-onevision", \
        "kimi-vl", "qwen3-vl"
// Vision models with goldens of norm alignment, pruning scores and training.
#define GOLDEN_TRAINED                                                                            \
    GOLDEN_SEEING, "internvl3.5", "internvl3.5-moe", "smolvlm", "gemma3", "gemma4", "gemma4-moe", \
        "gemma4-unified", "mistral3"
// Text models.
#define GOLDEN_TEXT "llama-3.2", "qwen2"

#endif
