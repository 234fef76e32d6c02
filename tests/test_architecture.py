"""The layers stay layers: the import contracts of pyproject.toml hold."""

import subprocess
import sys
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
