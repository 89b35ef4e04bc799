#!/usr/bin/env python3
"""Compares the program on a GPU with PyTorch + transformers on the same model folder in the same run.
Prints a Markdown table, line by line.

  program.py chat FOLDER            prefill and tokens of an answer
  program.py train FOLDER           training steps, and the memory they take at most

--peer PYTHON is an interpreter with torch and transformers; without it only vlmsh is measured. A failed
measurement gives a line with the reason, and the rest continues.

Training is a job, as /train starts it, on scenes that the program draws: 128 tokens of text beside
the picture of each sample, checkpointing on (or host), steps 3 and later. Memory is the largest increase of
the first GPU's used memory, which NVML reports 20 times a second: contexts, libraries and what an allocator
holds are counted on both sides. The shell that starts the job has exited by then."""
import argparse, collections, contextlib, ctypes, json, os, signal, sqlite3, statistics, subprocess, sys, tempfile, threading

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "..", "peers")

ap = argparse.ArgumentParser()
ap.add_argument("what", choices=["chat", "train"]); ap.add_argument("folder")
ap.add_argument("--vlmsh", default="./vlmsh"); ap.add_argument("--device", default="cuda"); ap.add_argument("--peer")
ap.add_argument("--peer-device", default="cuda"); ap.add_argument("--peer-static", action="store_true", help="also generate() with a static cache")
ap.add_argument("--prefill", type=int, nargs="+", default=[640, 4096]); ap.add_argument("--decode", type=int, default=64)
ap.add_argument("--methods", nargs="+", default=["layernorm-simple:8", "layernorm-simple:1", "layernorm-simple:1:host", "layernorm:8", "layernorm:1"],
                help="METHOD:BATCH, or METHOD:BATCH:host for train.checkpointing host")
ap.add_argument("--text", type=int, default=128); ap.add_argument("--steps", type=int, default=6)
a = ap.parse_args()
name = os.path.basename(os.path.normpath(a.folder))


class Unmeasured(Exception):
    pass


def run(command, **more):
    """Standard output of a command that succeeds."""
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if r.returncode:
        said = (r.stderr.strip() or r.stdout.strip()).splitlines()
        raise Unmeasured(f"{os.path.basename(command[0])} ended with {r.returncode}: {said[-1][:300] if said else 'nothing was said'}")
    if "no GPU available" in r.stderr:
        raise Unmeasured(r.stderr.strip()[:300])
    return r.stdout


def vlmsh(lines, *more):
    """The events of a script."""
    out = run([a.vlmsh, *more, "--json", *[x for line in lines for x in ("-c", line)]])
    return [json.loads(line) for line in out.splitlines()]


def peer(script, *more):
    """A peer's measurements: {'prefill.640': [0.1], ...}."""
    with tempfile.NamedTemporaryFile("r") as f:
        run([a.peer, os.path.join(PEERS, script), a.folder, "--dtype", "bf16", "--device", a.peer_device, "--numbers", f.name, *map(str, more)])
        numbers = collections.defaultdict(list)
        for line in f:
            key, value = line.split()
            numbers[key].append(float(value))
        return numbers


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


@contextlib.contextmanager
def attempt(what):
    try:
        yield
    except Exception as e:  # any error: the rest continues
        kind = "" if isinstance(e, Unmeasured) else type(e).__name__ + " "
        row(what, f"not measured: {kind}{e}".replace("|", "/").replace("\n", " "), "", "", "")


def head(what):
    row(f"{name}, {what}", "vlmsh", "transformers, sdpa", "ratio", "goal")
    row(*["---"] * 5)


def beside(what, ours, theirs, show, goal):
    row(what, show(ours), show(theirs) if theirs else "", f"{theirs / ours:.2f}" if theirs else "", goal)


def milliseconds(s):
    return f"{s * 1e3:.2f} ms"


# --- chat ------------------------------------------------------------------------------------------

def answers(n):
    """(prefill, a token) in seconds after n tokens: the last of three answers."""
    ids = " ".join(str(100 + i * 7919 % 20000 % 300) for i in range(n))
    again = ["/clear", f"/raw {ids}"]
    # With 4096 tokens in the cache, the context exceeds the 7B model's limit; its weights are
    # random anyway.
    events = vlmsh([f"/set ctx.max {n + a.decode + 1}", "/set sample.ignore_eos on", f"/set sample.max_tokens {a.decode + 1}", *again * 3], a.folder, "--device", a.device)
    last = [e for e in events if e["event"] == "answer"][-1]
    return last["prefill_s"], last["decode_s"] / (len(last["ids"]) - 1)


def chat():
    head("answers")
    theirs, static = {}, {}
    if a.peer:
        with attempt("transformers"):
            theirs = peer("hf_bench.py", "--prefill", *a.prefill, "--decode", a.decode, "--rounds", 3)
    if a.peer and a.peer_static:
        with attempt("transformers, static cache, compiled"):
            static = peer("hf_bench.py", "--prefill", a.prefill[0], "--decode", a.decode, "--static")
    for n in a.prefill:
        with attempt(f"an answer after {n}"):
            prefill, token = answers(n)
            first = theirs.get(f"prefill.{n}", [None])[0]
            beside(f"prefill of {n} tokens", prefill, first, milliseconds, "1.3" if n < 2048 else "1.0")
            beside(f"token after {n}", token, theirs.get(f"token.{n}", [None])[0], milliseconds, "4")
            if f"token.{n}" in static:
                beside(f"token after {n}, transformers with a static cache, compiled", token, static[f"token.{n}"][0], milliseconds, "")


