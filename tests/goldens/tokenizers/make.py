#!/usr/bin/env python3
"""Writes the small tokenizers of this folder and their vectors, as the reference libraries give them.

    pip install sentencepiece==0.2.3 tiktoken==0.14.0 tokenizers==0.23.3
    python3 tests/goldens/tokenizers/make.py          # from the root; the corpus is README.md

The files in the repository were made once; README.md and the trainers change, so a new run
gives different files that are equally good.
"""
import base64
import io
import json
import os
import random
import tempfile

import sentencepiece
import tiktoken
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
SENTENCES = ["你好，世界。今天天气很好。", "東京は日本の首都です。カタカナ", "Привет, мир! Как дела?", "مرحبا بالعالم",
             "héllo wörld café naïve", "😀 👍🏽 👩‍👩‍👧", "x=y+1; for(int i=0;i<10;i++){ a[i]=0; }"]
LINES = [line for line in open("README.md").read().split("\n") if line.strip()] + 6 * SENTENCES
SYMBOLS = ["<sep>", "foo", "▁bar", "naïve", "ab", "bcd"]
PARTS = SYMBOLS + ["<s>", "</s>", "<unk>", "<ctl>", "▁", " ", "  ", "    ", "\n", "\t", "\r\n", "\u3000", "\u00a0", "\u200b",
                   "\ufeff", "é", "e\u0301", "ﬁ", "①", "Ａ", "ｶﾞ", "😀", "👍🏽", "👩‍👩‍👧", "a b", "abcd", "<0x41>", "\x01", "\x7f", "\u0301",
                   "12", "2024", "你好", "।", "\U00010348", "½", "…", "İ", "각", "=", "---", "Hello world", "don't", "I'LL"]
# A part of nmt_nfkc: white space, full width, ligatures, composition.
RULES = {"\t": " ", "\n": " ", "\r": " ", "\u3000": " ", "\u00a0": " ", "\u200b": "", "\ufeff": "", "\x7f": "", "ﬁ": "fi", "①": "1",
         "…": "...", "½": "1⁄2", "e\u0301": "é", "ｶﾞ": "ガ", "ｶ": "カ", "Ａ": "A"}
KIMI = ("[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}"
        "\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def texts(seed, count=60):
    r = random.Random(seed)
    joined = " ".join(LINES)
    for n in range(count):
        out = []
        for _ in range(r.choice([0, 1, 2, 4, 8, 12]) if n else 0):
            at = r.randrange(len(joined))
            out.append(r.choice(PARTS) * r.choice([1, 1, 1, 3]) if r.random() < .6 else joined[at:at + r.randrange(1, 20)])
        yield "".join(out)


def write(folder, name, data):
    os.makedirs(f"{HERE}/{folder}", exist_ok=True)
    with open(f"{HERE}/{folder}/{name}", "wb") as f:
        f.write(data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode() + b"\n")


def vectors(folder, size, encode, decode, seed, hidden=()):
    """`hidden`: ids that SentencePiece decodes to nothing, but vlmsh, like transformers, shows."""
    r = random.Random(seed)
    cases = [{"text": t, "ids": encode(t), "decoded": decode(encode(t))} for t in texts(seed)]
    for n in range(40):
        ids = [r.randrange(3, min(size, 259) if n % 2 else size) for _ in range(r.randrange(1, 16))]
        ids = [i for i in ids if i not in hidden]
        cases.append({"ids": ids, "decoded": decode(ids).replace("\0", "\ufffd")})
    lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    write(folder, "vectors.json", f"[\n{lines}\n]\n".encode())


def piece_model(folder, config, change=None, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, minloglevel=2, num_threads=1, **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    if change:
        change(proto)
    write(folder, "tokenizer.model", proto.SerializeToString())
    write(folder, "tokenizer_config.json", config)
    p = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    control = {i for i in range(p.get_piece_size()) if p.is_control(i)}
    vectors(folder, p.get_piece_size(), p.encode, p.decode, len(folder), control)
    return proto


def some_unused(proto):
    for piece in proto.pieces[300:600:7]:
        piece.type = 5


def special(*texts_, first):
    return {str(first + i): {"content": t, "special": True, "normalized": False} for i, t in enumerate(texts_)}


def ranks():
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(KIMI), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte = {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in kept)}
    found = {bytes(byte[c] for c in text): rank for text, rank in t.get_vocab().items()}
    added = special("[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", first=900)
    write("kimi", "tiktoken.model", b"".join(base64.b64encode(k) + b" %d\n" % i for k, i in sorted(found.items(), key=lambda x: x[1])))
    write("kimi", "tokenizer_config.json", {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "added_tokens_decoder": added})
    e = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=found, special_tokens={a["content"]: int(i) for i, a in added.items()})
    vectors("kimi", 900, lambda text: e.encode(text, disallowed_special=()), e.decode, 1)


def unigram_json(proto):
    t = tokenizers.Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], 2, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                                         normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens(["<pad>", "</s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    write("t5-json", "tokenizer.json", t.to_str().encode())
    vectors("t5-json", len(proto.pieces), lambda text: t.encode(text, add_special_tokens=False).ids,
            lambda ids: t.decode(ids, skip_special_tokens=False), 2)


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False) as f:
        for source, target in RULES.items():
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    rules = {"normalization_rule_tsv": f.name}
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    llama = special("<unk>", "<s>", "</s>", first=0) | special("<|im_start|>", "<|im_end|>", "<image>", first=900)
    piece_model("llama", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "added_tokens_decoder": llama}, model_type="bpe",
                vocab_size=900, byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True, character_coverage=.98,
                user_defined_symbols=SYMBOLS, control_symbols=["<ctl>"], **plain)
    piece_model("bpe-rules", {"legacy": False}, some_unused, model_type="bpe", vocab_size=900, character_coverage=.98,
                treat_whitespace_as_suffix=True, hard_vocab_limit=False, **rules)
    t5 = piece_model("t5", {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>"}, model_type="unigram", vocab_size=600, pad_id=0, eos_id=1,
                     unk_id=2, bos_id=-1, user_defined_symbols=SYMBOLS, control_symbols=["<ctl>"], hard_vocab_limit=False, **rules)
    piece_model("unigram-bytes", {"tokenizer_class": "LlamaTokenizer"}, some_unused, model_type="unigram", vocab_size=900,
                byte_fallback=True, add_dummy_prefix=False, unk_surface="??", hard_vocab_limit=False, character_coverage=.98, **plain)
    ranks()
    unigram_json(t5)


if __name__ == "__main__":
    main()
