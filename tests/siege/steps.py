"""Random commands on a folder that somebody else works in too, and what must hold after each."""

import json
import os
import resource
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random

from tests.killed import STOPPED, Order, Outcome
from tests.siege.doors import DOORS
from tests.siege.rules import Said, wrong_words
from tests.siege.things import NAMES, OUTSIDE, THINGS
from tests.siege.world import HERE, Run, State, fresh, state

SCARCE = {
    "few files may be open": ((resource.RLIMIT_NOFILE, 12),),
    "files may be short": ((resource.RLIMIT_FSIZE, 20_000),),
    "no more memory": ((resource.RLIMIT_AS, 700 << 20),),
    "little memory": ((resource.RLIMIT_AS, 2100 << 20),),
}

PLACES = ("new", "out", "out/deeper", "built", "built/vit_digits", "a.onnx", "b.png", "c.pth", "d")
"""Where commands write and read, and things are put, so that they meet."""


@dataclass(frozen=True)
class Step:
    """A command, and what happens to it."""

    door: str
    path: str
    options: tuple[str, ...] = ()
    action: str = "SIGKILL"
    at: int = 0
    scarce: str = ""

    @property
    def words(self) -> list[str]:
        return [*DOORS[self.door].words(self.path), *self.options]

    @property
    def targets(self) -> tuple[str, ...]:
        """Where the command was told to write."""
        new = [word for word in DOORS[self.door].words("") if word.startswith("new")]
        return (*new, *((self.path,) if DOORS[self.door].writes else ()))

    def __str__(self) -> str:
        what = f" {self.action} at {self.at}" if self.at else ""
        return f"zoo {shlex.join(self.words)}{what} {self.scarce}".strip()


