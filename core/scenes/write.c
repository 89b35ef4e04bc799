// core/scenes/write.c -- the folder of a world: pictures, objects, samples (core/scenes/scenes.h).
//
// Every file is written as NAME.part and renamed; the lists get their names last, so a folder that
// has them is whole.
// On failure and on cancel all of it goes away; what a killed run has left, the next one removes.
// Our texts need no JSON escapes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/files/content.h"
#include "core/picture/image_write.h"
#include "core/scenes/scene.h"
#include "core/scenes/scenes.h"

enum list {
    LIST_OBJECTS,
    LIST_CAPTIONS,
    LIST_DENSE,
    LIST_DETAIL,
    LIST_QUESTIONS,
    LIST_CONVERSATION,
    LIST_LESSONS,
    LIST_REASONING,
    LIST_YESNO,
    LIST_FINDS,
    LIST_LISTED,
};

static const struct {
    const char *name;
    unsigned part; // 0: always
} lists[SCENES_FILES] = {
    [LIST_OBJECTS] = { "objects.jsonl", 0 },
    [LIST_CAPTIONS] = { "captions.json", SCENES_CAPTIONS },
    [LIST_DENSE] = { "dense.json", SCENES_CAPTIONS },
    [LIST_DETAIL] = { "detail.json", SCENES_CAPTIONS },
    [LIST_QUESTIONS] = { "questions.json", SCENES_QUESTIONS },
    [LIST_CONVERSATION] = { "conversation.json", SCENES_QUESTIONS },
    [LIST_LESSONS] = { "lessons.json", SCENES_LESSONS },
    [LIST_REASONING] = { "reasoning.json", SCENES_QUESTIONS },
    [LIST_YESNO] = { "yesno.json", SCENES_YESNO },
    [LIST_FINDS] = { "finds.json", SCENES_FINDS },
    [LIST_LISTED] = { "listed.json", SCENES_LISTED },
};

enum { LESSON_TURNS = 14, LISTED_TURNS = 17 };

struct job {
    const struct scenes_request *request;
    struct scenes_report *report;
    bool made_folder, made_pictures;
    int lock;                  // the folder, locked while it is written; -1: none
    FILE *files[SCENES_FILES]; // NULL: not asked for
    bool renamed[SCENES_FILES];
    int64_t pictures; // begun
    struct raster raster;
    struct buf text; // of one scene for one file
    struct turns caption, dense, detail, questions, again, yesno, reasons, finds, whole;
};

static bool wanted(const struct scenes_request *r, int list)
{
    return !lists[list].part || lists[list].part & r->parts;
}

static char *list_path(const struct scenes_request *r, int list, bool whole)
{
    return xasprintf("%s/%s%s", r->folder, lists[list].name, whole ? "" : ".part");
}

bool scenes_written(const struct scenes_request *request)
{
    bool whole = true;
    for (int i = 0; i < SCENES_FILES && whole; i++) {
        char *path = list_path(request, i, true);
        whole = !wanted(request, i) || access(path, F_OK) == 0;
        free(path);
    }
    return whole;
}

// --- folder and files ----------------------------------------------------------------------------

