// core/model/unread.c -- tensors of a checkpoint that nothing reads.
//
// A tensor's neighbours show which part it belongs to: in name order, the closest bound tensor
// before or after it shares the most name levels. Levels that differ between library versions do
// not count (weight_plain_name).
#include "core/model/unread.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf.h"
#include "core/model/families/family.h"
#include "core/model/tensor_groups.h"

enum { ZEROS_MOST = 1 << 22 };

static const char IGNORE[] = "::ignore-weights";

char *unread_split(const char *name, bool *ignore)
{
    *ignore = text_ends(name, IGNORE);
    return xstrndup(name, strlen(name) - (*ignore ? strlen(IGNORE) : 0));
}

char *unread_join(const char *name)
{
    bool already;
    char *plain = unread_split(name, &already);
    char *joined = xasprintf("%s%s", plain, IGNORE);
    free(plain);
    return joined;
}

// --- names ---------------------------------------------------------------------------------------

static bool has_level(const char *name, const char *level)
{
    const size_t n = strlen(level);
    for (const char *at = name;; at++) {
        if (name_level(at) == n && !strncmp(at, level, n)) return true;
        if (!(at = strchr(at, '.'))) return false;
    }
}

// Returns the length of the leading levels that `plain` shares with the plain name of tensor
// `other`.
static size_t shared_levels(const struct checkpoint *c, const char *plain, int64_t other)
{
    if (other < 0 || other >= c->tensor_count) return 0;
    char *theirs = weight_plain_name(c->tensors[other]->name);
    size_t shared = 0;
    for (size_t i = 0; plain[i] && plain[i] == theirs[i]; i++)
        if (plain[i] == '.') shared = i + 1;
    free(theirs);
    return shared;
}

// --- classes of tensors --------------------------------------------------------------------------

// True for a bias of zeros, which changes nothing.
static bool is_zero_bias(const struct safetensor *t)
{
    const int64_t n = safetensor_count(t);
    if (!safetensor_is_float(t) || n > ZEROS_MOST || !text_ends(t->name, ".bias")) return false;
    float piece[256];
    const size_t size = dtype_size((enum dtype)t->dtype);
    for (int64_t i = 0; i < n; i += 256) {
        const size_t count = n - i < 256 ? (size_t)(n - i) : 256;
        floats_from(piece, (const char *)t->data + (size_t)i * size, (enum dtype)t->dtype, count);
        for (size_t k = 0; k < count; k++)
            if (piece[k] != 0) return false;
    }
    return true;
}

// True for tensors of a layer that only predicts further tokens (DeepSeek-V3, GLM-4.5).
static bool predicts_further(const struct checkpoint *c, const char *name)
{
    const char *number = name_number(name);
    if (!number) return false;
    char *join =
        xasprintf("%.*s.eh_proj.weight", (int)(number - name) + (int)name_level(number), name);
    const bool is = checkpoint_has(c, join);
    free(join);
    return is;
}

// True for the key and value weights of a layer that attends to an earlier layer's keys and values:
// Gemma 4's files contain them, but nothing computes with them.
static bool is_shared_away(const struct model *m, const struct safetensor *t, const char *plain)
{
    static const char *const levels[] = { "k_proj", "v_proj", "k_norm", "v_norm" };
    const struct decoder_config *c = &m->decoder.config;
    const char *number = name_number(plain);
    const int64_t layer = number ? strtoll(number, NULL, 10) : -1;
    if (!c->sharing || layer < 0 || layer >= c->layers || !decoder_shares(c, (int)layer) ||
        m->family->part(m, t->name) != PART_DECODER)
        return false;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (has_level(plain, levels[i])) return true;
    return false;
}

// True if the tensor is known to have no effect on answers.
static bool is_harmless(const struct model *m, const struct safetensor *t, const char *plain)
{
    // Tables that the config determines; layers for speculative decoding.
    static const char *const levels[] = { "inv_freq",       "rotary_emb",  "position_ids",
                                          "rotary_pos_emb", "rope_2d",     "freqs_cis",
                                          "time_weight",    "masked_bias", "mtp",
                                          "mtp_layers",     "mtp_block",   "mtp_emb_norm" };
    // Modules of CLIP and SigLIP after the feature layer.
    static const char *const behind[] = { "vision_tower.head.", "vision_tower.post_layernorm." };
    const struct vision_kind *encoder = model_has_vision(m) ? m->vision.config.kind : NULL;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (has_level(plain, levels[i])) return true;
    for (size_t i = 0; i < 2 && (encoder == &vision_clip || encoder == &vision_siglip); i++)
        if (!strncmp(plain, behind[i], strlen(behind[i]))) return true;
    return predicts_further(m->checkpoint, t->name) || is_zero_bias(t) ||
           is_shared_away(m, t, plain);
}

