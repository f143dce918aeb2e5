"""The first program on a device: says what is there, takes medn's code if it is not, and runs the agent.

Its text is handed to `python3 -c` there. It imports nothing but the standard library and keeps to what old versions of
Python understand, so that they can be told from new ones by an answer instead of a failure.
"""

import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import zipfile

GREETING = "medn-agent "
OLD_VERSIONS_KEPT = 3


def cache_folder() -> str:
    """Where things are kept on this device; a folder of our own, in which nobody else can put code."""
    given = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for folder in (os.path.join(given, "medn"), os.path.join(tempfile.gettempdir(), "medn-%d" % os.getuid())):  # noqa: UP031
        try:
            os.makedirs(os.path.join(folder, "code"), 0o700, exist_ok=True)
        except OSError:
            continue
        if os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK):
            return folder
    return tempfile.mkdtemp(prefix="medn-")


def unpack(content: bytes, folder: str) -> None:
    """All of it or nothing: the folder that bears the hash of its content is complete."""
    beside = tempfile.mkdtemp(prefix="part-", dir=os.path.dirname(folder))
    try:
        zipfile.ZipFile(io.BytesIO(content)).extractall(beside)
        if not os.path.isdir(folder):
            os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def drop_old(folder: str) -> None:
    """Keep the newest versions of the code only."""
    others = [os.path.join(folder, name) for name in os.listdir(folder)]
    others.sort(key=os.path.getmtime, reverse=True)
    for path in others[1 + OLD_VERSIONS_KEPT :]:
        shutil.rmtree(path, ignore_errors=True)


def main(wanted: str) -> None:
    cache = cache_folder()
    folder = os.path.join(cache, "code", wanted)
    libraries = os.path.join(cache, "libraries", "%s-%d.%d" % ((platform.machine(),) + sys.version_info[:2]))  # noqa: UP031, RUF005
    if os.path.isdir(libraries):
        sys.path.insert(1, libraries)
    greeting = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "system": platform.system(),
        "libc": list(platform.libc_ver()),
        "numpy": importlib.util.find_spec("numpy") is not None,
        "pip": importlib.util.find_spec("pip") is not None,
        "has_code": os.path.isdir(folder),
        "libraries": libraries,
    }
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(("\n" + GREETING + json.dumps(greeting) + "\n").encode())
    answers.flush()
    while True:
        line = requests.readline()
        if not line:
            return
        head = json.loads(line.decode())
        content = requests.read(head.get("bytes", 0))
        if content and hashlib.sha256(content).hexdigest() != head["sha256"]:
            sys.exit("what was sent arrived otherwise")
        if head["do"] == "code":
            unpack(content, folder)
            drop_old(os.path.dirname(folder))
        elif head["do"] == "libraries":
            os.makedirs(libraries, exist_ok=True)
            zipfile.ZipFile(io.BytesIO(content)).extractall(libraries)
            answers.write(b'{"unpacked": true}\n')
            answers.flush()
        elif head["do"] == "run":
            break
    os.environ.update(head["environment"])
    sys.path[0] = folder  # in place of the folder that this program was started in
    from medn.remote.agent import main as run_agent

    run_agent(requests, cache)


if __name__ == "__main__":
    main(sys.argv[1])
