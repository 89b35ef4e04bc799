// core/template/layouts.c -- the table of prompt layouts.
//
// layout_detect tries the rows in this order, so specific ones come first. A new layout is a new
// row.
#include "core/settings/settings.h"
#include "core/template/template_parts.h"

static const char *const special_tokens[] = { "tokens", "text", NULL };

const struct setting data_settings[] = {
    { .key = "data.special_tokens",
      .type = SETTING_CHOICE,
      .def = "tokens",
      .choices = special_tokens,
      .stale = STALE_PROMPT,
      .help = "How to read special tokens spelled in a data set (<|box_start|>, <ref>): as tokens, "
              "like transformers, or as text, for untrusted data. Chat input is always text.",
      .also = "added tokens injection" },
    { 0 },
};

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define IM(role)     "<|im_start|>" role "\n"
#define KIMI(role)   "<|im_" role "|>" role "<|im_middle|>"

const struct layout layouts[] = {
    {
        .name = "vicuna", // LLaVA-1.5
        .marks = { "ASSISTANT:" },
        .open = { "", "USER: ", "ASSISTANT: " },
        .close = { "", "", "" },
        .generation = "ASSISTANT:",
        .text_close = " ",
        .picture_end = "\n",
        .pictures_first = true,
        .bare_answers = true,
    },
    {
        .name = "llama-3.2",
        .marks = { "<|start_header_id|>", "Cutting Knowledge Date" },
        .begin = "<|begin_of_text|>",
        .open = { HEADER("system"), HEADER("user"), HEADER("assistant") },
        .close = { "<|eot_id|>", "<|eot_id|>", "<|eot_id|>" },
        .generation = HEADER("assistant"),
        .picture_end = "\n",
        .trim = true,
        .place = SYSTEM_WITH_DATE,
    },
    {
        .name = "llama-3",
        .marks = { "<|start_header_id|>" },
        .begin = "<|begin_of_text|>",
        .open = { HEADER("system"), HEADER("user"), HEADER("assistant") },
        .close = { "<|eot_id|>", "<|eot_id|>", "<|eot_id|>" },
        .generation = HEADER("assistant"),
        .picture_end = "\n",
        .trim = true,
    },
    {
        .name = "internvl", // InternVL3
        .marks = { "<|im_start|>", "<IMG_CONTEXT>" },
        .open = { IM("system"), IM("user"), IM("assistant") },
        .close = { "<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n" },
        .generation = IM("assistant"),
        .picture_end = "\n",
    },
    {
        .name = "llava-onevision",
        .marks = { "<|im_start|>' + message['role'] + ' '", "<image>" },
        .open = { "<|im_start|>system ", "<|im_start|>user ", "<|im_start|>assistant " },
        .close = { "<|im_end|>", "<|im_end|>", "<|im_end|>" },
        .generation = IM("assistant"),
        .text_open = "\n",
        .pictures_first = true,
    },
    {
        .name = "chatml", // Qwen
        .marks = { "<|im_start|>" },
        .open = { IM("system"), IM("user"), IM("assistant") },
        .close = { "<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n" },
        .generation = IM("assistant"),
    },
    {
        .name = "kimi", // Kimi-VL, Moonlight
        .marks = { "<|im_middle|>", "You are a helpful assistant" },
        .open = { KIMI("system"), KIMI("user"), KIMI("assistant") },
        .close = { "<|im_end|>", "<|im_end|>", "<|im_end|>" },
        .generation = KIMI("assistant"),
        .system = "You are a helpful assistant",
    },
    {
        .name = "kimi-k2.5",
        .marks = { "<|im_middle|>" },
        .open = { KIMI("system"), KIMI("user"), KIMI("assistant") },
        .close = { "<|im_end|>", "<|im_end|>", "<|im_end|>" },
        .generation = KIMI("assistant"),
    },
    {
        .name = "glm-4v",
        .marks = { "[gMASK]<sop>", "<|assistant|>" },
        .begin = "[gMASK]<sop>",
        .open = { "<|system|>\n", "<|user|>\n", "<|assistant|>\n" },
        .close = { "", "", "" },
        .generation = "<|assistant|>\n",
    },
    {
        .name = "llama-2",
        .marks = { "[INST]", "<<SYS>>" },
        .open = { "", "<s>[INST] ", " " },
        .close = { "", " [/INST]", " </s>" },
        .generation = "",
        .trim = true,
        .picture_end = "\n",
        .place = SYSTEM_IN_USER,
    },
    {
        // InternVL2's config.json names this layout; its folder has code that builds the prompt,
        // but no template.
        .name = "internlm2-chat",
        .open = { IM("system"), IM("user"), IM("assistant") },
        .close = { "<|im_end|>", "<|im_end|>", "<|im_end|>" },
        .generation = IM("assistant"),
        .picture_end = "\n",
        .pictures_first = true,
        .system = "你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，英文名叫InternVL, "
                  "是一个有用无害的人工智能助手。",
    },
    {
        .name = "internvl2_5", // named by InternVL2.5's config.json
        .open = { IM("system"), IM("user"), IM("assistant") },
        .close = { "<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n" },
        .generation = IM("assistant"),
        .picture_end = "\n",
        .pictures_first = true,
        .system = "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位"
                  "联合开发的多模态大语言模型。",
    },
    {
        .name = "plain", // bare texts, for base models
        .open = { "", "", "" },
        .close = { "", "", "" },
        .generation = "",
        .bare_answers = true,
    },
    { 0 },
};
