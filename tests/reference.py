"""The pages of the reference: every public name of a package, those that people need first.

`python -m tests.reference` writes them from signatures and docstrings, as Markdown that a hub shows
as the site does.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

FIRST = {
    "converter": ("to_onnx", "Export", "Report", "explain", "check", "Verdict", "bisect", "save"),
    "zoo": ("from_pretrained", "to_onnx", "preprocess", "load", "VisionModel", "list_models"),
    "weights": ("load_weights", "open_checkpoint", "Checkpoint"),
}
"""What stands before the other names, which follow by the alphabet."""

BRIEF = {
    "converter": "From a JAX function to an ONNX file: `to_onnx` and `Export` come first.",
    "zoo": "Networks with their weights, as modules of JAX and as files.",
    "weights": "Checkpoints of others as values for models.",
}
LONGEST, WIDTH = 60, 88
"""Characters of a value that is shown, and of a call on one line."""


def page(package: str) -> str:
    """One package."""
    module = import_module(package)
    names = [name for name in module.__all__ if name != "__version__"]
    ordered = [*FIRST[package], *sorted(set(names) - {*FIRST[package]}, key=str.casefold)]
    links = ", ".join(f"[`{name}`](#{name.lower()})" for name in ordered)
    parts = [f"# {package}", BRIEF[package], f"On this page: {links}."]
    found = vars(module) | {name: getattr(module, name) for name in names}
    for name in ordered:
        parts += described(f"{package}.{name}", name, found[name], "##")
    return "\n\n".join(parts) + "\n"


def described(path: str, title: str, thing: Any, level: str) -> Iterator[str]:
    """A heading, the signature, the parameters as a table, and what the docstring says."""
    yield f"{level} {title}"
    thing = inspect.unwrap(thing)  # of a cache
    if inspect.isclass(thing):
        yield from of_class(path, thing, level)
    elif inspect.isfunction(thing):
        text, told = parted(inspect.getdoc(thing) or "")
        first, _, rest = text.partition("\n\n")
        yield first
        yield f"```python\n{signature(path, thing)}\n```"
        yield from parameters(thing, told)
        if rest:
            yield rest
    else:
        shown = re.sub(r"\s+", " ", repr(thing))
        yield f"`{shown if len(shown) <= LONGEST else shown[:LONGEST] + ' …'}`"


def of_class(path: str, thing: type, level: str) -> Iterator[str]:
    """A class: its text, its fields, and its public methods and properties."""
    yield parted(inspect.getdoc(thing) or "")[0]
    fields = {n: t for n, t in inspect.get_annotations(thing).items() if not n.startswith("_")}
    if fields:
        yield table(["field", "type"], [[f"`{name}`", kind(of)] for name, of in fields.items()])
    for name, member in vars(thing).items():
        inner = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
            if isinstance(member, property):
                yield f"**`{name}`**: {parted(inspect.getdoc(inner) or '')[0]}"
            else:
                yield from described(f"{path.rpartition('.')[2]}.{name}", name, inner, level + "#")


def signature(path: str, function: Any) -> str:
    """The call with its defaults, on several lines where it is long; types are in the table."""
    given = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for name, each in given.parameters.items()
        if name != "self"
    ]
    bare = given.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    bare = re.sub(r"<(?:function|class) '?([\w.<>]+?)'?(?: at \w+)?>", r"\1", str(bare))
    bare = bare.replace("'", '"')
    line = f"{path}{bare}"
    if len(line) <= WIDTH:
        return line
    words = re.split(r", (?![^(]*\)|[^\[]*\])", bare[1:-1])
    return f"{path}(\n    " + ",\n    ".join(words) + ",\n)"


def parameters(function: Any, told: dict[str, str]) -> Iterator[str]:
    given = inspect.signature(function)
    rows = [
        [f"`{name}`", kind(each.annotation), told.get(name, "")]
        for name, each in given.parameters.items()
        if name not in ("self", "cls")
    ]
    if rows:
        filled = any(row[2] for row in rows)
        yield table(
            ["parameter", "type", "meaning"][: 3 if filled else 2],
            [row if filled else row[:2] for row in rows],
        )
    if given.return_annotation not in (inspect.Signature.empty, None, "None"):
        yield f"Returns {kind(given.return_annotation)}."


def kind(annotation: Any) -> str:
    """A type as the source has it, in short; without what it says of an option."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    if get_origin(annotation) is Union:
        return "`" + " | ".join(kind(each).strip("`") for each in get_args(annotation)) + "`"
    if annotation is type(None):
        return "`None`"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text.replace("typing.", ""))
    return f"`{text}`" if annotation is not inspect.Parameter.empty else ""


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


BULLET = re.compile(r"^\s*- `(\w+)`: ")
GOOGLE = re.compile(r"^    (\*{0,2}\w+): ")
HEAD = re.compile(r"^(Args|Returns|Raises|Yields):$")


def parted(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its arguments, and these by their names."""
    kept: list[str] = []
    told: dict[str, str] = {}
    section = name = ""
    for line in text.replace("``", "`").splitlines():
        if line == "**Arguments:**" or HEAD.match(line):
            section, name = line.strip("*:"), ""
            kept += [] if section in ("Args", "Arguments") else [f"**{section}**", ""]
            continue
        found = {"Args": GOOGLE, "Arguments": BULLET}.get(section, re.compile("(?!)")).match(line)
        if found:
            name = found[1]
            told[name] = line[found.end() :]
        elif section in ("Args", "Arguments") and (not line or line.startswith(" ")):
            if name and line:
                told[name] += " " + line.strip()
        else:
            if line and not line.startswith(" "):
                section = ""
            bullet = section == "Raises" and GOOGLE.match(line)
            line = re.sub(r"^ {8}", "  ", line) if section == "Raises" else line
            kept.append(f"- `{bullet[1]}`: {line[bullet.end() :]}" if bullet else line)
    return fenced("\n".join(kept)).strip(), told


def fenced(text: str) -> str:
    """Examples as blocks of code."""
    return re.sub(
        r"(?m)(?:^ *>>> .*(?:\n(?! *$).+)*)",
        lambda found: "```pycon\n" + inspect.cleandoc(found[0]) + "\n```",
        text,
    )


def main() -> None:
    for package in FIRST:
        (FOLDER / f"{package}.md").write_text(page(package))


if __name__ == "__main__":
    sys.exit(main())
