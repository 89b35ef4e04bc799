"""Runs the examples of documents and compares their output with the documents.

    VLMSH=PROGRAM examples.py DOCUMENT...     UPDATE=1 writes the output into the documents

Examples are fences, run in order, each document in a folder of its own (its /tmp):

    ```console            "$ LINE" is given to bash; "> LINE" is typed at the prompt of the vlmsh that
                          the "$" line before it started; what follows each is what it prints
    ```console varies     the same, but numbers and drawings are not compared
    ```console WORD       not run: gpu, cluster, network, long (more than a minute), by-hand
    ```text /tmp/FILE     becomes that file

A line "..." matches any lines. Words and whole numbers must be equal; other numbers may differ by 3%,
times and dates freely (MASKS). A command must end with 0, unless `$ echo $?` follows.
"""
import difflib, os, re, shutil, subprocess, sys, tempfile
from terminal import Terminal

NOT_RUN = {"gpu", "cluster", "network", "long", "by-hand"}
NOT_EXAMPLES = {"text", "calls"}
PROMPT = r"(?:\[[^\]\n]*\] )?vlmsh[^\n>]*> "
MASKS = [
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "DATE"),
    (r"\bcpu \([^)]*\)", "cpu"),  # its instructions and threads
    (r"\b(arithmetic|in) +(bf16|f32)\b( \(compute[^)]*\))?", r"\1 ARITHMETIC"),
    (r"\b\d+(\.\d+)?(e-?\d+)?/s\b", "N/s"),
    (r"\b\d+(\.\d+)?(e-?\d+)? (s|ms|per second|MB are free)\b", r"N \3"),
    (r'("\w+_s"):[\d.e+-]+', r"\1:N"),
    (r", \d+ of \d+ drafts accepted", ""),  # the number of drafts depends on the instruction set, too
    (r'("drafted"|"accepted"):\d+', r"\1:N"),
    (r"^(\w+ s) .*", r"\1 N"),  # a table row of times
    (r"─+", "─"),
    (r"\s+", " "),
]
UPDATE = os.environ.get("UPDATE") == "1"
# Jobs run at normal priority because the machine may be busy; f32 because processors round bf16
# differently. Scripts read no configuration: if rounding affects their output, they set this
# themselves.
CONFIG = "/set job.nice 0\n/set compute.matmul f32\n"
BROKEN = 8  # lines of the terminal that a line may take
COLUMNS = 100
CONFIG_SAYS = {"job.nice = 0", "compute.matmul = f32"}


class Full(str):
    """A line of the terminal on which the next line's first word had no place: it may continue there."""


def masked(line):
    for pattern, text in MASKS:
        line = re.sub(pattern, text, line.rstrip())
    return line


def same_line(a, b, varies):
    if varies: a, b = (re.sub(r"^([ \d.]*)[|+][ *o.-]*$", r"\1|", x) for x in (a, b))  # a line of a text plot
    number = r"((?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
    a, b = re.split(number, masked(a)), re.split(number, masked(b))
    if len(a) != len(b) or a[::2] != b[::2]: return False
    return all(same_number(x, y, varies) for x, y in zip(a[1::2], b[1::2]))


def same_number(a, b, varies):
    if a == b or varies: return True
    if re.fullmatch(r"-?\d+", a) and re.fullmatch(r"-?\d+", b): return False
    a, b = float(a), float(b)
    return abs(a - b) <= 0.03 * max(abs(a), abs(b)) + 1e-4


def same(want, got, varies):
    """True if the lines match; "..." in want matches any lines."""
    if not want: return not got
    if want[0] == "...": return any(same(want[1:], got[i:], varies) for i in range(len(got) + 1))
    if not got: return False
    if same_line(want[0], got[0], varies) and same(want[1:], got[1:], varies): return True
    # vlmsh breaks lines that are longer than the terminal's between words; documents have them whole.
    line = got[0]
    for i, more in enumerate(got[1:BROKEN], 1):
        if not isinstance(got[i - 1], Full): break
        line += ("" if line.endswith("-") else " ") + more.lstrip()
        if same_line(want[0], line, varies) and same(want[1:], got[i + 1:], varies): return True
    return False


