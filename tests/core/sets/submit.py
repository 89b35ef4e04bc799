"""submit.py VLMSH FOLDER -- what --submit writes, read back: LLaVA's answers, VQAv2's upload and MMBench's
table have the published fields, types and order, a row for each question and its id as the file has it.

The forms are those of llava/eval/model_vqa_loader.py, scripts/convert_vqav2_for_submission.py and
convert_mmbench_for_submission.py. FOLDER holds what make.py writes.
"""
import csv
import json
import subprocess
import sys

vlmsh, folder = sys.argv[1:3]


def submit(name, kind, out):
    """The file of answers, and the rows that /eval shows."""
    told = subprocess.run([vlmsh, "demo/model", "--json", "--db", f"{folder}/db", "-c", "/set sample.max_tokens 6",
                           "-c", f"/eval {folder}/{name} --set {kind} --images {folder}/img --submit {folder}/{out} --here",
                           "-c", f"/eval show --csv {folder}/shown.csv"], capture_output=True, text=True)
    if "\"ok\":false" in told.stdout:
        sys.exit(told.stdout)
    return open(f"{folder}/{out}", newline="").read(), list(csv.DictReader(open(f"{folder}/shown.csv")))


def read(name):
    text = open(f"{folder}/{name}").read()
    return json.loads(text) if text[0] == "[" or "\n" not in text.strip() else [json.loads(line) for line in text.splitlines()]


def lines(name, kind, ids, marked=()):
    text, shown = submit(name, kind, "answers.jsonl")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [r["question_id"] for r in rows] == ids and list(map(type, ids)) == [type(r["question_id"]) for r in rows], (name, rows, ids)
    for r, s in zip(rows, shown):
        assert list(r) == ["question_id", "prompt", "text", "answer_id", "model_id", "metadata"], r
        assert r["metadata"] == {} and all(isinstance(r[k], str) for k in ("prompt", "text", "answer_id", "model_id")), r
        mark = "<image>\n" if r["question_id"] in marked else ""
        assert (r["prompt"], r["text"]) == (mark + s["question"], s["answer"]) and r["text"] == r["text"].strip() != "", (r, s)
    assert len({r["answer_id"] for r in rows}) == len(rows) and all(len(r["answer_id"]) == 22 for r in rows)
    return rows


rows = lines("pope/llava_pope_test.jsonl", "pope", [r["question_id"] for r in read("pope/llava_pope_test.jsonl")])
assert [r["prompt"] for r in rows] == [r["text"] for r in read("pope/llava_pope_test.jsonl")]
lines("textvqa/llava_textvqa_val_v051_ocr.jsonl", "textvqa", ["t0", "t1"])
lines("llava-seed-bench.jsonl", "seed", [r["question_id"] for r in read("llava-seed-bench.jsonl")])
# Ids are texts, because ScienceQA's script looks them up as texts; the mark tells which questions
# have a picture.
lines("sqa/llava_test_CQM-A.json", "scienceqa", ["9", "7"], ["7"])
lines("SEED-Bench.json", "seed", [101, 102])  # numbers, as SEED-Bench's script writes them
lines("MME.tsv", "mme", list(range(8)))

# VQAv2: a list; a question whose picture is missing has an empty answer.
questions = json.load(open(f"{folder}/vqa/v2_OpenEnded_mscoco_val2014_questions.json"))
questions["questions"][1]["image_id"] = 99
json.dump(questions, open(f"{folder}/vqa/v2_OpenEnded_mscoco_val2014_questions.json", "w"))
text, shown = submit("vqa/v2_OpenEnded_mscoco_val2014_questions.json", "vqav2", "vqa.json")
rows = json.loads(text)
assert [list(r) for r in rows] == [["question_id", "answer"]] * 3 and len(shown) == 2, rows
assert [r["question_id"] for r in rows] == [q["question_id"] for q in questions["questions"]]
assert rows[1]["answer"] == "" and rows[0]["answer"] == rows[0]["answer"].lower().strip() != "", rows

# MMBench: the table without hint, category, source, picture and comment; the prediction is column seven.
text, shown = submit("mmbench_dev.tsv", "mmbench", "mmbench.tsv")
rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
assert list(rows[0]) == ["index", "question", "A", "B", "C", "D", "prediction", "answer", "split"], text
assert [(r["index"], r["A"], r["C"], r["D"], r["answer"], r["split"]) for r in rows] == [
    ("241", "circle", "", "", "A", "dev"), ("1000241", "square", "", "", "B", "dev"), ("252", "one", "three", "four", "C", "dev")], text
