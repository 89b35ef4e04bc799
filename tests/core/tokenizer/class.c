// tests/core/tokenizer/class.c -- core/tokenizer/special.c and class.c: tokens and behaviour that a
// tokenizer's class and the files beside it add. Ids are those of AutoTokenizer of transformers
// 4.57.6; if 5.24.0 gives different ones, the notice says so.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/json.h"
#include "tests/core/scratch.h"
#include "tests/core/tokenizer/tokenizers.h"

static const char typed[] = "a <image> b<NEW></s> c <pad><unk>";

// The notice contains `notice`; "": no notice (except the one about the golden's user-defined
// pieces).
static void check_folder(const char *folder, const char *ids, const char *notice)
{
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open_folder(folder, &err);
    if (!t) fail_msg("%s", err.text);
    struct ids got = encode(t, typed, strlen(typed), TOKENIZE_SPECIAL);
    struct buf b = { 0 };
    for (size_t i = 0; i < got.count; i++) buf_printf(&b, "%s%d", i ? " " : "", got.data[i]);
    assert_string_equal(b.data, ids);
    const char *said = tokenizer_notice(t);
    if (*notice && (!said || !strstr(said, notice)))
        fail_msg("\"%s\" does not say \"%s\"", said ? said : "", notice);
    if (!*notice && said && !strstr(said, "user-defined")) fail_msg("it says \"%s\"", said);
    ids_release(&got);
    buf_release(&b);
    tokenizer_free(t);
}

// --- beside a tokenizer.model --------------------------------------------------------------------

#define LLAMA "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true,\"legacy\":true"

