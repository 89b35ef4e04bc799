// core/checkup/checks/opens.c -- checks that the files are whole, are read completely, and belong
// to one family.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/base/dtype.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/eval/compare_text.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/jobs/identity.h"
#include "core/model/companions.h"
#include "core/model/families/family.h"

static const double GIB = 1024.0 * 1024 * 1024;
enum { RECORD_MOST = 16 << 20 };

// --- weights -------------------------------------------------------------------------------------

// Counts the NaN and infinite elements of a quantised matrix, which it unpacks a few rows at a
// time.
static int64_t count_broken_rows(const struct safetensor *t)
{
    enum { NUMBERS = 1 << 22 };
    const int64_t width = t->shape[1], step = width < NUMBERS ? NUMBERS / width : 1;
    float *x = xreallocarray(NULL, (size_t)(step * width), sizeof *x);
    int64_t broken = 0;
    for (int64_t r = 0; r < t->shape[0]; r += step) {
        const int64_t rows = t->shape[0] - r < step ? t->shape[0] - r : step;
        quantised_rows(t, r, rows, x);
        for (int64_t i = 0; i < rows * width; i++) broken += !isfinite(x[i]);
    }
    free(x);
    return broken;
}

// Counts the NaN and infinite elements of a tensor in quantised blocks; blocks with a broken scale
// have such elements.
static int64_t count_broken_blocks(const struct safetensor *t)
{
    enum { PIECE = 1 << 14 }; // elements: whole blocks of every type
    const int64_t n = safetensor_count(t), pieces = (n + PIECE - 1) / PIECE;
    int64_t broken = 0;
#pragma omp parallel for reduction(+ : broken)
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t count = n - p * PIECE < PIECE ? n - p * PIECE : PIECE;
        float x[PIECE];
        floats_from(x, (const uint8_t *)t->data + dtype_bytes((enum dtype)t->dtype, p * PIECE),
                    (enum dtype)t->dtype, (size_t)count);
        for (int64_t i = 0; i < count; i++) broken += !isfinite(x[i]);
    }
    return broken;
}

// Counts the elements whose exponent bits are all ones: NaN and infinities.
static int64_t count_broken(const struct safetensor *t)
{
    if (t->quantised) return count_broken_rows(t);
    if (!safetensor_is_float(t)) return count_broken_blocks(t);
    const uint8_t *at = t->data;
    const int64_t n = safetensor_count(t);
    int64_t broken = 0;
    if (t->dtype == DTYPE_F32) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t x;
            memcpy(&x, at + 4 * i, sizeof x);
            broken += (x & 0x7f800000u) == 0x7f800000u;
        }
        return broken;
    }
    const unsigned mask = t->dtype == DTYPE_BF16 ? 0x7f80u : 0x7c00u;
    for (int64_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, at + 2 * i, sizeof x);
        broken += (x & mask) == mask;
    }
    return broken;
}

static int scan_weights(struct checkup *c, struct err *err)
{
    const struct checkpoint *k = c->model->checkpoint;
    struct finding f = finding(c, "numbers of the weights");
    struct buf names = { 0 };
    int64_t scanned = 0, broken = 0, tensors = 0;
    for (int64_t i = 0; i < k->tensor_count && !checkup_stopped(c); i++) {
        const struct safetensor *t = k->tensors[i];
        checkup_progress(c, (double)i, (double)k->tensor_count);
        if (t->dtype < 0) continue;
        const int64_t here = count_broken(t);
        scanned += safetensor_count(t);
        broken += here;
        if (here && tensors++ < 3) buf_printf(&names, "%s%s", names.length ? ", " : "", t->name);
    }
    finding_number(&f, "checked", (double)scanned, "numbers", 0);
    finding_number(&f, "NaN or infinite", (double)broken, "numbers", 0);
    if (tensors)
        finding_fails(&f, "NaN or infinite numbers in %lld of %lld tensors: %s%s",
                      (long long)tensors, (long long)k->tensor_count, names.data,
                      tensors > 3 ? " ..." : "");
    else if (scanned)
        finding_works(&f, "every number is finite");
    else
        finding_skip(&f, "no tensor has a type that vlmsh reads");
    buf_release(&names);
    return c->stopped ? err_set(err, "stopped") : 0;
}

