"""letters.py -- the suites' rules for letters, short texts and captions, written down a second time for
held.py: from their documentation and published behaviour, not from core/metrics/.
"""
import math
import re
import string
from collections import Counter

LETTERS = string.ascii_uppercase
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
           "NaN", "None", "n/a", "nan", "null"}


# --- one letter ----------------------------------------------------------------------------------------

def ai2d(answer):
    dotted = re.match(r"\s*([A-Z])\.", answer)
    return dotted[1] if dotted else "".join(c for c in answer.strip() if c not in string.punctuation).upper()


def seed(answer):
    return answer.strip()[:1].upper()


def vlmevalkit(answer, choices):
    """{letter: text} -> letter, Z for a refusal, None."""
    answer = "nan" if answer in MISSING else answer  # as VLMEvalKit's table reads it
    if any(words in answer for words in ("Sorry, I can't help with images of people yet.", "I can't process this file.",
                                         "I'm sorry, but without the image provided", "Cannot determine the answer")):
        return "Z"
    said = re.sub(r"[.()\[\],:;!*#{}]", " ", answer).split()
    named = [l for l in choices if l in said]
    if len(named) == 1 and len(said) - said.index(named[0]) < 5:
        return named[0]
    if not named and "Z" in said:
        return "Z"
    told = re.search(r"(?i)answer\s+is\s+\**([a-d])", answer)
    if told and told[1].upper() in choices:
        return told[1].upper()
    lower = answer.lower()
    within = [l for l, text in choices.items() if str(text).lower() in lower]
    return within[0] if len(within) == 1 and len(lower) <= 2 * sum(len(str(t)) for t in choices.values()) else None


PHRASES = ["the answer is", "answer is", "correct answer is", "best answer is", "correct option is", "best option is", "choice is",
           "correct choice is", "i choose", "i select", "i pick", "옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは"]


def mmstar(answer):
    """The best of (rank, place, letter)."""
    text = answer.strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    bare, text, found = text.strip(), f" {text} ", []
    for letter in "ABCD":
        for rank, form in ((6, "({})"), (5, "{}."), (4, "{}:"), (3, "{})"), (2, "{} ")):
            found.append((rank, text.rfind(form.format(letter)), letter))
        for phrase in PHRASES:
            at = text.lower().find(phrase)
            if at >= 0:
                found.append((7, text.find(letter, at + len(phrase)), letter))
        if re.match(letter + r"(?![^\W\d_])", bare):
            found.append((10, 0, letter))
        if re.search(r"(?<![^\W\d_])" + letter + r"\Z", bare):
            found.append((9, len(text) - 1, letter))
    found = [f for f in found if f[1] >= 0] or [(0, text.rfind(l), l) for l in "ABCD" if l in text]
    best = max((f[:2] for f in found), default=None)
    return next((l for r, p, l in found if (r, p) == best), None)


# --- MMMU ------------------------------------------------------------------------------------------------

def mmmu_letter(answer, choices):
    answer = answer.strip()
    for mark in ",.!?;:'":
        answer = answer.strip(mark)
    text = f" {answer} "
    for form, last in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        named = [l for l in choices if form.format(l) in text]
        if named:
            return max(named, key=lambda l: (text.rfind(last.format(l)), -named.index(l))) if len(named) > 1 else named[0]
    named = [l for l, t in choices.items() if t.lower() in text.lower()] if len(text.split()) > 5 else []
    return max(named, key=lambda l: (text.lower().rfind(choices[l].lower()), -named.index(l))) if named else None


def normal(text):
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        text = text.lower()
        return [" " + text, text + " "] if len(text) == 1 else [text]


NUMBER = [r"-?\b\d{1,3}(?:,\d{3})+\b", r"-?\d+(?:\.\d+)?[eE][+-]?\d+", r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"]


def mmmu_open(answer, right):
    whole = answer.strip().strip(".").lower()
    parts, keys = whole.split("\n"), []
    for n, part in enumerate(parts):
        marks = ["could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result "] + ["="] * (n == len(parts) - 1)
        ends = [part.rsplit(m, 1)[1].strip() for m in marks if m in part]
        # an empty ending is skipped, whatever its length
        key = None
        for end in ends:
            key = end if not key or len(end) < len(key) else key
        if key and key not in (":", ",", ".", "!", "?", ";", "'"):
            keys.append(key)
    keys = keys or [whole]
    said = [x for k in keys for x in normal(k)] + [x for k in keys for p in NUMBER for n in re.findall(p, k) for x in normal(n)]
    wanted = [x for r in right for x in normal(r)]
    return any(w in s if isinstance(s, str) and isinstance(w, str) else isinstance(s, float) and isinstance(w, float) and s == w
               for s in said for w in wanted)


# --- texts -----------------------------------------------------------------------------------------------

def narrow(text):
    return "".join(chr(ord(c) - 0xFEE0) if "！" <= c <= "～" else " " if c == "　" else c for c in text)


def ocrbench(answer, texts, kind, fold):
    if kind == "Handwritten Mathematical Expression Recognition":
        squeeze = lambda t: t.strip().replace("\n", "").replace(" ", "")
        return any(squeeze(t) in squeeze(answer) for t in texts)
    if fold:
        answer, texts = narrow(answer.strip()), map(narrow, texts)
    flat = lambda t: t.lower().strip().replace("\n", " ")
    return any(flat(t) in flat(answer) for t in texts)


def grams(text):
    w = text.split()
    return Counter(tuple(w[i:i + n]) for n in range(1, 5) for i in range(len(w) - n + 1))


def cider(captions, people):
    """CIDEr-D (Vedantam et al. 2015) of each caption, with sigma 6."""
    seen = Counter(g for p in people for g in set().union(*map(grams, p)))
    scores = []

    def vector(text):
        v = {g: f * (math.log(len(people)) - math.log(max(1, seen[g]))) for g, f in grams(text).items()}
        return v, [math.sqrt(sum(x * x for g, x in v.items() if len(g) == n)) for n in range(1, 5)], max(0, len(text.split()) - 1)
    for caption, p in zip(captions, people):
        v, norm, length = vector(caption)
        total = 0
        for r in map(vector, p):
            dots = [0.0] * 4
            for g, x in v.items():
                dots[len(g) - 1] += min(x, r[0].get(g, 0)) * r[0].get(g, 0)
            close = math.exp(-((length - r[2]) ** 2) / 72)
            total += sum(dots[n] / (norm[n] * r[1][n] if norm[n] and r[1][n] else 1) for n in range(4)) * close
        scores.append(10 * total / 4 / len(p))
    return scores