// Where a file system has no such locks, it goes without.
static int lock_folder(struct job *j, struct err *err)
{
    const char *folder = j->request->folder;
    j->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->lock < 0) return err_set(err, "cannot write into '%s': %s", folder, strerror(errno));
    if (flock(j->lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(err, "another process is writing scenes to '%s'", folder);
    return 0;
}

// A run that was killed has left lists without their names.
static bool interrupted(const struct scenes_request *r)
{
    bool left = false;
    for (int i = 0; i < SCENES_FILES && !left; i++) {
        char *path = list_path(r, i, false);
        left = access(path, F_OK) == 0;
        free(path);
    }
    return left;
}

static void remove_lists(const struct scenes_request *r, bool whole)
{
    for (int i = 0; i < SCENES_FILES; i++) {
        char *path = list_path(r, i, whole);
        unlink(path);
        free(path);
    }
}

static void remove_pictures(const char *folder)
{
    char *pictures = xasprintf("%s/pictures", folder);
    const int fd = open(pictures, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const size_t digits = strspn(entry->d_name, "0123456789");
        const char *ending = entry->d_name + digits;
        if (digits >= 6 && (!strcmp(ending, ".png") || !strcmp(ending, ".png.part")))
            unlinkat(fd, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    rmdir(pictures);
    free(pictures);
}

static int prepare_folder(struct job *j, struct err *err)
{
    const char *folder = j->request->folder;
    const bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", folder, strerror(errno));
    if (lock_folder(j, err) < 0) return -1;
    j->made_folder = made;
    if (interrupted(j->request)) {
        remove_lists(j->request, true);
        remove_pictures(folder);
        remove_lists(j->request, false); // last: they tell that the rest may go
    }
    char *pictures = xasprintf("%s/pictures", folder);
    rmdir(pictures); // of a run that had just begun
    if (!folder_is_empty(folder)) {
        free(pictures);
        return err_set(err, "'%s' is not empty: choose a new or empty folder", folder);
    }
    j->made_pictures = mkdir(pictures, 0777) == 0;
    if (!j->made_pictures) err_set(err, "cannot create '%s': %s", pictures, strerror(errno));
    free(pictures);
    return j->made_pictures ? 0 : -1;
}

static int open_lists(struct job *j, struct err *err)
{
    for (int i = 0; i < SCENES_FILES; i++) {
        if (!wanted(j->request, i)) continue;
        char *part = list_path(j->request, i, false);
        j->files[i] = fopen(part, "wbe");
        if (!j->files[i]) err_set(err, "cannot create '%s': %s", part, strerror(errno));
        free(part);
        if (!j->files[i]) return -1;
        j->report->files[i].name = lists[i].name;
    }
    return 0;
}

static int report_write(const struct job *j, int list, struct err *err)
{
    return err_set(err, "cannot write '%s/%s': %s", j->request->folder, lists[list].name,
                   strerror(errno));
}

// The text of a scene goes to its file; what is left in the buffers is written by close_lists.
static int flush_text(struct job *j, int list, struct err *err)
{
    const bool good = !j->text.length ||
                      fwrite(j->text.data, 1, j->text.length, j->files[list]) == j->text.length;
    buf_clear(&j->text);
    return good ? 0 : report_write(j, list, err);
}

static int close_lists(struct job *j, struct err *err)
{
    for (int i = 0; i < SCENES_FILES; i++) {
        FILE *f = j->files[i];
        if (!f) continue;
        if (i != LIST_OBJECTS) buf_puts(&j->text, j->report->files[i].samples ? "\n]\n" : "[]\n");
        if (flush_text(j, i, err) < 0) return -1;
        if (fflush(f) != 0 || fsync(fileno(f)) < 0) return report_write(j, i, err);
        j->files[i] = NULL;
        if (fclose(f) != 0) return report_write(j, i, err);
    }
    for (int i = 0; i < SCENES_FILES; i++) {
        if (!wanted(j->request, i)) continue;
        char *path = list_path(j->request, i, true), *part = list_path(j->request, i, false);
        j->renamed[i] = rename(part, path) == 0;
        free(path);
        free(part);
        if (!j->renamed[i]) return report_write(j, i, err);
    }
    return 0;
}

static char *picture_path(const struct job *j, int64_t index)
{
    return xasprintf("%s/pictures/%06lld.png", j->request->folder, (long long)index);
}

static void undo(struct job *j)
{
    for (int64_t i = 0; i < j->pictures; i++) {
        char *path = picture_path(j, i);
        unlink(path);
        free(path);
    }
    for (int i = 0; j->made_pictures && i < SCENES_FILES; i++) {
        char *path = list_path(j->request, i, j->renamed[i]);
        if (wanted(j->request, i)) unlink(path);
        free(path);
    }
    char *pictures = xasprintf("%s/pictures", j->request->folder);
    if (j->made_pictures) rmdir(pictures);
    free(pictures);
    if (j->made_folder) rmdir(j->request->folder);
}

// --- objects.jsonl -------------------------------------------------------------------------------

// Runs down the columns: outside, inside, outside ...
static void put_mask(struct buf *b, const struct raster *r, int object)
{
    int run = 0;
    bool inside = false, first = true;
    buf_printf(b, "{\"size\": [%d, %d], \"counts\": [", r->size, r->size);
    for (int x = 0; x < r->size; x++)
        for (int y = 0; y < r->size; y++) {
            if ((r->owner[y * r->size + x] == object + 1) != inside) {
                buf_printf(b, first ? "%d" : ",%d", run);
                first = false;
                inside = !inside;
                run = 0;
            }
            run++;
        }
    buf_printf(b, ",%d]}", run);
}

static void put_object(struct buf *b, const struct raster *r, const struct object *o, int index)
{
    const struct query name = object_query(o, HAS_SHAPE | HAS_GLYPH | HAS_COLOUR);
    buf_puts(b, "{\"name\": \"");
    put_query(b, &name, false);
    buf_printf(b, "\", \"shape\": \"%s\", ", shape_names[o->is.shape]);
    if (o->is.glyph) buf_printf(b, "\"text\": \"%c\", ", o->is.glyph);
    buf_printf(b, "\"colour\": \"%s\", \"size\": \"%s\", \"place\": \"%s\", \"layer\": %d, ",
               colour_names[o->is.colour], size_names[o->is.size], place_names[o->is.place],
               o->layer);
    buf_printf(b, "\"box\": [%d, %d, %d, %d], \"area\": %lld, \"visible\": %.3f, \"mask\": ",
               r->box[index][0], r->box[index][1], r->box[index][2], r->box[index][3],
               (long long)r->seen[index], (double)r->seen[index] / (double)r->area[index]);
    put_mask(b, r, index);
    buf_putc(b, '}');
}

static int write_objects(struct job *j, const struct scene *s, int64_t index, struct err *err)
{
    struct buf *b = &j->text;
    buf_printf(b, "{\"id\": \"%06lld\", \"image\": \"pictures/%06lld.png\", \"description\": \"",
               (long long)index, (long long)index);
    put_description(b, s);
    buf_printf(b, "\", \"background\": \"%s\", \"objects\": [", background_names[s->background]);
    for (int i = 0; i < s->count; i++) {
        if (i) buf_puts(b, ", ");
        put_object(b, &j->raster, &s->objects[i], i);
    }
    buf_puts(b, "]}\n");
    j->report->objects += s->count;
    j->report->files[LIST_OBJECTS].samples++;
    return flush_text(j, LIST_OBJECTS, err);
}

// --- samples -------------------------------------------------------------------------------------

static void begin_sample(struct job *j, int list, int64_t index, int number, const char *kind,
                         const char *metric)
{
    const long long samples = j->report->files[list].samples++;
    buf_printf(&j->text, "%s{\"id\": \"%06lld-%s-%d\", \"image\": \"pictures/%06lld.png\", ",
               samples ? ",\n" : "[\n", (long long)index, kind, number, (long long)index);
    buf_printf(&j->text, "\"kind\": \"%s\", \"metric\": \"%s\", ", kind, metric);
}

static void put_turn(struct buf *b, const struct turn *t, bool first)
{
    buf_printf(b, "%s{\"from\": \"human\", \"value\": \"%s%s\"}, ", first ? "" : ", ",
               first ? "<image>\\n" : "", t->question.data);
    buf_printf(b, "{\"from\": \"gpt\", \"value\": \"%s\"}", t->answer.data);
}

// Each turn as a sample of its own.
static int write_singly(struct job *j, int list, const struct turns *turns, int64_t index,
                        struct err *err)
{
    for (int i = 0; j->files[list] && i < turns->count; i++) {
        const struct turn *t = &turns->list[i];
        begin_sample(j, list, index, i, t->kind, t->metric);
        if (t->strategy) buf_printf(&j->text, "\"strategy\": \"%s\", ", t->strategy);
        if (t->key.length) buf_printf(&j->text, "\"answer\": \"%s\", ", t->key.data);
        buf_puts(&j->text, "\"conversations\": [");
        put_turn(&j->text, t, true);
        buf_puts(&j->text, "]}");
    }
    return j->files[list] ? flush_text(j, list, err) : 0;
}

// All turns in one sample.
static int write_together(struct job *j, int list, const char *kind,
                          const struct turn *const turns[], int count, int64_t index,
                          struct err *err)
{
    if (!j->files[list]) return 0;
    begin_sample(j, list, index, 0, kind, "exact");
    buf_puts(&j->text, "\"conversations\": [");
    for (int i = 0; i < count; i++) put_turn(&j->text, turns[i], !i);
    buf_puts(&j->text, "]}");
    return flush_text(j, list, err);
}

static int write_conversation(struct job *j, int64_t index, struct err *err)
{
    const struct turn *turns[TURNS_MAX];
    for (int i = 0; i < j->questions.count; i++) turns[i] = &j->questions.list[i];
    return write_together(j, LIST_CONVERSATION, "conversation", turns, j->questions.count, index,
                          err);
}

// Adds the turns that do not ask what was asked before.
static int add_turns(const struct turn *turns[], int count, const struct turns *more)
{
    for (int i = 0; i < more->count; i++) {
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = !strcmp(turns[k]->question.data, more->list[i].question.data);
        if (!known) turns[count++] = &more->list[i];
    }
    return count;
}

// Up to `most` questions of all kinds, in any order and none twice. Returns their number.
static int pick_turns(struct job *j, const struct turn *lesson[], int most, struct dice *d)
{
    const struct turns *const asked[] = { &j->questions, &j->again, &j->yesno, &j->reasons,
                                          &j->caption };
    enum { PARTS = sizeof asked / sizeof *asked };
    const struct turn *turns[PARTS * TURNS_MAX];
    int order[PARTS * TURNS_MAX], asked_count = 0;
    for (int i = 0; i < PARTS; i++) asked_count = add_turns(turns, asked_count, asked[i]);
    dice_shuffle(d, order, asked_count);
    const int many = asked_count < most ? asked_count : most;
    for (int i = 0; i < many; i++) lesson[i] = turns[order[i]];
    return many;
}

// Questions, each to be seen; in a fifth of the lessons one of the texts that tell of the whole
// picture stands among them, from which those behind it can be read off.
static int write_lesson(struct job *j, const struct scene *s, int64_t index, struct dice *d,
                        struct err *err)
{
    const struct turn *lesson[LESSON_TURNS];
    turns_clear(&j->again);
    ask_questions(&j->again, s, d);
    const int many = pick_turns(j, lesson, LESSON_TURNS, d);
    if (dice_chance(d, 20)) {
        const int text = dice_roll(d, j->dense.count + 1);
        lesson[dice_roll(d, many)] = text ? &j->dense.list[text - 1] : &j->detail.list[0];
    }
    return write_together(j, LIST_LESSONS, "lesson", lesson, many, index, err);
}

// The list of the background and all places, then questions that can be read off it.
static int write_listed(struct job *j, const struct scene *s, int64_t index, struct dice *d,
                        struct err *err)
{
    turns_clear(&j->whole);
    describe_whole(&j->whole, s);
    const struct turn *lesson[LISTED_TURNS] = { &j->whole.list[0] };
    const int many = 1 + pick_turns(j, lesson + 1, LISTED_TURNS - 1, d);
    return write_together(j, LIST_LISTED, "listed", lesson, many, index, err);
}

static int write_samples(struct job *j, const struct scene *s, int64_t index, struct dice d,
                         struct err *err)
{
    static void (*const makers[])(struct turns *, const struct scene *, struct dice *) = {
        describe_caption, describe_dense, describe_detail,
        ask_questions,    ask_existence,  ask_reasons,
    };
    struct turns *const made[] = { &j->caption,   &j->dense, &j->detail,
                                   &j->questions, &j->yesno, &j->reasons };
    for (int i = 0; i < 6; i++) {
        turns_clear(made[i]);
        makers[i](made[i], s, &d);
    }
    if (write_singly(j, LIST_CAPTIONS, &j->caption, index, err) < 0 ||
        write_singly(j, LIST_DENSE, &j->dense, index, err) < 0 ||
        write_singly(j, LIST_DETAIL, &j->detail, index, err) < 0 ||
        write_singly(j, LIST_QUESTIONS, &j->questions, index, err) < 0 ||
        write_conversation(j, index, err) < 0 || write_lesson(j, s, index, &d, err) < 0 ||
        write_singly(j, LIST_REASONING, &j->reasons, index, err) < 0)
        return -1;
    if (write_singly(j, LIST_YESNO, &j->yesno, index, err) < 0) return -1;
    turns_clear(&j->finds);
    describe_finds(&j->finds, s, &d);
    if (write_singly(j, LIST_FINDS, &j->finds, index, err) < 0) return -1;
    return write_listed(j, s, index, &d, err);
}

// --- scenes --------------------------------------------------------------------------------------

// Draws until the scene belongs to this world and 85% of each object can be seen.
static void find_scene(struct job *j, struct scene *s, struct dice *d)
{
    const int world = (int)(j->request->seed % SCENES_WORLDS);
    for (bool good = false; !good;) {
        scene_draw(s, j->request->most, d);
        if (!scene_in_world(s, world)) continue;
        raster_paint(&j->raster, s);
        good = true;
        for (int i = 0; i < s->count; i++)
            good &= j->raster.seen[i] * 100 >= j->raster.area[i] * 85;
    }
}

static int write_scene(struct job *j, int64_t index, struct err *err)
{
    // Texts have dice of their own, far from those of the scene.
    struct dice world = { j->request->seed, (uint64_t)index << 24 };
    const struct dice words = { j->request->seed, world.place + (1u << 23) };
    struct scene s;
    find_scene(j, &s, &world);
    char *path = picture_path(j, index);
    j->pictures = index + 1;
    const int size = j->request->size;
    const int status = image_write_png(path, j->raster.pixels, size, size, err);
    free(path);
    if (status < 0 || write_objects(j, &s, index, err) < 0) return -1;
    return write_samples(j, &s, index, words, err);
}

static int write_all(struct job *j, const struct load_progress *progress, struct err *err)
{
    enum { EVERY = 50 }; // scenes between two reports
    const int64_t count = j->request->count;
    for (int64_t i = 0; i < count; i++) {
        if (write_scene(j, i, err) < 0) return -1;
        if (!progress || !progress->report || (i % EVERY && i + 1 < count)) continue;
        if (!progress->report(progress->self, (uint64_t)i + 1, (uint64_t)count))
            return err_set(err, "cancelled");
    }
    return close_lists(j, err);
}

static int check(const struct scenes_request *r, struct err *err)
{
    if (r->count < 1 || r->count > SCENES_COUNT_MAX)
        return err_set(err, "the number of scenes must be 1 to %d", SCENES_COUNT_MAX);
    if (r->size < SCENES_SIZE_MIN || r->size > SCENES_SIZE_MAX)
        return err_set(err, "the size of pictures must be %d to %d", SCENES_SIZE_MIN,
                       SCENES_SIZE_MAX);
    if (r->most < 1 || r->most > SCENES_OBJECTS_MAX)
        return err_set(err, "the number of objects must be 1 to %d", SCENES_OBJECTS_MAX);
    return 0;
}

int scenes_write(const struct scenes_request *request, const struct load_progress *progress,
                 struct scenes_report *report, struct err *err)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->request = request;
    j->report = report;
    j->lock = -1;
    *report = (struct scenes_report){ 0 };
    int status = check(request, err);
    if (status == 0) {
        raster_init(&j->raster, request->size);
        status = prepare_folder(j, err);
        if (status == 0) status = open_lists(j, err);
        if (status == 0) status = write_all(j, progress, err);
        for (int i = 0; i < SCENES_FILES; i++)
            if (j->files[i]) fclose(j->files[i]);
        if (status < 0) undo(j);
        if (j->lock >= 0) close(j->lock);
        raster_release(&j->raster);
    }
    struct turns *const made[] = { &j->caption, &j->dense,   &j->detail, &j->questions, &j->again,
                                   &j->yesno,   &j->reasons, &j->finds,  &j->whole };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) turns_release(made[i]);
    buf_release(&j->text);
    free(j);
    return status;
}
