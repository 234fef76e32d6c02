"""`bench`: the measuring commands of a checkout."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from combopeps.cli.options import OK, WRONG, Commands


def register(commands: Commands) -> None:
    """Add the command."""
    bench = commands.add(
        "bench",
        run,
        "run a benchmark of the checkout; without a name, list them",
        "combopeps bench",
        "\nWhat follows the name is passed on: `combopeps bench policies --quick`. Results go to docs/results/.",
    )
    bench.add_argument("name", metavar="NAME", nargs="?", help="a module or package of benchmarks/")
    bench.add_argument("rest", metavar="...", nargs=argparse.REMAINDER, help="passed on to the benchmark")


def checkout() -> Path | None:
    """Where benchmarks/ is: beside the package, or here."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (folder / "benchmarks" / "_table.py").is_file() and (folder / "pyproject.toml").is_file():
            return folder
    return None


def benchmarks(root: Path) -> list[str]:
    """Modules, and packages that can be run."""
    folder = root / "benchmarks"
    modules = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")]
    return sorted(modules + [path.parent.name for path in folder.glob("*/__main__.py")])


def run(args: argparse.Namespace) -> int:
    """A process of its own, in the folder of the checkout."""
    from combopeps.errors import ParameterError

    root = checkout()
    if root is None:
        raise ParameterError(
            "benchmarks are not part of the installed package; run this in a checkout of the repository"
        )
    names = benchmarks(root)
    if args.name is None:
        if args.json:
            print(json.dumps({"benchmarks": names}))
        else:
            print("\n".join(names))
        return OK
    if args.name not in names:
        raise ParameterError(f"no benchmark is called {args.name!r:.40}; there are {', '.join(names)}")
    as_json = args.json or "--json" in args.rest  # no benchmark has this option
    rest = [word for word in args.rest if word != "--json"]
    command = [sys.executable, "-m", f"benchmarks.{args.name}", *rest]
    done = subprocess.run(command, cwd=root, check=False, stdout=2 if as_json else None)  # 2: stderr
    if as_json:
        print(json.dumps({"benchmark": args.name, "exit_code": done.returncode}))
    return OK if done.returncode == 0 else WRONG
