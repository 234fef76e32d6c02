"""`read_program`: integer programs from `.mps` and `.lp` files, by the reader of HiGHS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from combopeps.errors import DependencyError
from combopeps.files import refuse
from combopeps.instances.model import Instance, in_file, instance_from_file
from combopeps.instances.parsing import read_text
from combopeps.oracles import MilpOracle


def read_program(
    path: str | os.PathLike[str],
    *,
    noise_std: float | None = 1.0,
    cost: float = 1.0,
    prior_mean: float = 0.0,
    prior_std: float | None = None,
) -> Instance:
    r"""The best solution of an integer program in a file, under a measured objective.

    Every variable is a component, by its name, and must be an integer. The objective of the file becomes theta; where
    it is empty, theta is unknown. Its constant is left out. Needs highspy: `pip install 'combopeps[milp]'`.

    Parameters
    ----------
    path
        `.mps` or `.lp`, as HiGHS reads them.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`. By default prior_std is the root mean square of theta around prior_mean, or 1 when it is
        unknown.

    Examples
    --------
    >>> from combopeps import read_program
    >>> read_program("menu.lp")  # doctest: +SKIP
    Instance(name='menu', problem=Problem(MilpOracle(d=3, rows=2, max), 3 arms, noise_std=1), ...)
    """
    path = Path(path)
    if path.suffix not in (".mps", ".lp"):
        refuse(path, "the format is told by the suffix: .mps, .lp")
    read_text(path)  # a regular file of text, or a better message
    model = _model(path)
    lp, names = model.lp_, list(model.lp_.col_names_)
    if not names:
        refuse(path, "no variables are found in it; is it an integer program in this format?")
    if model.hessian_.dim_:
        refuse(path, "the objective is quadratic; only linear ones can be learnt", field="objective")
    kinds = [kind.name for kind in lp.integrality_] or ["kContinuous"] * len(names)
    for name, kind in zip(names, kinds, strict=True):
        if kind != "kInteger":
            what = {"kContinuous": "continuous"}.get(kind, "no plain integer")
            refuse(
                path,
                f"is {what}; every variable must be declared an integer (or binary): round it to steps",
                field=name,
            )
    oracle = MilpOracle(
        names,
        _matrix(lp, len(names)),
        lp.row_lower_,
        lp.row_upper_,
        bounds=(lp.col_lower_, lp.col_upper_),
        objective="max" if lp.sense_.name == "kMaximize" else "min",
    )
    theta = np.asarray(lp.col_cost_, dtype=np.float64)
    known = bool(theta.any())
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}

    def column(name: str) -> list[float]:
        refuse(path, f"a program has no such column: give one number for {name!r}", field=name)

    origin = "objective of the file" if known else "the objective of the file is empty"
    return instance_from_file(path, oracle, theta.tolist() if known else None, in_file(said, column), origin)


def _model(path: Path) -> Any:
    try:
        import highspy
    except ImportError:
        raise DependencyError("reading .mps and .lp needs highspy; install it: pip install 'combopeps[milp]'") from None
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call, unused-ignore]
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(path)) == highspy.HighsStatus.kError:
        refuse(path, "HiGHS cannot read this; is it a program in the format of its suffix?")
    return solver.getModel()


def _matrix(lp: Any, columns: int) -> Any:
    from scipy.sparse import csc_array, csr_array

    entries, shape = lp.a_matrix_, (len(lp.row_lower_), columns)
    make = csr_array if entries.format_.name == "kRowwise" else csc_array
    return csr_array(make((entries.value_, entries.index_, entries.start_), shape=shape))
