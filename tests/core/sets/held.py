"""held.py VLMSH FOLDER -- held-out questions with random answers, in every format of their set: 1000 or more
answers of a set, about 100 of MVBench and of the sets in later.jsonl.xz. The scores of /eval --answers must agree within 1e-6 with those that the suites' own functions
gave, and with those of letters.py.

held/NAME.jsonl.xz: totals by suite, then one question per line: "q", "c" choices, "n" the right one, "a" the
answer, "s" its score by suite, "p" (the first 40) the suite's prompt. held/NAME.parquet has the same
questions in the columns of Hugging Face; pyarrow wrote them. HellaSwag and MMLU rank by likelihood: theirs
are transformers' log-likelihoods under the golden Llama, scored as lm-evaluation-harness does.
"""
import base64
import csv
import json
import lzma
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import letters

vlmsh, out = sys.argv[1:3]
held = os.path.dirname(__file__) + "/held"
os.makedirs(out, exist_ok=True)
picture = base64.b64encode(open("demo/pictures/scene-0.png", "rb").read()).decode()
L = letters.LETTERS
failed = 0


def bad(text):
    global failed
    failed += 1
    if failed < 30:
        print(text)


def questions(name):
    rows = [json.loads(line) for line in lzma.open(f"{held}/{name}.jsonl.xz", "rt")]
    for r in rows[1:]:
        r["options"] = dict(zip(L, r.get("c", [])))
        # the choices that a table keeps
        r["listed"] = {l: t for l, t in r["options"].items() if t not in letters.MISSING}
    return rows[0]["totals"], rows[1:]


def table(name, columns, rows):
    def field(x):
        x = "" if x is None else str(x)
        return '"' + x.replace('"', '""') + '"' if re.search('[\t"\r\n]', x) else x
    with open(f"{out}/{name}", "w", newline="") as f:
        f.writelines("\t".join(map(field, row)) + "\n" for row in [columns, *rows])
    return name


def dump(name, value):
    with open(f"{out}/{name}", "w") as f:
        json.dump(value, f)
    return name