static void list_files(struct checkup *c)
{
    const struct model *m = c->model;
    const struct checkpoint *k = m->checkpoint;
    struct finding f = finding(c, "files");
    struct buf types = { 0 };
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        int64_t count = 0;
        for (int64_t i = 0; i < k->tensor_count; i++) count += k->tensors[i]->dtype == dtype;
        if (count)
            buf_printf(&types, "%s%lld in %s", types.length ? ", " : "", (long long)count,
                       dtype_form((enum dtype)dtype).name);
    }
    finding_number(&f, "files of weights", k->gguf_count ? k->gguf_count : k->shard_count, "", 0);
    finding_number(&f, "tensors", (double)k->tensor_count, "", 0);
    finding_number(&f, "weights", (double)checkpoint_bytes(k) / GIB, "GiB", 0);
    finding_number(&f, "load time", c->load_s, "s", 1);
    finding_works(&f, "family %s; tensors: %s", m->family->name, types.data ? types.data : "none");
    buf_release(&types);
    char *text = quantised_text(k);
    if (text) {
        f = finding(c, "quantised");
        finding_works(&f, "%s", text);
    }
    free(text);
    f = finding(c, "read completely");
    if (m->ignored)
        finding_fails(&f, "ignored: %s; answers may be wrong", m->unread ? m->unread : "weights");
    else if (m->unread)
        finding_works(&f, "nothing that this family computes is left out; not read: %s", m->unread);
    else
        finding_works(&f, "every tensor and key is read");
}

static void check_memory(struct checkup *c)
{
    struct finding f = finding(c, "memory");
    const double forecast = (double)c->model->arena.reserved,
                 measured = (double)c->memory[1] - (double)c->memory[0];
    const char *stay = c->model->checkpoint->quantised
                           ? "the folder's quantised weights are unpacked"
                           : "the weights stay in their files";
    finding_number(&f, "own memory, forecast", forecast / GIB, "GiB", 0);
    finding_number(&f, "own memory, measured", measured / GIB, "GiB", 1);
    if (!c->memory[1] || c->backend->own_memory)
        finding_skip(&f, "this system does not report the memory that the model takes");
    else if (measured > 1.25 * forecast + 0.25 * GIB)
        finding_fails(&f, "loading took more memory than forecast; %s", stay);
    else
        finding_works(&f, "loading took no more than forecast; %s", stay);
}

// --- text ----------------------------------------------------------------------------------------

static const char *const corpus[] = {
    "Hello, world! It's 7:30 (a.m.) -- 3.14 or 1,000?",
    "Über den Häusern, déjà vu, señor, łódź",
    "Съешь же ещё этих мягких булок",
    "你好，世界。图片里有什么？",
    "こんにちは。写真には何がありますか",
    "مرحبا بالعالم",
    "for (int i = 0; i < n; i++) { x[i] += 2; }\n\tdone\n",
    "a  b   c\n\nd",
    "🙂 👩‍👩‍👧 ∑ √2 → ½",
};

static void check_tokenizer(struct checkup *c)
{
    const struct model *m = c->model;
    struct finding f = finding(c, "tokenizer");
    const int64_t vocab = m->decoder.config.vocab;
    int64_t tokens = 0, bytes = 0, changed = 0, outside = 0;
    const char *first = NULL;
    const int count = sizeof corpus / sizeof *corpus;
    for (int i = 0; i <= count; i++) {
        const char *text = i < count ? corpus[i] : compare_sample_text;
        struct ids ids = { 0 };
        struct buf back = { 0 };
        struct err err;
        if (tokenizer_encode(m->tokenizer, text, strlen(text), 0, &ids, &err) == 0) {
            tokenizer_decode(m->tokenizer, ids.data, ids.count, true, &back);
            for (size_t k = 0; k < ids.count; k++)
                outside += ids.data[k] < 0 || ids.data[k] >= vocab;
        }
        tokens += (int64_t)ids.count;
        bytes += (int64_t)strlen(text);
        if (strcmp(back.data ? back.data : "", text) != 0) {
            changed++;
            if (!first) first = text;
        }
        buf_release(&back);
        ids_release(&ids);
    }
    finding_number(&f, "texts that come back unchanged", (double)(count + 1 - changed), "",
                   count + 1);
    finding_number(&f, "bytes per token", (double)bytes / (double)(tokens ? tokens : 1), "bytes",
                   tokens);
    if (outside)
        finding_fails(&f,
                      "%lld token%s outside the embedding table of %lld rows: another model's "
                      "tokenizer",
                      (long long)outside, outside == 1 ? " is" : "s are", (long long)vocab);
    else if (changed > (count + 1) / 2)
        finding_fails(&f, "%lld of %d texts change when encoded and decoded, such as '%.40s'",
                      (long long)changed, count + 1, first);
    else if (changed)
        finding_works(&f,
                      "%lld of %d texts change when encoded and decoded, such as '%.40s': the "
                      "tokenizer lacks these characters or normalises them",
                      (long long)changed, count + 1, first);
    else
        finding_works(&f, "every text comes back unchanged");
}

