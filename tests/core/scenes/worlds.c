// tests/core/scenes/worlds.c -- core/scenes/: masks against pixels; a world is the same on every
// machine; worlds have no common scenes; no leftover files.
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/hash.h"
#include "core/files/content.h"
#include "core/picture/image.h"
#include "tests/core/scenes/made.h"

// --- pixels --------------------------------------------------------------------------------------

// Marks the mask's pixels in `owner` with `mark`; they must give the area, the box and the place.
static void check_mask(const cJSON *o, int side, uint8_t *owner, int mark)
{
    const cJSON *run = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "mask"), "counts")->child;
    int at = 0, area = 0, left = side, top = side, right = 0, bottom = 0;
    for (bool inside = false; run; run = run->next, inside = !inside)
        for (int k = 0; k < run->valueint; k++, at++) {
            const int x = at / side, y = at % side;
            if (!inside) continue;
            assert_true(at < side * side && !owner[y * side + x]);
            owner[y * side + x] = (uint8_t)mark;
            area++;
            if (x < left) left = x;
            if (y < top) top = y;
            if (x >= right) right = x + 1;
            if (y >= bottom) bottom = y + 1;
        }
    const cJSON *box = cJSON_GetObjectItem(o, "box");
    assert_int_equal(at, side * side);
    assert_int_equal(area, cJSON_GetObjectItem(o, "area")->valueint);
    assert_true(area >= 20 * side * side / (96 * 96));
    assert_int_equal(left, cJSON_GetArrayItem(box, 0)->valueint);
    assert_int_equal(top, cJSON_GetArrayItem(box, 1)->valueint);
    assert_int_equal(right - left, cJSON_GetArrayItem(box, 2)->valueint);
    assert_int_equal(bottom - top, cJSON_GetArrayItem(box, 3)->valueint);
    const int place = place_index(text_of(o, "place"));
    assert_int_equal(3 * (left + right) / (2 * side), place % 3);
    assert_int_equal(3 * (top + bottom) / (2 * side), place / 3);
}

// Finds the colour of most pixels that belong to no object (Boyer and Moore's majority vote).
static void find_background(const uint8_t *pixels, const uint8_t *owner, int count, uint8_t rgb[3])
{
    for (int i = 0, votes = 0; i < count; i++) {
        if (owner[i]) continue;
        if (!votes) memcpy(rgb, pixels + 3 * i, 3);
        votes += memcmp(rgb, pixels + 3 * i, 3) ? -1 : 1;
    }
}

static bool near_object(const uint8_t *owner, int side, int x, int y)
{
    for (int dy = -3; dy <= 3; dy++)
        for (int dx = -3; dx <= 3; dx++)
            if (x + dx >= 0 && x + dx < side && y + dy >= 0 && y + dy < side &&
                owner[(y + dy) * side + x + dx])
                return true;
    return false;
}