assert [r["prediction"] for r in rows] == [s["answer"] for s in shown] and rows[0]["question"] == 'Which is "red"?'

# Rules by likelihood submit the choice that is ranked first.
text, shown = submit("hellaswag_val.jsonl", "hellaswag", "ranked.jsonl")
assert json.loads(text)["text"] == shown[0]["answer"] != "" and json.loads(text)["question_id"] == 24, text

# --export-predictions: the answers as given, with thinking, white space and characters that a table must quote.
said = ['A\tor "B"', "<think>A?</think>\n\nB", "", "  C \r\n"]
with open(f"{folder}/said.jsonl", "w") as f:
    f.writelines(json.dumps({"question_id": i, "text": text}) + "\n" for i, text in enumerate(said) if i != 2)


def export(suite, out, name="MMStar.tsv", kind="mmstar"):
    told = subprocess.run([vlmsh, "demo/model", "--json", "--db", f"{folder}/db", "-c",
                           f"/eval {folder}/{name} --set {kind} --rule {suite} --answers {folder}/said.jsonl "
                           f"--export-predictions {suite}:{folder}/{out} --here --force"], capture_output=True, text=True)
    assert "\"ok\":false" not in told.stdout and '"what":"predictions"' in told.stdout, told.stdout


# VLMEvalKit: its table without pictures, which pandas' read_csv reads as csv does. An absent answer is an
# empty cell.
export("vlmevalkit", "predictions.tsv")
csv.field_size_limit(1 << 30)
rows = list(csv.DictReader(open(f"{folder}/predictions.tsv", newline=""), delimiter="\t"))
source = list(csv.DictReader(open(f"{folder}/MMStar.tsv", newline=""), delimiter="\t"))
assert [r.pop("prediction") for r in rows] == said, rows
for s in source:
    del s["image"]
assert rows == source, (rows, source)

# VLMEvalKit's ids of RefCOCO begin with the split, and its question for MMMU-Pro's pictures is a placeholder. If only
# a later row has a column, the column is empty in the rows before.
def small(name, kind, *lines):
    with open(f"{folder}/{name}", "w") as f:
        f.writelines(line + "\n" for line in lines)
    export("vlmevalkit", "predictions.tsv", name, kind)
    return list(csv.DictReader(open(f"{folder}/predictions.tsv", newline=""), delimiter="\t"))


rows = small("refcoco.tsv", "refcoco", "index\tquestion\tanswer\tcategory\twidth\theight\timage_path\tnote", "0\ta\t[1, 2, 3, 4]\tRefCOCO+ testA\t9\t9\ta.png\t",
             "1\tb\t[1, 2, 3, 4]\tRefCOCOg val\t9\t9\ta.png\tlater")
assert [(r["index"], r["note"], r["prediction"]) for r in rows] == [("RefCOCO+_testA_0", "", said[0]), ("RefCOCOg_val_1", "later", said[1])], rows
rows = small("vision.tsv", "mmmu-pro-vision", "index\tanswer\tA\tB\timage_path", "0\tA\tx\ty\ta.png")
assert rows[0]["question"] == "placeholder" and rows[0]["prediction"] == said[0], rows

# lmms-eval: the file that its model from_log reads.
export("lmms-eval", "predictions.json")
log = json.load(open(f"{folder}/predictions.json"))
assert log["args"]["model"] and log["args"]["limit"] is None and log["model_configs"]["task"] == "mmstar", log
assert {d["doc_id"]: d["resps"][0][0] for d in log["logs"]} == dict(enumerate(said)), log

# Every row up to the last one has an entry; a repeated row has that of the row before.
small("twice.tsv", "mmstar", "index\tquestion\tanswer\tA\tB\timage_path", "0\tq\tA\tx\ty\ta.png", "0\tq\tA\tx\ty\ta.png", "1\tr\tA\tx\ty\ta.png")
export("lmms-eval", "predictions.json", "twice.tsv")
log = json.load(open(f"{folder}/predictions.json"))
assert [(d["doc_id"], d["resps"][0][0]) for d in log["logs"]] == [(0, said[0]), (1, said[0]), (2, said[1])], log
