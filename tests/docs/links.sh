# tests/docs/links.sh -- what the documents name is there: files and headings that they link to, files in code spans,
# functions of their call trees. And the README stays short.
set -eu
exec python3 - README.md CONTRIBUTING.md docs/*.md demo/README.md demo/report/README.md tests/*/README.md tests/*/*/README.md <<'END'
import glob, os, re, sys

wrong = 0

def complain(path, text):
    global wrong
    print("%s: %s" % (path, text))
    wrong += 1

def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)

def anchors(path):
    """What GitHub calls the headings of a document."""
    text = without_fences(open(path).read())
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")

def check_link(path, link):
    if re.match(r"[a-z]+:", link): return
    name, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(target): complain(path, "links to %s, which is not there" % link)
    elif anchor and anchor not in anchors(target): complain(path, "%s has no heading #%s" % (target, anchor))

def check_file(path, name):
    if "NAME" not in name and not glob.glob(name): complain(path, "names %s, which is not there" % name)

def check_call(path, line):
    name, file = line.split()[:2]
    code = open(file).read() if os.path.exists(file) else ""
    # A definition begins a line, and its brace one of the next.
    if not re.search(r"^[a-z][^;{}()=]*\b%s\([^;{}]*\)\n\{" % name, code, re.M):
        complain(path, "%s is not defined in %s" % (name, file))

for path in sys.argv[1:]:
    text = open(path).read()
    for link in re.findall(r"\]\(([^)\s]+)\)", without_fences(text)): check_link(path, link)
    for name in re.findall(r"`((?:core|kernels|commands|sessions|tui|tests|tools|demo|docs)/[\w./*-]*)`", text): check_file(path, name)
    for tree in re.findall(r"^```calls\n(.*?)^```$", text, re.M | re.S):
        for line in tree.splitlines(): check_call(path, line)
trees = [p for p in ("README.md", "docs/architecture.md") if "```calls\n" not in open(p).read()]
for path in trees: complain(path, "has no call tree")
lines = open("README.md").read().count("\n")
if lines > 300: complain("README.md", "%d lines, more than 300" % lines)
sys.exit(wrong > 0)
END
