// tests/cuda/offload.c -- kernels/offload.cu and core/graph/offload.c: offloaded data are restored,
// and blocks with inputs on the host have the same gradients, bit for bit, as blocks whose inputs
// stay on the GPU.
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/ops/ops.h"
#include "tests/cuda/pair.h"

enum { MB = 1 << 20 };

// --- copies --------------------------------------------------------------------------------------

// Memory on the GPU, and a copy of it on the host; the same seed always gives the same bytes.
struct buffer {
    void *data;
    char *bytes;
    size_t size;
};

static void buffer_fill(struct buffer *h, uint32_t seed)
{
    for (size_t i = 0; i < h->size; i++) h->bytes[i] = (char)(seed + i / 7);
    devices[1]->upload(h->data, h->bytes, h->size);
}

static struct buffer buffer_new(size_t size, uint32_t seed)
{
    struct buffer h = { devices[1]->alloc(size), xmalloc(size), size };
    assert_non_null(h.data);
    buffer_fill(&h, seed);
    return h;
}

static bool buffer_is(const struct buffer *h, uint32_t seed)
{
    bool same = true;
    devices[1]->download(h->bytes, h->data, h->size);
    for (size_t i = 0; i < h->size && same; i++) same = h->bytes[i] == (char)(seed + i / 7);
    return same;
}

static void buffer_free(struct buffer *h)
{
    devices[1]->release(h->data);
    free(h->bytes);
}

// Sizes up to more than a chunk of 64 MB, in two rounds, so that memory is reused.
static void stored_data_is_read_back(void **state)
{
    static const size_t sizes[] = { 4, 4096, 3 * MB + 2, 40 * MB, 40 * MB, 70 * MB };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    const struct offload *a = devices[1]->offload;
    struct buffer buffer[COUNT];
    int64_t number[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) buffer[i] = buffer_new(sizes[i], i);
    assert_int_equal(a->put(buffer[0].data, 0), -1);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            buffer_fill(&buffer[i], i);
            number[i] = a->put(buffer[i].data, buffer[i].size);
            assert_true(number[i] >= 0);
            a->settle(number[i]);
            buffer_fill(&buffer[i], 100);
        }
        for (uint32_t i = COUNT; i-- > 0;) {
            a->fetch(number[i], buffer[i].data);
            a->settle(number[i]);
            assert_true(buffer_is(&buffer[i], i));
            if (i % 2) a->drop(number[i]);
        }
        a->drop(number[0]);
        if (round) a->release();
    }
    for (int i = 0; i < COUNT; i++) buffer_free(&buffer[i]);
}

// The emulated GPU reveals missing waits.
static void without_waiting_it_fails(void **state)
{
    const struct offload *a = devices[1]->offload;
    if (!drains()) return;
    struct buffer one = buffer_new(4096, 1);
    int64_t number = a->put(one.data, one.size);
    buffer_fill(&one, 2); // overwrites the data while they are copied
    a->fetch(number, one.data);
    a->settle(number);
    assert_false(buffer_is(&one, 1));
    a->drop(number);

    buffer_fill(&one, 1);
    number = a->put(one.data, one.size);
    a->settle(number);
    buffer_fill(&one, 2);
    a->fetch(number, one.data);
    assert_false(buffer_is(&one, 1));
    a->settle(number);
    assert_true(buffer_is(&one, 1));
    a->release();
    buffer_free(&one);
}

// A copy to another GPU waits for the copy from the first one to the host.
static void copies_between_gpus_are_ordered(void **state)
{
    const struct backend *b = devices[1];
    if (!b->gpus) return;
    struct buffer one = buffer_new(4096, 1), two = buffer_new(4096, 2);
    const int64_t number = b->offload->put(one.data, one.size);
    b->gpus->enter(1);
    b->offload->fetch(number, two.data);
    b->offload->settle(number);
    b->gpus->enter(0);
    assert_true(buffer_is(&two, 1));
    b->offload->release();
    buffer_free(&one);
    buffer_free(&two);
}

// --- blocks --------------------------------------------------------------------------------------

// ALLOCATION: bytes in the arena of a tensor [ROWS,WIDTH].
enum { BLOCKS = 9, ROWS = 5, WIDTH = 12, COUNT = ROWS * WIDTH, ALLOCATION = 256 };
// What blocks keep for the backward pass: all intermediates, their inputs, or inputs on the host.
enum form { SAVED, RECOMPUTED, OFFLOADED };

// A chain of blocks on the GPU, each with its own gain.
struct chain {
    struct arena arena;
    struct tape tape;
    struct tensor input, gain[BLOCKS], weight;
    int from;     // the first block whose gain is trained; `input` is not trained
    int replaced; // interval in blocks at which a norm replaces the next block's input; 0: never
    int calls, stop_at, fail_at;
    int ahead; // inputs being copied back when the first recomputation starts
    atomic_bool cancel;
};

