"""The Dockerfile: what it says, and its steps, run in a folder instead of a container."""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Instruction:
    """`RUN`, `COPY`, ...: its name, its options (--from=...) and what follows them."""

    name: str
    options: dict
    text: str

    @property
    def words(self):
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


def parsed(text):
    """All instructions, in their order."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    for line in filter(None, map(str.strip, whole.splitlines())):
        name, _, rest = line.partition(" ")
        options = {}
        while found := re.match(r"--([\w-]+)=(\S+)\s+", rest):
            options[found[1]], rest = found[2], rest[found.end() :]
        yield Instruction(name.upper(), options, rest.strip())


def instructions():
    return list(parsed((ROOT / "Dockerfile").read_text()))


def literal_paths(step):
    """Absolute paths that a RUN step names itself; they would be those of this machine."""
    return re.findall(r"(?:^|[\s\"'=:(])(/[\w.-]+)", step)


@dataclass
class Image:
    """The last stage of the Dockerfile in `folder/root`: its environment, and the steps that were run.

    Each stage begins with an empty root, in the same place, as programs of an environment know where they are; roots of
    earlier stages are kept under their names. `/opt` of the image is `folder/root/opt`.
    """

    folder: Path
    python: Path  # the folder of `python` in the base image
    base: dict = field(default_factory=dict)  # further variables of its environment
    env: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)
    workdir: Path | None = None
    stage: str | None = None
    steps: list = field(default_factory=list)
    said: dict = field(default_factory=dict)  # USER, EXPOSE, HEALTHCHECK, ENTRYPOINT and CMD

    @property
    def root(self):
        return self.folder / "root"

    def build(self):
        for instruction in instructions():
            getattr(self, f"_{instruction.name.lower()}", self._say)(instruction)
        return self

    def _from(self, instruction):
        if self.stage is not None:
            self.root.rename(self.folder / self.stage)
        self.root.mkdir()
        _, _, name = instruction.text.partition(" AS ")
        self.stage, self.workdir, self.said = name or "last", self.root, {}
        places = [self.root / "usr/local/bin", self.python, *map(Path, ("/usr/bin", "/bin"))]
        self.env = self.base | {"PATH": os.pathsep.join(map(str, places))}

    def _arg(self, instruction):
        key, _, value = instruction.text.partition("=")
        self.arguments[key] = value

    def _env(self, instruction):
        for word in instruction.words:
            key, _, value = word.partition("=")
            self.env[key] = str(self._inside(value)) if value.startswith("/") else self._expanded(value)

    def _workdir(self, instruction):
        self.workdir = self._inside(self._expanded(instruction.text))
        self.workdir.mkdir(parents=True, exist_ok=True)

    def _copy(self, instruction):
        *sources, target = map(self._expanded, instruction.words)
        stage, mode = instruction.options.get("from"), instruction.options.get("chmod")
        for source in sources:
            place = self._inside(target)
            if stage is None:
                self._bring(ROOT / source, place / Path(source).name if target.endswith("/") else place)
            else:
                shutil.copytree(
                    self.folder / stage / self._inside(source).relative_to(self.root),
                    place,
                    symlinks=True,
                    dirs_exist_ok=True,
                )
            if mode is not None:
                place.chmod(int(mode, 8))

    def _bring(self, source, place):
        """From the checkout, which may be one that only its owner can read."""
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, place)
        for path in [place, *place.rglob("*")]:
            path.chmod(path.stat().st_mode & 0o700)

    def _run(self, instruction):
        inherited = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key == "HOME"}
        done = subprocess.run(
            ["sh", "-c", instruction.text], env=inherited | self.env, cwd=self.workdir, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{instruction.text}\n{done.stdout}\n{done.stderr}"
        self.steps.append(instruction.text)

    def _say(self, instruction):
        self.said[instruction.name] = instruction

    def _expanded(self, text):
        return re.sub(r"\$\{?(\w+)\}?", lambda found: self.env[found[1]], text)

    def _inside(self, path):
        """A path of the image, here."""
        path = Path(path)
        if path.is_relative_to(self.root):
            return path
        return self.root / path.relative_to("/") if path.is_absolute() else self.workdir / path
