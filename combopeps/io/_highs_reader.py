"""Script `python _highs_reader.py FILE`: parse an integer program by HiGHS and print it as JSON.

It runs in a subprocess because OR-Tools and highspy ship different builds of one shared library, of which a process can
load only one, and so that a file that crashes the parser does not crash the caller.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MISSING, UNREADABLE = 3, 4  # exit codes


def read(path: str) -> int:
    """Print the program of a file as JSON, and return an exit code."""
    try:
        import highspy
    except ImportError:
        return MISSING
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call, unused-ignore]
    solver.setOptionValue("output_flag", False)
    if solver.readModel(path) == highspy.HighsStatus.kError:
        return UNREADABLE
    model = solver.getModel()
    lp, entries = model.lp_, model.lp_.a_matrix_
    names = list(lp.col_names_)
    program = {
        "names": names,
        "integer": [kind == highspy.HighsVarType.kInteger for kind in lp.integrality_] or [False] * len(names),
        "quadratic": bool(model.hessian_.dim_),
        "maximize": lp.sense_ == highspy.ObjSense.kMaximize,
        "theta": list(map(float, lp.col_cost_)),
        "bounds": [list(map(float, lp.col_lower_)), list(map(float, lp.col_upper_))],
        "rows": [list(map(float, lp.row_lower_)), list(map(float, lp.row_upper_))],
        "by_row": entries.format_ != highspy.MatrixFormat.kColwise,
        "matrix": [list(map(float, entries.value_)), list(map(int, entries.index_)), list(map(int, entries.start_))],
    }
    print(json.dumps(program))
    return 0


if __name__ == "__main__":
    sys.exit(read(sys.argv[1]))