static const struct {
    const char *config, *map, *added, *ids, *notice;
} pieces[] = {
    // additional
    { LLAMA ",\"additional_special_tokens\":[\"<image>\",\"<NEW>\"]}", NULL, NULL,
      "1 271 800 900 266 835 901 2 266 810 800 892 814 441 864 0", "<image> (900), <NEW> (901)" },
    // extra dict
    { LLAMA ",\"extra_special_tokens\":{\"image_token\":\"<image>\"}}", NULL, NULL,
      "1 271 800 900 266 835 892 852 862 888 864 2 266 810 800 892 814 441 864 0",
      "<image> (900)" },
    // pad
    { LLAMA ",\"pad_token\":\"<pad>\"}", NULL, NULL,
      "1 271 800 892 623 864 324 892 852 862 888 864 2 266 810 800 900 0", "<pad> (900)" },
    // bos
    { LLAMA ",\"bos_token\":\"<NEW>\"}", NULL, NULL,
      "900 271 800 892 623 864 324 900 2 266 810 800 892 814 441 864 0", "<NEW> (900)" },
    // unk
    { LLAMA ",\"unk_token\":\"<NEW>\"}", NULL, NULL,
      "1 271 800 892 623 864 324 900 2 266 810 800 892 814 441 864 892 304 825 864",
      "<NEW> (900)" },
    // eos in map
    { LLAMA ",\"add_eos_token\":true}", "{\"eos_token\":\"<NEW>\"}", NULL,
      "1 271 800 892 623 864 324 900 2 266 810 800 892 814 441 864 0 900", "<NEW> (900)" },
    // list in map
    { LLAMA "}",
      "{\"additional_special_tokens\":[\"<image>\",{\"content\":\"<NEW>\",\"lstrip\":true,"
      "\"rstrip\":false,\"normalized\":false,\"single_word\":false}],\"pad_token\":\"<pad>\"}",
      NULL, "1 271 800 901 266 835 902 2 266 810 800 900 0",
      "<pad> (900), <image> (901), <NEW> (902)" },
    // holes
    { LLAMA ",\"added_tokens_decoder\":{\"905\":{\"content\":\"<image>\",\"special\":true},\"910\":"
            "{\"content\":\"<NEW>\",\"special\":true,\"lstrip\":true}}}",
      NULL, NULL, "1 271 800 900 266 835 901 2 266 810 800 892 814 441 864 0",
      "<image> (900, not 905), <NEW> (901, not 910)" },
    // out of order
    { LLAMA ",\"added_tokens_decoder\":{\"901\":{\"content\":\"<image>\",\"special\":true},\"900\":"
            "{\"content\":\"<NEW>\",\"special\":true}}}",
      NULL, NULL, "1 271 800 901 266 835 900 2 266 810 800 892 814 441 864 0", "" },
    // an id of a piece
    { LLAMA ",\"added_tokens_decoder\":{\"800\":{\"content\":\"<image>\",\"special\":true}}}", NULL,
      NULL, "1 271 800 900 266 835 892 852 862 888 864 2 266 810 800 892 814 441 864 0",
      "<image> (900, not 800)" },
    // decoder and list
    { LLAMA ",\"added_tokens_decoder\":{\"900\":{\"content\":\"<image>\",\"special\":true}},"
            "\"additional_special_tokens\":[\"<image>\",\"<NEW>\"],\"pad_token\":\"<pad>\"}",
      NULL, NULL, "1 271 800 900 266 835 902 2 266 810 800 901 0", "<pad> (901), <NEW> (902)" },
    // decoder and added
    { LLAMA ",\"added_tokens_decoder\":{\"900\":{\"content\":\"<image>\",\"special\":true}}}", NULL,
      "{\"<NEW>\":901}",
      "1 271 800 900 266 835 892 852 862 888 864 2 266 810 800 892 814 441 864 0",
      "<NEW> (901 in added_tokens.json)" },
    // added
    { LLAMA ",\"additional_special_tokens\":[\"<image>\",\"<NEW>\"]}", NULL,
      "{\"<NEW>\":905,\"<image>\":903}",
      "1 271 800 900 266 835 901 2 266 810 800 892 814 441 864 0",
      "<image> (900, not 903), <NEW> (901, not 905)" },
    // both lists
    { LLAMA ",\"extra_special_tokens\":{\"x_token\":\"<NEW>\"},\"additional_special_tokens\":[\"<"
            "image>\"]}",
      NULL, NULL, "1 271 800 900 266 835 901 2 266 810 800 892 814 441 864 0",
      "<image> (900), <NEW> (901)" },
    // one id for two
    { LLAMA ",\"additional_special_tokens\":[\"<NEW>\"]}", NULL, "{\"<image>\":903,\"<NEW>\":903}",
      "1 271 800 892 623 864 324 900 2 266 810 800 892 814 441 864 0", "<NEW> (900, not 903)" },
    // no bos: null
    { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":null,\"legacy\":true}", NULL, NULL,
      "271 800 892 623 864 324 892 852 862 888 864 2 266 810 800 892 814 441 864 0", "" },
    // a word
    { LLAMA ",\"additional_special_tokens\":[\"\u2581the\"]}", NULL, NULL,
      "1 271 800 892 623 864 324 892 852 862 888 864 2 266 810 800 892 814 441 864 0",
      "never merges into them: \u2581the" },
    // plain
    { LLAMA ",\"added_tokens_decoder\":{\"900\":{\"content\":\"<image>\",\"special\":false,"
            "\"rstrip\":true}}}",
      NULL, NULL, "1 271 800 900 324 892 852 862 888 864 2 266 810 800 892 814 441 864 0", "" },
    // not legacy
    { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true,\"legacy\":false}", NULL,
      NULL, "1 271 800 892 623 864 324 892 852 862 888 864 2 303 800 892 814 441 864 0", "" },
    // no prefix
    { LLAMA ",\"add_prefix_space\":false}", NULL, NULL,
      "1 807 800 892 623 864 324 892 852 862 888 864 2 303 800 892 814 441 864 0", "" },
    // no prefix, not legacy
    { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true,\"legacy\":false,\"add_"
      "prefix_space\":false}",
      NULL, NULL, "1 807 800 892 623 864 324 892 852 862 888 864 2 303 800 892 814 441 864 0",
      "no space is added before a text" },
    // no bos
    { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":false,\"legacy\":true,\"add_eos_"
      "token\":true}",
      NULL, NULL, "271 800 892 623 864 324 892 852 862 888 864 2 266 810 800 892 814 441 864 0 2",
      "" },
    // no options given
    { "{\"tokenizer_class\":\"LlamaTokenizer\"}", NULL, NULL,
      "1 271 800 892 623 864 324 892 852 862 888 864 2 266 810 800 892 814 441 864 0",
      "add_bos_token (true here), legacy (true here)" },
};

static void class_with_a_sentencepiece_model(void **state)
{
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char *folder = scratch_new();
        scratch_copy(folder, "tests/goldens/tokenizers/llama", "tokenizer.model");
        scratch_text(folder, "tokenizer_config.json", pieces[i].config);
        if (pieces[i].map) scratch_text(folder, "special_tokens_map.json", pieces[i].map);
        if (pieces[i].added) scratch_text(folder, "added_tokens.json", pieces[i].added);
        check_folder(folder, pieces[i].ids, pieces[i].notice);
        scratch_remove(folder);
    }
}

// --- beside a tokenizer.json ---------------------------------------------------------------------

