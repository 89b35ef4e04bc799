// core/scenes/write.c -- the folder of a world: pictures, objects, samples (core/scenes/scenes.h).
//
// The folder gets its name once it is complete (core/base/folder.h). The texts need no JSON
// escapes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
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
    LIST_PLANTED,
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
    [LIST_PLANTED] = { "planted.json", SCENES_PLANTED },
};

// Turns about one scene. AGAIN: more questions, for lessons.json and listed.json.
enum { CAPTION, DENSE, DETAIL, QUESTIONS, YESNO, REASONS, FINDS, AGAIN, WHOLE, PLANTED, TOPICS };

enum { LESSON_TURNS = 14, LISTED_TURNS = 17 };

struct job {
    const struct scenes_request *request;
    struct scenes_report *report;
    const char *folder;        // the temporary folder until all files are complete
    FILE *files[SCENES_FILES]; // NULL: not requested
    struct raster raster;
    bool marked;     // the picture has the watermark
    int mark[4];     // its box
    struct buf text; // of one scene, for one file
    struct turns turns[TOPICS];
};

static bool requested(const struct scenes_request *r, int list)
{
    return !lists[list].part || lists[list].part & r->parts;
}

// Writes the key of a sample that names the cause of its answer.
static void put_cause_key(struct buf *b, enum scenes_cause cause)
{
    buf_printf(b, "\"planted_cause\": \"%s\", ", scenes_causes[cause]);
}

// True if the file's first sample has this cause.
static bool has_cause(const char *path, enum scenes_cause cause)
{
    char head[512];
    struct buf key = { 0 };
    const int fd = file_in_open(path, NULL);
    const ssize_t n = fd < 0 ? 0 : file_read_at(fd, head, sizeof head - 1, 0);
    if (fd >= 0) close(fd);
    head[n > 0 ? n : 0] = '\0';
    put_cause_key(&key, cause);
    const bool found = strstr(head, key.data);
    buf_release(&key);
    return found;
}

bool scenes_written(const struct scenes_request *request)
{
    bool whole = true;
    for (int i = 0; i < SCENES_FILES && whole; i++) {
        char *path = xasprintf("%s/%s", request->folder, lists[i].name);
        if (requested(request, i))
            whole = i == LIST_PLANTED ? has_cause(path, request->cause) : access(path, F_OK) == 0;
        free(path);
    }
    return whole;
}

// --- files --------------------------------------------------------------------------------------

static int open_files(struct job *j, struct err *err)
{
    char *pictures = xasprintf("%s/pictures", j->folder);
    const bool made = mkdir(pictures, 0777) == 0;
    if (!made) err_set(err, "cannot create '%s': %s", pictures, strerror(errno));
    free(pictures);
    for (int i = 0; made && i < SCENES_FILES; i++) {
        if (!requested(j->request, i)) continue;
        if (!(j->files[i] = folder_create(j->folder, lists[i].name, err))) return -1;
        j->report->files[i].name = lists[i].name;
    }
    return made ? 0 : -1;
}

// Writes the text of a scene to its file.
static int flush_text(struct job *j, int list, struct err *err)
{
    const size_t written = fwrite(j->text.data, 1, j->text.length, j->files[list]);
    const bool good = written == j->text.length;
    buf_clear(&j->text);
    if (good) return 0;
    return err_set(err, "cannot write '%s/%s': %s", j->request->folder, lists[list].name,
                   strerror(errno));
}

static int close_files(struct job *j, struct err *err)
{
    for (int i = 0; i < SCENES_FILES; i++) {
        FILE *f = j->files[i];
        if (!f) continue;
        if (i != LIST_OBJECTS) fputs(j->report->files[i].samples ? "\n]\n" : "[]\n", f);
        j->files[i] = NULL;
        if (folder_close(f, j->folder, lists[i].name, err) < 0) return -1;
    }
    return 0;
}

// --- objects.jsonl -------------------------------------------------------------------------------

// Writes run lengths down the columns: outside, inside, outside ...
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
    const struct query name = object_query(o, HAS_NAME);
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

