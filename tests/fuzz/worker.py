"""A process that judges the programs whose indices it reads."""

import sys

import jax

from tests.fuzz.draw import draw
from tests.fuzz.hunt import written
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.options import limits, parser

FORGET = 300
"""After so many programs what was compiled is forgotten: most of it is not used again."""


def main() -> None:
    options = parser().parse_args()
    results = sys.stdout
    sys.stdout = sys.stderr  # whatever else prints

    def tell(what: Outcome | bool) -> None:
        print(written(what), file=results, flush=True)

    for count, line in enumerate(sys.stdin):
        if count % FORGET == FORGET - 1:
            jax.clear_caches()
        program = draw(f"{options.seed}/{int(line)}", limits(options))
        tell(judge(program, tell))


if __name__ == "__main__":
    main()
