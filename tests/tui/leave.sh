# tests/tui/leave.sh -- the user can always leave the full screen, whatever the compute thread does; a
# fault in any thread restores the terminal; --threads applies to the compute thread.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH MODEL=tests/goldens/llava-1.5 ASAN_OPTIONS=handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0
export PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS
python3 - <<'END_OF_PYTHON'
import ctypes, os, re, signal, sys, termios, time
from terminal import Terminal, check

program, model = os.environ["VLMSH"], os.environ["MODEL"]
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, WALL, TGKILL = 0x4206, 0x4207, 0x40000000, 234 if os.uname().machine == "x86_64" else 131

def start(*more, model=[model]):
    t = Terminal([program, *model, *more], env={"TERM": "xterm-256color"}, size=(36, 120))
    t.expect("Type a question", 60)
    return t

def threads(t):
    tasks = {}
    for task in os.listdir("/proc/%d/task" % t.pid):
        tasks[open("/proc/%d/task/%s/comm" % (t.pid, task)).read().strip()] = int(task)
    return tasks

frozen = []

# Stops this thread, as a system call that never returns would; the others run.
def freeze(t, name):
    thread = threads(t)[name]
    for request in (SEIZE, INTERRUPT):
        if libc.ptrace(request, thread, None, None) < 0:
            sys.exit("cannot stop a thread: " + os.strerror(ctypes.get_errno()))
    os.waitpid(thread, WALL)
    frozen.append(thread)

def ends_anyhow(t):
    t.read(0.5)
    while frozen:  # the system reports the program's end only after that
        t.read(0.2)
        try:
            if os.waitpid(frozen[0], WALL | os.WNOHANG)[0]: frozen.pop()
        except ChildProcessError:
            frozen.pop()
    return t.wait(30)

def ends(t, status):
    got = ends_anyhow(t)
    check(got == status, "it ends with %d, not %d" % (got, status), t)
    check("\x1b[?1049l" in t.all, "the terminal is given back", t)

def answer():
    t = start()
    t.type("/set sample.ignore_eos on\r/set ctx.max 1000000\r/set sample.max_tokens 1000000\r")
    t.expect("max_tokens = 1000000")
    t.type("a slow question\r")
    t.expect("tok/s")
    return t

# True if the screen still shows typed text.
def lives(t):
    t.seen = ""
    t.type("q")
    end = time.time() + 5
    while "q" not in t.seen and time.time() < end: t.read(0.1)
    t.type("\x15")
    return "q" in t.seen

def hang():
    for attempt in range(5):
        t = answer()
        freeze(t, "worker")
        if lives(t): return t
        # The thread was stopped inside an allocation and holds its lock.
        t.signal(signal.SIGKILL)
        ends_anyhow(t)
    sys.exit("the screen stops whenever the worker does")

t = hang()
t.type("\x03")
t.expect("stopping")
t.type("\x03")
t.expect("again to quit")
t.type("\x03")
ends(t, 130)
for way in "/quit\r", "\x04", "\x1b[21~":
    t = hang()
    t.type(way)
    t.expect("quitting")
    ends(t, 130)
t = start()
t.type("/q\u00d3/x\r/quit9 now\r") # these are not commands
t.expect("did you mean '/quit'")
t.type("\x1b[21~")
ends(t, 0)
t = start()
freeze(t, "previewer") # a picture that cannot be read
t.type("/quit\r")
ends(t, 130)

# After SIGSTOP, which cannot be caught, the program finds the terminal's modes changed by the
# shell.
t = start()
t.signal(signal.SIGSTOP)
modes = termios.tcgetattr(t.fd)
modes[3] |= termios.ECHO | termios.ICANON
termios.tcsetattr(t.fd, termios.TCSANOW, modes)
t.seen = ""
t.signal(signal.SIGCONT)
t.expect("Type a question")
check(not termios.tcgetattr(t.fd)[3] & termios.ECHO, "the terminal echoes", t)
t.type("\x04")
ends(t, 0)
# xterm sends Alt as Esc only on request, so the program requests it; it saves the shell's modes
# once.
check(re.findall(r"\x1b\[\?1036([shr])", t.all) == list("shhr"), "Alt as Esc", t)

# Waiting lines do not delay leaving.
t = answer()
t.type("/version\r/quit\r")
ends(t, 0)

for name in "worker", "watcher", "previewer", "lister":
    t = start()
    libc.syscall(TGKILL, t.pid, threads(t)[name], int(signal.SIGSEGV))
    ends(t, -signal.SIGSEGV)

# Whatever signal except SIGKILL ends the program (from schedulers, limits, timers or debuggers), no
# mode stays on.
def left_on(t):
    on = {}
    for modes, how in re.findall(r"\x1b\[\?([0-9;]+)([hlr])", t.all): # r: restored
        for mode in modes.split(";"): on[mode] = how == "h"
    return sorted(mode for mode in on if on[mode] and mode not in ("7", "12", "25"))

orderly = signal.SIGHUP, signal.SIGTERM
harmless = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGTSTP,
            signal.SIGTTIN, signal.SIGTTOU, signal.SIGSTOP, signal.SIGKILL,
            signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ) # handled or ignored
others = [s for s in signal.valid_signals() if s not in harmless]
for front, numbers in ([], others), (["--plain"], [signal.SIGQUIT, signal.SIGUSR1, signal.SIGSEGV]):
    for number in numbers:
        t = start(*front)
        if front: t.expect(r"\x1b\[\?2004hvlmsh llava-1\.5> ")
        t.signal(number)
        status = t.wait()
        what = "signal %d %s" % (number, front)
        expected = {signal.SIGBUS: -signal.SIGABRT, signal.SIGALRM: 130}.get(number, -number)
        check(status == (128 + number if number in orderly else expected), "%s: %d" % (what, status), t)
        check(left_on(t) == [], "%s leaves on: %s" % (what, left_on(t)), t)
        if number not in orderly:
            check("\x1b[?2004l" in t.all[t.all.rindex("\x1b[?2004h"):], what + ": paste mode", t)

t = start("--threads", "5", model=[]) # the demo's matrices are large enough for threads
t.type("/set sample.max_tokens 3\r")
t.expect("max_tokens = 3")
t.type("What is this?\r")
t.expect("3 tokens", 60)
count = len(os.listdir("/proc/%d/task" % t.pid))
check(count == 5 + 5, "%d threads with --threads 5: this one, five of the screen's, four of its own" % count)
t.type("\x04")
ends(t, 0)
END_OF_PYTHON
