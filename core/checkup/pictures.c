// core/checkup/pictures.c -- the pictures of a check-up: scenes drawn here, whose content is known,
// then those of --pictures, then a grey one.
#include "core/checkup/checkup_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/event.h"
#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/picture/image_write.h"
#include "core/scenes/scenes.h"

// Few, large objects: any model of natural pictures can name them. The world is that of the demo
// model's test set, which no recipe of this repository trains on.
enum { SIDE = 336, OBJECTS = 2, SEED = 50, GREY = 128, JSON_MOST = 1 << 20 };

static int add(struct checkup *c, const char *path, const char *truth, struct err *err)
{
    size_t size;
    char *bytes = file_read(path, IMAGE_MAX_FILE, &size, err);
    const int index = bytes ? conversation_attach(&c->talk, path, bytes, size, err) : -1;
    free(bytes);
    if (index < 0) return -1;
    c->views = xreallocarray(c->views, c->view_count + 1, sizeof *c->views);
    c->views[c->view_count++] = (struct checkup_picture){ .path = xstrdup(path),
                                                          .name = xstrdup(text_file_name(path)),
                                                          .truth = truth ? xstrdup(truth) : NULL };
    return 0;
}

// captions.json: [{"image": "pictures/000000.png", "conversations": [{}, {"value": truth}]}]
static int add_scenes(struct checkup *c, const char *folder, struct err *err)
{
    char *path = xasprintf("%s/captions.json", folder);
    cJSON *list = json_read(path, JSON_MOST, err);
    const cJSON *sample;
    int status = list ? 0 : -1;
    cJSON_ArrayForEach(sample, list)
    {
        const cJSON *image = json_get(sample, "image"), *turns = json_get(sample, "conversations"),
                    *answer = json_get(cJSON_GetArrayItem(turns, 1), "value");
        if (!cJSON_IsString(image) || !cJSON_IsString(answer))
            status = err_set(err, "'%s' is not a file of scenes: remove '%s'", path, folder);
        if (status < 0 || c->view_count == CHECKUP_SCENES) break;
        char *file = xasprintf("%s/%s", folder, image->valuestring);
        status = add(c, file, answer->valuestring, err);
        free(file);
    }
    c->scenes = c->view_count;
    cJSON_Delete(list);
    free(path);
    return status;
}

static int draw_scenes(const char *folder, struct err *err)
{
    struct scenes_report report;
    const struct scenes_request request = { .folder = folder,
                                            .count = CHECKUP_SCENES,
                                            .seed = SEED,
                                            .size = SIDE,
                                            .most = OBJECTS,
                                            .parts = SCENES_CAPTIONS | SCENES_QUESTIONS };
    return scenes_written(&request) ? 0 : scenes_write(&request, NULL, &report, err);
}

// Leaves out hidden files, files that cannot be used, and pictures beyond the limit; a folder
// without usable pictures is an error.
static int add_folder(struct checkup *c, const char *folder, struct err *err)
{
    char **names = folder_list(folder);
    struct err why = { 0 }; // of the first file that is left out
    int added = 0, bad = 0;
    bool further = false;
    for (size_t i = 0; names[i]; i++) {
        if (*names[i] == '.') continue;
        if (added == CHECKUP_PICTURES) {
            further = true;
            break;
        }
        char *path = xasprintf("%s/%s", folder, names[i]);
        if (add(c, path, NULL, bad ? NULL : &why) == 0)
            added++;
        else
            bad++;
        free(path);
    }
    folder_list_free(names);
    if (!added)
        return err_set(err, "--pictures: no picture in '%s' can be used%s%s", folder,
                       *why.text ? ": " : "", why.text);
    if (bad)
        sinks_notice(c->work->sinks, "--pictures: %d of the files in '%s' cannot be used: %s%s",
                     bad, folder, why.text, bad > 1 ? "; ..." : "");
    if (further)
        sinks_notice(c->work->sinks, "--pictures: only the first %d pictures in '%s' are used",
                     CHECKUP_PICTURES, folder);
    return 0;
}

static int add_blank(struct checkup *c, struct err *err)
{
    struct buf png = { 0 };
    uint8_t *pixels = xmalloc((size_t)SIDE * SIDE * 3);
    memset(pixels, GREY, (size_t)SIDE * SIDE * 3);
    image_encode_png(&png, pixels, SIDE, SIDE, 3);
    c->blank = conversation_attach(&c->talk, "blank.png", png.data, png.length, err);
    free(pixels);
    buf_release(&png);
    return c->blank < 0 ? -1 : 0;
}

int checkup_pictures_open(struct checkup *c, const char *folder, struct err *err)
{
    const char *own = c->work->options.pictures;
    char *scenes = xasprintf("%s/scenes", folder);
    int status = draw_scenes(scenes, err);
    c->blank = -1;
    if (status == 0 && model_has_vision(c->model)) {
        status = add_scenes(c, scenes, err);
        if (status == 0 && own) status = add_folder(c, own, err);
        if (status == 0) status = add_blank(c, err);
    }
    free(scenes);
    return status;
}

void checkup_pictures_hash(const struct checkup *c, char hex[HASH_HEX])
{
    struct hash h;
    hash_start(&h);
    for (size_t i = c->scenes; i < c->view_count; i++)
        hash_add(&h, c->talk.pictures[i].sha256, strlen(c->talk.pictures[i].sha256));
    hash_end(&h, hex);
}

const char checkup_question[] = "What is in the picture?";

int checkup_measured(const struct checkup *c, int full, int *first)
{
    const int own = (int)(c->view_count - c->scenes), most = own ? own : (int)c->scenes;
    const int count = checkup_samples(c, c->work->options.quick ? 1 : full, 1);
    *first = own ? (int)c->scenes : 0;
    return count < most ? count : most;
}

void checkup_pictures_release(struct checkup *c)
{
    for (size_t i = 0; i < c->view_count; i++) {
        free(c->views[i].path);
        free(c->views[i].name);
        free(c->views[i].truth);
    }
    free(c->views);
    c->views = NULL;
    c->view_count = c->scenes = 0;
}
