"""Random commands in a folder that another process changes, and the rules after each command."""

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
from tests.siege.rules import Printed, find_wrong_endings
from tests.siege.things import NAMES, OUTSIDE, THINGS
from tests.siege.world import HERE, Run, State, create_world, read_state

LIMITS_BY_SCARCITY = {
    "few files may be open": ((resource.RLIMIT_NOFILE, 12),),
    "files may be short": ((resource.RLIMIT_FSIZE, 20_000),),
    "no more memory": ((resource.RLIMIT_AS, 700 << 20),),
    "little memory": ((resource.RLIMIT_AS, 2100 << 20),),
}

PLACES = ("new", "out", "out/deeper", "built", "built/vit_digits", "a.onnx", "b.png", "c.pth", "d")
"""Few paths at which commands read and write and things are put, so that they collide."""


@dataclass(frozen=True)
class Step:
    """A command, and how it is stopped or limited.

    `action` stops it at its system call number `at`, or never if that is 0. `scarcity` names a
    limit.
    """

    door: str
    path: str
    options: tuple[str, ...] = ()
    action: str = "SIGKILL"
    at: int = 0
    scarcity: str = ""

    @property
    def words(self) -> list[str]:
        """The arguments of the command."""
        return [*DOORS[self.door].words(self.path), *self.options]

    @property
    def targets(self) -> tuple[str, ...]:
        """The paths that the command is to write."""
        new = [word for word in DOORS[self.door].words("") if word.startswith("new")]
        return (*new, *((self.path,) if DOORS[self.door].writes else ()))

    def __str__(self) -> str:
        what = f" {self.action} at {self.at}" if self.at else ""
        return f"zoo {shlex.join(self.words)}{what} {self.scarcity}".strip()


