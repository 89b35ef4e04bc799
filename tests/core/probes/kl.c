// tests/core/probes/kl.c -- core/probes/kl.c against the reference; a layer without IRA is refused.
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
        const int layers =
            engine_model(g.engine)->decoder.config.layers - 2; // the number of layers from 2 on
        must(engine_set(g.engine, "ira.layers", layers > 1 ? "2-3" : "2", &err), &err);
        must(engine_set(g.engine, "ira.on", "on", &err), &err);
        run_probe(&g, &probe_kl, NULL, &r);
        check_maps(&g, &r, 0, "ira.inference.2.kl_map", 0);
        if (layers > 1) check_maps(&g, &r, 1, "ira.inference.3.kl_map", 0);
        const float *map = golden_floats(&g, "ira.inference.2.kl_map");
        const int64_t n = safetensors_find(g.tensors, "ira.inference.2.kl_map")->shape[0];
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += (double)map[k];
        near(&g, "mean", *results_value(&r, "kl", "2", "mean"), sum / (double)n, 1e-4);
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
