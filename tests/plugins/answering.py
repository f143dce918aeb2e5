"""A child process for tests: does to itself what it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from medn.core.child import Answer, serve


def work(message: bytes, answer: Answer) -> None:
    what = message.decode()
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    elif what == "print":
        sys.stdout.write("noise\n")
        sys.stdout.flush()
    elif what == "read":
        sys.stdin.read()
    elif what == "fork" and os.fork() == 0:
        answer(b"from the copy")
    elif what == "leave a process and die":
        if os.fork() == 0:  # it holds the pipe of the answers open
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "start a process":
        process = subprocess.Popen(["sleep", "600"])
        answer(str(process.pid).encode())
        return
    answer(message)


if __name__ == "__main__":
    serve(work)
