"""The steps of the Dockerfile, run in a clean folder; and what they make, used as in a container.

The installation cannot be written, the user is the one of the image and has no home, PostgreSQL wants a password, and
nginx with TLS stands in front.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import browsing
import pytest
from dockerfile import Image, instructions
from exercises import OWNER, PASSWORD, measure_and_look, secret_files
from postgres import Postgres, free_port
from proxied import ROOT, behind_nginx, program, server_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("image"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux can become the user"),
]

GUIDE = (ROOT / "docs" / "deploy.md").read_text()


@pytest.fixture(scope="module")
def folder():
    """That other users can enter, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="image-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def image(folder):
    """What the Dockerfile makes; times are those of layers, in whole seconds, and nothing can be written."""
    built = base_image(folder).build()
    for path in [built.root, *built.root.rglob("*")]:
        if not path.is_symlink():
            os.utime(path, (int(path.stat().st_atime), int(path.stat().st_mtime)))
    return built


def base_image(folder):
    """Python and pip, and nothing else: an environment, or a copy if other users cannot reach this Python."""
    home, python = Path(sys.base_prefix), folder / "python"
    if all(path.stat().st_mode & 0o001 for path in [home, *home.parents]):
        subprocess.run([sys.executable, "-m", "venv", python], check=True)
        return Image(folder, python / "bin")
    shutil.copytree(home, python, symlinks=True, ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__"))
    base = Image(folder, python / "bin", base={"LD_LIBRARY_PATH": str(python / "lib")})
    command = [python / "bin" / "python3", "-m", "ensurepip", "--default-pip"]
    subprocess.run(command, env=base.base, check=True, capture_output=True)
    return base


@pytest.fixture(scope="module")
def database():
    try:
        server = Postgres(free_port())
    except Exception as cause:
        pytest.skip(f"no PostgreSQL can be started here: {cause}")
    server.add_user("combopeps", PASSWORD)
    yield server
    server.stop()


class Container:
    """Processes of the image: its user, its entrypoint, a temporary directory, and files with secrets."""

    def __init__(self, image, folder):
        self.image, self.folder = image, Path(tempfile.mkdtemp(dir=folder))
        user, group = map(int, image.said["USER"].text.split(":"))
        self.who = {"user": user, "group": group, "extra_groups": [], "cwd": image.workdir}
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.password, self.tokens = secret_files(self.folder)
        for path in (self.folder, self.temporary, self.password, self.tokens):
            os.chown(path, user, group)
        self.env = image.env | {"TMPDIR": str(self.temporary), "PGPASSWORD_FILE": str(self.password)}

    def run(self, *words):
        """A command, in place of that of the Dockerfile."""
        command = [*self.image.said["ENTRYPOINT"].words, *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120, **self.who)

    def good(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def is_healthy(self, port):
        """The HEALTHCHECK, which asks another port here."""
        text = (
            self.image.said["HEALTHCHECK"].text.removeprefix("CMD ").replace(self.image.said["EXPOSE"].text, str(port))
        )
        return subprocess.run(json.loads(text), env=self.env, stderr=subprocess.DEVNULL, **self.who).returncode == 0

    @contextmanager
    def server(self, state, **variables):
        """With the arguments of compose.yaml; its address, which is for the proxy."""
        words = server_command(COMBOPEPS_STATE=state, COMBOPEPS_PROXY="127.0.0.1", **variables)
        own = ["--host=127.0.0.1", "--port=0", f"--token-file={self.tokens}", "--json"]
        command = [*self.image.said["ENTRYPOINT"].words, *words, *own]
        process = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.who)
        try:
            line = process.stdout.readline()
            assert line, process.communicate()[1].decode()
            yield json.loads(line)["address"]
        finally:
            process.terminate()
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, b"")


@pytest.fixture
def container(image, folder):
    return Container(image, folder)


def contents(root):
    return {path: path.lstat().st_mtime_ns for path in root.rglob("*")}


