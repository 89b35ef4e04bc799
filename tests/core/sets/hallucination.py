"""hallucination.py pope ANNOTATIONS DIR EACH | chair ANNOTATIONS ANSWERS.jsonl [SCORES.csv] | sentences |
world FILE | coco FILE | captions ANNOTATIONS ANSWERS.jsonl

A second implementation of POPE's rules and of CHAIR, for tests/commands/pope.sh. `pope` checks three files;
`chair` prints CHAIRi, CHAIRs and the objects a caption mentions, and compares the scores of each with those
of a table; `sentences` checks those of tests/core/metrics/chair_sentences.h; `world` and `coco` write
instances in COCO's form, `captions` a random description of each picture.
"""
import collections
import csv
import json
import random
import re
import sys


def read(path):
    """{picture id: (file, set of names)}, names in the order of the file."""
    text = open(path).read()
    names, pictures = [], {}
    try:
        coco = json.loads(text)
    except ValueError:
        coco = None
    if coco is not None and "categories" in coco:
        of = {c["id"]: c["name"] for c in coco["categories"]}
        names = list(of.values())
        pictures = {i["id"]: (i["file_name"], set()) for i in coco["images"]}
        for a in coco["annotations"]:
            pictures[a["image_id"]][1].add(of[a["category_id"]])
        return names, pictures
    for line in text.splitlines():
        scene = json.loads(line)
        objects = [o["name"] for o in scene["objects"]]
        names += [o for o in dict.fromkeys(objects) if o not in names]
        pictures[scene["id"]] = (scene["image"], set(objects))
    return names, pictures


def world(path):
    """60 pictures of 12 kinds, some much more common; two never occur."""
    rng = random.Random(5)
    kinds = ["person", "dog", "hot dog", "umbrella", "car", "dining table", "cup", "tie", "oven", "skis", "sheep", "bus"]
    categories = [{"id": 3 * i + 1, "name": k} for i, k in enumerate(kinds)]
    images = [{"id": 1000 + i, "file_name": f"{i:012d}.jpg", "width": 96, "height": 96} for i in range(60)]
    notes = [{"id": n, "image_id": i["id"], "category_id": 3 * min(int(rng.expovariate(0.35)), 9) + 1, "bbox": [0, 0, 1, 1]}
             for n, i in enumerate(i for i in images for _ in range(rng.randrange(9)))]
    json.dump({"info": {}, "images": images, "annotations": notes, "categories": categories}, open(path, "w"))


COCO = """person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign parking_meter bench bird cat dog
horse sheep cow elephant bear zebra giraffe backpack umbrella handbag tie suitcase frisbee skis snowboard sports_ball kite baseball_bat
baseball_glove skateboard surfboard tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich orange broccoli carrot
hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv laptop mouse remote keyboard cell_phone microwave oven toaster
sink refrigerator book clock vase scissors teddy_bear hair_drier toothbrush""".split()


def coco(path):
    """1200 pictures of COCO's 80 kinds, as instances_val2014.json: crowds, kinds that never occur, pictures of nothing."""
    rng = random.Random(11)
    ids = sorted(rng.sample(range(1, 91), 80))
    categories = [{"supercategory": "thing", "id": i, "name": n.replace("_", " ")} for i, n in zip(ids, COCO)]
    images = [{"license": 3, "file_name": f"COCO_val2014_{i:012d}.jpg", "coco_url": "", "height": 96, "width": 96, "id": i} for i in rng.sample(range(580000), 1200)]
    notes = []
    for image in images:
        for _ in range(int(rng.expovariate(0.25))):
            crowd = rng.random() < 0.1
            notes.append({"segmentation": {"counts": [3, 4], "size": [96, 96]} if crowd else [[1, 2, 3, 4, 5, 6]], "area": 9.5, "iscrowd": int(crowd), "image_id": image["id"],
                          "bbox": [1, 2, 3, 4], "category_id": ids[min(int(rng.expovariate(0.06)), 75)], "id": len(notes) + 1})
    rng.shuffle(notes)
    json.dump({"info": {"year": 2014}, "images": images, "licenses": [{"id": 3}], "annotations": notes, "categories": categories}, open(path, "w"))


