// tui/snapshot.c -- copies engine state for the screen.
#include "tui/snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/engine/device.h"
#include "core/engine/presets.h"
#include "core/files/checkpoint.h"
#include "core/methods/forecast.h"
#include "core/methods/method.h"
#include "core/picture/boxes.h"
#include "core/picture/resize.h"
#include "core/template/message.h"
#include "tui/text.h"

enum { PREVIEW_SIDE = 768 };

// Returns the settings after the method's key was pressed; NULL if they would be refused. Before
// the model is identified, checks nothing: a calibration's check would wait until all files are
// hashed.
static struct settings *toggled(struct engine *e, const struct method *m, bool on, bool identified)
{
    const char *value = on ? m->toggle.off : m->toggle.on;
    struct preset_values v = { 0 };
    struct settings *s = NULL;
    if (!identified) {
        s = settings_copy(engine_settings(e));
        settings_set(s, m->toggle.key, value, NULL);
        return s;
    }
    preset_add(&v, m->toggle.key, value);
    preset_fit(&v, engine_model(e), engine_settings(e), false);
    s = engine_propose(e, v.list, v.count, NULL);
    preset_values_release(&v);
    return s;
}

static void take_methods(struct snapshot *s, struct engine *e)
{
    const struct method *m;
    struct prompt_cost now, then;
    const int64_t prompt = s->context.text + s->context.visual + s->context.waiting_visual;
    const bool identified = checkpoint_identified(engine_checkpoint(e));
    const bool known = identified && s->counted && prompt > 0 &&
                       engine_forecast(e, s->settings, &s->context, &now, NULL) == 0;
    for (int i = 0; (m = method_shown(i)); i++) {
        struct method_state *to = &s->methods[s->method_count++];
        to->method = m;
        to->default_layer = m->default_layer ? m->default_layer(engine_model(e)) : -1;
        if (!m->toggle.on) continue;
        const bool on = method_on(m, s->settings);
        struct settings *other = toggled(e, m, on, identified);
        struct buf b = { 0 };
        m->badge(&b, on || !other ? s->settings : other, to->default_layer);
        to->badge = buf_take(&b);
        to->possible = other != NULL;
        to->known = known && other && engine_forecast(e, other, &s->context, &then, NULL) == 0;
        if (to->known) to->tokens = then.visual - now.visual, to->flops = then.flops / now.flops;
        settings_free(other);
    }
}

struct snapshot *snapshot_make(const struct shell *shell)
{
    struct snapshot *s = xcalloc(1, sizeof *s);
    struct engine *e = shell->engine;
    const struct model *m = engine_model(e);
    struct event_info info;
    uint64_t resident; // kilobytes
    const char *session = shell->store ? store_session(shell->store) : NULL;
    s->device = xstrdup(device_name(engine_backend(e)));
    s->session = session ? xstrdup(session) : NULL;
    s->settings = settings_copy(engine_settings(e));
    s->waiting = engine_talk(e).waiting_count;
    if (file_number("/proc/self/status", "VmRSS:", &resident))
        s->memory = 1024.0 * (double)resident;
    if (!m) return s;
    engine_info(e, &info);
    s->model = text_last_part(engine_model_name(e));
    s->layers = info.layers;
    s->heads = info.heads;
    s->width = info.width;
    s->has_vision = engine_has_vision(e);
    s->counted = engine_context(shell->engine, &s->context, NULL) == 0;
    take_methods(s, e);
    return s;
}

void snapshot_free(void *snapshot)
{
    struct snapshot *s = snapshot;
    if (!s) return;
    free(s->model);
    free(s->device);
    free(s->session);
    settings_free(s->settings);
    for (int i = 0; i < s->method_count; i++) free(s->methods[i].badge);
    free(s);
}

// --- pictures ------------------------------------------------------------------------------------

void preview_free(void *preview)
{
    struct preview *p = preview;
    if (!p) return;
    free(p->path);
    image_release(&p->image);
    free(p);
}

// Shrinks a picture to at most side x side pixels; `to` stays empty if memory is short.
static void shrink(struct image *to, const struct image *from, int side)
{
    static const uint8_t white[3] = { 255, 255, 255 };
    struct image flat = { 0 };
    const int64_t longest = from->width > from->height ? from->width : from->height;
    const double scale = longest > side ? (double)side / (double)longest : 1;
    const int64_t width = (int64_t)((double)from->width * scale);
    const int64_t height = (int64_t)((double)from->height * scale);
    if (image_flat_copy(&flat, from, white, NULL) < 0) return;
    if (image_resize(to, &flat, width > 0 ? width : 1, height > 0 ? height : 1, RESAMPLE_BOX,
                     RESIZE_PILLOW13, NULL) < 0)
        *to = (struct image){ 0 };
    image_release(&flat);
}

