"""Runs a program on its own terminal, types, and expects output.

    t = Terminal(["./vlmsh", "MODEL"])
    t.expect("> ")
    t.type("/help\\r")
    assert t.wait() == 0
"""
import codecs
import os
import pty
import re
import select
import signal
import struct
import fcntl
import sys
import termios
import time


class Terminal:
    def __init__(self, argv, env=None, size=(24, 100), pixels=(0, 0)):
        environment = dict(os.environ, TERM="xterm", INPUTRC="/dev/null", LC_ALL="C.UTF-8")
        environment.pop("NO_COLOR", None)
        environment.update(env or {})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
            os.execvpe(argv[0], argv, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, *pixels))
        os.set_blocking(self.fd, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.seen = ""  # output not yet matched by expect()
        self.all = ""
        self.typed = b""  # input not yet written

    def type(self, text, seconds=60):
        """Types the text and, as terminals do, reads output meanwhile: a program that waits for its
        output to be read does not read keys."""
        self.send(text)
        end = time.time() + seconds
        while self.typed:
            if not self.read(0.01):
                return  # the program has ended
            if time.time() > end:
                sys.exit("the program has not read its keys for %d seconds; the terminal showed:\n%s" % (seconds, self.all))

    def send(self, text):
        """Queues input, and writes as much of the queue as the program's terminal has room for."""
        self.typed += text.encode()
        try:
            self.typed = self.typed[os.write(self.fd, self.typed):]
        except BlockingIOError:
            pass

    def read(self, seconds):
        """Reads output for at most that many seconds, after writing queued input; False at the end."""
        if self.typed:
            self.send("")
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        text = self.decoder.decode(data)
        self.seen += text
        self.all += text
        return bool(data)

    def expect(self, pattern, seconds=30):
        """Waits for the regular expression and drops the output up to its end."""
        end = time.time() + seconds
        while True:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return found.group()
            if time.time() > end or not self.read(0.2):
                sys.exit("expected %r, the terminal showed:\n%s" % (pattern, self.all))

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=30):
        """Returns the exit status, or minus the number of the signal that ended the program."""
        end = time.time() + seconds
        while time.time() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0) and select.select([self.fd], [], [], 0.05)[0]:
                    pass  # reads the rest of the output
                return os.waitstatus_to_exitcode(status)
            if not self.read(0.05):
                time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit("the program does not end; the terminal showed:\n" + self.all)

    def ends(self):
        status = self.wait()
        check(status == 0, "ends with status %d, not 0; the terminal showed at last:\n%s" % (status, self.all[-2000:]))


def check(condition, what, terminal=None):
    if not condition:
        sys.exit("failed: %s\n%s" % (what, terminal.all if terminal else ""))
