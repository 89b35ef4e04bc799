// tests/core/eval/grid.c -- core/eval/grid.c: the cells that run, their order, the cells that are
// kept, and the effect of a failure; models x checkpoints, settings and sets, killed and resumed;
// distribution of samples to ranks in rounds.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_job.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/lists.h"
#include "core/model/model.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

static char ran[64];

static int run(struct grid *g, size_t cell, struct err *err)
{
    const char *name = g->cells[cell].name;
    strcat(ran, name);
    if (*name == 'x') return err_set(err, "%s fails", name);
    return *name == 's' ? JOB_STOPPED : 0;
}

static int kept(struct grid *g, size_t cell, struct err *err)
{
    return *g->cells[cell].name == 'k';
}

static bool broken(const struct grid *g)
{
    return g->self != NULL;
}

static struct grid grid_named(const char *names)
{
    struct grid g = { 0 };
    for (; *names; names++) grid_add(&g, (const char[]){ *names, 0 }, settings_new());
    *ran = 0;
    return g;
}

static void cells_are_run_once(void **state)
{
    struct err err;
    const struct grid_plan plan = { .run = run, .kept = kept };
    struct grid g = grid_named("akb");
    assert_int_equal(grid_run(&g, &plan, &err), 0);
    assert_string_equal(ran, "ab");
    grid_release(&g);
    const struct grid_plan together = { .run = run, .together = true };
    g = grid_named("ab");
    assert_int_equal(grid_run(&g, &together, &err), 0);
    assert_string_equal(ran, "a");
    grid_release(&g);
    g = grid_named("asb");
    assert_int_equal(grid_run(&g, &plan, &err), JOB_STOPPED);
    assert_string_equal(ran, "as");
    grid_release(&g);
}

static void a_failure_ends_the_grid_or_its_cell(void **state)
{
    struct err err;
    const struct grid_plan first = { .run = run }, alone = { .run = run, .broken = broken };
    struct grid g = grid_named("axb");
    assert_int_equal(grid_run(&g, &first, &err), -1);
    assert_string_equal(ran, "ax");
    grid_release(&g);
    g = grid_named("axb");
    assert_int_equal(grid_run(&g, &alone, &err), 0);
    assert_string_equal(ran, "axb");
    assert_string_equal(g.cells[1].why, "x fails");
    assert_null(g.cells[2].why);
    grid_release(&g);
    g = grid_named("axb");
    g.self = &g;
    assert_int_equal(grid_run(&g, &alone, &err), -1);
    assert_string_equal(ran, "ax");
    grid_release(&g);
}

static void cells_of_a_model_are_consecutive(void **state)
{
    struct err err;
    const struct grid_plan plan = { .run = run };
    static const char *const models[] = { NULL, "one", NULL, "two", "one", "two", NULL };
    static const char *const adapters[] = { "x", "", "y", "", "z", "", "x" };
    struct grid g = grid_named("abcdefg");
    for (size_t i = 0; i < g.count; i++) {
        g.cells[i].model = models[i];
        if (*adapters[i])
            assert_int_equal(settings_set(g.cells[i].settings, "adapter", adapters[i], &err), 0);
    }
    assert_int_equal(grid_run(&g, &plan, &err), 0);
    assert_string_equal(ran, "agcbedf");
    grid_release(&g);
}

static void names_are_safe_and_differ(void **state)
{
    static const char *const reserved[] = { "taken", NULL };
    struct grid g = { .reserved = reserved };
    static const char *const names[] = { "../a b", "../a/b", ".", "taken" };
    static const char *const want[] = { "_._a_b", "_._a_b-2", "_", "taken-2" };
    for (int i = 0; i < 4; i++)
        assert_string_equal(grid_add(&g, names[i], settings_new())->name, want[i]);
    grid_release(&g);
}

// --- models x checkpoints x settings x sets ------------------------------------------------------

#define GOLDENS "tests/goldens/"

enum { CELLS = 10, QUESTIONS = 3 };

struct measured {
    double loss[CELLS];
    int64_t questions[CELLS], skipped;
    int reported, models; // questions asked in this run, and how often the model changed
    const struct model *model;
    int dies_after; // questions before the process dies; 0: never
    struct err err;
};

static void report(struct evaluate_work *w, const struct evaluated *e)
{
    struct measured *m = w->self;
    m->models += w->grid->model != m->model;
    m->model = w->grid->model;
    m->skipped += e->skipped != NULL;
    if (++m->reported == m->dies_after) raise(SIGKILL);
}

// Adds the cells in an order that would load a model again and again.
static void add_cells(struct grid *g, char *const sets[2])
{
    static const char *const models[] = { NULL, GOLDENS "llava-next" };
    struct err err;
    for (int set = 0; set < 2; set++)
        for (int pruned = 0; pruned < 3; pruned++)
            for (int model = 0; model < (pruned == 2 ? 1 : 2); model++) {
                struct settings *s = settings_new();
                char *name = xasprintf("%d %d %d", set, pruned, model);
                assert_int_equal(settings_set(s, "compute.matmul", "f32", &err), 0);
                if (pruned == 1) {
                    assert_int_equal(settings_set(s, "prune.score", "attention", &err), 0);
                    assert_int_equal(settings_set(s, "prune.layer", "1", &err), 0);
                } else if (pruned == 2) {
                    const char *adapter = GOLDENS "llava-1.5/adapters/lora";
                    assert_int_equal(settings_set(s, "adapter", adapter, &err), 0);
                }
                struct grid_cell *c = grid_add(g, name, s);
                c->model = models[model];
                c->set = (struct set_source){ .data = sets[set] };
                free(name);
            }
    assert_int_equal(g->count, CELLS);
}

