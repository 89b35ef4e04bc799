"""scores.py VLMSH FOLDER [SEED] -- evaluation sets with random answers: the scores of /eval --answers must
agree within 1e-6 with those by the suites' rules, as they are written down here.

Sets are written in the forms in which they are downloaded, with contents that differ from make.py's: carriage
returns, pictures repeated by index, ids of text, splits that ask the same of a picture, problems in any
order. The rules are short versions of those of LLaVA, lmms-eval, VLMEvalKit, MME and VQA (docs/sets.md).
"""
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import letters as letters_rules

vlmsh, out = sys.argv[1:3]
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 5)
failed = False
sources = [f"demo/pictures/scene-{i % 4}.png" for i in range(6)]
pictures = [base64.b64encode(open(p, "rb").read()).decode() for p in sources]
for i, p in enumerate(sources):
    for name in (f"{i}.png", f"{i}.jpg", f"COCO_val2014_{i:012d}.jpg"):
        os.makedirs(f"{out}/img", exist_ok=True)
        shutil.copy(p, f"{out}/img/{name}")


def table(name, columns, rows, end="\n"):
    def field(x):
        x = "" if x is None else str(x)
        return '"' + x.replace('"', '""') + '"' if re.search('[\t"\r\n]', x) else x
    with open(f"{out}/{name}", "w", newline="") as f:
        for row in [columns, *rows]:
            f.write("\t".join(map(field, row)) + end)


def lines(name, rows):
    with open(f"{out}/{name}", "w") as f:
        f.writelines(json.dumps(r, ensure_ascii=draw.random() < 0.5) + "\n" for r in rows)


def dump(name, value):
    with open(f"{out}/{name}", "w") as f:
        json.dump(value, f)


def evaluate(name, kind, suite, answers):
    """The numbers of the totals."""
    lines("answers.jsonl", [{"question_id": i, "text": a} for i, a in answers])
    command = f"/eval {out}/{name} --set {kind} --rule {suite} --images {out}/img --answers {out}/answers.jsonl --here"
    told = subprocess.run([vlmsh, "demo/model", "--json", "--db", f"{out}/db", "-c", command], capture_output=True, text=True)
    events = [json.loads(line) for line in told.stdout.splitlines()]
    rows = [e["rows"] for e in events if e["event"] == "table" and e["name"] == "evaluation"]
    return dict(reversed(rows[0])) if rows else {"error": told.stdout + told.stderr}


def same(what, numbers, key, wanted):
    global failed
    text = str(numbers.get(key, numbers.get("error", "nothing")))
    try:
        good = abs(float(text.split()[0]) - wanted) <= 1e-6
    except ValueError:
        good = False
    failed |= not good
    if not good:
        print(f"{what}: {key} is {text}, not {wanted}")


def share(hits):
    return sum(hits) / len(hits)


# --- yes/no ------------------------------------------------------------------------------------------

says = ["yes", "no", "Yes.", "No, there is not.", "yes, it is", "The answer is no", "maybe", "Yes and no", "not at all", "NO",
        "there is a cat", "no cats, only dogs. yes", "nope", "Y", "  yes", "No way"]


def yesno_llava(a):
    return "no" if set(a.split(".")[0].replace(",", "").split(" ")) & {"No", "not", "no"} else "yes"


def yesno_vlmevalkit(a):
    words = re.sub(r"""[~`!@#$%^&*()_\-+=|{\[\]};:'"<>,.?/\\]""", " ", a).lower().split()
    return {(1, 0): "yes", (0, 1): "no"}.get(("yes" in words, "no" in words), "unknown")


def yesno_mme(a):
    a = a.lower().strip().replace(".", "")
    if len(a) == 1:
        return {"y": "yes", "n": "no"}.get(a, "other")
    return "yes" if "yes" in a[:4] else "no" if "no" in a[:4] else "other"


def f1(pairs):
    hits = sum(p == l == "yes" for p, l in pairs)
    said, true = sum(p == "yes" for p, _ in pairs), sum(l == "yes" for _, l in pairs)
    return 2 * hits / (said + true) if said and true and hits else 0


splits = ["random", "popular", "adversarial"]
pope = [(split, n, draw.choice(["yes", "no"]), draw.choice(says)) for split in splits for n in range(400)]
for split in splits:
    lines(f"coco_pope_{split}.json", [{"question_id": n + 1, "image": f"{n % 6}.png", "text": f"Is there a thing {n}?", "label": l}
                                      for s, n, l, _ in pope if s == split])
