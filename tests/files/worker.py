"""A program that reads changed files and prints the outcome of each.

The process may take 300 MB more than after its imports. An audit hook observes whatever Python
imports, compiles, runs or writes.
"""

import codecs
import os
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from tests.files.formats import FORMATS, write_changed_file
from weights.errors import WeightsError
from zoo.common.errors import ZooError

MEMORY_BYTES = 300 << 20

SECONDS = 5
"""The time for one file. After it, SIGALRM ends the process."""

NAMELESS = tempfile.gettempdir()
"""The folder in which archives are decompressed into files without a name. Opening such a file
reports the folder."""

HARMLESS = ("object.", "marshal.", "sys._", "builtins.id", "os.listdir", "os.scandir", "gc.")


class AuditHook:
    """An audit hook that records the forbidden events while a file is read."""

    def __init__(self) -> None:
        self.events: list[str] | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.events is None or event.startswith(HARMLESS):
            return
        path, mode, _ = arguments if event == "open" else ("", "w", 0)
        is_nameless_file = path == NAMELESS
        if isinstance(mode, str) and set(mode) & set("wax+") and not is_nameless_file:
            self.events.append(f"{event} {arguments!r}"[:200])


def read_file(name: str, path: Path, hook: AuditHook) -> str:
    """Read a file. Return `read`, `refused`, or the fault."""
    hook.events = []
    try:
        FORMATS[name].read(path)
        outcome = "read"
    except (WeightsError, ZooError) as error:
        text = str(error)
        is_sentence = text.count("\n") == 0 and len(text) < 1000 and text.isprintable()
        outcome = "refused" if is_sentence else f"no sentence: {text[:500]!r}"
    except BaseException as error:  # any other exception is a fault
        frame = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__} in {frame.name} ({frame.filename}:{frame.lineno})"
    events, hook.events = hook.events, None
    return f"ran {events[0]}" if events else outcome


def main() -> None:
    name, *numbers, folder_name = sys.argv[1:]
    seed, first, count = map(int, numbers)
    folder = Path(folder_name)
    seeds = {path.name: path.read_bytes() for path in sorted((folder / "seeds").iterdir())}
    os.chdir(folder)
    hook = AuditHook()
    sys.addaudithook(hook)
    for codec in ("cp437", "latin-1", "ascii", "unicode_escape", "raw_unicode_escape"):
        codecs.lookup(codec)
    for key in seeds:
        FORMATS[name].read(folder / "seeds" / key)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for index in range(first, count):
        path = write_changed_file(name, f"{seed}/{index}", seeds, folder)
        signal.alarm(SECONDS)
        outcome = read_file(name, path, hook)
        signal.alarm(0)
        print(outcome, flush=True)


if __name__ == "__main__":
    main()
