"""Run the code of docs/tutorial.md and keep its pictures and its plan: `python -m benchmarks.tutorial`."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from combopeps.viz.canvas import save

PAGE, OUT = Path("docs/tutorial.md"), Path("docs/results/tutorial")


def main() -> None:
    names: dict[str, object] = {}
    page = doctest.DocTestParser().get_doctest(PAGE.read_text(), names, PAGE.name, str(PAGE), 0)
    if doctest.DocTestRunner().run(page, clear_globs=False).failed:
        sys.exit(f"{PAGE} does not do what it says; nothing was written")
    OUT.mkdir(parents=True, exist_ok=True)
    save(page.globs["ax"], OUT / "route.png")
    ahead = page.globs["ahead"]
    save(ahead.plot()[0], OUT / "plan.png")
    (OUT / "plan.txt").write_text(f"{ahead}\n")


if __name__ == "__main__":
    main()