def lines(name, rows):
    with open(f"{out}/{name}", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    return name


def parquet(name, file="test-00000-of-00001.parquet"):
    os.makedirs(f"{out}/{name}", exist_ok=True)
    shutil.copy(f"{held}/{name}.parquet", f"{out}/{name}/{file}")
    return f"{name}/{file}"


def run(kind, jobs, model):
    """Each of (file, suite, ids and answers): its totals and its rows."""
    commands = ["-c", "/set chat.date 26 Nov 2026"] # Llama's template names the date; this is the date of the stored scores
    for n, (file, suite, answers) in enumerate(jobs):
        lines(f"answers{n}.jsonl", [{"question_id": i, "text": a} for i, a in answers])
        given = f"--answers {out}/answers{n}.jsonl" if answers else ""
        commands += ["-c", "/set compute.matmul f32", "-c", f"/eval {out}/{file} --set {kind} --rule {suite} {given} --here",
                     "-c", f"/eval show --csv {out}/scores{n}.csv"]
    told = subprocess.run([vlmsh, model, "--json", "--db", f"{out}/db", *commands], capture_output=True, text=True)
    totals = [dict(reversed(e["rows"])) for e in map(json.loads, told.stdout.splitlines()) if e["event"] == "table" and e["name"] == "evaluation"]
    if len(totals) != len(jobs):
        sys.exit(told.stdout[-3000:] + told.stderr)
    return [(t, list(csv.DictReader(open(f"{out}/scores{n}.csv")))) for n, t in enumerate(totals)]


def check(kind, rows, totals, files, rules, model="demo/model"):
    """files: (file, ids, the rows that it has, its suites). rules[suite](row, file): the second implementation."""
    jobs = [(file, suite, list(zip(ids, [r["a"] for r in part if "a" in r]))) for file, ids, part, suites in files for suite in suites]
    parts = [part for _, _, part, suites in files for _ in suites]
    for (file, suite, _), part, (got, scores) in zip(jobs, parts, run(kind, jobs, model)):
        what = f"{kind}, {file}, {suite}"
        if len(scores) != len(part):
            bad(f"{what}: {len(scores)} scores of {len(part)}: {got.get('skipped')}")
            continue
        second = rules[suite](part, file) if rules else [r["s"][suite] for r in part]
        for r, s, own in zip(part, scores, second):
            if abs(float(s["score"]) - r["s"][suite]) > 1e-6 or abs(float(own) - r["s"][suite]) > 1e-6:
                bad(f"{what}: {r.get('a')!r} of {r.get('c')} scores {s['score']}, {own} the second way, {r['s'][suite]} by the suite")
            if "p" in r and suite in r["p"] and s["question"] != r["p"][suite]:
                bad(f"{what}: asks {s['question']!r}, not {r['p'][suite]!r}")
        for key, wanted in totals[suite].items():
            if len(part) == len(rows) and not abs(float(str(got.get(key, "nan")).split()[0]) - wanted) <= 1e-6:
                bad(f"{what}: {key} is {got.get(key)}, not {wanted}")
        mean = sum(r["s"][suite] for r in part) / len(part)
        if abs(float(got["score"]) - mean) > 1e-6:
            bad(f"{what}: score is {got['score']}, not {mean}")


def by_letter(rule):
    return lambda rows, file: [rule(r) == L[r["n"]] for r in rows]


vlmevalkit = by_letter(lambda r: letters.vlmevalkit(r["a"], r["listed"]))


def choices(r, n):
    return [r["c"][i] if i < len(r["c"]) else None for i in range(n)]


# --- AI2D: a table, parquet ------------------------------------------------------------------------------

totals, rows = questions("ai2d")
numbers = range(len(rows))
check("ai2d", rows, totals,
      [(table("AI2D_TEST.tsv", ["index", "image", "question", *"ABCD", "answer", "category"],
              [[i, picture if i < 2 else i % 2, r["q"], *r["c"], L[r["n"]], "x"] for i, r in enumerate(rows)]), numbers, rows, totals),
       (parquet("ai2d"), numbers, rows, ["lmms-eval"])],
      {"lmms-eval": by_letter(lambda r: letters.ai2d(r["a"])), "vlmevalkit": vlmevalkit})

# --- SEED-Bench: a table, the official file, LLaVA's, parquet --------------------------------------------

totals, rows = questions("seed")
numbers = range(len(rows))
official = [{"answer": L[r["n"]], **{f"choice_{x}": t for x, t in zip("abcd", r["c"])}, "data_id": f"{i}.jpg", "data_type": r["t"], "question": r["q"],
             "question_id": str(i), "question_type_id": r["k"]} for i, r in enumerate(rows)]
check("seed", rows, totals,
      [(table("SEEDBench_IMG.tsv", ["index", "image", "question", *"ABCD", "answer", "category"],
              [[i, picture if i < 2 else i % 2, r["q"], *r["c"], L[r["n"]], r["k"]] for i, r in enumerate(rows)]), numbers, rows, totals),
       (dump("SEED-Bench.json", {"question_type": {f"kind {k}": k for k in range(1, 13)}, "questions": official}), numbers, rows, ["llava", "lmms-eval"]),
       (lines("llava-seed-bench.jsonl",
              [{"question_id": i, "image": f"{i}.jpg", "category": f"kind {r['k']}", "label": L[r["n"]],
                "text": r["q"] + "".join(f"\n{l}. {t}" for l, t in r["options"].items()) + "\nAnswer with the option's letter from the given choices directly."}
               for i, r in enumerate(rows)]), numbers, rows, ["llava", "lmms-eval"]),
       (parquet("seed"), numbers, rows, ["lmms-eval"])],
      {"llava": by_letter(lambda r: r["a"]), "lmms-eval": by_letter(lambda r: letters.seed(r["a"])), "vlmevalkit": vlmevalkit})

# --- MMStar: a table, parquet ----------------------------------------------------------------------------

totals, rows = questions("mmstar")
numbers = range(len(rows))
check("mmstar", rows, totals,
      [(table("MMStar.tsv", ["index", "question", "image", "answer", "category", "l2_category", *"ABCD", "bench"],
              [[i, r["q"], picture if i < 2 else i % 2, L[r["n"]], r["k"], r["l2"], *r["c"], "MMBench"] for i, r in enumerate(rows)]), numbers, rows, totals),
       (parquet("mmstar", "val.parquet"), numbers, rows, ["lmms-eval"])],
      {"lmms-eval": by_letter(lambda r: letters.mmstar(r["a"])), "vlmevalkit": vlmevalkit})

# --- MMMU: a table of both splits, a subject's parquet ---------------------------------------------------

totals, rows = questions("mmmu")


def mmmu_program(rows, file):
    return [letters.mmmu_letter(r["a"], r["options"]) == L[r["n"]] if r["c"] else letters.mmmu_open(r["a"], r["g"] if isinstance(r["g"], list) else [r["g"]])
            for r in rows]


def mmmu_table(rows, file):
    # an open question gets two choices, of which the first is right
    return [letters.vlmevalkit(r["a"], r["options"] or {"A": str(r["g"]), "B": "Other Answers"}) == L[r.get("n", 0)] for r in rows]


validation = [r for r in rows if r["split"] == "validation"]
check("mmmu", rows, totals,
      [(table("MMMU_DEV_VAL.tsv", ["index", "id", "image", "question", *L[:9], "answer", "category", "split"],
              [[i, r["id"], picture if i < 2 else i % 2, r["q"], *choices(r, 9), L[r["n"]] if r["c"] else r["g"], r["k"], r["split"]]
               for i, r in enumerate(rows)]), range(len(rows)), rows, totals),
       (parquet("mmmu", "validation-00000-of-00001.parquet"), [r["id"] for r in validation], validation, ["lmms-eval"])],
      {"lmms-eval": mmmu_program, "vlmevalkit": mmmu_table})

# --- OCRBench: a table, parquet --------------------------------------------------------------------------

totals, rows = questions("ocrbench")
numbers = range(len(rows))
check("ocrbench", rows, totals,
      [(table("OCRBench.tsv", ["index", "image", "question", "answer", "category"],
              [[i, picture if i < 2 else i % 2, r["q"], r["r"], r["k"]] for i, r in enumerate(rows)]), numbers, rows, totals),
       (parquet("ocrbench"), numbers, rows, totals)],
      {s: lambda rows, file, s=s: [letters.ocrbench(r["a"], r["r"], r["k"], s == "lmms-eval") for r in rows] for s in totals})

# --- captions: Karpathy's file, COCO's, a table, parquet -------------------------------------------------

totals, rows = questions("captions")
numbers = range(len(rows))
scores = letters.cider([r["a"] for r in rows], [r["r"] for r in rows])
second = {s: lambda rows, file: scores for s in totals}
check("flickr30k", rows, {"lmms-eval": totals["lmms-eval"]},
      [(dump("dataset_flickr30k.json", {"dataset": "flickr30k", "images": [{"imgid": i, "filename": f"{i}.jpg", "split": "test", "sentids": [], "sentences": [
          {"raw": c, "tokens": c.split(), "imgid": i, "sentid": 5 * i + k} for k, c in enumerate(r["r"])]} for i, r in enumerate(rows)]}), numbers, rows, ["lmms-eval"]),
       (parquet("flickr30k"), numbers, rows, ["lmms-eval"])], second)
check("coco", rows, totals,
      [(dump("captions_val2017.json", {"images": [{"id": 10 + i, "file_name": f"{i:012d}.jpg"} for i in numbers],
                                       "annotations": [{"image_id": 10 + i, "id": 9 * i + k, "caption": c} for k in range(5) for i, r in enumerate(rows) for c in r["r"][k:k + 1]]}),
        range(10, 10 + len(rows)), rows, totals),
       (table("COCO_VAL.tsv", ["index", "image", "answer"], [[i, picture if i < 2 else i % 2, r["r"]] for i, r in enumerate(rows)]), numbers, rows, totals)], second)

# --- by likelihood: HellaSwag's lines and parquet, MMLU's CSV and parquet with their examples ------------

llama = "tests/goldens/llama-3.2"
few = 30 if "/san/" in vlmsh else None # the model's passes are slow under sanitizers, which look at no score
totals, rows = questions("hellaswag")
check("hellaswag", rows, totals,
      [(lines("hellaswag_val.jsonl", [{k: v for k, v in r.items() if k in ("ind", "activity_label", "ctx_a", "ctx_b", "ctx", "endings", "source_id", "split", "label")}
                                      for r in rows[:few]]), [], rows[:few], totals),
       (parquet("hellaswag", "validation-00000-of-00001.parquet"), [], rows, totals)][: 1 if few else 2], None, llama)
totals, rows = questions("mmlu")
shots = [json.loads(line) for line in lzma.open(f"{held}/mmlu_dev.jsonl.xz", "rt")]
for name, part in (("test", rows[:few]), ("dev", shots)):
    os.makedirs(f"{out}/mmlu/{name}", exist_ok=True)
    with open(f"{out}/mmlu/{name}/abstract_algebra_{name}.csv", "w", newline="") as f:
        csv.writer(f).writerows([r["q"], *r["c"], L[r["n"]]] for r in part)
shutil.copy(f"{held}/mmlu_dev.parquet", f"{out}/mmlu/dev-00000-of-00001.parquet")
check("mmlu", rows, totals, [("mmlu/test/abstract_algebra_test.csv", [], rows[:few], totals), (parquet("mmlu"), [], rows, totals)][: 1 if few else 2], None, llama)
# --- later sets: tables for VLMEvalKit and the sets' own programs, parquet for lmms-eval and LLaVA --------

# later.jsonl.xz: for each set a line with its totals, then one line per question: "tsv" the columns of
# VLMEvalKit's table, "pics" the number of pictures, "id" (and "tid", the id in the table), "a", "s", "p".
# later-NAME.parquet has the columns of Hugging Face.
later = {}
for line in lzma.open(f"{held}/later.jsonl.xz", "rt"):
    r = json.loads(line)
    if "set" in r:
        name, later[r["set"]] = r["set"], (r["totals"], [])
    else:
        later[name][1].append(r)
for name, (totals, rows) in later.items():
    suites = list(rows[0]["s"])
    totals = {s: totals.get(s, {}) for s in suites}
    placed = [s for s in suites if s.startswith(("official", "vlmevalkit"))]
    files = [(parquet(f"later-{name}"), [r["id"] for r in rows], [{**r, "p": {}} if "pics" in r else r for r in rows],
              [s for s in suites if s not in placed or name in ("hallusionbench",)])]
    if rows[0]["tsv"]:
        columns = list(dict.fromkeys(c for r in rows for c in r["tsv"]))
        ids = [r.get("tid", r["id"]) for r in rows]
        files.append((table(f"{name}.tsv", ["index", "image_path", *(c for c in columns if c != "index")],
                            [[i, [f"{k}.png" for k in range(r.get("pics", 1))], *(r["tsv"].get(c) for c in columns if c != "index")]
                             for i, r in zip(ids, rows)]),
                      ids, rows, suites if name == "muirbench" else placed))
    check(name, rows, totals, files, None)
# --- MVBench: a folder of JSON lists, and a folder of frames for each video -------------------------------

totals, rows = questions("mvbench")
os.makedirs(f"{out}/mvbench/video/action_count/v", exist_ok=True)
for i in range(3):
    shutil.copy(f"demo/pictures/scene-{i}.png", f"{out}/mvbench/video/action_count/v/00{i}.png")
os.makedirs(f"{out}/mvbench/json", exist_ok=True)
dump("mvbench/json/action_count.json", [{"video": "v.mp4", "question": r["q"], "candidates": r["c"], "answer": r["g"]} for r in rows])
check("mvbench", rows, totals, [(f"mvbench/json --images {out}/mvbench/video", range(len(rows)), rows, ["lmms-eval"])], None)
sys.exit(failed > 0)
