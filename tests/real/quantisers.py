#!/usr/bin/env python3
"""Compares vlmsh's quantised files with those of llama.cpp's quantiser, on the same positions:

    quantisers.py write FOLDER VLMSH ORIGINAL.gguf [VLMSH...]   files by both (and by other versions of vlmsh)
    quantisers.py measure FOLDER VLMSH [TEXT...]                what they lose on text, prose and chats

`write`: ORIGINAL becomes f16 (FOLDER/original.gguf); from that file vlmsh and llama.cpp's quantiser (llama-cpp-python)
each write q8_0 and q4_k, llama.cpp with the types that vlmsh chooses, tensor by tensor, and once with those of its
own recipe Q4_K_M. `measure`: each file is computed by vlmsh in f32 and by llama.cpp, which rounds activations, and
compared with the original in vlmsh's f32. The texts are that which comes with vlmsh, older prose (prose.txt) and
chats with the original. Written with llama-cpp-python 0.3.36, gguf 0.19.0 and numpy 2.4.
"""
import ast, ctypes, glob, json, os, re, struct, subprocess, sys, time
import numpy as np
import gguf, llama_cpp

HERE = os.path.dirname(os.path.abspath(__file__))
QUESTIONS = [
    "What is the capital of France, and what is it known for?",
    "Explain to a child why the sky is blue.",
    "Write a short letter to a friend about a rainy day.",
    "List five animals that live in the sea, with one sentence about each.",
    "How do I cook rice?",
    "Write a Python function that adds two numbers, and explain it.",
    "What is the difference between a lake and a river?",
    "Tell me a story about a fox and a crow.",
]


def shell(vlmsh, model, lines, folder):
    """The events of a script."""
    run = subprocess.run([vlmsh, "--db", f"{folder}/shell.db", "--json", model], input="\n".join(lines), capture_output=True, text=True)
    events = [json.loads(line) for line in run.stdout.splitlines()]
    problems = [e["message"] for e in events if e["event"] == "error"]
    if problems or run.returncode:
        sys.exit(f"{vlmsh} {model}: {problems} {run.stderr}")
    return events


def tensor(path, name):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        entry = json.loads(f.read(size))[name]
        f.seek(8 + size + entry["data_offsets"][0])
        kind = {"F32": np.float32, "I32": np.int32}[entry["dtype"]]
        return np.frombuffer(f.read(entry["data_offsets"][1] - entry["data_offsets"][0]), kind).reshape(entry["shape"])


def sample_text():
    """The text of core/eval/sample_text.c."""
    source = open(f"{HERE}/../../core/eval/sample_text.c").read()
    return "".join(ast.literal_eval(piece) for piece in re.findall(r'^ +("(?:[^"\\]|\\.)*")', source, re.M))


def texts(vlmsh, model, folder):
    """Name -> list of sequences of ids."""
    found = {}
    for name, text in (("text", sample_text()), ("prose", open(f"{HERE}/prose.txt").read())):
        events = shell(vlmsh, model, ["/tokenize " + json.dumps(text)], folder)
        found[name] = [next(e["ids"] for e in events if e["event"] == "ids")]
    lines = ["/set compute.matmul f32", "/set sample.max_tokens 100"]
    for i, question in enumerate(QUESTIONS):
        lines += ["/clear", f"/dump ids {folder}/chat{i}.safetensors", question]
    answers = [e["ids"] for e in shell(vlmsh, model, lines, folder) if e["event"] == "answer"]
    found["chats"] = [tensor(f"{folder}/chat{i}.safetensors", "ids").tolist() + a for i, a in enumerate(answers)]
    return found


def logits_here(vlmsh, model, sequences, folder):
    lines = ["/set compute.matmul f32", "/set kv.dtype f32", "/set sample.max_tokens 1"]
    for i, ids in enumerate(sequences):
        lines += ["/clear", f"/dump logits {folder}/logits{i}.safetensors", "/raw " + " ".join(map(str, ids))]
    shell(vlmsh, model, lines, folder)
    found = np.concatenate([tensor(f"{folder}/logits{i}.safetensors", "logits") for i in range(len(sequences))])
    for i in range(len(sequences)):
        os.unlink(f"{folder}/logits{i}.safetensors")
    return found


def logits_there(model, sequences):
    longest = max(map(len, sequences)) + 8
    m = llama_cpp.Llama(model, n_ctx=longest, n_batch=longest, n_ubatch=longest, logits_all=True, verbose=False)
    found = []
    for ids in sequences:
        m.reset()
        m.eval(ids)
        found.append(np.array(m.scores[:len(ids)], dtype=np.float32))
    return np.concatenate(found)