// Counts the markers in the prompt, such as <|im_start|>, that the tokenizer does not have as
// tokens; appends the markers to *names.
static int64_t find_markers(const struct tokenizer *t, const char *prompt, struct buf *names)
{
    int64_t count = 0;
    for (const char *at = prompt; (at = strstr(at, "<|"));) {
        const char *end = strstr(at, "|>");
        const size_t length = end ? (size_t)(end - at) + 2 : 0;
        at += 2;
        if (!end || length > 40 || memchr(at, ' ', length - 2) || memchr(at, '\n', length - 2))
            continue;
        char *marker = xstrndup(at - 2, length);
        if (tokenizer_id(t, marker) < 0 && (!names->data || !strstr(names->data, marker))) {
            buf_printf(names, "%s%s", names->length ? ", " : "", marker);
            count++;
        }
        free(marker);
        at = end + 2;
    }
    return count;
}

// Tokens that end an answer because a chat template ends a turn, or begins the next one, with them;
// others, such as </s> or <|endoftext|>, end any text.
static const char *const turn_ends[] = {
    "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>", "<|user|>", NULL
};

const char *checkup_turn_end(const struct model *m)
{
    for (size_t i = 0; i < m->eos.count; i++) {
        const char *end = tokenizer_token(m->tokenizer, m->eos.data[i]);
        if (end && text_listed(turn_ends, end)) return end;
    }
    return NULL;
}

// The template's output for a conversation of two questions. `ended` and `special` describe the
// tokens from the first answer on.
struct ending {
    struct buf markers;  // markers that are not tokens: "<|im_start|>, <|im_end|>"
    bool ended;          // a token that ends the model's answers occurs
    const char *special; // the first special token; NULL: none
};

static int render_ending(struct checkup *c, struct ending *e, struct err *err)
{
    const struct model *m = c->model;
    struct sequence asked = { 0 }, whole = { 0 };
    struct buf text = { 0 };
    *e = (struct ending){ 0 };
    checkup_ask(c, NULL, 0, "Is it red?");
    message_add_text(conversation_add(&c->talk, ROLE_ASSISTANT), "Yes.");
    message_add_text(conversation_add(&c->talk, ROLE_USER), "Is it large?");
    int status = conversation_sequence(&c->talk, 1, c->settings, true, &asked, err);
    if (status == 0) status = conversation_sequence(&c->talk, 3, c->settings, true, &whole, err);
    if (status == 0) {
        int64_t i = 0;
        while (i < asked.n && i < whole.n && asked.ids[i] == whole.ids[i]) i++;
        for (; i < whole.n; i++) {
            e->ended |= model_is_eos(m, whole.ids[i]);
            if (!e->special && tokenizer_is_special(m->tokenizer, whole.ids[i]))
                e->special = tokenizer_token(m->tokenizer, whole.ids[i]);
        }
        tokenizer_decode(m->tokenizer, whole.ids, (size_t)whole.n, false, &text);
        find_markers(m->tokenizer, text.data ? text.data : "", &e->markers);
    }
    sequence_release(&asked);
    sequence_release(&whole);
    buf_release(&text);
    return status;
}