struct link {
    struct chain *chain;
    int number;
};

static struct tensor on_gpu(int rank, int64_t n, int64_t m, uint32_t seed)
{
    return pair_noise(rank, n, m, 0, seed).on[1];
}

static struct tensor *link_run(struct graph *g, void *self, struct tensor *h)
{
    const struct link *l = self;
    struct chain *c = l->chain;
    if (++c->calls == c->stop_at) atomic_store(&c->cancel, true);
    if (c->calls == c->fail_at) return graph_fail(g, "it fails");
    if (c->calls == 2 * BLOCKS + 1)
        for (size_t i = 0; i < c->tape.offloads.count; i++)
            c->ahead += c->tape.offloads.inputs[i].fetched;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *x = op_rmsnorm(g, h, &c->gain[l->number], 1e-5f);
    x = op_gelu(g, op_matmul(g, x, &c->weight, NULL), GELU_ERF);
    h = op_add(g, h, x);
    graph_scratch_end(g, scratch);
    return h;
}

static void chain_open(struct chain *c, enum form form, int from, int replaced)
{
    const struct backend *b = devices[1];
    *c = (struct chain){ .arena = { .backend = b }, .from = from, .replaced = replaced };
    c->tape =
        (struct tape){ .backend = b, .recompute = form != SAVED, .offloads.on = form == OFFLOADED };
    c->input = on_gpu(2, ROWS, WIDTH, 1);
    c->weight = on_gpu(2, WIDTH, WIDTH, 2);
    for (int i = 0; i < BLOCKS; i++) {
        c->gain[i] = on_gpu(1, WIDTH, 0, (uint32_t)(i + 3));
        if (i >= from) c->gain[i].grad = grad_new(b, WIDTH);
    }
}

static void chain_close(struct chain *c)
{
    for (int i = 0; i < BLOCKS; i++) grad_free(devices[1], c->gain[i].grad);
    tape_release(&c->tape);
    arena_release(&c->arena);
    pairs_release();
}

// Computes the second half on the other GPU, if there is one.
static struct tensor *chain_forward(struct chain *c, struct graph *g)
{
    const struct backend *b = devices[1];
    struct tensor *const after = &c->gain[BLOCKS - 1], *h = &c->input;
    for (int i = 0; i < BLOCKS && h && !graph_stop(g); i++) {
        struct link link = { c, i };
        backend_enter(b, b->gpus && i > BLOCKS / 2);
        h = graph_block(g, link_run, &link, sizeof link, h);
        // The backward pass of this norm reads the block's result.
        if (c->replaced && i % c->replaced == 1) h = op_rmsnorm(g, h, after, 1e-5f);
    }
    backend_enter(b, 0);
    return op_rmsnorm(g, h, after, 1e-5f); // [ROWS, WIDTH]
}

// Runs the forward pass twice, as for two pictures, then the backward pass.
static int chain_pass(struct chain *c)
{
    const struct backend *b = devices[1];
    struct graph g = { .backend = b, .arena = &c->arena, .tape = &c->tape, .cancel = &c->cancel };
    c->calls = 0;
    struct tensor *one = chain_forward(c, &g), *two = chain_forward(c, &g),
                  *y = op_add(&g, one, two);
    struct tensor d;
    int status = -1;
    if (y && tape_grad(&g, y, &d)) {
        float *ones = xmalloc(COUNT * sizeof *ones);
        for (int i = 0; i < COUNT; i++) ones[i] = 1 / (float)(i + 1);
        b->upload(d.data, ones, COUNT * sizeof *ones);
        free(ones);
        status = tape_backward(&g);
    }
    if (status < 0) tape_clear(&c->tape);
    assert_int_equal(c->tape.count, 0);
    assert_int_equal(c->tape.offloads.count, 0);
    arena_reset(&c->arena, (struct arena_mark){ 0 });
    return status;
}

// Downloads the gradients of the trained gains and sets them to zero.
static void chain_take(struct chain *c, float *to)
{
    memset(to, 0, BLOCKS * WIDTH * sizeof *to);
    for (int i = c->from; i < BLOCKS; i++) {
        struct tensor all = c->gain[i];
        all.data = c->gain[i].grad->data;
        devices[1]->download(to + (ptrdiff_t)i * WIDTH, all.data, WIDTH * sizeof *to);
        assert_int_equal(devices[1]->fill(&all, 0), 0);
    }
}

// Computes the gradients with blocks of this form; returns the arena's peak.
static size_t chain_gradients(enum form form, int from, int replaced, float *to)
{
    struct chain c;
    chain_open(&c, form, from, replaced);
    for (int i = 0; i < 2; i++) { // the second pass reuses the first pass's memory
        assert_int_equal(chain_pass(&c), 0);
        chain_take(&c, to);
    }
    const size_t peak = c.arena.peak;
    assert_int_equal(c.tape.offloads.peak > 0, form == OFFLOADED && replaced != 1);
    chain_close(&c);
    return peak;
}

