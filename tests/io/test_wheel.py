"""An installed wheel finds its instances from any folder."""

import os
import subprocess
import sys
from pathlib import Path

from combopeps import list_instances

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import combopeps
print(combopeps.__file__)
print(*combopeps.list_instances())
print(combopeps.load_instance("cyclic-matching").best)
"""


def test_installed_wheel(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "-w", str(tmp_path)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("combopeps-*.whl")
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)
    away = tmp_path / "away"
    away.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=away,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    where, names, best = done.stdout.splitlines()
    assert Path(where) == site / "combopeps" / "__init__.py"
    assert names.split() == list_instances()
    assert best == "{0: 0, 1: 1, 2: 2, 3: 3}"