// Checks that the template agrees with the tokenizer and with the tokens that end the model's
// answers. Some sound templates use markers that are plain text (Zephyr's <|user|>), but do end
// answers with such a token; LLaVA-1.5's writes no token after an answer.
static void judge_template(struct checkup *c, struct finding *f, const char *source)
{
    const struct model *m = c->model;
    const bool bare = !m->template && !strcmp(layout_title(m->layout), "plain");
    struct ending e;
    struct err err;
    if (m->template_problem && bare) {
        finding_fails(f, "%s: %s", source, m->template_problem);
        return;
    }
    if (render_ending(c, &e, &err) < 0)
        finding_fails(f, "%s: a conversation of two questions cannot be rendered: %s", source,
                      err.text);
    else if (!e.ended && e.markers.length)
        finding_fails(f,
                      "%s: its markers %s are not tokens of this model's tokenizer: the template "
                      "belongs to another family",
                      source, e.markers.data);
    else if (!e.ended && e.special && m->eos.count)
        finding_fails(f,
                      "%s: it writes %s after an answer, but this token does not end this "
                      "model's answers: either answers run on, or the template belongs to "
                      "another family",
                      source, e.special);
    else if (!e.ended && checkup_turn_end(m) && !bare)
        finding_fails(f,
                      "%s: the model ends its answers with %s, which the template never writes: "
                      "the template belongs to another family",
                      source, checkup_turn_end(m));
    else
        finding_works(f, "%s%s%s", source, m->template_problem ? ": " : "",
                      m->template_problem ? m->template_problem : "");
    buf_release(&e.markers);
}

static void check_template(struct checkup *c)
{
    const struct model *m = c->model;
    struct finding f = finding(c, "chat template");
    struct sequence s = { 0 };
    struct err err;
    char *source = companions_template(m);
    const int pictures[] = { 0 };
    checkup_ask(c, pictures, c->scenes ? 1 : 0, checkup_question);
    if (conversation_sequence(&c->talk, 1, c->settings, true, &s, &err) < 0) {
        finding_fails(&f, "a question cannot be rendered: %s", err.text);
    } else {
        finding_number(&f, "prompt of one question", (double)s.n, "tokens", 1);
        finding_number(&f, "of these visual", (double)sequence_visual_count(&s, 0), "tokens", 1);
        judge_template(c, &f, source);
    }
    sequence_release(&s);
    free(source);
    f = finding(c, "end of answers");
    char *ends = companions_ends(m);
    if (m->eos.count)
        finding_works(&f, "%s", ends);
    else
        finding_fails(&f, "no token ends an answer: answers run on to sample.max_tokens");
    free(ends);
}

// --- pictures ------------------------------------------------------------------------------------

// Pixel normalisation with which the published encoders of each kind were trained.
static const struct {
    const struct vision_kind *kind;
    const float *mean, *std;
    const char *name;
} norms[] = {
    { &vision_clip, picture_clip_mean, picture_clip_std, "CLIP" },
    { &vision_siglip, picture_half, picture_half, "SigLIP" },
    { &vision_qwen, picture_clip_mean, picture_clip_std, "Qwen2.5-VL" },
    { &vision_glm, picture_clip_mean, picture_clip_std, "GLM-4.1V" },
    { &vision_glm_ocr, picture_clip_mean, picture_clip_std, "GLM-OCR" },
    { &vision_intern_transformers, picture_imagenet_mean, picture_imagenet_std, "InternViT" },
    { &vision_intern_authors, picture_imagenet_mean, picture_imagenet_std, "InternViT" },
    { &vision_moon, picture_half, picture_half, "MoonViT" },
    { &vision_idefics3, picture_half, picture_half, "SmolVLM" },
    { &vision_siglip_normed, picture_half, picture_half, "Gemma 3" },
    { &vision_qwen2, picture_clip_mean, picture_clip_std, "Qwen2-VL" },
    { &vision_qwen3, picture_half, picture_half, "Qwen3-VL" },
    { &vision_qwen3_5, picture_half, picture_half, "Qwen3.5" },
    { &vision_minicpm, picture_half, picture_half, "MiniCPM-V 4.6" },
};

static bool near3(const float *a, const float *b)
{
    for (int i = 0; i < 3; i++)
        if (fabsf(a[i] - b[i]) > 0.002f) return false;
    return true;
}

