"""The layers stay layers: the import contracts of pyproject.toml hold."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, config_filename=sys.argv[1]))"


def lint(config):
    return subprocess.run(
        [sys.executable, "-c", LINT, str(config)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_no_import_goes_up_a_layer():
    done = lint(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_linter_sees_an_import_that_does(tmp_path):
    upside_down = tmp_path / "upside_down.toml"
    upside_down.write_text(
        '[tool.importlinter]\nroot_package = "combopeps"\n'
        '[[tool.importlinter.contracts]]\nname = "upside down"\ntype = "layers"\n'
        'layers = ["combopeps.errors", "combopeps.oracles"]\n'
    )
    done = lint(upside_down)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 broken" in done.stdout


def test_nobody_outside_asks_what_kind_of_belief_it_is():
    """Diagonal or dense is decided once, in belief/: elsewhere a belief answers for itself."""
    asks = re.compile(r"isinstance\([^()]*(Diagonal|Dense)Belief|(Diagonal|Dense)Belief\b.*\bis\b")
    package = ROOT / "combopeps"
    guilty = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.parent.name != "belief"
        for line in path.read_text().splitlines()
        if asks.search(line)
    ]
    assert not guilty
    assert asks.search("    if isinstance(belief, DiagonalBelief):")


def test_no_two_modules_share_a_name_but_for_roles():
    roles = {"__init__.py", "_kernels.py", "base.py", "check.py", "registry.py"}
    names = Counter(path.name for path in (ROOT / "combopeps").rglob("*.py"))
    assert {name for name, count in names.items() if count > 1} <= roles
