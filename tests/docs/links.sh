# tests/docs/links.sh -- names in the documents exist: linked files and headings, files in code spans, functions
# of call trees and their callers. The drawing of rooms matches the sources, and the README stays short.
set -eu
exec python3 - README.md CONTRIBUTING.md docs/*.md core/*/README.md demo/README.md demo/report/README.md tests/*/README.md tests/*/*/README.md <<'END'
import glob, os, re, subprocess, sys

wrong = 0

def complain(path, text):
    global wrong
    print("%s: %s" % (path, text))
    wrong += 1

def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)

def anchors(path):
    """The anchors that GitHub gives the headings of a document."""
    text = without_fences(open(path).read())
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")

def check_link(path, link):
    if re.match(r"[a-z]+:", link): return
    name, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(target): complain(path, "links to %s, which does not exist" % link)
    elif anchor and anchor not in anchors(target): complain(path, "%s has no heading #%s" % (target, anchor))

def check_file(path, name):
    if "NAME" not in name and not glob.glob(name): complain(path, "names %s, which does not exist" % name)

def definition(path, name, file):
    """The body of a function whose definition begins a line, and whose opening brace is a line of its own."""
    code = open(file).read() if os.path.exists(file) else ""
    found = re.search(r"^[a-z][^;{}()=]*\b%s\([^;{}]*\)\n\{(.*?)^\}" % name, code, re.M | re.S)
    if not found: complain(path, "%s is not defined in %s" % (name, file))
    return found.group(1) if found else ""

def edges(path, tree):
    """For each line of a tree, the function above it, the function, and whether it is called by pointer. Checks the definitions."""
    above = []
    for line in tree.splitlines():
        depth, (name, file) = len(line) - len(line.lstrip()), line.split()[:2]
        while above and above[-1][0] >= depth: above.pop()
        body = definition(path, name.rstrip("*"), file)
        yield (above[-1][1:] if above else None), name.rstrip("*"), name.endswith("*")
        above.append((depth, name.rstrip("*"), body))

def check_calls(path, tree, whole):
    """A complete tree names each call; other trees may leave out steps."""
    for caller, name, pointer in edges(path, tree):
        if not whole and caller and caller[0] not in ancestors.get(name, []):
            complain(path, "%s is not below %s in docs/architecture.md" % (name, caller[0]))
        if not whole: continue
        if caller and not pointer and not re.search(r"\b%s\b" % name, caller[1]):
            complain(path, "%s does not call %s" % (caller[0], name))
        ancestors.setdefault(name, set()).update({caller[0]} | ancestors[caller[0]] if caller else ())

ancestors = {} # callers of each function in the complete call trees

def trees(path):
    return re.findall(r"^```calls\n(.*?)^```$", open(path).read(), re.M | re.S)

for path in ("docs/architecture.md", "README.md"):
    if not trees(path): complain(path, "has no call tree")
    for tree in trees(path): check_calls(path, tree, path != "README.md")

for path in sys.argv[1:]:
    text = open(path).read()
    for link in re.findall(r"\]\(([^)\s]+)\)", without_fences(text)): check_link(path, link)
    for name in re.findall(r"`((?:core|kernels|commands|sessions|tui|tests|tools|demo|docs)/[\w./*-]*)`", text): check_file(path, name)
for name, stated in re.findall(r"`([\w./]+\.c)`\s\((\d+)\)", open("docs/architecture.md").read()):
    now = sum(1 for line in open(name) if line.strip()) if os.path.exists(name) else 0
    if abs(now - int(stated)) > 0.1 * now: complain("docs/architecture.md", "%s has %d lines, not %s" % (name, now, stated))
if subprocess.call([sys.executable, "tools/rooms_drawing.py", "--check"]): wrong += 1
lines = open("README.md").read().count("\n")
if lines > 300: complain("README.md", "%d lines, more than 300" % lines)
sys.exit(wrong > 0)
END