static void check_preprocessor(struct checkup *c)
{
    const struct model *m = c->model;
    const struct picture_config *p = &m->picture;
    struct finding f = finding(c, "preprocessor");
    size_t k = 0;
    if (!model_has_vision(m)) {
        finding_skip(&f, "the model is text-only");
        return;
    }
    char *source = companions_preprocessor(m);
    while (k < sizeof norms / sizeof *norms && norms[k].kind != m->vision.config.kind) k++;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "mean, red", "mean, green", "mean, blue" };
        finding_number(&f, names[i], (double)p->mean[i], "", 0);
    }
    if (k == sizeof norms / sizeof *norms)
        finding_works(&f, "%s; no mean is known for this kind of encoder", source);
    else if (near3(p->mean, norms[k].mean) && near3(p->std, norms[k].std))
        finding_works(&f, "%s; mean and deviation are those of published %s encoders", source,
                      norms[k].name);
    else
        finding_fails(&f,
                      "%s: mean %.3g %.3g %.3g and deviation %.3g %.3g %.3g are not those of "
                      "published %s encoders (%.3g %.3g %.3g; %.3g %.3g %.3g): unless this encoder "
                      "was trained with them, it sees wrong colours",
                      source, (double)p->mean[0], (double)p->mean[1], (double)p->mean[2],
                      (double)p->std[0], (double)p->std[1], (double)p->std[2], norms[k].name,
                      (double)norms[k].mean[0], (double)norms[k].mean[1], (double)norms[k].mean[2],
                      (double)norms[k].std[0], (double)norms[k].std[1], (double)norms[k].std[2]);
    free(source);
}

// --- missing files, ignored keys, the adapter ----------------------------------------------------

static void list_notices(struct checkup *c)
{
    char *list[COMPANIONS_MOST + UNUSED_MOST];
    const int missing = companions_missing(c->model, list);
    const int all = missing + unused_notices(c->model, list + missing);
    for (int i = 0; i < all; i++) {
        struct finding f = finding(c, i < missing ? "missing file" : "ignored key");
        finding_measured(&f, "%s", list[i]);
        free(list[i]);
    }
}

// True if a list of names like "config.json, model-1.safetensors" contains a file of weights, or a
// config.json that is not the last name.
static bool has_weights(const char *names)
{
    return strstr(names, ".safetensors") || strstr(names, ".gguf") ||
           !strncmp(names, "config.json,", 12) || strstr(names, " config.json,");
}

static void check_adapter(struct checkup *c)
{
    const char *adapter = settings_text(c->settings, "adapter");
    struct checkpoint *k = c->model->checkpoint;
    if (!strcmp(adapter, "none")) return;
    struct finding f = finding(c, "adapter");
    if (!c->adapter) {
        finding_fails(&f, "%s", c->unfit.text);
        return;
    }
    char *path = xasprintf("%s/training.json", c->adapter->folder);
    cJSON *record = json_read(path, RECORD_MOST, NULL);
    const struct identity was = identity_of(record);
    char *differ = checkpoint_files_differ(was.files && *was.files ? was.files : NULL, k->files);
    if (!was.model || !*was.model)
        finding_works(&f,
                      "'%s' fits the model's shapes; it does not record the model that it was "
                      "trained on%s%s",
                      adapter, c->adapter->base && *c->adapter->base ? ", but names " : "",
                      c->adapter->base ? c->adapter->base : "");
    else if (!strcmp(was.model, k->fingerprint) || checkpoint_matches_earlier(k, was.model))
        finding_works(&f, "'%s' was trained on this model", adapter);
    else if (differ && has_weights(differ))
        finding_fails(&f, "'%s' was trained on another model: these files differ: %s", adapter,
                      differ);
    else if (differ)
        finding_works(&f, "'%s' was trained on these weights; these files have changed since: %s",
                      adapter, differ);
    else
        finding_measured(&f,
                         "'%s' records a model with another fingerprint (%.12s, here %.12s), but "
                         "not which of its files differ: intact and sees show whether it fits",
                         adapter, was.model, k->fingerprint);
    free(differ);
    cJSON_Delete(record);
    free(path);
}

static int run(struct checkup *c, struct err *err)
{
    if (!c->model) {
        struct finding f = finding(c, "files");
        finding_fails(&f, "%s", c->closed.text);
        return 0;
    }
    list_files(c);
    if (scan_weights(c, err) < 0) return -1;
    check_memory(c);
    check_tokenizer(c);
    check_template(c);
    check_preprocessor(c);
    check_adapter(c);
    list_notices(c);
    return 0;
}

const struct checkup_check check_opens = {
    .name = "opens",
    .shows = "Whether all files are present, are read completely, and belong together.",
    .closed = true,
    .cost = { .reads = 1 },
    .quick = { .reads = 1 },
    .run = run,
};