static const struct {
    const char *golden, *fields, *ids, *notice;
} files[] = {
    // llama
    { "llava-1.5", "{}", "1 349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0", "" },
    // llama, no bos
    { "llava-1.5", "{\"add_bos_token\":false}",
      "349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0",
      "nothing before, nothing after is used, as transformers 4 does" },
    // llama, eos
    { "llava-1.5", "{\"add_eos_token\":true}",
      "1 349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0 2", "<s> before, </s> after" },
    // llama, another bos
    { "llava-1.5", "{\"bos_token\":\"</s>\"}",
      "2 349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0", "</s> before" },
    // llama, no bos: null
    { "llava-1.5", "{\"add_bos_token\":null}",
      "349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0", "nothing before" },
    // gemma
    { "llava-1.5", "{\"tokenizer_class\":\"GemmaTokenizerFast\",\"add_bos_token\":false}",
      "349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0", "for GemmaTokenizer" },
    // gpt-neox
    { "llava-1.5", "{\"tokenizer_class\":\"GPTNeoXTokenizer\",\"add_bos_token\":null}",
      "349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0", "nothing before" },
    // general
    { "llava-1.5",
      "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_bos_token\":false,\"add_eos_token\":"
      "true}",
      "1 349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0",
      "add_bos_token, add_eos_token" },
    // qwen2
    { "llava-1.5", "{\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_bos_token\":false}",
      "1 349 345 540 362 304 282 294 289 301 284 2 362 305 345 541 0",
      "class decides: add_bos_token" },
    // class default
    { "llama-3.2", "{\"tokenizer_class\":\"LlamaTokenizer\"}",
      "560 64 488 72 285 284 29 288 27 45 36 54 29 27 14 82 29 274 488 79 444 29 569",
      "<unk> (569)" },
};

static void class_with_a_tokenizer_json(void **state)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *folder = scratch_new(), *golden = xasprintf("tests/goldens/%s", files[i].golden);
        scratch_copy(folder, golden, "tokenizer.json");
        scratch_json(folder, "tokenizer_config.json", golden, files[i].fields);
        check_folder(folder, files[i].ids, files[i].notice);
        scratch_remove(folder);
        free(golden);
    }
}

// --- a space before texts ------------------------------------------------------------------------

// A ByteLevel alone follows the config; null leaves it unchanged.
static void prefix_of_byte_level(void **state)
{
    static const struct {
        const char *config;
        bool own, prefix;
    } cases[] = {
        { "{\"add_prefix_space\":true}", false, true },
        { "{\"add_prefix_space\":false}", true, false },
        { "{\"add_prefix_space\":null}", true, true },
        { "{}", true, false },
        { "{}", false, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = scratch_new();
        char *json = xasprintf(
            "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":true}"
            ","
            "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xC4\xA0\":1},\"merges\":[]}}",
            cases[i].own ? "true" : "false");
        scratch_text(folder, "tokenizer.json", json);
        scratch_text(folder, "tokenizer_config.json", cases[i].config);
        struct tokenizer *t = open_file(folder);
        const int32_t ids[] = { 1, 0 };
        check_ids(t, "a", 1, 0, ids + !cases[i].prefix, 1 + cases[i].prefix);
        if (cases[i].own != cases[i].prefix)
            assert_non_null(strstr(tokenizer_notice(t), "add_prefix_space"));
        else
            assert_null(tokenizer_notice(t));
        tokenizer_free(t);
        free(json);
        scratch_remove(folder);
    }
}

// CodeLlama's infilling tokens exist even if the config does not name them, unless it sets them to
// null; the fill marker is not a token.
static void codellama_has_tokens_for_infilling(void **state)
{
    static const struct {
        const char *fields, *ids, *notice;
    } cases[] = {
        { "{\"tokenizer_class\":\"CodeLlamaTokenizer\"}", "542 543 544 545",
          "\u2581<PRE> (542), \u2581<MID> (543), \u2581<SUF> (544), \u2581<EOT> (545)" },
        { "{\"tokenizer_class\":\"CodeLlamaTokenizerFast\",\"fill_token\":\"<FILL_ME>\","
          "\"suffix_token\":\"\u2581<SUF>\",\"eot_token\":null,\"additional_special_tokens\":["
          "\"<x>\"]}",
          "543 544 545 -1", "<x> (542), \u2581<PRE> (543)" },
    };
    static const char *const texts[] = { "\u2581<PRE>", "\u2581<MID>", "\u2581<SUF>",
                                         "\u2581<EOT>" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = scratch_new();
        struct buf b = { 0 };
        scratch_copy(folder, "tests/goldens/llava-1.5", "tokenizer.json");
        scratch_json(folder, "tokenizer_config.json", "tests/goldens/llava-1.5", cases[i].fields);
        struct tokenizer *t = open_file(folder);
        for (int k = 0; k < 4; k++) buf_printf(&b, "%s%d", k ? " " : "", tokenizer_id(t, texts[k]));
        assert_string_equal(b.data, cases[i].ids);
        assert_int_equal(tokenizer_id(t, "<FILL_ME>"), -1);
        assert_non_null(strstr(tokenizer_notice(t), cases[i].notice));
        buf_release(&b);
        tokenizer_free(t);
        scratch_remove(folder);
    }
}