def quantise_there(source, out, ftype, like=None):
    """Runs llama.cpp's quantiser; `like`: a file whose types its tensors must have."""
    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype, p.nthread = ftype, os.cpu_count()
    if like:
        matrices = [t for t in gguf.GGUFReader(like).tensors if len(t.shape) > 1]
        rows = [(("^" + re.escape(t.name) + "$").encode(), int(t.tensor_type)) for t in matrices] + [(None, 0)]
        overrides = (llama_cpp.llama_model_tensor_override * len(rows))(*rows)
        p.tt_overrides = ctypes.cast(overrides, type(p.tt_overrides))
        types = {t.name: int(t.tensor_type) for t in matrices}
        p.token_embedding_type = types["token_embd.weight"]
        p.output_tensor_type = types.get("output.weight", types["token_embd.weight"])
    if llama_cpp.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(p)):
        sys.exit(f"llama.cpp could not quantise {source}")


def types_of(path):
    counts = {}
    for t in gguf.GGUFReader(path).tensors:
        counts[t.tensor_type.name] = counts.get(t.tensor_type.name, 0) + (len(t.shape) > 1)
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n)


def weight_errors(original, path):
    """By type: the RMS error of the weights, relative to their RMS."""
    sums = {}
    source = {t.name: t for t in gguf.GGUFReader(original).tensors}
    for t in gguf.GGUFReader(path).tensors:
        if len(t.shape) < 2:
            continue
        a = source[t.name].data.astype(np.float32).reshape(-1)
        d = gguf.quants.dequantize(t.data, t.tensor_type).reshape(-1) - a
        s = sums.setdefault(t.tensor_type.name, [0, 0])
        s[0] += np.dot(d, d)
        s[1] += np.dot(a, a)
    return ", ".join(f"{name} {100 * np.sqrt(e / w):.4f}%" for name, (e, w) in sorted(sums.items()))


def compare(a, b):
    """Mean KL(a || b); share of equal likeliest tokens, of all and of those where a's first two are at least 0.02 apart."""
    log = lambda x: x - x.max(1, keepdims=True) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))
    kl, same, sure = [], [], []
    for i in range(0, len(a), 64):
        la, lb = log(a[i:i + 64].astype(np.float64)), log(b[i:i + 64].astype(np.float64))
        kl.append((np.exp(la) * (la - lb)).sum(1))
        same.append(la.argmax(1) == lb.argmax(1))
        two = np.exp(np.partition(la, -2, 1)[:, -2:])
        sure.append(two[:, 1] - two[:, 0] >= 0.02)
    kl, same, sure = map(np.concatenate, (kl, same, sure))
    return f"KL {kl.mean():.5f}, same {same.mean():.1%} of {len(same)}, of the sure {same[sure].mean():.1%}"


def write(folder, original, programs):
    source = f"{folder}/original.gguf"

    def by_vlmsh(program, model, out, kind):
        if os.path.exists(out):
            os.unlink(out)
        subprocess.run([program, "--db", f"{folder}/shell.db", "quantize", model, out, "--type", kind, "--no-compare"],
                       check=True, stdout=subprocess.DEVNULL)

    def say(out, start):
        seconds = time.time() - start
        print(f"{os.path.basename(out)}: {os.path.getsize(out) / 1e6:.1f} MB, {types_of(out)}; {seconds:.1f} s; "
              f"moved: {weight_errors(source, out)}", flush=True)

    by_vlmsh(programs[0], original, source, "f16")
    for kind, ftype in ("q8_0", 7), ("q4_k", 14):
        for i, program in enumerate(programs):
            out, start = f"{folder}/{kind}-vlmsh{i or ''}.gguf", time.time()
            by_vlmsh(program, source, out, kind)
            say(out, start)
        like, out, start = out, f"{folder}/{kind}-llama.gguf", time.time()
        quantise_there(source, out, ftype, like)
        say(out, start)
    start = time.time()
    quantise_there(source, f"{folder}/q4_k_m-llama.gguf", 15)
    say(f"{folder}/q4_k_m-llama.gguf", start)


def measure(folder, vlmsh, names):
    source = f"{folder}/original.gguf"
    for text, sequences in texts(vlmsh, source, folder).items():
        if names and text not in names:
            continue
        wanted = logits_here(vlmsh, source, sequences, folder)
        print(f"{text}: original in llama.cpp: {compare(wanted, logits_there(source, sequences))}", flush=True)
        for path in sorted(glob.glob(f"{folder}/q*.gguf")):
            print(f"{text}: {os.path.basename(path)} in f32:       {compare(wanted, logits_here(vlmsh, path, sequences, folder))}")
            print(f"{text}: {os.path.basename(path)} in llama.cpp: {compare(wanted, logits_there(path, sequences))}", flush=True)


def main(what, folder, vlmsh, *more):
    os.makedirs(folder, exist_ok=True)
    if what == "write":
        write(folder, more[0], (vlmsh,) + more[1:])
    else:
        measure(folder, vlmsh, more)


quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(quiet, None)
main(*sys.argv[1:])