def plural(name):
    """The English plural of an object's name."""
    odd = {"person": "people", "sheep": "sheep", "skis": "skis", "scissors": "scissors", "knife": "knives", "mouse": "mice", "man": "men", "woman": "women",
           "child": "children", "tie": "ties", "goose": "geese", "ox": "oxen", "calf": "calves"}
    head, last = name.rsplit(" ", 1) if " " in name else ("", name)
    if last not in odd:
        last = re.sub("y$", "ie", last) if re.search("[^aeiou]y$", last) else last + "e" if re.search("(s|x|z|ch|sh)$", last) else last
        last += "s"
    else:
        last = odd[last]
    return f"{head} {last}".strip()


def captions(annotations, path):
    rng = random.Random(12)
    names, pictures = read(annotations)
    other = [w for w, _ in SYNONYM] + "tree grass sky field glass water hill ski boot track light table lamp".split()
    with open(path, "w") as f:
        for i, (_, objects) in pictures.items():
            parts = []
            for _ in range(rng.randrange(7)):
                word = rng.choice(sorted(objects)) if objects and rng.random() < 0.5 else rng.choice(names) if rng.random() < 0.5 else rng.choice(other)
                word = rng.choice([word, word, plural(word), word.title(), word.upper(), word.replace(" ", "-"), word.replace(" ", "  "), word + "'s", word + "\u2019s", f'"{word}"', f"({word})"])
                parts.append(rng.choice(["a {}", "the red {}", "two {}", "{}", "no {} at 10:30", "{},", "a {}.", "3.5 m of {}", "un café, {}", "{}-like", "{}\n", "50% {}", "a {} and a"]).format(word))
            f.write(json.dumps({"question_id": i, "text": " ".join(parts)}) + "\n")


WORD = (1 << 64) - 1