// Objects differ from the background; all pixels outside of objects and their soft edges have the
// background's colour.
static void check_picture(const char *folder, const cJSON *scene, int side)
{
    struct image image;
    struct err err;
    size_t size;
    char *bytes = read_text(folder, text_of(scene, "image"), &size);
    if (image_decode_here(&image, bytes, size, "picture", &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(image.width, side);
    assert_int_equal(image.height, side);
    uint8_t *owner = xcalloc((size_t)side, (size_t)side), rgb[3];
    int mark = 0;
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects")) check_mask(o, side, owner, ++mark);
    find_background(image.pixels, owner, side * side, rgb);
    for (int i = 0; i < side * side; i++) {
        const bool plain = !memcmp(image.pixels + 3 * i, rgb, 3);
        if (owner[i] ? plain : !plain && !near_object(owner, side, i % side, i / side))
            fail_msg("%s: pixel %d, %d", text_of(scene, "image"), i % side, i / side);
    }
    free(owner);
    free(bytes);
    image_release(&image);
}

static void masks_match_the_pixels(void **state)
{
    static const int sides[] = { 96, 64, 131 };
    for (int i = 0; i < 3; i++) {
        char *folder = scratch_new();
        make(folder, 11, sides[i], SCENES_CAPTIONS);
        cJSON *scenes = read_scenes(folder);
        const cJSON *scene;
        cJSON_ArrayForEach(scene, scenes) check_picture(folder, scene, sides[i]);
        cJSON_Delete(scenes);
        scratch_remove(folder);
    }
}

// --- worlds --------------------------------------------------------------------------------------

// The files have the same bytes on every machine; an intended change of the world changes these
// hashes.
static void files_are_the_same_on_every_machine(void **state)
{
    static const struct {
        const char *name, *hash;
    } files[] = {
        { "objects.jsonl", "e6bcd8657c38670a656858a6e912da6d20e7b29e2bb50d7f15346465452b30d5" },
        { "lessons.json", "c7f35fd6d1d306a600caa7419736eebb944402de5e42bbf154bcad87368a9ffe" },
        { "finds.json", "b65162d9c724278b79f8111a3b7017ab26a5896d3ad09761d635e5f793d7a070" },
        { "reasoning.json", "130575c0dad2df985da41cd969ae3d77468c9953a7e098ce87db798456054d1f" }
    };
    char *folder = scratch_new(), hex[HASH_HEX];
    struct image image;
    struct err err;
    size_t size;
    make(folder, 42, 96, SCENES_ALL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = read_text(folder, files[i].name, &size);
        hash_hex(text, size, hex);
        assert_string_equal(hex, files[i].hash);
        free(text);
    }
    char *bytes = read_text(folder, "pictures/000003.png", &size);
    if (image_decode_here(&image, bytes, size, "picture", &err) < 0) fail_msg("%s", err.text);
    hash_hex(image.pixels, (size_t)96 * 96 * 3, hex);
    assert_string_equal(hex, "f644fed95c2ab96db19a6f658e0ce4329ff12ac804bf58dfbe387d3c10ab144b");
    image_release(&image);
    free(bytes);
    scratch_remove(folder);
}

// The first digit of each description's SHA-256 selects its world, so worlds whose seeds differ
// modulo 16 share no scene.
static void worlds_share_no_scene(void **state)
{
    for (uint64_t seed = 15; seed < 18; seed++) {
        char *folder = scratch_new(), hex[HASH_HEX];
        make(folder, seed, 64, SCENES_YESNO);
        cJSON *scenes = read_scenes(folder);
        const cJSON *scene;
        cJSON_ArrayForEach(scene, scenes)
        {
            const char *text = text_of(scene, "description");
            hash_hex(text, strlen(text), hex);
            assert_int_equal(hex[0], "0123456789abcdef"[seed % 16]);
        }
        cJSON_Delete(scenes);
        scratch_remove(folder);
    }
}

// --- errors --------------------------------------------------------------------------------------

static bool stop_at_100(void *self, uint64_t done, uint64_t total)
{
    return done < 100;
}

static void a_cancelled_run_leaves_no_files(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/world", base);
    struct scenes_request request = {
        .folder = folder, .count = 1000, .seed = 1, .size = 96, .most = 7, .parts = SCENES_ALL
    };
    const struct load_progress stop = { .report = stop_at_100 };
    struct scenes_report report;
    struct err err;
    assert_int_equal(scenes_write(&request, &stop, &report, &err), -1);
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(access(folder, F_OK), -1);

    // A file size limit emulates a full disk.
    struct rlimit before, small = { 20000, 20000 };
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const int status = scenes_write(&request, NULL, &report, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, -1);
    assert_non_null(strstr(err.text, strerror(EFBIG)));
    assert_int_equal(access(folder, F_OK), -1);

    scratch_text(base, "world/mine.txt", "kept");
    assert_int_equal(scenes_write(&request, NULL, &report, &err), -1);
    assert_non_null(strstr(err.text, "already exists"));
    char *mine = xasprintf("%s/mine.txt", folder), *pictures = xasprintf("%s/pictures", folder);
    assert_int_equal(access(mine, F_OK), 0);
    assert_int_equal(access(pictures, F_OK), -1);
    request.folder = mine;
    assert_int_equal(scenes_write(&request, NULL, &report, &err), -1);
    request.count = 0;
    assert_int_equal(scenes_write(&request, NULL, &report, &err), -1);
    free(mine);
    free(pictures);
    free(folder);
    scratch_remove(base);
}

static bool killed_at_100(void *self, uint64_t done, uint64_t total)
{
    if (done >= 100) kill(getpid(), SIGKILL);
    return true;
}

static void write_killed(const struct scenes_request *request)
{
    const struct load_progress killed = { .report = killed_at_100 };
    struct scenes_report report;
    struct err err;
    int status = 0;
    const pid_t child = fork();
    if (!child) _exit(scenes_write(request, &killed, &report, &err) < 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_false(scenes_written(request));
}

// A killed run leaves no folder with the final name; the next run removes its temporary files.
static void the_next_run_cleans_up_after_a_kill(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/world", base);
    char *list = xasprintf("ls '%s' | tr '\\n' ' '", base), seen[64] = "";
    struct scenes_request request = {
        .folder = folder, .count = SCENES, .seed = 1, .size = 64, .most = 7, .parts = SCENES_ALL
    };
    struct scenes_report report;
    struct err err;
    write_killed(&request);
    assert_int_equal(access(folder, F_OK), -1);
    if (scenes_write(&request, NULL, &report, &err) < 0) fail_msg("%s", err.text);
    assert_true(scenes_written(&request));
    FILE *f = popen(list, "r");
    assert_non_null(fgets(seen, sizeof seen, f));
    pclose(f);
    assert_string_equal(seen, "world ");
    free(list);
    free(folder);
    scratch_remove(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_match_the_pixels),
        cmocka_unit_test(files_are_the_same_on_every_machine),
        cmocka_unit_test(worlds_share_no_scene),
        cmocka_unit_test(a_cancelled_run_leaves_no_files),
        cmocka_unit_test(the_next_run_cleans_up_after_a_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