static int measure(struct measured *m, const char *folder, char *const sets[2], bool resumed,
                   struct err *err)
{
    struct sinks sinks = { 0 };
    struct job job = { .kind = job_kind_find("evaluate"),
                       .model = model_load(GOLDENS "llava-1.5", test_device(), NULL, err),
                       .backend = test_device(),
                       .sinks = &sinks,
                       .state = folder,
                       .resumed = resumed,
                       .answer_lock = -1 };
    struct evaluate_work works[CELLS] = { 0 };
    assert_non_null(job.model);
    struct grid g = grid_of_job(&job);
    g.self = works;
    add_cells(&g, sets);
    for (int i = 0; i < CELLS; i++)
        works[i] = (struct evaluate_work){
            .options.metric = metric_find("loss"), .report = report, .self = m, .data.file = -1
        };
    const int status = grid_run(&g, &evaluate_plan, err);
    for (int i = 0; i < CELLS; i++) {
        const struct evaluation_total *t = evaluation_main(&works[i].result);
        m->loss[i] = t ? t->tally.scores.mean : -1;
        m->questions[i] = t ? t->tally.scores.count : -1;
        evaluate_work_release(&works[i]);
    }
    grid_release(&g);
    model_free(job.model);
    return status;
}

static void write_set(const char *folder, const char *name, const char *words)
{
    struct buf b = { 0 };
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 0; i < QUESTIONS; i++)
        buf_printf(&b,
                   "{\"image\": \"%s/tests/goldens/pictures/scene.png\", \"question\": \"What %s "
                   "%d?\", \"answer\": \"It is %s.\"}\n",
                   here, words, i, words);
    scratch_write(folder, name, b.data, b.length);
    buf_release(&b);
}

// Measures in a child process, which may be killed; it shares *m. Returns its status, or -SIGNAL.
static int measure_apart(struct measured *m, const char *folder, char *const sets[2], bool resumed,
                         int dies_after)
{
    int status;
    *m = (struct measured){ .dies_after = dies_after };
    const pid_t child = fork();
    if (!child) _exit(measure(m, folder, sets, resumed, &m->err) == 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// A run that is killed and resumed ends with the same numbers.
static void a_killed_grid_is_resumed(void **state)
{
    static const int dies[] = { 1, QUESTIONS, 5 * QUESTIONS + 1, CELLS * QUESTIONS };
    char *folder = scratch_new(), *sets[2], *job = xstrdup(folder);
    struct measured *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                              -1, 0),
                    whole;
    write_set(folder, "one.jsonl", "colour");
    write_set(folder, "two.jsonl", "shape");
    sets[0] = xasprintf("%s/one.jsonl", folder);
    sets[1] = xasprintf("%s/two.jsonl", folder);
    if (measure_apart(m, job, sets, false, 0) != 0) fail_msg("%s", m->err.text);
    whole = *m;
    assert_int_equal(whole.reported, CELLS * QUESTIONS);
    assert_int_equal(whole.models, 2);
    assert_int_equal(whole.skipped, 0);
    for (int i = 0; i < CELLS; i++) {
        assert_int_equal(whole.questions[i], QUESTIONS);
        for (int k = 0; k < i; k++) assert_true(whole.loss[i] != whole.loss[k]);
    }
    for (size_t d = 0; d < sizeof dies / sizeof *dies; d++) {
        free(job);
        job = xasprintf("%s/%zu", folder, d);
        assert_int_equal(mkdir(job, 0777), 0);
        assert_int_equal(measure_apart(m, job, sets, false, dies[d]), -SIGKILL);
        if (measure_apart(m, job, sets, true, 0) != 0) fail_msg("%s", m->err.text);
        assert_memory_equal(m->loss, whole.loss, sizeof m->loss);
        // The question at which the process died is asked again; earlier ones are not.
        assert_int_equal(m->reported, CELLS * QUESTIONS - dies[d] + 1);
    }
    // All cells are complete; results of a changed set are not mixed with old ones.
    if (measure_apart(m, job, sets, true, 0) != 0) fail_msg("%s", m->err.text);
    assert_int_equal(m->reported, 0);
    assert_memory_equal(m->loss, whole.loss, sizeof m->loss);
    write_set(folder, "two.jsonl", "size");
    assert_int_equal(measure_apart(m, job, sets, true, 0), 1);
    assert_non_null(strstr(m->err.text, "changed"));
    munmap(m, sizeof *m);
    free(sets[0]), free(sets[1]), free(job);
    scratch_remove(folder);
}

static void samples_are_dealt_to_ranks_in_rounds(void **state)
{
    char whose[25] = "";
    for (int64_t i = 0; i < 24; i++)
        for (int k = 0; k < 3; k++)
            if (grid_computes(i, 3, k)) whose[i] = (char)('0' + k);
    assert_string_equal(whose, "000011112222000011112222");
    assert_true(grid_ends_round(12, 3));
    assert_false(grid_ends_round(13, 3));
    struct buf own = { 0 };
    buf_puts(&own, "own");
    grid_gather(NULL, &own);
    assert_string_equal(own.data, "own");
    buf_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_run_once),
        cmocka_unit_test(a_failure_ends_the_grid_or_its_cell),
        cmocka_unit_test(cells_of_a_model_are_consecutive),
        cmocka_unit_test(names_are_safe_and_differ),
        cmocka_unit_test(a_killed_grid_is_resumed),
        cmocka_unit_test(samples_are_dealt_to_ranks_in_rounds),
    };
    lists_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
