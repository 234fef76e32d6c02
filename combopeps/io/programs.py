"""`read_program`: integer programs from `.mps` and `.lp` files, by the reader of HiGHS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from combopeps.errors import DependencyError
from combopeps.io import _highs_reader
from combopeps.io.instance import Instance, in_file, instance_from_file
from combopeps.io.parsing import read_text
from combopeps.oracles import MilpOracle
from combopeps.oracles.input_checks import TIME_LIMIT, as_seconds
from combopeps.utils.files import raise_format_error, read_regular, write_atomically
from combopeps.utils.validation import as_path

_LONGEST = 1e6  # seconds; the operating system does not wait for an infinite time


def read_program(
    path: str | os.PathLike[str],
    *,
    noise_std: float | None = None,
    cost: float = 1.0,
    prior_mean: float | None = None,
    prior_std: float | None = None,
    time_limit: float | None = TIME_LIMIT,
) -> Instance:
    r"""The best solution of an integer program in a file, under a measured objective.

    Every variable is a component, by its name, and must be an integer. The objective of the file becomes theta; where
    it is empty, theta is unknown. Its constant is left out. Needs highspy: `pip install 'combopeps[milp]'`.

    Parameters
    ----------
    path
        `.mps` or `.lp`, as HiGHS reads them.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`.
    time_limit
        Seconds for reading the file, and for each solve of the program, as for `MilpOracle`; None for no limit.

    Examples
    --------
    >>> from combopeps.io import read_program
    >>> read_program("menu.lp")  # doctest: +SKIP
    Instance(name='menu', problem=Problem(MilpOracle(d=3, rows=2, max), 3 arms, noise_std=1), ...)
    """
    path = as_path(path)
    if path.suffix.lower() not in (".mps", ".lp"):
        raise_format_error(path, "the format is told by the suffix: .mps, .lp")
    read_text(path)  # a regular file of text, or a better message
    program = _read(path, as_seconds(time_limit))
    names, theta = program["names"], program["theta"]
    if not names:
        raise_format_error(path, "no variables are found in it; is it an integer program in this format?")
    if program["quadratic"]:
        raise_format_error(path, "the objective is quadratic; only linear ones can be learnt", field="objective")
    for name, integer in zip(names, program["integer"], strict=True):
        if not integer:
            raise_format_error(
                path, "is no integer; declare every variable general or binary, and count it in steps", field=name
            )
    objective: Literal["max", "min"] = "max" if program["maximize"] else "min"
    oracle = MilpOracle(
        names,
        _matrix(program),
        *program["rows"],
        bounds=program["bounds"],
        objective=objective,
        time_limit=time_limit,
    )
    known = any(theta)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}

    def column(name: str) -> list[float]:
        raise_format_error(path, f"a program has no such column: give one number for {name!r}", field=name)

    origin = "objective of the file" if known else "the objective of the file is empty"
    return instance_from_file(path, oracle, theta if known else None, in_file(said, column), origin)


def _read(path: Path, time_limit: float) -> dict[str, Any]:
    """What a process of its own finds in the file; modules that lie in the current folder are not for it."""
    reader = Path(_highs_reader.__file__)
    with TemporaryDirectory() as folder:  # HiGHS knows its suffixes in small letters only
        copy = Path(folder) / f"program{path.suffix.lower()}"
        write_atomically(copy, read_regular(path))
        command = [sys.executable, "-P", str(reader), str(copy)]
        try:
            done = subprocess.run(command, check=False, capture_output=True, timeout=min(time_limit, _LONGEST))
        except subprocess.TimeoutExpired:
            raise_format_error(
                path, f"HiGHS did not read it within time_limit = {time_limit:g} s; give a longer time_limit"
            )
    if done.returncode == _highs_reader.MISSING:
        raise DependencyError("reading .mps and .lp needs highspy; install it: pip install 'combopeps[milp]'")
    if done.returncode != 0:
        raise_format_error(path, "HiGHS cannot read this; is it a program in the format of its suffix?")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _matrix(program: dict[str, Any]) -> Any:
    from scipy.sparse import csc_array, csr_array

    make = csr_array if program["by_row"] else csc_array
    return csr_array(make(tuple(program["matrix"]), shape=(len(program["rows"][0]), len(program["names"]))))