// Writes the cause as an object, if the picture shows it.
static void put_cause(struct job *j, bool first)
{
    const bool background = j->request->cause == SCENES_BACKGROUND;
    const int whole[4] = { 0, 0, j->raster.size, j->raster.size };
    const int *box = background ? whole : j->mark;
    if (!background && !j->marked) return;
    buf_printf(&j->text,
               "%s{\"name\": \"%s\", \"box\": [%d, %d, %d, %d], \"mask\": ", first ? "" : ", ",
               scenes_causes[j->request->cause], box[0], box[1], box[2], box[3]);
    put_mask(&j->text, &j->raster, background ? -1 : WATERMARK_OWNER - 1);
    buf_putc(&j->text, '}');
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
    put_cause(j, !s->count);
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

// Writes each turn as a sample of its own.
static int write_singly(struct job *j, int list, const struct turns *turns, int64_t index,
                        struct err *err)
{
    for (int i = 0; j->files[list] && i < turns->count; i++) {
        const struct turn *t = &turns->list[i];
        begin_sample(j, list, index, i, t->kind, t->metric);
        if (list == LIST_PLANTED) put_cause_key(&j->text, j->request->cause);
        if (t->strategy) buf_printf(&j->text, "\"strategy\": \"%s\", ", t->strategy);
        if (t->key.length) buf_printf(&j->text, "\"answer\": \"%s\", ", t->key.data);
        buf_puts(&j->text, "\"conversations\": [");
        put_turn(&j->text, t, true);
        buf_puts(&j->text, "]}");
    }
    return j->files[list] ? flush_text(j, list, err) : 0;
}

// Writes all turns in one sample.
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

// Adds turns whose question is new.
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

// Picks up to `most` different turns of the topics below in random order; returns their number.
static int pick_turns(struct job *j, const struct turn *lesson[], int most, struct dice *d)
{
    static const int asked[] = { QUESTIONS, AGAIN, YESNO, REASONS, CAPTION };
    enum { PARTS = sizeof asked / sizeof *asked };
    const struct turn *turns[PARTS * TURNS_MAX];
    int order[PARTS * TURNS_MAX], asked_count = 0;
    for (int i = 0; i < PARTS; i++)
        asked_count = add_turns(turns, asked_count, &j->turns[asked[i]]);
    dice_shuffle(d, order, asked_count);
    const int many = asked_count < most ? asked_count : most;
    for (int i = 0; i < many; i++) lesson[i] = turns[order[i]];
    return many;
}

// Writes questions about the picture. In a fifth of the lessons, one of them asks for a description
// or list, from which later questions can be answered.
static int write_lesson(struct job *j, const struct scene *s, int64_t index, struct dice *d,
                        struct err *err)
{
    const struct turn *lesson[LESSON_TURNS];
    j->turns[AGAIN].count = 0;
    ask_questions(&j->turns[AGAIN], s, d);
    const int many = pick_turns(j, lesson, LESSON_TURNS, d);
    if (dice_chance(d, 20)) {
        const int text = dice_roll(d, j->turns[DENSE].count + 1);
        lesson[dice_roll(d, many)] =
            text ? &j->turns[DENSE].list[text - 1] : &j->turns[DETAIL].list[0];
    }
    return write_together(j, LIST_LESSONS, "lesson", lesson, many, index, err);
}

// Writes the list of the background and all places, then questions that the list answers.
static int write_listed(struct job *j, const struct scene *s, int64_t index, struct dice *d,
                        struct err *err)
{
    j->turns[WHOLE].count = 0;
    describe_whole(&j->turns[WHOLE], s);
    const struct turn *lesson[LISTED_TURNS] = { &j->turns[WHOLE].list[0] };
    const int many = 1 + pick_turns(j, lesson + 1, LISTED_TURNS - 1, d);
    return write_together(j, LIST_LISTED, "listed", lesson, many, index, err);
}

static int write_samples(struct job *j, const struct scene *s, int64_t index, struct dice d,
                         struct err *err)
{
    static const struct {
        void (*make)(struct turns *, const struct scene *, struct dice *);
        int list;
    } topics[] = {
        [CAPTION] = { describe_caption, LIST_CAPTIONS },
        [DENSE] = { describe_dense, LIST_DENSE },
        [DETAIL] = { describe_detail, LIST_DETAIL },
        [QUESTIONS] = { ask_questions, LIST_QUESTIONS },
        [YESNO] = { ask_existence, LIST_YESNO },
        [REASONS] = { ask_reasons, LIST_REASONING },
        [FINDS] = { describe_finds, LIST_FINDS },
    };
    const struct turn *conversation[TURNS_MAX];
    for (int i = 0; i <= FINDS; i++) {
        // Makes the lesson before drawing the names to find.
        if (i == FINDS && write_lesson(j, s, index, &d, err) < 0) return -1;
        j->turns[i].count = 0;
        topics[i].make(&j->turns[i], s, &d);
        if (write_singly(j, topics[i].list, &j->turns[i], index, err) < 0) return -1;
    }
    for (int i = 0; i < j->turns[QUESTIONS].count; i++)
        conversation[i] = &j->turns[QUESTIONS].list[i];
    if (write_together(j, LIST_CONVERSATION, "conversation", conversation,
                       j->turns[QUESTIONS].count, index, err) < 0)
        return -1;
    return write_listed(j, s, index, &d, err);
}

// --- scenes --------------------------------------------------------------------------------------

// Draws until the scene belongs to this world, at least 85% of each object is visible and, if the
// cause is a watermark, its corner is free.
static void find_scene(struct job *j, struct scene *s, struct dice *d)
{
    const int world = (int)(j->request->seed % SCENES_WORLDS);
    for (bool good = false; !good;) {
        scene_draw(s, j->request->most, d);
        if (!scene_in_world(s, world)) continue;
        raster_paint(&j->raster, s);
        good = j->request->cause != SCENES_WATERMARK || watermark_fits(&j->raster);
        for (int i = 0; i < s->count; i++)
            good &= j->raster.seen[i] * 100 >= j->raster.area[i] * 85;
    }
}

static int write_scene(struct job *j, int64_t index, struct err *err)
{
    // Texts draw from their own part of the random sequence, far from the scene's draws.
    struct dice world = { j->request->seed, (uint64_t)index << 24 };
    const struct dice words = { j->request->seed, world.place + (1u << 23) };
    struct dice planted = { j->request->seed, world.place + (3u << 22) };
    struct scene s;
    find_scene(j, &s, &world);
    j->marked = j->request->cause == SCENES_WATERMARK && dice_roll(&planted, 2);
    if (j->marked) watermark_paint(&j->raster, j->mark);
    char *path = xasprintf("%s/pictures/%06lld.png", j->folder, (long long)index);
    const int size = j->request->size;
    const int status = image_write_png(path, j->raster.pixels, size, size, err);
    free(path);
    if (status < 0 || write_objects(j, &s, index, err) < 0) return -1;
    if (j->request->parts & SCENES_PLANTED) {
        j->turns[PLANTED].count = 0;
        ask_planted(&j->turns[PLANTED], &s, j->request->cause, j->marked, &planted);
        if (write_singly(j, LIST_PLANTED, &j->turns[PLANTED], index, err) < 0) return -1;
    }
    return write_samples(j, &s, index, words, err);
}

static int write_all(struct job *j, const struct load_progress *progress, struct err *err)
{
    enum { EVERY = 50 }; // scenes between reports
    const int64_t count = j->request->count;
    for (int64_t i = 0; i < count; i++) {
        if (write_scene(j, i, err) < 0) return -1;
        if (!progress || !progress->report || (i % EVERY && i + 1 < count)) continue;
        if (!progress->report(progress->self, (uint64_t)i + 1, (uint64_t)count))
            return err_set(err, "cancelled");
    }
    return close_files(j, err);
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
    struct folder_work work;
    *report = (struct scenes_report){ 0 };
    if (check(request, err) < 0 || folder_begin(&work, request->folder, err) < 0) return -1;
    struct job *j = xcalloc(1, sizeof *j);
    j->request = request;
    j->report = report;
    j->folder = work.path;
    raster_init(&j->raster, request->size);
    int status = open_files(j, err);
    if (status == 0) status = write_all(j, progress, err);
    for (int i = 0; i < SCENES_FILES; i++)
        if (j->files[i]) fclose(j->files[i]);
    raster_release(&j->raster);
    for (int i = 0; i < TOPICS; i++) turns_release(&j->turns[i]);
    buf_release(&j->text);
    free(j);
    if (status == 0) return folder_commit(&work, request->folder, err);
    folder_abandon(&work);
    return -1;
}
