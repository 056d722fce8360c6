"""How far the work has come, and where its time went."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

from weights.progress import Progress
from zoo.apps.embed.part_files import PartFormat
from zoo.apps.embed.work_folder import ShardNote, WorkFolder
from zoo.common.progress import is_terminal

PAUSE, SHOWN = 10.0, 0.5
"""Seconds between two lines of a log, and between two states of a bar."""


class Tally:
    """Counts the pictures of a run, and says how many are left."""

    def __init__(self, work: WorkFolder, how: PartFormat, progress: Progress):
        self.work, self.how, self.progress = work, how, progress
        self.shards, self.pictures = work.totals.shards, work.totals.pictures
        self.done = self.computed = self.shards_done = self.shards_before = 0
        self.seconds: Counter[str] = Counter()
        self.pause = SHOWN if is_terminal(sys.stderr) else PAUSE
        self.lock, self.process = threading.Lock(), time.process_time()
        self.began = self.told = time.monotonic()

    def left(self) -> Iterator[tuple[int, int]]:
        """The shards that are not done, and where they are in the list."""
        for index, offset in self.work.shards():
            if (note := self.work.note(index, self.how)) is None:
                yield index, offset
                continue
            with self.lock:
                self.shards_done, self.shards_before = self.shards_done + 1, self.shards_before + 1
                self.done += note.rows + len(note.errors)

    def count(self, pictures: int, fresh: int) -> None:
        """Count so many more as done, of which some were embedded."""
        with self.lock:
            self.done, self.computed = self.done + pictures, self.computed + fresh
            now = time.monotonic()
            if now - self.told < self.pause:
                return
            self.told = now
        self.progress.stage(self._text(now - self.began))

    def finish(self, note: ShardNote) -> None:
        """A shard is done, whose pictures were counted."""
        with self.lock:
            self.shards_done += 1
            self.seconds.update(note.seconds)

    def cores(self, wall: float, here: bool) -> float:
        """How many were busy, on average: by this process, or as its workers tell."""
        busy = time.process_time() - self.process if here else self.seconds.total()
        return busy / wall

    def _text(self, seconds: float) -> str:
        rate = self.computed / seconds
        speed = f", {rate:,.1f} a second" if rate else ""
        of = ends = ""
        if self.pictures is not None:
            of = f" of {self.pictures:,}"
            ends = f", {_span((self.pictures - self.done) / rate)} left" if rate else ""
        elif fresh := self.shards_done - self.shards_before:
            ends = f", {_span((self.shards - self.shards_done) * seconds / fresh)} left"
        return f"{self.done:,}{of} pictures{speed}{ends}"


def _span(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:,.1f} h"