@dataclass
class Siege:
    """One world, from its first step to its last."""

    place: Path
    run: Run
    random: Random
    ours: set[str] = field(default_factory=set)
    """Files that commands made. All others are somebody's."""
    history: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """How the last commands ended."""

    def step(self) -> Iterator[str]:
        """Do something; says what is wrong after it."""
        act = self.random.random()
        if act < 0.25:
            self.put()
        elif act < 0.35:
            self.edit()
        elif act < 0.45:
            yield from self.obey([self.drawn(), self.drawn()])
        else:
            yield from self.alone(self.drawn())

    def drawn(self) -> Step:
        """Any command, mostly undisturbed."""
        random = self.random
        door = random.choice(list(DOORS))
        path = random.choice(PLACES if random.random() < 0.9 else tuple(NAMES.values()))
        path += DOORS[door].suffix if random.random() < 0.5 and "." not in path else ""
        if random.random() < 0.3:
            path = DOORS[door].sound
        force = _command(door) in FORCED and random.random() < 0.4
        options = ("--force",) * force + ("--json",) * (random.random() < 0.2)
        if random.random() < 0.25:
            return Step(door, path, options, random.choice(list(STOPPED)), random.randint(1, 40))
        scarce = random.choice(list(SCARCE)) if random.random() < 0.1 else ""
        return Step(door, path, options, scarce=scarce)

    def put(self) -> None:
        """Somebody puts a thing in a place that is free."""
        name = self.random.choice(PLACES) + self.random.choice(("", "", ".png", ".onnx"))
        path, thing = self.place / HERE / name, self.random.choice(list(THINGS))
        if os.path.lexists(path) or not path.parent.is_dir() or path.parent.is_symlink():
            return
        if os.access(path.parent, os.W_OK):
            THINGS[thing](path)
            self.history.append(f"put {thing} at {name}")

    def edit(self) -> None:
        """Somebody changes a byte of a file that a command made."""
        found = [path for path in sorted(self.ours) if (self.place / path).is_file()]
        path = self.place / self.random.choice(found)
        content = bytearray(path.read_bytes())
        if content and not path.is_symlink():
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            path.write_bytes(content)
            self.history.append(f"edit {path.relative_to(self.place)}")

    def alone(self, step: Step) -> Iterator[str]:
        """Run a command. If it is stopped, the next run ends as if that had never been."""
        undisturbed = replace(step, at=0)
        wanted = self.elsewhere(undisturbed) if step.at else 0
        yield from self.obey([step])
        if step.at and self.statuses[0] == STOPPED[step.action]:
            yield from self.obey([undisturbed])
            exists = any("exists already" in text for text in Said.of(self.output(0)))
            if self.statuses[0] != wanted and not exists:
                yield f"{undisturbed}: ends with {self.statuses[0]}, and not with {wanted}"

    def obey(self, steps: Sequence[Step]) -> Iterator[str]:
        """Run commands at once."""
        before = state(self.place)
        with ThreadPoolExecutor(len(steps)) as pool:
            outcomes = list(pool.map(self.ordered, steps, range(len(steps))))
        after = state(self.place)
        self.statuses = [outcome.status for outcome in outcomes]
        self.history.append(" & ".join(map(str, steps)))
        for index, (step, outcome) in enumerate(zip(steps, outcomes, strict=True)):
            said = Said.of(self.output(index))
            for wrong in wrong_words(self.excused(step, outcome), said):
                yield f"{step}: {wrong} {said.err.strip().splitlines()[-1:]}"
        yield from self.changes(steps, before, after)
        yield from self.halves(after)

    def elsewhere(self, step: Step) -> int:
        """How a command ends in a copy of the world."""
        with tempfile.TemporaryDirectory(dir=self.place.parent) as folder:
            place = Path(folder) / self.place.name
            subprocess.run(["cp", "-a", self.place, place], check=True)
            return Siege(place, self.run, self.random).ordered(step, 0).status

    def output(self, index: int) -> Path:
        return self.place.with_name(f"{self.place.name}-said{index}")

    def ordered(self, step: Step, index: int) -> Outcome:
        limits = SCARCE.get(step.scarce, ())
        where = str(self.place / HERE), step.words, step.action, step.at, str(self.output(index))
        return self.run(Order(*where, limits, 120))

    def excused(self, step: Step, outcome: Outcome) -> Outcome:
        """A command that was stopped ends as such."""
        stopped = step.at and outcome.status == STOPPED[step.action]
        return outcome._replace(status=0) if stopped else outcome

    def changes(self, steps: Sequence[Step], before: State, after: State) -> Iterator[str]:
        """Only what a command was told to write is new, and only its own files are others."""
        targets = [f"{HERE}/{target}" for step in steps for target in step.targets]
        ways = {str(way) for target in targets for way in (Path(target), *Path(target).parents)}
        linked = any(before.get(way) == f"link ../{OUTSIDE}" for way in ways)
        by_force = [step for step in steps if "--force" in step.options]
        forced = [f"{HERE}/{target}" for step in by_force for target in step.targets]
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old == new or (new == "d" and old is None) or (old == "d" and new is None):
                continue
            if path.startswith(f"{OUTSIDE}/") and linked and (old is None or forced):
                continue  # the folder that was named is a link there
            if old is None:
                self.ours.add(path)
                if not any(_beside(path, target) for target in targets):
                    yield f"{path} is new"
            elif path not in self.ours and not any(_below(path, target) for target in forced):
                yield f"{path} was {old[:12]}, and is {(new or 'gone')[:12]}"
            elif not any(_beside(path, target) for target in targets):
                yield f"{path} of another command was {old[:12]}, and is {(new or 'gone')[:12]}"
            if path.endswith("executed"):
                yield f"{path} was run"

    def halves(self, after: State) -> Iterator[str]:
        """A manifest that a command wrote, and nobody edited since, is of the files beside it."""
        edited = {line.partition(" ")[2] for line in self.history if line.startswith("edit ")}
        for path in self.ours - edited:
            if not path.endswith("manifest.json") or "/." in path or path not in after:
                continue
            folder = Path(path).parent
            for item in json.loads((self.place / path).read_text()).get("files", ()):
                each = str(folder / item["name"])
                found = self.place / each
                if each not in self.ours or each in edited or not found.is_file():
                    continue
                if sha256(found.read_bytes()).hexdigest() != item["sha256"]:
                    yield f"{each} is not what {path} says"


def _command(door: str) -> str:
    return " ".join(door.split()[:-1])


FORCED = ("export", "show", "pull", "build", "site", "golden", "weights convert")
"""Commands that have `--force`."""


def _below(path: str, target: str) -> bool:
    return path == target or path.startswith(f"{target}/")


def _beside(path: str, target: str) -> bool:
    """Whether a path is a target, is below it, or is a hidden file of the work on it."""
    name = Path(path).name
    hidden = "/.zoo-" in path or (name.startswith(".") and name.endswith((".lock", ".part")))
    stem = target.removesuffix(".onnx")
    sidecar = path in (f"{stem}.manifest.json", f"{target}_data")
    return _below(path, target) or sidecar or hidden or name.startswith("vit_digits-opset")


def besieged(run: Run, template: Path, place: Path, seed: str, steps: int) -> Siege:
    """A world after so many steps, or after the first that something is wrong with."""
    place.mkdir()
    built = fresh(template, place) / "built"
    made = {str(path.relative_to(place)) for path in built.rglob("*")}
    made |= {f"{HERE}/{name}" for name in ("good.onnx", "good.manifest.json", "digits.eqx")}
    siege = Siege(place, run, Random(seed), made)
    for _ in range(steps):
        found = list(siege.step())
        if found:
            siege.history += [f"    WRONG: {each}" for each in found]
            break
    return siege