def mix(x):
    """SplitMix64's finaliser."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & WORD
    x = (x ^ x >> 27) * 0x94d049bb133111eb & WORD
    return x ^ x >> 31


def draw(place, items, count, seed=42):
    """The first `count` items of a shuffle whose numbers depend only on seed and place (stream 13 is POPE's)."""
    items, step = list(items), 0x9e3779b97f4a7c15
    key = mix(seed + step * 14 & WORD)
    for i in range(min(count, len(items))):
        k = i + mix(key ^ mix((place << 20 | i) + step & WORD)) % (len(items) - i)
        items[i], items[k] = items[k], items[i]
    return items[:count]


def check_pope(annotations, folder, each):
    names, pictures = read(annotations)
    by_file = {file: objects for file, objects in pictures.values()}
    have = collections.Counter(o for objects in by_file.values() for o in objects)
    place = {file: i for i, (file, _) in enumerate(pictures.values())}
    questions, drawn = {}, False
    for way in ("random", "popular", "adversarial"):
        rows = [json.loads(line) for line in open(f"{folder}/pope_{way}.json")]
        assert [r["question_id"] for r in rows] == list(range(1, len(rows) + 1))
        asked = collections.OrderedDict()
        for r in rows:
            article, name = re.fullmatch(r"Is there (an?) (.*) in the image\?", r["text"]).groups()
            assert (article == "an") == (name[0] in "aeiou"), r
            asked.setdefault(r["image"], []).append((r["label"], name))
        for file, pairs in asked.items():
            yes, no = ([n for label, n in pairs if label == side] for side in ("yes", "no"))
            objects = by_file[file]
            absent = [n for n in names if n not in objects]
            assert len(yes) == each == len(set(yes)) and set(yes) <= objects
            assert len(no) == min(each, len(absent)) == len(set(no)) and not set(no) & objects
            assert [label for label, _ in pairs][:2] == ["yes", "no"][:len(pairs)]
            assert yes == draw(2 * place[file] + 1, [n for n in names if n in objects], each), (file, yes)
            if way == "random":
                assert no == draw(2 * place[file] + 2, absent, each), (file, no)
            # The objects are drawn, not the first of the file.
            drawn |= way == "random" and set(no) != set(absent[:each])
            # The next most frequent objects by the paper's rule; Python's sort keeps the order of
            # ties.
            if way == "popular":
                assert no == sorted(absent, key=lambda n: -have[n])[:each], (file, no)
            if way == "adversarial":
                with_these = {n: sum(g in other and n in other for g in objects for other in by_file.values()) for n in absent}
                assert no == sorted(absent, key=lambda n: -with_these[n])[:each], (file, no)
        enough = [file for file, objects in pictures.values() if len(objects) >= each]
        assert list(asked) == draw(0, enough, len(asked))
        questions[way] = asked
    assert drawn, "objects are not drawn at random: they are the first absent ones"
    draws = [[(f, [n for label, n in p if label == "yes"]) for f, p in q.items()] for q in questions.values()]
    assert draws[0] == draws[1] == draws[2], "the three files ask about different pictures or objects"
    print(sum(len(p) for p in questions["random"].values()), len(draws[0]))


# Both implementations read the fixed tables; the algorithm is not shared.
TABLES = open("core/metrics/chair_words.h").read()
PLURAL = dict(re.findall(r'{ "([^"]*)", "([^"]*)" }', TABLES))
ENTRIES = re.findall(r'"([^":]*): ([^"]*)"', re.sub(r'//.*|"\s+"', "", TABLES))
SYNONYM = [(word, target) for target, words in ENTRIES for word in words.split(", ")]


def one(word):
    if word in PLURAL:
        return PLURAL[word]
    if word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word
    if re.search(r".(ches|shes|sses|xes|zes|oes)$", word):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and len(word) > 2 else word


def words(text):
    return tuple(one(w) for w in re.findall(r"[^\W_]+", re.sub("['\u2019]", "", text.lower())))


def mentions(text, names):
    table = {}
    for n in names:
        table.setdefault(words(n), n)
    objects = dict(table)
    for phrase, target in SYNONYM:
        if not target or words(target) in objects:
            table.setdefault(words(phrase), objects.get(words(target)))
    said, found, at = words(text), [], 0
    while at < len(said):
        for n in (4, 3, 2, 1):
            if said[at:at + n] in table and at + n <= len(said):
                if table[said[at:at + n]]:
                    found.append(table[said[at:at + n]])
                break
        at += n
    return found


def check_sentences():
    """Compares the objects found in the sentences of chair_sentences.h with those written there."""
    text = open("tests/core/metrics/chair_sentences.h").read()
    names = re.findall(r'\bKIND\("([^"]*)"\)', text)
    cases = re.findall(r'\bSENTENCE\("([^"]*)",[\s\\]*"([^"]*)"', text)
    assert len(names) > 10 and len(cases) > 10
    for says, found in cases:
        assert ", ".join(mentions(says, names)) == found.replace(" (not there)", ""), (says, found)
    print(len(cases))


def chair(annotations, answers, scores=None):
    names, pictures = read(annotations)
    pictures = {str(k): v for k, v in pictures.items()}
    told = {r["id"]: float(r["score"]) for r in csv.DictReader(open(scores))} if scores else {}
    total = wrong = captions = rows = 0
    for line in open(answers):
        row = json.loads(line)
        found = mentions(row["text"], names)
        bad = [o for o in found if o not in pictures[str(row["question_id"])][1]]
        rows, total, wrong, captions = rows + 1, total + len(found), wrong + len(bad), captions + bool(bad)
        assert told.pop(str(row["question_id"]), bool(bad)) == bool(bad), (row, found, bad)
    assert not told, "scores of pictures that have no answer"
    print(wrong / total if total else float("nan"), captions / rows, total / rows)


if sys.argv[1] == "pope":
    check_pope(sys.argv[2], sys.argv[3], int(sys.argv[4]))
elif sys.argv[1] == "world":
    world(sys.argv[2])
elif sys.argv[1] == "coco":
    coco(sys.argv[2])
elif sys.argv[1] == "captions":
    captions(*sys.argv[2:4])
elif sys.argv[1] == "sentences":
    check_sentences()
else:
    chair(*sys.argv[2:])
