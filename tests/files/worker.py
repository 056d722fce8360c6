"""A process that reads files which somebody changed; it tells of each what became of it.

It may take 300 MB more than it has once everything is imported, and a hook sees whatever Python
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

from tests.files.formats import FORMATS, changed
from weights.errors import WeightsError
from zoo.common.errors import ZooError

ROOM = 300 << 20

SECONDS = 5
"""For one file; whoever takes longer is ended by SIGALRM."""

NAMELESS = tempfile.gettempdir()
"""Where an archive is decompressed into a file without a name: the folder itself is opened."""

HARMLESS = ("object.", "marshal.", "sys._", "builtins.id", "os.listdir", "os.scandir", "gc.")


class Watch:
    """What ran while a file was read, though nothing may."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.seen is None or event.startswith(HARMLESS):
            return
        place, mode, _ = arguments if event == "open" else ("", "w", 0)
        nameless = place == NAMELESS
        if isinstance(mode, str) and set(mode) & set("wax+") and not nameless:
            self.seen.append(f"{event} {arguments!r}"[:200])


def judge(name: str, path: Path, watch: Watch) -> str:
    """`read`, `refused`, or what is wrong."""
    watch.seen = []
    try:
        FORMATS[name].read(path)
        outcome = "read"
    except (WeightsError, ZooError) as error:
        text = str(error)
        sentence = text.count("\n") == 0 and len(text) < 1000 and text.isprintable()
        outcome = "refused" if sentence else f"no sentence: {text[:500]!r}"
    except BaseException as error:  # whatever it is, it is what we look for
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__} in {where.name} ({where.filename}:{where.lineno})"
    ran, watch.seen = watch.seen, None
    return f"ran {ran[0]}" if ran else outcome


def main() -> None:
    name, *numbers, folder = sys.argv[1:]
    seed, first, count = map(int, numbers)
    place = Path(folder)
    seeds = {path.name: path.read_bytes() for path in sorted((place / "seeds").iterdir())}
    os.chdir(place)
    watch = Watch()
    sys.addaudithook(watch)
    for codec in ("cp437", "latin-1", "ascii", "unicode_escape", "raw_unicode_escape"):
        codecs.lookup(codec)
    for key in seeds:
        FORMATS[name].read(place / "seeds" / key)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for index in range(first, count):
        path = changed(name, f"{seed}/{index}", seeds, place)
        signal.alarm(SECONDS)
        outcome = judge(name, path, watch)
        signal.alarm(0)
        print(outcome, flush=True)


if __name__ == "__main__":
    main()