# --- training --------------------------------------------------------------------------------------

class Memory:
    """The largest increase of the first GPU's used memory, in bytes. None: not known."""

    class Info(ctypes.Structure):
        _fields_ = [(x, ctypes.c_ulonglong) for x in ("total", "free", "used")]

    def __init__(self):
        self.nvml, self.handle, self.most, self.stop = None, ctypes.c_void_p(), 0, threading.Event()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
            self.nvml = None
            return
        self.base = self.now()
        threading.Thread(target=self.watch, daemon=True).start()

    def now(self):
        info = Memory.Info()
        self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(info))
        return info.used

    def watch(self):
        while not self.stop.wait(0.05):
            self.most = max(self.most, self.now())

    def again(self):
        self.most = 0

    def peak(self):
        self.stop.set()
        return max(self.most, self.now()) - self.base if self.nvml else None


def rows_of(data):
    """Rows of the longest sample, as the program counts them."""
    for e in vlmsh([f"/data check {data}"], a.folder):
        if e["event"] == "table" and e["name"] == "data tokens":
            rows = [dict(zip(e["columns"], row)) for row in e["rows"]]
            return next(row["max"] for row in rows if row["kind"] == row["tokens"] == "all")
    raise Unmeasured("/data check does not show the tokens of a sample")


def write_data(path, samples, words):
    question = "<image>\nWhat is in the picture?"
    json.dump([{"id": str(i), "image": f"pictures/{i:06d}.png",
                "conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": "a" + " a" * words}]}
               for i in range(samples)], open(path, "w"))


def make_data(work, samples):
    """A data set of samples with a.text tokens of text each; how many tokens an answer has."""
    run([a.vlmsh, "scenes", str(samples), f"{work}/world", "--seed", "1"])
    data, visual = f"{work}/world/bench.json", json.load(open(f"{a.folder}/config.json"))["image_seq_length"]
    write_data(data, 1, 8)
    few = rows_of(data)
    write_data(data, 1, 9)
    words = 8 + (visual + a.text - few) // (rows_of(data) - few)
    write_data(data, samples, words)
    return data, rows_of(data), words


def job(work, data, rows, method, batch, how):
    """(seconds of a step, bytes at most) of a training job."""
    place = f"{work}/{method}-{batch}-{how}"
    db, memory = f"{place}.db", Memory()
    sets = {"train.method": method, "train.batch": batch, "train.steps": a.steps, "train.checkpointing": how}
    vlmsh([*[f"/set {k} {v}" for k, v in sets.items()], f"/train {data} {place}"], a.folder, "--device", a.device, "--db", db)
    memory.again()
    try:
        vlmsh(["/wait 1"], "--db", db)
    except BaseException:  # a job left running would disturb the next measurement
        subprocess.run([a.vlmsh, "--db", db, "-c", "/job 1 cancel"], stdout=subprocess.DEVNULL)
        raise
    peak = memory.peak()
    with sqlite3.connect(db) as c:
        told = [v for v, in c.execute("SELECT value FROM metrics JOIN job_series ON series = id WHERE name = 'tokens_per_s' ORDER BY step")]
    if not told:
        raise Unmeasured("the job took no step")
    return rows * batch / statistics.median(told[2:] or told), peak


GOALS = {"layernorm-simple:8": ("1.5", "17.5 GB"), "layernorm-simple:1": ("", "15 GB"), "layernorm-simple:1:host": ("", "15 GB"),
         "layernorm:8": ("", "21 GB"), "layernorm:1": ("", "18.5 GB")}


def gigabytes(bytes):
    return f"{bytes / 1e9:.2f} GB"


known = {}  # measurements of transformers, by method and batch


def peers_training(rows, answer, method, batch):
    """(the peer's numbers, bytes at most), measured once."""
    if (method, batch) not in known:
        known[method, batch] = {}, None
        with attempt(f"transformers, {method}, batch {batch}"):
            memory = Memory()
            numbers = peer("peft_bench.py", "--method", method, "--batch", batch, "--tokens", rows, "--picture", "--answer", answer,
                           "--steps", a.steps)
            known[method, batch] = numbers, memory.peak()
    return known[method, batch]


def train_one(work, data, rows, answer, kind):
    method, batch, how = (kind + ":on").split(":")[:3]
    seconds, peak = job(work, data, rows, method, int(batch), how)
    theirs, their_peak = peers_training(rows, answer, method, batch) if a.peer else ({}, None)
    title, goals = f"{method}, batch {batch}" + (", inputs of layers on the host" if how == "host" else ""), GOALS.get(kind, ("", ""))
    beside(f"{title}: a step", seconds, theirs.get("step", [None])[0], lambda s: f"{s:.3f} s", goals[0])
    what = f"{title}: memory"
    if peak is None:
        row(what, "not known: there is no NVML", "", "", goals[1])
    else:
        beside(what, peak, their_peak, gigabytes, goals[1])
    if "allocated" in theirs and how == "on":
        row(f"{method}, batch {batch}: tensors of PyTorch alone", "", gigabytes(theirs["allocated"][0]), "", "")


def train():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        os.environ["XDG_STATE_HOME"] = work
        with attempt("training"):
            vlmsh(["/version"], "--device", a.device)  # without a GPU this fails before a job starts
            batches = [int(kind.split(":")[1]) for kind in a.methods]
            data, rows, answer = make_data(work, a.steps * max(batches))
            head(f"training, {rows} rows a sample")
            for kind in a.methods:
                with attempt(kind):
                    train_one(work, data, rows, answer, kind)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes end, too
chat() if a.what == "chat" else train()