static uint64_t image_key(const struct image *image)
{
    const size_t size = (size_t)(image->width * image->height) * (size_t)image->channels;
    uint64_t key = (uint64_t)image->width;
    for (size_t i = 0; image->pixels && i < size; i++) hash_mix(&key, image->pixels[i]);
    return key;
}

// boxes: to draw on the preview; NULL: none.
static struct preview *preview_picture(int index, const struct picture *p,
                                       const struct boxes *boxes)
{
    struct preview *preview = xcalloc(1, sizeof *preview);
    preview->index = index;
    preview->path = xstrdup(strcmp(p->path, "-") ? p->path : "standard input");
    preview->width = p->image.width;
    preview->height = p->image.height;
    preview->tokens = p->tokens;
    shrink(&preview->image, &p->image, PREVIEW_SIDE);
    if (boxes) boxes_paint(&preview->image, boxes, preview->width, preview->height);
    preview->key = image_key(&preview->image);
    return preview;
}

struct previews *previews_new(const struct picture *list, size_t count)
{
    struct previews *p = xcalloc(1, sizeof *p);
    p->list = xcalloc(count + 1, sizeof *p->list);
    for (; p->count < count; p->count++)
        p->list[p->count] = preview_picture((int)p->count, &list[p->count], NULL);
    return p;
}

void previews_free(void *previews)
{
    struct previews *p = previews;
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) preview_free(p->list[i]);
    free(p->list);
    free(p);
}

static uint64_t boxes_key(const struct boxes *b)
{
    uint64_t key = b->count;
    for (size_t i = 0; i < b->count; i++) {
        const struct picture_box *x = &b->list[i];
        const double numbers[] = { x->x, x->y, x->w, x->h };
        for (int k = 0; k < 4; k++) hash_mix(&key, (uint64_t)llrint(16 * numbers[k]));
    }
    return key;
}

// Marks the pictures whose boxes have changed as not posted, so that post_pictures posts them
// again.
static void note_boxes(struct posted_pictures *posted, const struct boxes *b, int picture)
{
    const int on = b->count ? picture : -1;
    const uint64_t key = boxes_key(b);
    if (on == posted->boxed && key == posted->boxes) return;
    const int changed[] = { on, posted->boxes ? posted->boxed : -1 };
    for (int i = 0; i < 2; i++)
        if (changed[i] >= 0 && (size_t)changed[i] < posted->count)
            posted->sha256[changed[i]][0] = '\0';
    posted->boxed = on;
    posted->boxes = key;
}

void post_pictures(struct posted_pictures *posted, const struct shell *shell, struct news_queue *q)
{
    const struct engine_talk c = engine_talk(shell->engine);
    for (size_t i = 0; i < posted->count; i++)
        if (posted->sha256[i][0] && (i >= c.picture_count || !c.pictures[i].path)) {
            struct preview *gone = xcalloc(1, sizeof *gone); // no path: the picture was removed
            gone->index = (int)i;
            posted->sha256[i][0] = '\0';
            news_post(q, NEWS_PICTURE, NULL, gone, preview_free);
        }
    struct boxes boxes;
    const int boxed = engine_boxes(shell->engine, NULL, &boxes);
    note_boxes(posted, &boxes, boxed);
    posted->sha256 = xreallocarray(posted->sha256, c.picture_count + 1, sizeof *posted->sha256);
    if (posted->count > c.picture_count) posted->count = c.picture_count;
    for (size_t i = 0; i < c.picture_count; i++) {
        const struct picture *p = &c.pictures[i];
        if (!p->path || !p->image.pixels) continue; // removed by /undo
        if (i < posted->count && !strcmp(posted->sha256[i], p->sha256)) continue;
        memcpy(posted->sha256[i], p->sha256, sizeof p->sha256);
        news_post(q, NEWS_PICTURE, NULL,
                  preview_picture((int)i, p, (int)i == boxed ? &boxes : NULL), preview_free);
    }
    boxes_release(&boxes);
    for (size_t i = posted->count; i < c.picture_count; i++)
        if (!c.pictures[i].path) posted->sha256[i][0] = '\0';
    posted->count = c.picture_count;
}

struct preview *preview_file(const char *path, int side)
{
    struct preview *preview = xcalloc(1, sizeof *preview);
    struct image image = { 0 };
    size_t size = 0;
    char *bytes = file_read(path, IMAGE_MAX_FILE, &size, NULL);
    preview->index = -1;
    preview->path = xstrdup(path);
    if (bytes && image_decode(&image, bytes, size, path, NULL) == 0) {
        preview->width = image.width;
        preview->height = image.height;
        shrink(&preview->image, &image, side);
        preview->key = image_key(&preview->image);
        image_release(&image);
    }
    free(bytes);
    return preview;
}