def shortened(want, got):
    """got, shortened with "..." where want has it: keeps its beginning, its end, and in between the lines most like want's."""
    parts, place, out = [[]], 0, []
    for line in want:
        if line == "...": parts.append([])
        else: parts[-1].append(line)
    for i, part in enumerate(parts):
        last = max(place, len(got) - len(part))
        alike = lambda at: difflib.SequenceMatcher(None, got[at:at + len(part)], part).ratio()
        if i and i == len(parts) - 1: place = last
        elif i: place = max(range(place, last + 1), key=alike)
        out += ["..."] * (i > 0) + got[place:place + len(part)]
        place += len(part)
    return out if i else got


class Shell:
    """The place in which one document's examples run: the repository's demo, and a folder for /tmp."""

    def __init__(self, root, program):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.work = os.path.join(self.folder, "tmp")
        self.home = os.path.join(self.folder, "home")
        self.here = os.path.join(self.folder, "here")
        for folder in (self.work, self.home, self.here): os.mkdir(folder)
        shutil.copy(program, os.path.join(self.here, "vlmsh"))
        shutil.copytree(os.path.join(root, "demo"), os.path.join(self.here, "demo"))
        inputrc = os.path.join(self.folder, "inputrc")
        with open(inputrc, "w") as file:
            file.write("set horizontal-scroll-mode on\nset enable-bracketed-paste off\n")
        self.env = dict(os.environ, HOME=self.home, TMPDIR=self.work, TERM="dumb", INPUTRC=inputrc, NO_COLOR="1")
        config = os.path.join(self.home, ".config/vlmsh")
        os.makedirs(config)
        with open(os.path.join(config, "config"), "w") as file: file.write(CONFIG)
        # The documents' placeholders for folders of this machine.
        self.names = [(self.work + "/", "/tmp/"), (self.home, "~"), (self.here + "/", ""), (root + "/", "")]
        self.prompt, self.status = None, 0

    def outside(self, text):
        return text.replace("/tmp/", self.work + "/")

    def lines(self, text):
        return [self.named(line) for line in text.replace("\r\n", "\n").split("\n")]

    def named(self, line):
        for path, name in self.names: line = line.replace(path, name)
        return shown(line)

    def run(self, command):
        """The command's output, as lines; keeps its exit status."""
        self.end()
        done = subprocess.run(["bash", "-c", "(exit %d); %s" % (self.status, self.outside(command))], cwd=self.here,
                              env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=300)
        self.status = done.returncode
        return trimmed(self.lines(done.stdout.decode("utf-8", "replace")))

    def start(self, command):
        """Starts an interactive vlmsh; returns its output before the first prompt."""
        self.end()
        os.chdir(self.here)
        self.prompt = Terminal(["bash", "-c", "exec " + self.outside(command)], self.env, (40, COLUMNS))
        return [line for line in self.answer() if line not in CONFIG_SAYS]

    def type(self, line):
        self.prompt.type(self.outside(line) + "\r")
        self.prompt.expect(r"[^\n]*\n")  # the echo of the typed line
        if line in ("/quit", "/exit"): return self.end()
        return self.answer()

    def answer(self):
        text = self.prompt.expect(r"(?s)\A(.*\n)?" + PROMPT + r"\Z", 300)
        text = re.sub(PROMPT + r"\Z", "", text).replace("\r\n", "\n")
        lines, wide = self.lines(text), [shown(line) for line in text.split("\n")]
        for i, (line, more) in enumerate(zip(wide, wide[1:])):
            if more and len(line) + len(first_word(more)) >= COLUMNS: lines[i] = Full(lines[i])
        return trimmed(lines)

    def end(self):
        if self.prompt:
            self.prompt.type("\x04")
            self.status = self.prompt.wait()
            self.prompt = None
        return []

    def close(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True) # mpirun may still be removing files of its own


