"""Print the packages of the project, their layers of imports and the imports between them.

    python -m tests.import_layers

A package here is a folder or a module directly below ``zoo``, ``converter`` or ``weights``. Imports
inside of functions count too. A layer is a set of packages that import only lower layers. Packages
that import each other are in no layer, and the command then ends with 1. ``__main__`` modules are
left out, because no module imports them.
"""

import sys
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import grimp

ROOTS = ("zoo", "converter", "weights")


class Layers(NamedTuple):
    """The packages of a root with their imports."""

    lowest_first: list[list[str]]
    imports: dict[str, set[str]]
    """The packages that each package imports."""

    @property
    def edges(self) -> int:
        """The number of pairs of packages in which the first imports the second."""
        return sum(map(len, self.imports.values()))


def layers_of(root: str) -> Layers:
    """Return the layers of a root package. **Raises** `CycleError` if there is a cycle."""
    graph = grimp.build_graph(root, include_external_packages=False)
    for module in graph.modules:
        if module.endswith(".__main__"):
            graph.remove_module(module)
    packages = sorted(graph.find_children(root))
    imports = {
        importer.removeprefix(f"{root}."): {
            imported.removeprefix(f"{root}.")
            for imported in packages
            if imported != importer
            and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
        }
        for importer in packages
    }
    order = TopologicalSorter(imports)
    order.prepare()
    lowest_first = []
    while order.is_active():
        ready = order.get_ready()
        lowest_first.append(sorted(ready))
        order.done(*ready)
    return Layers(lowest_first, imports)


def main() -> int:
    """Print the layers of each root. Return 1 if one has a cycle."""
    code = 0
    for root in ROOTS:
        try:
            layers = layers_of(root)
        except CycleError as error:
            print(f"{root}: these packages import each other: {' -> '.join(error.args[1])}")
            code = 1
            continue
        count = len(layers.imports)
        lowest = layers.lowest_first
        print(
            f"{root}: {count} packages, {len(lowest)} layers, {layers.edges} imports between them"
        )
        for names in reversed(lowest):
            print(f"    {' '.join(names)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
