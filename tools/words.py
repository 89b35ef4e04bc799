#!/usr/bin/env python3
"""tools/words.py [--count] FILE... -- words and constructions that readers stumbled over, in comments, messages and
documents. Each rule is a pattern and what to write instead; `make lint` fails on a match. A line that needs the word
says so: `words: ok`."""
import re, sys

RULES = [
    # names that have several meanings
    (r"\bsoften(s|ed|ing)?\b", "softmax, or exp_scores"),
    (r"\bobey(s|ed|ing)?\b", "applies, follows, is used"),
    (r"\bin vain\b", "without success, unused"),
    (r"\b(come|comes|came) near\b", "approaches, is close to"),
    (r"\bhand(s|ed|ing)? (it |them |this )?on\b", "passes, sends"),
    (r"\b(is|are|was|were|be) told\b", "is reported, is given, receives"),
    (r"\btells? (of|from)\b", "reports, distinguishes"),
    (r"\bheard\b", "received, noticed"),
    (r"\bplay(s|ed)? the GPU\b|\bplayed (GPU|host)s?\b|\bthat the host plays\b", "emulates"),
    # clauses used as nouns, inverted sentences
    (r"(//|/\*|\. )\s*(?-i:Of) (a|an|the|each|every|all|its|this|that|these|those|what|which)\b[^.]*,", "begin with the subject"),
    (r"\bnone's\b", "of none"),
    (r"(?<!there )\bis (?-i:none)\b(?! of)", "does not exist, is not one"),
    (r"\bthere (is|are) none\b", "none exists"),
    (r"\bwhat (stands|lies|comes|goes|is there(?!\?)|was there)\b", "name the thing"),
    (r"\b(that|which|it|they|one|file|folder) (stands?|stood) (in|at|there|behind|before|beside|on|under|here|for itself)\b", "is, exists, appears"),
    (r"\b(goes|go|went|going) on (where|with|behind|after|from|until|without|at)\b", "continues, resumes"),
    (r"\bit is said\b|\bis said (so|once|by name|aloud|of)\b", "a notice says"),
    (r"\bas it (was|is) there\b", "unchanged"),
    (r"\b(a|the) (former|later) one\b", "name it"),
    (r"\bno (\w+ )?is any more\b|\bis (none|not) any more\b", "no longer exists"),
    (r"\bby and by\b", "gradually"),
    (r"\bwhereof|whereby|wherefrom|thereof|therefrom\b", "of which, by which"), # words: ok
    (r"\b(one|those|these|that) of (others|another)\b", "another's"),
    (r"\bbegin(s)? anew\b", "starts again"),
    (r"\bat one go\b|\bin one go\b", "at once, in one step"),
    (r"\bmany a\b", "many"),
    (r"\bhas to be\b", "must be"),
    (r"\bblanks\b|\b(a|one|single|leading|trailing) blank\b(?! line| page| picture)", "space, white space"),
    (r"\bchang(e|es|ed|ing) sides\b", "flips, scores differ"),
    (r"\b(tak(e|es|en|ing)|took) (it |them |messages )?back\b", "removes, undoes"),
    (r"\bstands? for\b", "means, is short for, is replaced by, represents"),
    (r"(//|#) --- (what|how|that|which|where) ", "a noun: 'replacements', 'expected rows'"),
    (r"\b(nats|bytes|tokens|samples) an? (token|second|step|sample)\b(?!s)", "per token"),
    (r"\btrainings\b|\b(along|over) the training\b", "training runs, during training"),
    (r"\b(an)?other [a-z]+ than\b", "differs from, a different"),
    (r"\bin another (order|number|way)\b", "in a different order"),
    (r", also (after|during|for|from|with|under|across|those|one|in|if|when)\b", "even, including, and"),
    (r"\bclaims what\b", "states the effect"),
]
RULES = [(re.compile(p, re.I), p, w) for p, w in RULES]


def texts(path):
    """(line number, text) of comments and string literals of a source file; of all other files, every line."""
    lines = ["" if "words: ok" in line else line for line in open(path, errors="replace").read().split("\n")]
    if not path.endswith((".c", ".h", ".cu", ".cuh", ".cpp")):
        yield from enumerate(lines, 1)
        return
    block = False
    for number, line in enumerate(lines, 1):
        said = []
        if block or line.lstrip().startswith("/*"):
            said.append(line)
            block = "*/" not in line
        else:
            said += re.findall(r'"((?:[^"\\]|\\.)*)"', line) if not line.lstrip().startswith("#") else []
            bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
            if "//" in bare: said.append(bare[bare.index("//"):])
        for text in said: yield number, text


def main():
    count, found = {}, 0
    paths = [a for a in sys.argv[1:] if a != "--count"]
    for path in paths:
        for number, text in texts(path):
            for rule, pattern, instead in RULES:
                hit = rule.search(text)
                if not hit: continue
                found += 1
                count[pattern] = count.get(pattern, 0) + 1
                if "--count" not in sys.argv: print("%s:%d: '%s': write %s" % (path, number, hit.group(0).strip()[:60], instead))
    if "--count" in sys.argv:
        for pattern, n in sorted(count.items(), key=lambda c: -c[1]): print("%5d  %s" % (n, pattern))
    return found > 0


sys.exit(main())
