"""make.py FOLDER -- writes small files in the forms in which evaluation sets are downloaded.

No data of the sets is here: columns, keys and file names are those of the real files, the contents are
made up. Pictures are those of demo/pictures.
"""
import base64
import json
import os
import shutil
import sys

out = sys.argv[1]
pictures = [f"demo/pictures/scene-{i}.png" for i in range(4)]
data = [base64.b64encode(open(p, "rb").read()).decode() for p in pictures]


def path(name):
    os.makedirs(os.path.dirname(f"{out}/{name}") or ".", exist_ok=True)
    return f"{out}/{name}"


def field(x):
    x = "" if x is None else str(x)
    return '"' + x.replace('"', '""') + '"' if any(c in x for c in '\t"\r\n') else x


def tsv(name, columns, rows):
    with open(path(name), "w", newline="") as f:
        for row in [columns, *rows]:
            f.write("\t".join(map(field, row)) + "\n")


def lines(name, rows):
    with open(path(name), "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)


def dump(name, value):
    with open(path(name), "w") as f:
        json.dump(value, f)


for i, p in enumerate(pictures):
    coco = f"img/{'val2014/' * (i == 1)}COCO_val2014_{i:012d}.jpg"  # one in a folder named like the split
    for name in (f"img/{i}.png", coco, f"img/t{i}.jpg", f"img/{i + 7}/image.png"):
        shutil.copy(p, path(name))

# POPE: label files (JSON lines), LLaVA's questions without labels, VLMEvalKit's table.
pope = [("red circle", "yes"), ("blue square", "no"), ("green digit", "yes"), ("dog", "no")]
for split in ("random", "popular", "adversarial"):
    lines(f"pope/coco_pope_{split}.json",
          [{"question_id": i + 1, "image": f"{i}.png", "text": f"Is there a {o} in the image?", "label": a}
           for i, (o, a) in enumerate(pope)])
lines("pope/llava_pope_test.jsonl",
      [{"question_id": i, "image": f"{i % 4}.png", "category": "random",
        "text": f"Is there a {pope[i % 4][0]} in the image?\nAnswer the question using a single word or phrase."}
       for i in range(4)])
# A row of the table may refer to another row's picture by that row's index; a cell may name several
# splits.
tsv("POPE.tsv", ["index", "image", "image_path", "question", "answer", "category"],
    [[i, data[i] if i < 2 else str(i - 2), f"{i % 2}.png", f"Is there a {o} in the image?", a.capitalize(),
      "random,popular" if i % 2 else "random"] for i, (o, a) in enumerate(pope)])

# MME: two questions per picture.
tsv("MME.tsv", ["index", "question", "answer", "category", "image_path", "image"],
    [[i, f"Is this {i}? Please answer yes or no.", "Yes" if i % 2 == 0 else "No",
      "count" if i < 4 else "code_reasoning", f"{i // 2}.png", data[i // 2]] for i in range(8)])

# VQAv2: questions, and annotations beside them.
dump("vqa/v2_OpenEnded_mscoco_val2014_questions.json",
     {"info": {"x": [1, {"y": "]}"}]}, "task_type": "Open-Ended", "data_type": "mscoco", "data_subtype": "val2014",
      "questions": [{"image_id": i, "question": f"What is {i}?", "question_id": 262148000 + i} for i in range(3)]})
dump("vqa/v2_mscoco_val2014_annotations.json",
     {"annotations": [{"question_id": 262148000 + i, "image_id": i, "answer_type": "other", "question_type": "what",
                       "multiple_choice_answer": "x",
                       "answers": [{"answer": a, "answer_confidence": "yes", "answer_id": k + 1}
                                   for k, a in enumerate(["circle"] * (4 - i) + ["square"] * (6 + i))]}
                      for i in reversed(range(3))]})

# TextVQA: the official file, LLaVA's questions beside it.
dump("textvqa/TextVQA_0.5.1_val.json",
     {"dataset_type": "val", "data": [{"question": f"what is the brand of {i}?", "image_id": f"t{i}",
                                       "question_id": 34602 + i, "answers": ["nokia"] * 9 + ["Nokia!"],
                                       "ocr_tokens": ["NOKIA", "3310"] if i else []} for i in range(2)]})
lines("textvqa/llava_textvqa_val_v051_ocr.jsonl",
      [{"question_id": f"t{i}", "image": f"t{i}.jpg",
        "text": f"what is the brand of {i}?\nReference OCR token: NOKIA\nAnswer the question using a single word or phrase.",
        "category": "default"} for i in range(2)])

# Captions: COCO's annotations, Karpathy's splits, VLMEvalKit's table with captions as a list.
captions = [["a red circle", "one circle, red"], ["a blue square"], ["three digits", "some digits"]]
dump("captions_val2017.json",
     {"images": [{"id": 10 + i, "file_name": f"{i}.png", "height": 96, "width": 96} for i in range(3)],
      "annotations": [{"image_id": 10 + i, "id": 100 * i + k, "caption": c}
                      for k in range(2) for i, l in enumerate(captions) for c in l[k:k + 1]]})
dump("dataset_flickr30k.json",
     {"dataset": "flickr30k",
      "images": [{"imgid": i, "filename": f"{i}.png", "split": "train" if i == 1 else "test",
                  "sentences": [{"raw": c, "tokens": c.split()} for c in captions[i]]} for i in range(3)]})
tsv("COCO_VAL.tsv", ["index", "image", "answer"], [[i, data[i], str(captions[i])] for i in range(3)])

# Multiple choice as tables: MMBench (with a rotation), MMStar, MMMU (pictures in the text, an open
# question), AI2D, SEED-Bench, ScienceQA.
mc = ["index", "question", "hint", "A", "B", "C", "D", "answer", "category", "l2-category", "source", "comment", "split",
      "image"]
tsv("mmbench_dev.tsv", mc,
    [[241, 'Which is "red"?', "Look\tclosely\nat it.", "circle", "square", "None", "", "A", "colour", "fine", "s", "nan", "dev",
      data[0]],
     [1000241, 'Which is "red"?', "Look\tclosely\nat it.", "square", "circle", "", "", "B", "colour", "fine", "s", "nan",
      "dev", "241"],
     [252, "How many?", "nan", "one", "two", "three", "four", "C", "count", "fine", "s", "nan", "dev", data[1]]])
tsv("MMStar.tsv", ["index", "question", "image", "answer", "category", "l2_category", "A", "B", "C", "D"],
    [[i, f"Which is {i}?", data[i], "ABCD"[i], "coarse perception", f"l{i % 2}", "w", "x", "y", "z"] for i in range(4)])
tsv("MMMU_DEV_VAL.tsv", ["index", "id", "question", "A", "B", "C", "answer", "category", "split", "image"],
    [[0, "validation_Art_1", "<image 2> beside <image 1>: which?", "left", "right", None, "B", "Art", "validation",
      str([data[0], data[1]])],
     [1, "validation_Math_2", "<image 1> How much?", None, None, None, "3.5", "Math", "validation", data[2]]])
tsv("OCRBench.tsv", ["index", "image", "question", "answer", "category"],
    [[0, data[0], "what is written in the image?", "['CENTRE']", "Regular Text Recognition"],
     [1, data[1], "Write out the expression.", "['x ^ 2', 'y']", "Handwritten Mathematical Expression Recognition"]])
lines("llava-seed-bench.jsonl",
      [{"question_id": f"{i}", "image": f"{i}.png", "category": "Scene Understanding", "label": "B",
        "text": "Which?\nA. x\nB. y\nC. z\nD. w\nAnswer with the option's letter from the given choices directly."}
       for i in range(2)])
dump("SEED-Bench.json",
     {"question_type": {"Scene Understanding": 1},
      "questions": [{"answer": "C", "choice_a": "x", "choice_b": "y", "choice_c": "z", "choice_d": "w", "data_id": f"{i}.png",
                     "data_type": "image", "question": "Which?", "question_id": str(101 + i), "question_type_id": 1}
                    for i in range(2)]})

# ScienceQA's three files.
problems = {str(7 + i): {"question": f"Which is {i}?", "choices": ["one", "two", "three"], "answer": i, "hint": "Think." if i else "",
                         "image": "image.png" if i < 2 else None, "subject": "natural science", "split": "test",
                         "lecture": "", "solution": ""} for i in range(3)}
dump("sqa/problems.json", problems)
dump("sqa/pid_splits.json", {"train": ["8"], "test": ["9", "7"]})
dump("sqa/llava_test_CQM-A.json",
     [{"id": "9", "conversations": [{"from": "human", "value": "Context: Think.\nWhich is 2?\nA. one\nB. two\nC. three"},
                                    {"from": "gpt", "value": "The answer is C."}]},
      {"id": "7", "image": "7/image.png",
       "conversations": [{"from": "human", "value": "<image>\nWhich is 0?\nA. one\nB. two\nC. three"},
                         {"from": "gpt", "value": "The answer is A."}]}])

# Text only.
lines("hellaswag_val.jsonl",
      [{"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "A man is sitting on a roof.", "ctx_b": "he",
        "ctx": "A man is sitting on a roof. he", "split": "val", "label": 3, "source_id": "activitynet~v_-JhWjGDPHMY",
        "endings": ["is using wrap.", "is ripping  tiles. [title] Next [step] he rests.", "is holding a cube.", "starts."]}])
os.makedirs(f"{out}/mmlu/test", exist_ok=True)
with open(path("mmlu/test/abstract_algebra_test.csv"), "w") as f:
    f.write('"Find 1, or ""one"".",0,1,2,3,B\nWhat is 2?,0,1,2,3,C\n')
with open(path("mmlu/dev/abstract_algebra_dev.csv"), "w") as f:
    f.writelines(f"What is {i}?,0,1,2,3,{'ABCD'[i % 4]}\n" for i in range(6))
