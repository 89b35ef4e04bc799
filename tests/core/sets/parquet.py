"""parquet.py FOLDER [variety | large] -- writes small parquet files as sets on Hugging Face have them (columns as
there, contents made up), with rows.jsonl beside: what pyarrow reads back. With `variety`, several hundred
files of all types, encodings, compressions, page sizes and group sizes instead; with `large`, a few larger ones,
from which the fuzzer begins (tests/fuzz/corpus/parquet_large.tar.xz).

Needs pyarrow; tests/core/sets/parquet/ holds what it wrote. tests/core/sets/parquet.c compares.
"""
import hashlib
import itertools
import json
import os
import random
import struct
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def png(colour):
    """A picture of 96 x 2 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(colour) * 96 for _ in range(2))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 96, 2, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture(i, path=None):
    return {"bytes": png((i * 40 % 256, 80, 200 - i)), "path": path}


# --- expected rows -------------------------------------------------------------------------------------

def is_picture(name, t, depth=0):
    if pa.types.is_struct(t):
        return [f.name for f in t] == ["bytes", "path"]
    return depth == 0 and pa.types.is_binary(t) and name.startswith("image")


def plain(value, t, pictures, name="", depth=0):
    """The value as JSON; pictures go into the list."""
    if value is None:
        return None
    if is_picture(name, t, depth):
        p = value if isinstance(value, dict) else {"bytes": value, "path": None}
        if p["bytes"] is not None or p["path"] is not None:
            digest = hashlib.sha256(p["bytes"]).hexdigest() if p["bytes"] is not None else ""
            pictures.append(digest + ":" + (p["path"] or ""))
        return None
    if pa.types.is_struct(t):
        return {f.name: plain(value[f.name], f.type, pictures, f.name, depth + 1) for f in t}
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [plain(v, t.value_type, pictures, "", depth + 1) for v in value]
    if pa.types.is_timestamp(t):
        return None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)
    return value


def save(name, table, **options):
    path = f"{out}/{name}.parquet"
    pq.write_table(table, path, **options)
    try:
        if not pq.read_table(path).equals(table):
            sys.exit(f"{path}: pyarrow does not read what it wrote")
    except pa.ArrowInvalid as e:  # pyarrow 26 does not read all lists of booleans that it writes
        print(f"{path}: pyarrow cannot read what it wrote: {e}")
    with open(f"{out}/{name}.jsonl", "w") as f:
        for row in table.to_pylist():
            pictures = []
            json_row = {c.name: plain(row[c.name], c.type, pictures, c.name) for c in table.schema}
            f.write(json.dumps({"row": json_row, "pictures": pictures}, ensure_ascii=False) + "\n")


def table(types, rows):
    schema = pa.schema(types)
    return pa.Table.from_pylist(rows, schema=schema)


# --- sets ------------------------------------------------------------------------------------------------

S, I = pa.string(), pa.int64()


def sets():
    # POPE in two shards, with Snappy and dictionaries, as the library `datasets` writes files.
    pope = [("0", "1", "Is there a red circle in the image?", "yes", "adversarial", picture(0)),
            ("1", "2", "Is there a dog in the image?", "no", "adversarial", picture(0)),
            ("2", "1", "Is there a blue square in the image?", "no", "popular", picture(1))]
    keys = ["id", "question_id", "question", "answer", "category", "image"]
    types = [(k, S) for k in keys[:5]] + [("image", PICTURE)]
    for i, part in enumerate([pope[:2], pope[2:]]):
        save(f"pope-{i:05d}-of-00002", table(types, [dict(zip(keys, r)) for r in part]))

    # MME: the question id names the picture and is the same for both of its questions.
    save("mme", table([("question_id", S), ("image", PICTURE), ("question", S), ("answer", S), ("category", S)],
                      [{"question_id": f"code_reasoning/{i // 2:04d}.png", "image": picture(i // 2),
                        "question": f"Is this {i}? Please answer yes or no.", "answer": "No" if i % 2 else "Yes",
                        "category": "code_reasoning"} for i in range(4)]), row_group_size=2)

    # MMMU: options as a Python list in a text, up to seven pictures; zstd.
    save("mmmu", table([("id", S), ("question", S), ("options", S), ("explanation", S), ("image_1", PICTURE),
                        ("image_2", PICTURE), ("image_3", PICTURE), ("answer", S), ("question_type", S), ("subfield", S)],
                       [{"id": "validation_Art_Theory_1", "question": "<image 2> beside <image 1>: which?",
                         "options": "['left', \"it's right\"]", "explanation": "", "image_1": picture(1),
                         "image_2": picture(2), "image_3": None, "answer": "B", "question_type": "multiple-choice",
                         "subfield": "Drawing"},
                        {"id": "validation_Math_2", "question": "<image 1> How much?", "options": "[]",
                         "explanation": None, "image_1": picture(3), "image_2": None, "image_3": None, "answer": "3.5",
                         "question_type": "open", "subfield": "Algebra"}]), compression="zstd")

    # MMMU-Pro: a picture has the number of its column, even if earlier columns are empty.
    save("mmmu_gap", table([("id", S), ("question", S), ("options", S), ("image_1", PICTURE), ("image_2", PICTURE),
                            ("image_3", PICTURE), ("answer", S), ("subject", S)],
                           [{"id": "test_Art_1", "question": "<image 3> or <image 1>, but <image 2>?", "options": "['left', 'right']",
                             "image_1": picture(4), "image_2": None, "image_3": picture(5), "answer": "B", "subject": "Art"},
                            {"id": "test_Art_2", "question": "<image 3>?", "options": "['left', 'right']", "image_1": picture(4),
                             "image_2": None, "image_3": picture(5), "answer": "A", "subject": "Art"}]))

    # ScienceQA: lists of choices, the index of the right one, rows without a picture; pages v2, no dictionary.
    save("scienceqa", table([("image", PICTURE), ("question", S), ("choices", pa.list_(S)), ("answer", pa.int8()),
                             ("hint", S), ("task", S), ("grade", S), ("subject", S)],
                            [{"image": picture(i) if i % 2 == 0 else None, "question": f"Which is {i}?",
                              "choices": ["one", "two", "three"][:2 + i % 2], "answer": i % 2, "hint": "Think." if i else "",
                              "task": "closed choice", "grade": "grade5", "subject": "natural science"} for i in range(5)]),
         row_group_size=2, use_dictionary=False, data_page_version="2.0")

    # VQAv2: answers of ten people, as a list of structs.
    answer = pa.struct([("answer", S), ("answer_confidence", S), ("answer_id", I)])
    save("vqav2", table([("question_type", S), ("multiple_choice_answer", S), ("answers", pa.list_(answer)),
                         ("image_id", I), ("answer_type", S), ("question_id", I), ("question", S), ("image", PICTURE)],
                        [{"question_type": "what", "multiple_choice_answer": "circle",
                          "answers": [{"answer": a, "answer_confidence": "yes", "answer_id": k + 1}
                                      for k, a in enumerate(["circle"] * (4 - i) + ["square"] * (6 + i))],
                          "image_id": i, "answer_type": "other", "question_id": 262148000 + i,
                          "question": f"What is {i}?", "image": picture(i, f"COCO_val2014_{i:012d}.jpg")}
                         for i in range(3)]))

    # SEED-Bench: a list of pictures; uncompressed.
    save("seed", table([("answer", S)] + [(f"choice_{c}", S) for c in "abcd"] +
                       [("data_id", S), ("data_type", S), ("image", pa.list_(PICTURE)), ("question", S),
                        ("question_id", S), ("question_type_id", pa.int16())],
                       [{"answer": "C", "choice_a": "x", "choice_b": "y", "choice_c": "z", "choice_d": "w",
                         "data_id": f"{i}", "data_type": "image", "image": [picture(k) for k in range(i)],
                         "question": "Which?", "question_id": str(101 + i), "question_type_id": i} for i in range(3)]),
         compression="none")

    # Captions, multiple choice without pictures.
    save("flickr30k", table([("image", PICTURE), ("caption", pa.list_(S)), ("sentids", pa.list_(S)), ("img_id", S),
                             ("filename", S)],
                            [{"image": picture(4, "36979.jpg"), "caption": ["three digits", "some digits"],
                              "sentids": ["0", "1"], "img_id": "7", "filename": "36979.jpg"}]))
    save("ai2d", table([("question", S), ("options", pa.list_(S)), ("answer", S), ("image", PICTURE)],
                       [{"question": "What eats?", "options": ["fox", "leaf", "sun", "rain"], "answer": "2",
                         "image": picture(5)}]))
    columns = [("question", S), ("subject", S), ("choices", pa.list_(S)), ("answer", I)]
    mmlu = table(columns, [{"question": "Find 1.", "subject": "abstract_algebra", "choices": ["0", "1", "2", "3"],
                            "answer": 1}])
    save("mmlu", mmlu)
    # MMLU with a file of examples, of which those of the same subject are used.
    os.makedirs(f"{out}/mmlu", exist_ok=True)
    pq.write_table(mmlu, f"{out}/mmlu/test-00000-of-00001.parquet")
    pq.write_table(table(columns, [{"question": f"What is {i}?", "subject": "anatomy" if i == 1 else "abstract_algebra",
                                    "choices": ["0", "1", "2", "3"], "answer": i % 4} for i in range(7)]),
                   f"{out}/mmlu/dev-00000-of-00001.parquet")
    save("hellaswag", table([("ind", pa.int32()), ("activity_label", S), ("ctx_a", S), ("ctx_b", S), ("ctx", S),
                             ("endings", pa.list_(S)), ("source_id", S), ("split", S), ("split_type", S), ("label", S)],
                            [{"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "A man is sitting on a roof.",
                              "ctx_b": "he", "ctx": "A man is sitting on a roof. he",
                              "endings": ["is using wrap.", "is ripping  tiles. [title] Next [step] he rests.",
                                          "is holding a cube.", "starts."],
                              "source_id": "activitynet~v_-JhWjGDPHMY", "split": "val", "split_type": "indomain",
                              "label": "3"}]))

    # Files that are refused by name.
    small = table([("question", S), ("answer", I)], [{"question": "q", "answer": 1}])
    for name, options in [("gzip", {"compression": "gzip"}),
                          ("delta", {"use_dictionary": False, "column_encoding": {"answer": "DELTA_BINARY_PACKED"}}),
                          ("nothing", {})]:
        one = small.rename_columns(["x", "y"]) if name == "nothing" else small
        pq.write_table(one, f"{out}/refused-{name}.parquet", **options)


# --- all types, encodings and sizes ----------------------------------------------------------------------

def times():
    # Spark writes times as INT96, which the reader leaves out.
    save("times", table([("q", S), ("at", pa.timestamp("ns"))], [{"q": str(i), "at": i * 86400 * 10**9} for i in range(3)]),
         use_deprecated_int96_timestamps=True)


def pages():
    # One page per row: more pages than the reader keeps decoded.
    save("pages", table([("q", S)], [{"q": str(i)} for i in range(300)]), compression="none", use_dictionary=False,
         data_page_size=1, write_batch_size=1, write_statistics=False, store_schema=False)
    # Several pages that refer to a larger dictionary.
    save("coded", table([("q", S)], [{"q": f"{i % 50} of a dictionary"} for i in range(300)]), compression="none",
         data_page_size=1, write_batch_size=16, write_statistics=False, store_schema=False)


def text(r):
    return "".join(r.choice("abc é→\n\"\\") for _ in range(r.choice([0, 1, 5, 30])))


def value(t, r, nulls):
    if r.random() < nulls:
        return None
    if pa.types.is_boolean(t):
        return r.random() < 0.3
    if pa.types.is_int64(t):
        return r.choice([0, -1, r.randrange(-2**63, 2**63), r.randrange(100)])
    if pa.types.is_integer(t):
        return r.randrange(-100, 100)
    if pa.types.is_floating(t):
        return r.choice([0.0, -1.5, r.randrange(-1000, 1000) / 8])
    if pa.types.is_string(t):
        return text(r)
    if pa.types.is_binary(t):
        return bytes(r.randrange(256) for _ in range(r.choice([0, 3, 40, 400])))
    if pa.types.is_list(t):
        return [value(t.value_type, r, nulls) for _ in range(r.choice([0, 1, 2, 7]))]
    return {f.name: value(f.type, r, nulls) for f in t}


def variety():
    r = random.Random(7)
    types = [("question", S), ("b", pa.bool_()), ("i", pa.int32()), ("l", I), ("f", pa.float32()), ("d", pa.float64()),
             ("s", S), ("image", PICTURE), ("image_2", pa.binary()), ("options", pa.list_(S)), ("numbers", pa.list_(I)),
             ("nested", pa.list_(pa.list_(S))), ("answers", pa.list_(pa.struct([("answer", S), ("id", I), ("tags", pa.list_(S))]))),
             ("meta", pa.struct([("a", pa.struct([("b", S), ("c", pa.list_(pa.float32()))])), ("n", pa.int8())])),
             ("images", pa.list_(PICTURE)), ("flags", pa.list_(pa.bool_()))]
    n = 0
    for compression, dictionary, version, page, group, nulls in itertools.product(
            ["none", "snappy", "zstd"], [True, False], ["1.0", "2.0"], [64, 4096, 2**20], [1, 7, 100, 1000], [0, 0.2, 0.9]):
        rows = r.choice([1, 8, 60, 250])
        t = table(types, [{k: value(v, r, nulls) for k, v in types} for _ in range(rows)])
        save(f"v{n:04d}", t, compression=compression, use_dictionary=dictionary, data_page_version=version,
             data_page_size=page, row_group_size=group, write_batch_size=r.choice([1, 5, 1024]),
             dictionary_pagesize_limit=r.choice([128, 2**20]), use_compliant_nested_type=r.random() < 0.5)
        n += 1


def large():
    """Several row groups, dictionaries that end within a column, many pages, nested lists, maps."""
    r = random.Random(11)
    words = [text(r) for _ in range(12)]

    def some(nulls):
        return None if r.random() < nulls else r.choice(words)

    def some_list(depth):
        return None if r.random() < 0.1 else [some_list(depth - 1) if depth else some(0.1)
                                              for _ in range(r.choice([0, 1, 2, 5]))]
    types = [("question", S), ("answer", I), ("options", pa.list_(S)), ("nested", pa.list_(pa.list_(pa.list_(S)))),
             ("map", pa.map_(S, I)), ("maps", pa.list_(pa.map_(S, pa.list_(S)))), ("deep", pa.map_(S, pa.map_(S, PICTURE))),
             ("image", PICTURE), ("flags", pa.list_(pa.bool_()))]
    for compression, dictionary, version, page, group in [
            ("snappy", True, "1.0", 2**20, 30), ("zstd", True, "2.0", 512, 40), ("snappy", False, "2.0", 256, 100),
            ("zstd", False, "1.0", 4096, 25), ("none", True, "2.0", 64, 50), ("snappy", True, "1.0", 128, 1000)]:
        rows = [{"question": some(0.05), "answer": r.choice([None, 1, r.randrange(-2**63, 2**63)]), "options": some_list(0),
                 "nested": some_list(2), "map": [(w, k) for k, w in enumerate(r.sample(words, r.choice([0, 1, 4])))],
                 "maps": [[(w, some_list(0)) for w in r.sample(words, r.choice([0, 2]))] for _ in range(r.choice([0, 1, 3]))],
                 "deep": [(some(0), [(some(0), picture(r.randrange(3)))]) for _ in range(r.choice([0, 0, 1]))],
                 "image": picture(i % 5) if i % 3 else None, "flags": [r.random() < 0.5 for _ in range(r.choice([0, 1, 9]))]}
                for i in range(100)]
        pq.write_table(table(types, rows), f"{out}/{compression}-{'words' if dictionary else 'plain'}-{version[0]}-{page}-{group}.parquet",
                       compression=compression, use_dictionary=dictionary, data_page_version=version, data_page_size=page,
                       row_group_size=group, write_batch_size=16, dictionary_pagesize_limit=300 if group == 30 else 2**20)


if sys.argv[2:] == ["variety"]:
    variety()
elif sys.argv[2:] == ["large"]:
    large()
else:
    sets()
    pages()
    times()