static void gradients_are_the_same(void **state)
{
    float want[BLOCKS * WIDTH], got[BLOCKS * WIDTH];
    for (int from = 0; from < 7; from += 3)
        for (int replaced = 0; replaced < 5; replaced++) {
            if (replaced == 1) continue;
            chain_gradients(SAVED, from, replaced, want);
            for (int i = from * WIDTH; i < BLOCKS * WIDTH; i++) assert_true(want[i] != 0);
            const size_t again = chain_gradients(RECOMPUTED, from, replaced, got);
            assert_memory_equal(want, got, sizeof want);
            const size_t offloaded = chain_gradients(OFFLOADED, from, replaced, got);
            if (memcmp(want, got, sizeof want))
                fail_msg("trained from block %d, inputs replaced every %d blocks: gradients differ",
                         from, replaced);
            // Two buffers and the first chain's last result remain.
            if (!replaced && !devices[1]->gpus)
                assert_int_equal(again - offloaded, 15 * ALLOCATION);
        }
}

// The first blocks may keep all their intermediates.
static void the_first_blocks_can_be_kept(void **state)
{
    struct chain c;
    float want[BLOCKS * WIDTH], got[BLOCKS * WIDTH];
    chain_gradients(SAVED, 0, 0, want);
    chain_open(&c, OFFLOADED, 0, 0);
    c.tape.keep = (size_t)12 * ALLOCATION;
    assert_int_equal(chain_pass(&c), 0);
    assert_in_range(c.calls, 2 * BLOCKS + 1, 4 * BLOCKS - 1);
    assert_true(c.tape.offloads.peak > 0);
    chain_take(&c, got);
    assert_memory_equal(want, got, sizeof want);
    chain_close(&c);
}

// A pass that is stopped or fails at any of many points leaks nothing.
static void failures_leak_nothing(void **state)
{
    struct chain c;
    float want[BLOCKS * WIDTH], got[BLOCKS * WIDTH];
    chain_gradients(SAVED, 0, 0, want);
    chain_open(&c, OFFLOADED, 0, 0);
    for (int at = 1; at <= 4 * BLOCKS; at += 2)
        for (int stopped = 0; stopped < 2; stopped++) {
            c.stop_at = stopped ? at : 0;
            c.fail_at = stopped ? 0 : at;
            assert_int_equal(chain_pass(&c), -1);
            c.stop_at = c.fail_at = 0;
            atomic_store(&c.cancel, false);
            chain_take(&c, got);
            assert_int_equal(chain_pass(&c), 0);
            chain_take(&c, got);
            assert_memory_equal(want, got, sizeof want);
        }
    chain_close(&c);
}

// Without host memory, inputs stay on the GPU.
static void without_host_memory_inputs_stay(void **state)
{
    struct chain c;
    float want[BLOCKS * WIDTH], got[BLOCKS * WIDTH];
    if (!drains()) return;
    const size_t again = chain_gradients(RECOMPUTED, 0, 0, want);
    setenv("CUDA_HOST_PINNED", "1", 1);
    chain_open(&c, OFFLOADED, 0, 0);
    assert_int_equal(chain_pass(&c), 0);
    chain_take(&c, got);
    assert_memory_equal(want, got, sizeof want);
    assert_int_equal(c.tape.offloads.peak, 0);
    assert_int_equal(c.arena.peak, again);
    chain_close(&c);
    unsetenv("CUDA_HOST_PINNED");
}

// The host does not wait for the GPU, and the next input is copied back during a recomputation.
static void host_and_ops_do_not_wait(void **state)
{
    struct chain c;
    const long *count = drains();
    chain_open(&c, OFFLOADED, 0, 0);
    assert_int_equal(chain_pass(&c), 0);
    assert_int_equal(c.ahead, 1);
    const long before = count ? *count : 0;
    assert_int_equal(chain_pass(&c), 0);
    if (count && !devices[1]->gpus) // with several GPUs, releasing waits for each
        assert_int_equal(*count, before);
    chain_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_data_is_read_back),
        cmocka_unit_test(without_waiting_it_fails),
        cmocka_unit_test(copies_between_gpus_are_ordered),
        cmocka_unit_test(gradients_are_the_same),
        cmocka_unit_test(the_first_blocks_can_be_kept),
        cmocka_unit_test(failures_leak_nothing),
        cmocka_unit_test(without_host_memory_inputs_stay),
        cmocka_unit_test(host_and_ops_do_not_wait),
    };
    return cmocka_run_group_tests(tests, devices_open, NULL);
}
