// tests/core/probes/kl.c -- core/probes/kl.c against the reference.
#include <sys/stat.h>

#include "tests/core/probes/probe.h"

static char folder[256], extra[300];

static void maps_equal_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        ask(&g, models[i], 0);
        write_ira(&g, folder);
        must(engine_set(g.engine, "adapter", folder, &err), &err);
        must(engine_set(g.engine, "ira.layers", "2-3", &err), &err);
        must(engine_set(g.engine, "ira.on", "on", &err), &err);
        run_probe(&g, &probe_kl, NULL, &r);
        assert_int_equal(r.map_count, 2);
        check_map(&g, &r.maps[0], "ira.inference.2.kl_map", 0);
        check_map(&g, &r.maps[1], "ira.inference.3.kl_map", 0);
        const float *map = golden_floats(&g, "ira.inference.3.kl_map");
        double sum = 0;
        const int n = r.maps[1].rows * r.maps[1].cols;
        for (int k = 0; k < n; k++) sum += (double)map[k];
        near(&g, "mean", *results_value(&r, "kl", "3", "mean"), sum / n, 1e-4);
        results_release(&r);
        struct measure_request request = { .probe = &probe_kl, .options = probe_defaults };
        request.options.layer = 1;
        assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
        assert_non_null(strstr(err.text, "ira.layers"));
        results_release(&r);
        golden_close(&g);
    }
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlmsh-kl-%d", base ? base : "/tmp", (int)getpid());
    snprintf(extra, sizeof extra, "%s/extra.safetensors", folder);
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = { cmocka_unit_test(maps_equal_the_reference) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(extra);
    rmdir(folder);
    return failed;
}
