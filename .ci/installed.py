"""Install the wheel of a folder in an empty environment, and use it as a new user does.

    python .ci/installed.py dist

The environment has no checkout, home directory, caches or compiler. The script runs the first example of the README,
`combopeps solve town --plot`, and a campaign in a SQLite file; it fails if one of them does.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
COMMANDS = (
    ("solve", "town", "--delta", "0.01", "--plot", "town.png"),
    ("init", "town", "--state", "run.db"),
    ("ask", "--state", "run.db", "-n", "2"),
    ("tell", "--state", "run.db", "0", "8.5"),
    ("check", "--state", "run.db"),
    ("list",),
)


def main(folder: str) -> int:
    """Install and try the only wheel in a folder."""
    (wheel,) = Path(folder).resolve().glob("combopeps-*.whl")
    with tempfile.TemporaryDirectory() as place:
        site, away = Path(place) / "env", Path(place) / "away"
        venv.create(site, with_pip=True)
        away.mkdir()
        programs = site / ("Scripts" if os.name == "nt" else "bin")
        python = str(programs / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[plot]"], check=True)
        kept = {name: value for name, value in os.environ.items() if name in ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR")}
        run = {"cwd": away, "env": {"PATH": str(programs), **kept}, "check": True}
        subprocess.run([python, "-c", _first_example()], **run)
        for words in COMMANDS:
            done = subprocess.run([str(programs / "combopeps"), *words], capture_output=True, text=True, **run)
            print(f"combopeps {' '.join(words)}: {len(done.stdout.splitlines())} lines")
        assert (away / "town.png").stat().st_size > 10_000
    print(f"{wheel.name}: installed, and works")
    return 0


def _first_example() -> str:
    """Return the first Python example of the README as a script that checks its outputs."""
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    assert doctest.DocTestParser().get_examples(block[1])
    return (
        f"import doctest, sys\ntext = {block[1]!r}\n"
        "test = doctest.DocTestParser().get_doctest(text, {}, 'README', None, 0)\n"
        "runner = doctest.DocTestRunner()\n"
        "runner.run(test)\n"
        "print(runner.summarize(verbose=False))\n"
        "sys.exit(runner.failures > 0)\n"
    )


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