// If tokenizer_config.json names no class, config.json does, or its model type determines it.
static void class_of_the_model(void **state)
{
    static const struct {
        const char *golden, *model, *config, *notice;
    } cases[] = {
        { "llava-1.5", "{\"model_type\":\"llama\"}", "{\"add_bos_token\":false}",
          "as transformers 4 does for LlamaTokenizer" },
        { "llava-1.5", "{\"model_type\":\"llava\"}", "{\"add_eos_token\":true}",
          "as transformers 4 does for LlamaTokenizer" },
        { "llava-1.5", "{\"model_type\":\"llava\",\"tokenizer_class\":\"GemmaTokenizer\"}",
          "{\"add_bos_token\":false,\"bos_token\":\"<s>\",\"eos_token\":\"</"
          "s>\",\"pad_token\":null}",
          "for GemmaTokenizer" },
        { "llava-1.5", "{\"model_type\":\"phi\"}", "{\"add_bos_token\":false}",
          "file or class decides: add_bos_token" },
        { "llava-1.5", "{\"model_type\":\"llama\"}",
          "{\"add_bos_token\":false,\"auto_map\":{\"AutoTokenizer\":[\"a.B\",null]}}",
          "file or class decides: add_bos_token" },
        { "llava-1.5", "{\"model_type\":\"llama\"}", "{}", NULL },
        // Its special tokens differ from those of that class.
        { "llama-3.2", "{\"model_type\":\"llama\"}", "{}", NULL },
        { "llama-3.2", "{\"model_type\":\"qwen2\"}", "{}", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = scratch_new(), *golden = xasprintf("tests/goldens/%s", cases[i].golden);
        scratch_copy(folder, golden, "tokenizer.json");
        scratch_text(folder, "config.json", cases[i].model);
        scratch_text(folder, "tokenizer_config.json", cases[i].config);
        struct tokenizer *t = open_file(folder);
        const char *said = tokenizer_notice(t);
        if (!cases[i].notice && said) fail_msg("it says \"%s\"", said);
        if (cases[i].notice && (!said || !strstr(said, cases[i].notice)))
            fail_msg("\"%s\" does not say \"%s\"", said ? said : "", cases[i].notice);
        tokenizer_free(t);
        free(golden);
        scratch_remove(folder);
    }
}

static void class_of_the_model_with_merges(void **state)
{
    char *folder = scratch_new();
    const int32_t ids[] = { 2 };
    scratch_text(folder, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    scratch_text(folder, "merges.txt", "a b\n");
    scratch_text(folder, "config.json", "{\"model_type\":\"qwen2_5_vl\"}");
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open_folder(folder, &err);
    if (!t) fail_msg("%s", err.text);
    check_ids(t, "ab", 2, 0, ids, 1);
    assert_int_equal(tokenizer_id(t, "<|endoftext|>"), 3);
    tokenizer_free(t);
    scratch_remove(folder);
}

static void wrong_types_are_refused(void **state)
{
    struct err err = { "" };
    char *folder = scratch_new();
    scratch_copy(folder, "tests/goldens/llava-1.5", "tokenizer.json");
    scratch_json(folder, "tokenizer_config.json", "tests/goldens/llava-1.5",
                 "{\"add_bos_token\":\"yes\"}");
    assert_null(tokenizer_open_folder(folder, &err));
    assert_non_null(strstr(err.text, "tokenizer_config.json: \"add_bos_token\""));
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_with_a_sentencepiece_model),
        cmocka_unit_test(class_with_a_tokenizer_json),
        cmocka_unit_test(prefix_of_byte_level),
        cmocka_unit_test(codellama_has_tokens_for_infilling),
        cmocka_unit_test(class_of_the_model),
        cmocka_unit_test(class_of_the_model_with_merges),
        cmocka_unit_test(wrong_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