lines("llava_pope_test.jsonl", [{"question_id": n + 1, "image": f"{n % 6}.png", "category": s,
                                 "text": f"Is there a thing {n}?\nAnswer the question using a single word or phrase."}
                                for s, n, _, _ in pope])
got = evaluate("llava_pope_test.jsonl", "pope", "llava", [(n + 1, a) for _, n, _, a in pope])
same("POPE, LLaVA", got, "score", share([yesno_llava(a) == l for _, _, l, a in pope]))
same("POPE, LLaVA", got, "mean F1 of splits", sum(f1([(yesno_llava(a), l) for s, _, l, a in pope if s == split]) for split in splits) / 3)
got = evaluate("coco_pope_popular.json", "pope", "lmms-eval", [(n + 1, a) for s, n, _, a in pope if s == "popular"])
same("POPE, lmms-eval", got, "score", share([a.lower().strip() == l for s, _, l, a in pope if s == "popular"]))
table("POPE.tsv", ["index", "question", "answer", "category", "image_path", "image"],
      [[100 + i, f"Is there a thing {i}?", l.capitalize(), s, f"{i}.jpg", pictures[i] if i < 6 else 100 + i % 6]
       for i, (s, _, l, _) in enumerate(pope)], "\r\n")
got = evaluate("POPE.tsv", "pope", "vlmevalkit", [(100 + i, a) for i, (_, _, _, a) in enumerate(pope)])
same("POPE, VLMEvalKit", got, "score", share([yesno_vlmevalkit(a) == l for _, _, l, a in pope]))
same("POPE, VLMEvalKit", got, "F1 over splits", f1([(yesno_vlmevalkit(a), l) for _, _, l, a in pope]))

