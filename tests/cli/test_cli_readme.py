"""Every command of the README works for a new user: the installed package, an empty folder, a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.S | re.M)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The console script of a wheel, in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "-w", str(folder)], check=True, timeout=120)
    (wheel,) = folder.glob("combopeps-*.whl")
    site = folder / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)
    return site


def shell(block, site, folder, first=""):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{first}:{site}".strip(":"),
        "PATH": f"{site / 'bin'}:{os.environ['PATH']}",
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_no_command_hides_outside_the_blocks_that_are_run():
    text = (ROOT / "README.md").read_text()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    assert not re.findall(r"^(?: {4})?\$? ?combopeps \w+", outside, flags=re.M)
    commands = {word for block in BLOCKS for word in re.findall(r"^combopeps (\w+)", block, flags=re.M)}
    assert commands >= {"solve", "init", "ask", "tell", "status", "show", "compare"}


@pytest.mark.parametrize(
    "code", [pytest.param(ROOT, id="checkout"), pytest.param("", id="wheel", marks=pytest.mark.slow)]
)  # the wheel compiles all its kernels anew
def test_the_blocks_one_after_the_other(installed, tmp_path, code):
    said = ""
    for block in BLOCKS:
        done = shell(block, installed, tmp_path, code)
        assert done.returncode == 0, block + done.stdout + done.stderr
        said += done.stdout
    assert "home -> tunnel -> bridge -> work" in said
    for picture in ("route.png", "curves.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run.db").exists()


def test_a_wrong_block_would_be_noticed(installed, tmp_path):
    assert shell("combopeps show no-such-thing\ntrue", installed, tmp_path).returncode == 1


def test_away_from_a_checkout_bench_says_what_it_needs(installed, tmp_path):
    done = shell("combopeps bench", installed, tmp_path)
    assert done.returncode == 1
    assert "checkout" in done.stderr
    assert done.stderr.count("\n") == 1