def shown(line):
    return re.sub(r".*\r", "", line.rstrip())


def first_word(line):
    """The start of a line up to the first place where vlmsh may break it: not between a number and its unit."""
    return re.match(r" *(\S*\d (s|ms|min|h|MB|GB|MiB|GiB|tok/s)\b|[^\W\d_]{2,}-(?=[^\W\d_]{2})|\S*)", line).group().lstrip()


def trimmed(lines):
    while lines and not lines[-1]: lines.pop()
    return lines


def fences(lines):
    """(words after ```, first line, line of the closing fence) of each fence."""
    start = None
    for i, line in enumerate(lines):
        if not line.startswith("```"): continue
        if start is None:
            start = i
        else:
            yield lines[start][3:].split(), start + 1, i
            start = None


def commands(lines, first, end):
    """[sign, command, line of the document, expected output] of a fence."""
    found = []
    for i in range(first, end):
        line = lines[i]
        if found and found[-1][0] == "$" and found[-1][1].endswith("\\") and not found[-1][3]:
            found[-1][1] += "\n" + line
        elif line[:2] in ("$ ", "> "):
            found.append([line[0], line[2:], i, []])
        elif found:
            found[-1][3].append(line)
        else:
            sys.exit("line %d: output before a command" % (i + 1))
    return found


class Document:
    def __init__(self, path):
        self.path = path
        with open(path) as file: self.lines = file.read().split("\n")
        self.wrong = 0
        self.changes = []  # (first line, end, new lines)

    def complain(self, line, text):
        print("%s:%d: %s" % (self.path, line + 1, text))
        self.wrong += 1

    def examples(self):
        """[varies, sign, command, line, expected output] of all commands to run, in order."""
        found = []
        for words, first, end in fences(self.lines):
            kind = words[0] if words else ""
            if kind == "text" and len(words) > 1:
                found.append([False, "file", words[1], first, self.lines[first:end]])
            elif kind != "console" and kind not in NOT_EXAMPLES:
                self.complain(first - 1, "what is in this fence? (tests/docs/examples.py)")
            elif kind == "console" and not NOT_RUN & set(words):
                if set(words) - {"console", "varies"}: self.complain(first - 1, "unknown word")
                found += [["varies" in words] + c for c in commands(self.lines, first, end)]
        return found

    def check(self, shell):
        todo = self.examples()
        for i, (varies, sign, command, line, want) in enumerate(todo):
            following = todo[i + 1] if i + 1 < len(todo) else [0, "", ""]
            if sign == "file":
                with open(shell.outside(command), "w") as file: file.write(shell.outside("\n".join(want + [""])))
                continue
            if sign == "$" and following[1] == ">": got = shell.start(command)
            elif sign == "$": got = shell.run(command)
            else: got = shell.type(command)
            if sign == "$" and shell.status and not shell.prompt and following[2] != "echo $?":
                self.complain(line, "exit status %d: %s" % (shell.status, command))
            anew = UPDATE and varies
            if anew or not same(want, got, varies): self.differs(line, command, want, got)

    def differs(self, line, command, want, got):
        first = line + 1 + command.count("\n")
        self.changes.append((first, first + len(want), shortened(want, got)))
        if UPDATE: return
        self.complain(line, "'%s' prints\n%s" % (command, "\n".join("    | " + l for l in got)))
        print("  not\n" + "\n".join("    | " + l for l in want))

    def update(self):
        for first, end, lines in reversed(self.changes): self.lines[first:end] = lines
        with open(self.path, "w") as file: file.write("\n".join(self.lines))


def main():
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"): os.environ.pop(name, None)
    root = os.getcwd()
    program = os.path.realpath(os.environ["VLMSH"])
    wrong = 0
    for path in sys.argv[1:]:
        document = Document(os.path.join(root, path))
        shell = Shell(root, program)
        try:
            document.check(shell)
        finally:
            shell.close()
        if UPDATE: document.update()
        wrong += document.wrong
    sys.exit(wrong > 0)


main()