// Classes of tensors that nothing reads. HARMLESS: no effect on answers. APART: in a separate
// module. LAYER: in a layer that is not computed. INSIDE: in a computed part, so answers would be
// wrong.
enum fate { HARMLESS, APART, LAYER, INSIDE };

// `shared`: length of the levels that `plain` shares with a bound tensor.
static enum fate fate_of(const struct model *m, const struct safetensor *t, const char *plain,
                         size_t shared)
{
    if (is_harmless(m, t, plain)) return HARMLESS;
    const enum model_part_kind part = m->family->part(m, t->name);
    const char *dot = strchr(plain, '.');
    // GGUF files hold only parts that their architecture computes, and audio encoders.
    if (m->checkpoint->gguf_count) return has_level(plain, "audio_tower") ? APART : INSIDE;
    if (!shared) { // a separate module
        const bool norm = strstr(plain, "norm") && dot && !strchr(dot + 1, '.');
        return norm || part == PART_HEAD || part == PART_EMBEDDING ? INSIDE : APART;
    }
    const char *number = name_number(plain);
    return number == plain + shared && part != PART_PROJECTOR ? LAYER : INSIDE;
}

static void sort_out(const struct model *m, struct tensor_groups *inside,
                     struct tensor_groups *apart)
{
    const struct checkpoint *c = m->checkpoint;
    int64_t before = -1, after = 0; // the closest bound tensors
    for (int64_t i = 0; i < c->tensor_count; i++) {
        if (c->read[i]) {
            before = i;
            continue;
        }
        if (after < i) after = i;
        while (after < c->tensor_count && !c->read[after]) after++;
        const struct safetensor *t = c->tensors[i];
        char *plain = weight_plain_name(t->name);
        const size_t left = shared_levels(c, plain, before), right = shared_levels(c, plain, after);
        const enum fate fate = fate_of(m, t, plain, left > right ? left : right);
        free(plain);
        if (fate == HARMLESS) continue;
        tensor_groups_add(fate == INSIDE ? inside : apart,
                          tensor_pattern(t->stored ? t->stored : t->name, fate == LAYER));
    }
}

// Notes weights or keys that --ignore-weights skips, and adds the option to the checkpoint's name,
// so that sessions and jobs reopen it the same way.
static void note_ignored(struct model *m, char *text)
{
    char *name = m->checkpoint->name;
    m->checkpoint->name = unread_join(name);
    free(name);
    text_append(&m->unread, xasprintf("%s (--ignore-weights)", text));
    free(text);
    m->ignored = true;
}

int unread_keys(struct model *m, struct err *err)
{
    struct err why;
    if (config_keys_check(m, &why) == 0) return 0;
    if (!m->ignore) return err_set(err, "%s; --ignore-weights opens the model anyway", why.text);
    note_ignored(m, xstrdup(why.text));
    return 0;
}

void unread_metadata(struct model *m)
{
    char *keys = checkpoint_keys_unread(m->checkpoint);
    if (keys) text_append(&m->unread, xasprintf("the file's metadata %s", keys));
    free(keys);
}

int unread_check(struct model *m, struct err *err)
{
    struct tensor_groups inside = { 0 }, apart = { 0 };
    int status = 0;
    sort_out(m, &inside, &apart);
    char *in = tensor_groups_text(&inside), *out = tensor_groups_text(&apart);
    if (inside.tensors && m->ignore)
        note_ignored(m, xasprintf("%s inside computed parts: answers are wrong", in));
    else if (inside.tensors)
        status = err_set(err,
                         "computed parts have %s that the family %s does not read: answers would "
                         "be wrong. Check the architecture in %s; --ignore-weights "
                         "opens the model without these tensors",
                         in, m->family->name,
                         m->checkpoint->gguf_count ? "the file's metadata" : "config.json");
    if (status == 0 && apart.tensors)
        text_append(&m->unread, xasprintf("%s outside the model that config.json describes", out));
    // /quantize leaves ignored weights out, but describes them in the new file's metadata.
    const struct checkpoint *c = m->checkpoint;
    const char *before = c->gguf_count ? gguf_text(c->gguf[0], UNREAD_IGNORED) : NULL;
    if (status == 0 && before) {
        static const char when[] = "when the file was made: ";
        const bool twice = !strncmp(before, when, strlen(when)); // the file was quantised again
        text_append(&m->unread, xasprintf("%s%s", twice ? "" : when, before));
        m->ignored = true;
    }
    free(in);
    free(out);
    tensor_groups_release(&inside);
    tensor_groups_release(&apart);
    return status;
}