@dataclass
class Siege:
    """A world and the history of its commands."""

    place: Path
    run: Run
    random: Random
    written_files: set[str] = field(default_factory=set)
    """Files that commands wrote. All others are the user's."""
    history: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Exit statuses of the last commands."""

    def step(self) -> Iterator[str]:
        """Take a random step. Yield the broken rules."""
        draw = self.random.random()
        if draw < 0.25:
            self.put_thing()
        elif draw < 0.35:
            self.edit_file()
        elif draw < 0.45:
            yield from self.run_together([self.draw_step(), self.draw_step()])
        else:
            yield from self.run_alone(self.draw_step())

    def draw_step(self) -> Step:
        """Draw a command, which in most cases is neither stopped nor limited."""
        random = self.random
        door = random.choice(list(DOORS))
        path = random.choice(PLACES if random.random() < 0.9 else tuple(NAMES.values()))
        path += DOORS[door].suffix if random.random() < 0.5 and "." not in path else ""
        if random.random() < 0.3:
            path = DOORS[door].sound
        force = _command(door) in COMMANDS_WITH_FORCE and random.random() < 0.4
        options = ("--force",) * force + ("--json",) * (random.random() < 0.2)
        if random.random() < 0.25:
            return Step(door, path, options, random.choice(list(STOPPED)), random.randint(1, 40))
        scarcity = random.choice(list(LIMITS_BY_SCARCITY)) if random.random() < 0.1 else ""
        return Step(door, path, options, scarcity=scarcity)

    def put_thing(self) -> None:
        """Put a thing of the user at a free path."""
        name = self.random.choice(PLACES) + self.random.choice(("", "", ".png", ".onnx"))
        path, thing = self.place / HERE / name, self.random.choice(list(THINGS))
        if os.path.lexists(path) or not path.parent.is_dir() or path.parent.is_symlink():
            return
        if os.access(path.parent, os.W_OK):
            THINGS[thing](path)
            self.history.append(f"put {thing} at {name}")

    def edit_file(self) -> None:
        """Change a bit of a file that a command wrote."""
        paths = [path for path in sorted(self.written_files) if (self.place / path).is_file()]
        path = self.place / self.random.choice(paths)
        content = bytearray(path.read_bytes())
        if content and not path.is_symlink():
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            path.write_bytes(content)
            self.history.append(f"edit {path.relative_to(self.place)}")

    def run_alone(self, step: Step) -> Iterator[str]:
        """Run a command. If it was stopped, the next run has to end as in a copy of the world."""
        undisturbed = replace(step, at=0)
        expected = self.run_in_copy(undisturbed) if step.at else 0
        yield from self.run_together([step])
        if step.at and self.statuses[0] == STOPPED[step.action]:
            yield from self.run_together([undisturbed])
            exists = any("exists already" in text for text in Printed.of(self.output(0)))
            if self.statuses[0] != expected and not exists:
                yield f"{undisturbed}: ends with {self.statuses[0]}, and not with {expected}"

    def run_together(self, steps: Sequence[Step]) -> Iterator[str]:
        """Run commands at the same time. Yield the broken rules."""
        before = read_state(self.place)
        with ThreadPoolExecutor(len(steps)) as pool:
            outcomes = list(pool.map(self.run_step, steps, range(len(steps))))
        after = read_state(self.place)
        self.statuses = [outcome.status for outcome in outcomes]
        self.history.append(" & ".join(map(str, steps)))
        for index, (step, outcome) in enumerate(zip(steps, outcomes, strict=True)):
            printed = Printed.of(self.output(index))
            for fault in find_wrong_endings(self.excuse_stop(step, outcome), printed):
                yield f"{step}: {fault} {printed.err.strip().splitlines()[-1:]}"
        yield from self.find_wrong_changes(steps, before, after)
        yield from self.find_wrong_manifests(after)

    def run_in_copy(self, step: Step) -> int:
        """Run a command in a copy of the world. Return its exit status."""
        with tempfile.TemporaryDirectory(dir=self.place.parent) as folder:
            place = Path(folder) / self.place.name
            subprocess.run(["cp", "-a", self.place, place], check=True)
            return Siege(place, self.run, self.random).run_step(step, 0).status

    def output(self, index: int) -> Path:
        """The beginning of the paths of the printed text of a command."""
        return self.place.with_name(f"{self.place.name}-said{index}")

    def run_step(self, step: Step, index: int) -> Outcome:
        """Run a command in this world."""
        limits = LIMITS_BY_SCARCITY.get(step.scarcity, ())
        where = str(self.place / HERE), step.words, step.action, step.at, str(self.output(index))
        return self.run(Order(*where, limits, 120))

    def excuse_stop(self, step: Step, outcome: Outcome) -> Outcome:
        """Return the outcome with status 0 if the command was stopped by its step."""
        stopped = step.at and outcome.status == STOPPED[step.action]
        return outcome._replace(status=0) if stopped else outcome

    def find_wrong_changes(
        self, steps: Sequence[Step], before: State, after: State
    ) -> Iterator[str]:
        """Yield new paths that are no targets, and changed files that no command of these wrote."""
        targets = [f"{HERE}/{target}" for step in steps for target in step.targets]
        ancestors = {
            str(ancestor)
            for target in targets
            for ancestor in (Path(target), *Path(target).parents)
        }
        linked = any(before.get(ancestor) == f"link ../{OUTSIDE}" for ancestor in ancestors)
        by_force = [step for step in steps if "--force" in step.options]
        forced = [f"{HERE}/{target}" for step in by_force for target in step.targets]
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old == new or (new == "d" and old is None) or (old == "d" and new is None):
                continue
            if path.startswith(f"{OUTSIDE}/") and linked and (old is None or forced):
                continue  # the named folder is a link to the outside
            if old is None:
                self.written_files.add(path)
                if not any(_belongs_to(path, target) for target in targets):
                    yield f"{path} is new"
            elif path not in self.written_files and not any(
                _below(path, target) for target in forced
            ):
                yield f"{path} was {old[:12]}, and is {(new or 'missing')[:12]}"
            elif not any(_belongs_to(path, target) for target in targets):
                yield f"{path} of another command was {old[:12]}, and is {(new or 'missing')[:12]}"
            if path.endswith("executed"):
                yield f"{path} was run"

    def find_wrong_manifests(self, after: State) -> Iterator[str]:
        """Yield files that differ from a manifest. Commands wrote both, and neither was edited."""
        edited = {line.partition(" ")[2] for line in self.history if line.startswith("edit ")}
        for path in self.written_files - edited:
            if not path.endswith("manifest.json") or "/." in path or path not in after:
                continue
            folder = Path(path).parent
            for item in json.loads((self.place / path).read_text()).get("files", ()):
                name = str(folder / item["name"])
                file = self.place / name
                if name not in self.written_files or name in edited or not file.is_file():
                    continue
                if sha256(file.read_bytes()).hexdigest() != item["sha256"]:
                    yield f"{name} is not the file that {path} lists"


def _command(door: str) -> str:
    return " ".join(door.split()[:-1])


COMMANDS_WITH_FORCE = ("export", "show", "pull", "build", "site", "golden", "weights convert")
"""Commands with the option `--force`."""


def _below(path: str, target: str) -> bool:
    return path == target or path.startswith(f"{target}/")


def _belongs_to(path: str, target: str) -> bool:
    """Return whether a path is a target, is below it, belongs to it, or is a temporary file."""
    name = Path(path).name
    hidden = "/.zoo-" in path or (name.startswith(".") and name.endswith((".lock", ".part")))
    stem = target.removesuffix(".onnx")
    sidecar = path in (f"{stem}.manifest.json", f"{target}_data")
    return _below(path, target) or sidecar or hidden or name.startswith("vit_digits-opset")


def run_random_commands(run: Run, template: Path, place: Path, seed: str, steps: int) -> Siege:
    """Create a world and take steps in it, until one breaks a rule."""
    place.mkdir()
    built = create_world(template, place) / "built"
    written = {str(path.relative_to(place)) for path in built.rglob("*")}
    written |= {f"{HERE}/{name}" for name in ("good.onnx", "good.manifest.json", "digits.eqx")}
    siege = Siege(place, run, Random(seed), written)
    for _ in range(steps):
        faults = list(siege.step())
        if faults:
            siege.history += [f"    WRONG: {fault}" for fault in faults]
            break
    return siege