kinds = ["existence", "count", "code_reasoning", "OCR"]
mme = [(kinds[i // 2 % 4], "Yes" if i % 2 == 0 else "No", draw.choice(says)) for i in range(1008)]
table("MME.tsv", ["index", "image", "image_path", "question", "answer", "category"],
      [[i, pictures[i // 2 % 6], f"{i // 2}.jpg", f"Is it {i}? Please answer yes or no.", l, k] for i, (k, l, _) in enumerate(mme)])


def mme_sum(rule, wanted):
    total = 0
    for kind in wanted:
        right = {i: rule(a) == l.lower() for i, (k, l, a) in enumerate(mme) if k == kind}
        total += 100 * share(list(right.values())) + 100 * share([right[i] and right[i + 1] for i in right if i % 2 == 0])
    return total


for suite, rule in (("lmms-eval", yesno_mme), ("llava", yesno_mme), ("vlmevalkit", yesno_vlmevalkit)):
    got = evaluate("MME.tsv", "mme", suite, [(i, a) for i, (_, _, a) in enumerate(mme)])
    same(f"MME, {suite}", got, "perception", mme_sum(rule, ["existence", "count", "OCR"]))
    same(f"MME, {suite}", got, "cognition", mme_sum(rule, ["code_reasoning"]))

# --- short answers -----------------------------------------------------------------------------------

words = ["two", "2", "a dog", "the dog", "dog", "dont", "don't", "Yes", "no", "red, blue", "red", "1,000", "3.5", "pizza.", "The end",
         "cat's", "on the left", "left", "no.", "yes!", "10:30", "½"]


def vqa_clean(text):
    marks = ";/[]\"{}()=+\\_-><@`,?!"
    shown = text
    for m in marks:
        gone = m + " " in text or " " + m in text or re.search(r"\d,\d", text)
        shown = shown.replace(m, "" if gone else " ")
    shown = re.sub(r"(?!<=\d)(\.)(?!\d)", "", shown)
    numbers = dict(zip("zero one two three four five six seven eight nine ten".split(), map(str, range(11))), none="0")
    kept = [numbers.get(w, w) for w in shown.lower().split()]
    return " ".join({"dont": "don't"}.get(w, w) for w in kept if w not in ("a", "an", "the"))


def vqa(answer, people, clean_always):
    people = [p.strip() for p in people]
    if clean_always or len(set(people)) > 1:
        answer, people = vqa_clean(answer.strip()), list(map(vqa_clean, people))
    return share([min(1, (people.count(answer) - (p == answer)) / 3) for p in people])


asked = []
for i in range(1000):
    few = [draw.choice(words) for _ in range(3)]
    asked.append(([draw.choice(few) for _ in range(10)], draw.choice(words + few * 10)))
dump("v2_OpenEnded_mscoco_val2014_questions.json",
     {"info": {}, "task_type": "Open-Ended", "data_type": "mscoco", "data_subtype": "val2014",
      "questions": [{"image_id": i % 6, "question": f"What {i}?", "question_id": 1000 * i + 1} for i in range(1000)]})
dump("v2_mscoco_val2014_annotations.json",
     {"annotations": [{"question_id": 1000 * i + 1, "image_id": i % 6, "answer_type": "other", "question_type": "what",
                       "multiple_choice_answer": asked[i][0][0],
                       "answers": [{"answer": a, "answer_confidence": "yes", "answer_id": k + 1} for k, a in enumerate(asked[i][0])]}
                      for i in draw.sample(range(1000), 1000)]})
got = evaluate("v2_OpenEnded_mscoco_val2014_questions.json", "vqav2", "llava", [(1000 * i + 1, a) for i, (_, a) in enumerate(asked)])
same("VQAv2, LLaVA", got, "score", share([vqa(a, people, False) for people, a in asked]))
dump("TextVQA_0.5.1_val.json",
     {"dataset_type": "val", "data": [{"question": f"what {i}?", "image_id": f"{i % 6}", "question_id": 34602 + i, "answers": people}
                                      for i, (people, _) in enumerate(asked)]})
for suite in ("lmms-eval", "llava"):
    got = evaluate("TextVQA_0.5.1_val.json", "textvqa", suite, [(34602 + i, a) for i, (_, a) in enumerate(asked)])
    same(f"TextVQA, {suite}", got, "score", share([vqa(a, people, True) for people, a in asked]))

kinds = ["Regular Text Recognition", "Handwritten Mathematical Expression Recognition", "Scene Text-centric VQA"]
ocr = [(draw.choice([["CENTRE"], ["x ^ 2", "y"], ["$10.50"], ["12 34"]]), draw.choice(kinds),
        draw.choice(["the centre of it", "x^2", "it is x ^ 2", "Y", "$10.50 USD", "12 34", "1234", "no"])) for _ in range(1000)]
table("OCRBench.tsv", ["index", "image", "question", "answer", "category"],
      [[i, pictures[i % 6], "what?", str(texts), kind] for i, (texts, kind, _) in enumerate(ocr)])


def ocr_right(texts, kind, answer):
    if kind.startswith("Handwritten"):
        return any(t.replace(" ", "") in answer.replace(" ", "") for t in texts)
    return any(t.lower() in answer.lower() for t in texts)


for suite in ("lmms-eval", "vlmevalkit"):
    got = evaluate("OCRBench.tsv", "ocrbench", suite, [(i, a) for i, (_, _, a) in enumerate(ocr)])
    same(f"OCRBench, {suite}", got, "score", share([ocr_right(*row) for row in ocr]))

# --- letters -----------------------------------------------------------------------------------------

letters = ["A", "B.", "C", "(D)", "The answer is B", "A. cat", "none", "D, because", "Answer: A", "A or B", "", "ABCD", "The answer is C."]
seed = [("v1_" * (i % 2) + str(i), draw.choice("ABCD"), draw.choice(letters)) for i in range(1000)]
lines("llava-seed-bench.jsonl",
      [{"question_id": i, "image": f"{n % 6}.png", "category": "Scene Understanding" if n % 3 else "Text", "label": l,
        "text": "Which?\nA. cat\nB. dog\nC. cow\nD. hen\nAnswer with the option's letter from the given choices directly."}
       for n, (i, l, _) in enumerate(seed)])
for suite, rule in (("llava", lambda a: a), ("lmms-eval", lambda a: a.strip()[:1])):
    got = evaluate("llava-seed-bench.jsonl", "seed", suite, [(i, a) for i, _, a in seed])
    same(f"SEED-Bench, {suite}", got, "score", share([rule(a) == l for _, l, a in seed]))

problems, said = {}, {}
for n, i in enumerate(draw.sample(range(20000), 1000)):
    choices = ["one", "two", "three", "four"][:draw.choice([2, 3, 4])]
    problems[str(i)] = {"question": f"Q{i}?", "choices": choices, "answer": draw.randrange(len(choices)), "hint": "H" * (n % 2),
                        "image": None, "subject": "natural science", "lecture": "", "solution": "", "split": "test"}
    said[str(i)] = draw.choice(letters + ["E", "B. two"])
dump("problems.json", problems)
dump("pid_splits.json", {"train": [], "test": list(problems)})
dump("llava_test_CQM-A.json",
     [{"id": i, "conversations": [{"from": "human", "value": f"{p['question']}\n" + "\n".join(f"{'ABCD'[k]}. {c}" for k, c in enumerate(p["choices"]))},
                                  {"from": "gpt", "value": f"The answer is {'ABCD'[p['answer']]}."}]} for i, p in problems.items()])


def scienceqa(answer, problem):
    found = re.findall(r"The answer is ([A-Z]).", answer)
    if re.fullmatch("[A-E]", answer) or re.match(r"[A-E]\. ", answer):
        found = [answer[0]]
    return len(found) == 1 and found[0] == "ABCD"[problem["answer"]]


def scienceqa_lmms_eval(answer, problem):
    answer = answer.strip()
    said = answer.upper() if len(answer) == 1 else answer[0] if re.match(r"[A-Z]\.", answer) else None
    return said == "ABCD"[problem["answer"]]


def scienceqa_vlmevalkit(answer, problem):
    return letters_rules.vlmevalkit(answer, dict(zip("ABCD", problem["choices"]))) == "ABCD"[problem["answer"]]


for suite, rule in (("lmms-eval", scienceqa_lmms_eval), ("vlmevalkit", scienceqa_vlmevalkit)):
    got = evaluate("problems.json", "scienceqa", suite, said.items())
    same(f"ScienceQA, {suite}", got, "score", share([rule(said[i], p) for i, p in problems.items()]))
for name in ("problems.json", "llava_test_CQM-A.json"):
    got = evaluate(name, "scienceqa", "llava", said.items())
    same(f"ScienceQA, {name}", got, "score", share([scienceqa(said[i], p) for i, p in problems.items()]))

# MMBench: a question is right if all its rotations are. Answers are a letter or the option's text.
rows, bench = [], {}
for n in range(320):
    options = ["cat", "dog", "cow", "hen"][:3 + n % 2]
    for turn in range(len(options)):
        turned = options[turn:] + options[:turn]
        right, index = "ABCD"[turned.index("dog")], 241 + n + 1000000 * turn
        bench[index] = (right, draw.choice([right] * 12 + ["dog"] * 4 + ["A", "B"]), turned)
        picture = str([pictures[0], pictures[n % 6]]) if n % 4 == 0 else pictures[n % 6]
        rows.append([index, f"Which {n}?", "nan" if n % 2 else 'Look, "here"', *turned, *[None] * (4 - len(turned)), right, "colour",
                     picture if turn == 0 else str(241 + n)])
table("mmbench_dev.tsv", ["index", "question", "hint", "A", "B", "C", "D", "answer", "category", "image"], rows)
right = {i: a in (l, "dog") for i, (l, a, _) in bench.items()}
for suite in ("vlmevalkit", "llava"):
    got = evaluate("mmbench_dev.tsv", "mmbench", suite, [(i, a) for i, (_, a, _) in bench.items()])
    same(f"MMBench, {suite}", got, "score", share(list(right.values())))
    same(f"MMBench, {suite}", got, "all rotations right", share([all(r for i, r in right.items() if i % 1000000 == 241 + n) for n in range(320)]))

# --- captions ----------------------------------------------------------------------------------------

people = [[draw.choice(["a red circle on grass", "a man rides a horse", "two dogs play in the park", "the cat sits on a mat"]) +
           draw.choice(["", " today", " near water"]) for _ in range(draw.choice([2, 5]))] for _ in range(6)]
captions = [draw.choice(p + ["a dog", "a man on a horse"]) for p in people]
dump("captions_val2017.json",
     {"images": [{"id": 50 + i, "file_name": f"{i}.png", "height": 96, "width": 96} for i in range(6)],
      "annotations": [{"image_id": 50 + i, "id": 10 * i + k, "caption": c} for i, p in enumerate(people) for k, c in enumerate(p)]})
got = evaluate("captions_val2017.json", "coco", "lmms-eval", [(50 + i, c) for i, c in enumerate(captions)])
same("COCO, lmms-eval", got, "score", share(letters_rules.cider(captions, people)))
sys.exit(failed)