def kernels(folder):
    """Their files, and what these hold: a kernel that is compiled anew gets the name that it had."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.nb[ci]")}


def test_every_run_step_was_executed_in_order(image):
    assert image.steps == [step.text for step in instructions() if step.name == "RUN"]
    assert len(image.steps) >= 7


def test_the_user_of_the_image_can_write_its_data_and_nothing_else(image, container):
    code = "import os, sys; print([path for path in sys.argv[1:] if os.access(path, os.W_OK)], os.getuid(), 'HOME' in os.environ)"
    folders = [str(path) for path in [image.root, *image.root.rglob("*")] if path.is_dir()]
    command = ["python", "-c", code, *folders]
    done = subprocess.run(command, env=container.env, capture_output=True, text=True, check=True, **container.who)
    assert done.stdout.split() == [str([image.env["DATA"]]), image.said["USER"].text.partition(":")[0], "False"]


def test_a_campaign_in_postgresql_is_served_behind_nginx(image, container, database, tmp_path, monkeypatch):
    program("nginx")
    before = contents(image.root)
    state = f"postgresql://combopeps@127.0.0.1:{database.port}/combopeps#town"
    container.good("init", "town", "--state", state)
    with (
        container.server(state) as address,
        behind_nginx(tmp_path, address) as (https, _, certificate),
    ):
        port = int(address.rpartition(":")[2])
        assert container.is_healthy(port)
        measure_and_look(https, certificate, monkeypatch)
    assert not container.is_healthy(port)
    assert json.loads(container.run("status", "--json", "--state", state).stdout)["samples"] == 5
    assert contents(image.root) == before
    (copied,) = {path.parent for path in container.temporary.glob("*/*/*")}
    assert kernels(copied) == kernels(Path(image.env["NUMBA_CACHE_DIR"]))  # nothing was left to be compiled
    assert len(kernels(copied)) > 100


def test_without_the_kernels_of_the_image_a_server_compiles_its_own(container, database, tmp_path, monkeypatch):
    """The negative control."""
    del container.env["NUMBA_CACHE_DIR"]
    state = f"postgresql://combopeps@127.0.0.1:{database.port}/combopeps#cold"
    container.good("init", "town", "--state", state)
    with container.server(state) as address, behind_nginx(tmp_path, address) as (https, _, certificate):
        measure_and_look(https, certificate, monkeypatch)
    assert len(kernels(container.temporary)) > 10


def test_the_live_page_in_a_browser_below_a_path(container, database, tmp_path):
    program("nginx")
    driver, profile = browsing.start()
    state = f"postgresql://combopeps@127.0.0.1:{database.port}/combopeps#page"
    try:
        container.good("init", "topk-paper", "--state", state)
        with (
            container.server(state, COMBOPEPS_ROOT_PATH="/roads") as address,
            behind_nginx(tmp_path, address, "/roads") as (https, *_),
        ):
            driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": True})
            driver.get(f"{https}/")
            driver.find_element("css selector", "input").send_keys(OWNER + "\n")
            driver.implicitly_wait(20)
            driver.find_element("css selector", "main table")
            assert driver.current_url == f"{https}/"
            assert browsing.shades(driver) > 10
    finally:
        browsing.stop(driver, profile)


def documented(program):
    """The options with which docs/deploy.md calls a program of PostgreSQL in its container."""
    (options,) = set(re.findall(rf"^\$ docker compose exec -T db {program} (.*) [<>]", GUIDE, re.MULTILINE))
    return shlex.split(options)


def test_backups_can_be_restored(container, database):
    state = f"postgresql://combopeps@127.0.0.1:{database.port}/combopeps#backup"
    login = {
        "env": os.environ | {"PGPASSWORD": PASSWORD, "PGHOST": "127.0.0.1", "PGPORT": str(database.port)},
        "check": True,
        "capture_output": True,
    }

    def events(place):
        container.good("check", "--state", place)
        container.good("export", "--state", place, "-o", "events.jsonl")
        return (container.image.workdir / "events.jsonl").read_text().splitlines()

    container.good("init", "topk-paper", "--state", state)
    container.good("ask", "--state", state)
    container.good("copy", state, "copy.db")
    dump = subprocess.run([database.bin / "pg_dump", *documented("pg_dump")], **login).stdout
    kept = events(state)
    container.good("tell", "--state", state, "0", "1.5")
    assert len(events(state)) == len(kept) + 1 == 3
    subprocess.run([database.bin / "pg_restore", *documented("pg_restore")], input=dump, **login)
    assert events(state) == kept
    assert events("copy.db") == kept
