"""Kernels run from an installation that cannot be written, for a user whose home cannot be written either."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import combopeps

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="permissions are dropped by a system call of Linux")

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
KERNEL = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from combopeps._normal import log_phi
print(round(float(log_phi(0.0)), 6), sum(log_phi.stats.cache_hits.values()))
"""
PLAIN_NUMBA = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from plain import double
print(double(2))
"""
PLAIN_MODULE = "import numba\n\n\n@numba.njit(cache=True)\ndef double(x):\n    return 2 * x\n"
LOG_PHI_0 = "-0.918939"  # log(1 / sqrt(2 pi))


def obey_permissions():
    """Without this capability the superuser is refused like any other user; it is gone after the next exec."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0 and os.getuid() == 0:
        raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A copy of the package that nothing can be written into, its kernels not compiled yet."""
    folder = tmp_path_factory.mktemp("installation")
    source = Path(combopeps.__file__).parent
    shutil.copytree(source, folder / "combopeps", ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    (folder / "plain.py").write_text(PLAIN_MODULE)
    (folder / "home").mkdir()
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in paths:
        if path.is_dir():
            path.chmod(0o755)


def run(installation, code, temporary):
    home = str(installation / "home")
    return subprocess.run(
        [sys.executable, "-B", "-c", code, str(temporary)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(installation), "HOME": home, "XDG_CACHE_HOME": home},
        cwd=installation,
        preexec_fn=obey_permissions,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_kernels_are_kept_in_a_private_temporary_directory(installation, tmp_path):
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_PHI_0, "0"]
    (cache,) = tmp_path.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o700
    assert list(cache.rglob("*.nbc")) != []
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_PHI_0, "1"]


def test_kernels_are_compiled_without_a_cache_where_nothing_can_be_written(installation):
    done = run(installation, KERNEL, installation / "home")
    assert done.stdout.split() == [LOG_PHI_0, "0"], done.stderr


def test_a_temporary_directory_that_others_can_write_is_not_used(installation, tmp_path):
    shared = tmp_path / f"combopeps-numba-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_PHI_0, "0"]
    assert list(shared.iterdir()) == []


def test_plain_numba_fails_on_this_installation(installation, tmp_path):
    """The negative control: the directory, the home and the user are such that numba alone gives up."""
    done = run(installation, PLAIN_NUMBA, tmp_path)
    assert done.returncode != 0
    assert "cannot cache function" in done.stderr
