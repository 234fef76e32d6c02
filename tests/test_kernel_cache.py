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
from combopeps.posterior.normal_tails import log_ndtr
print(round(float(log_ndtr(0.0)), 6), sum(log_ndtr.stats.cache_hits.values()))
"""
OTHER_KERNEL = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from combopeps.posterior.normal_tails import log_interval
print(log_interval(0.0, 1.0) < 0, sum(log_interval.stats.cache_hits.values()))
"""
PLAIN_NUMBA = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from plain import double
print(double(2))
"""
PLAIN_MODULE = "import numba\n\n\n@numba.njit(cache=True)\ndef double(x):\n    return 2 * x\n"
LOG_NDTR_0 = "-0.693147"  # log(1 / 2)


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


def begin(installation, code, temporary, cache=None):
    home = str(installation / "home")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installation), "HOME": home, "XDG_CACHE_HOME": home}
    return subprocess.Popen(
        [sys.executable, "-B", "-c", code, str(temporary)],
        env=env if cache is None else env | {"NUMBA_CACHE_DIR": str(cache)},
        cwd=installation,
        preexec_fn=obey_permissions,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(installation, code, temporary, cache=None):
    with begin(installation, code, temporary, cache) as process:
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def read_only_cache(installation, tmp_path):
    """A NUMBA_CACHE_DIR that holds `log_ndtr`, and cannot be written any more."""
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(installation, KERNEL, tmp_path, cache).stdout.split() == [LOG_NDTR_0, "0"]
    paths = [cache, *cache.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield cache
    for path in paths:
        path.chmod(0o755)


def test_kernels_are_kept_in_a_private_temporary_directory(installation, tmp_path):
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_NDTR_0, "0"]
    (cache,) = tmp_path.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o700
    assert list(cache.rglob("*.nbc")) != []
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_NDTR_0, "1"]


def test_kernels_are_compiled_without_a_cache_where_nothing_can_be_written(installation):
    done = run(installation, KERNEL, installation / "home")
    assert done.stdout.split() == [LOG_NDTR_0, "0"], done.stderr


def test_a_temporary_directory_that_others_can_write_is_not_used(installation, tmp_path):
    shared = tmp_path / f"combopeps-numba-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert run(installation, KERNEL, tmp_path).stdout.split() == [LOG_NDTR_0, "0"]
    assert list(shared.iterdir()) == []


def test_without_a_home_no_cache_is_made_in_the_current_folder(installation, tmp_path):
    code = f"import os; os.path.expanduser = str; os.chdir({str(tmp_path)!r}); del os.environ['XDG_CACHE_HOME']\n"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run(installation, code + KERNEL, temporary).stdout.split() == [LOG_NDTR_0, "0"]
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.rglob("*.nbc")) != []
    run(installation, code + PLAIN_NUMBA, temporary)  # the negative control
    assert {path.name for path in tmp_path.iterdir()} == {"temporary", "~"}


def test_plain_numba_fails_on_this_installation(installation, tmp_path):
    """The negative control: the directory, the home and the user are such that numba alone gives up."""
    done = run(installation, PLAIN_NUMBA, tmp_path)
    assert done.returncode != 0
    assert "cannot cache function" in done.stderr


def kernels(folder):
    return {path.name for path in folder.rglob("*.nbc")}


def test_kernels_of_a_cache_that_cannot_be_written_are_used(installation, read_only_cache, tmp_path):
    held = kernels(read_only_cache)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run(installation, KERNEL, temporary, read_only_cache).stdout.split() == [LOG_NDTR_0, "1"]
    (private,) = temporary.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    assert kernels(private) == held
    for hits in "01":  # a kernel that the cache lacks is compiled once, and kept with the copies
        assert run(installation, OTHER_KERNEL, temporary, read_only_cache).stdout.split() == ["True", hits]
    assert kernels(private) > held
    assert kernels(read_only_cache) == held


def test_numba_alone_compiles_beside_a_cache_that_cannot_be_written(installation, read_only_cache, tmp_path):
    """The negative control."""
    done = run(installation, PLAIN_NUMBA, tmp_path, read_only_cache)
    assert done.returncode != 0
    assert "cannot cache function" in done.stderr


def test_another_cache_in_the_same_place_gets_a_copy_of_its_own(installation, read_only_cache, tmp_path):
    """Indices of one cache must not lead to data of another."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for copies in (1, 2):
        assert run(installation, KERNEL, temporary, read_only_cache).stdout.split() == [LOG_NDTR_0, "1"]
        (private,) = temporary.iterdir()
        assert len(list(private.iterdir())) == copies
        for path in read_only_cache.rglob("*.nbc"):
            os.utime(path, (1, 1))


def test_processes_that_begin_together_share_one_copy(installation, read_only_cache, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    processes = [begin(installation, KERNEL, temporary, read_only_cache) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].split() for process in processes] == [[LOG_NDTR_0, "1"]] * 3
    (private,) = temporary.iterdir()
    assert len(list(private.iterdir())) == 1


def test_without_a_temporary_directory_kernels_are_compiled_beside_a_read_only_cache(installation, read_only_cache):
    done = run(installation, KERNEL, installation / "home", read_only_cache)
    assert done.stdout.split() == [LOG_NDTR_0, "0"], done.stderr
