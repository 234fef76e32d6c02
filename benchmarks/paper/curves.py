"""Item 2: identification rate against t with two standard errors, and where the measurements went."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper import _figures as fig
from benchmarks.paper._cases import INSTANCES, TITLES, main_simulations, optimum, policies, recipes
from benchmarks.paper._scale import Scale
from combopeps.session import Trace

TITLE = "curves"
POINTS = 150  # of a curve, in the CSV file and in the figure


def units(scale: Scale) -> list[Unit]:
    """None of its own: the runs of the tables."""
    return []


def curve(traces: list[Trace]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t, the mean rate over problems, and two standard errors of it."""
    rates, errors = np.array([trace.identification_rate() for trace in traces]).transpose(1, 0, 2)
    picked = np.unique(np.linspace(0, len(traces[0].t) - 1, POINTS).astype(int))
    error = np.sqrt((errors**2).sum(axis=0)) / len(traces)
    return traces[0].t[picked], rates.mean(axis=0)[picked], error[picked]


def write(scale: Scale, store: Store, out: Path) -> None:
    """curves.csv, pulls.csv, pulls.md and two figures per instance."""
    lines, shares = [], []
    for instance in INSTANCES:
        figure, (axis,) = fig.new()
        for policy in policies(instance):
            traces = [store.trace(unit) for unit in main_simulations(instance, policy, scale)]
            t, rate, error = curve(traces)
            axis.plot(t, rate, label=policy, linewidth=1.8, **fig.line_style(policy))
            axis.fill_between(t, rate - error, rate + error, color=fig.STYLE[policy]["color"], alpha=0.15, linewidth=0)
            lines += [(instance, policy, int(a), float(b), float(c)) for a, b, c in zip(t, rate, error, strict=True)]
            pulls = traces[0].pulls / traces[0].pulls.sum(axis=1, keepdims=True)
            spread = 2.0 * pulls.std(axis=0) / np.sqrt(len(pulls))
            shares += [
                (instance, policy, arm, int(traces[0].t[-1]), float(share), float(two))
                for arm, (share, two) in enumerate(zip(pulls.mean(axis=0), spread, strict=True))
            ]
        best = optimum(recipes(instance, 1)[0]).allocation
        shares += [(instance, "optimal", arm, 0, float(share), 0.0) for arm, share in enumerate(best)]
        _finish(axis, instance, scale)
        fig.save(figure, out / f"rate-{instance}.png", axis)
    write_csv(out / "curves.csv", ("instance", "policy", "t", "rate", "two_se"), lines)
    write_csv(out / "pulls.csv", ("instance", "policy", "arm", "t", "share", "two_se"), shares)
    for instance in INSTANCES:
        _draw_pulls(out, instance)
    (out / "pulls.md").write_text(
        "Share of the measurements that each arm got by the end of the budget (sphere: the first one drawn).\n\n"
        + "\n\n".join(f"### {TITLES[i]}\n\n{pulls_table(out / 'pulls.csv', i)}" for i in INSTANCES)
        + "\n"
    )


def _finish(axis: object, instance: str, scale: Scale) -> None:
    name = f"Mean of {scale.spheres} spheres" if instance == "sphere" else TITLES[instance]
    axis.set(xscale="log", xlabel="measurements t", ylabel="identification rate (± 2 s.e.)", title=name)  # type: ignore[attr-defined]
    axis.set_xlim(left=max(1, scale.budgets[instance] // 500), right=scale.budgets[instance])  # type: ignore[attr-defined]
    axis.set_ylim(0.0, 1.02)  # type: ignore[attr-defined]


def _shares(path: Path, instance: str) -> dict[str, list[dict[str, str]]]:
    """Differences of the CSV file by policy; arms in the order of the optimal allocation."""
    rows = [row for row in read_csv(path) if row["instance"] == instance]
    optimal = [float(row["share"]) for row in rows if row["policy"] == "optimal"]
    order = np.argsort(-np.array(optimal), kind="stable") if instance == "sphere" else np.arange(len(optimal))
    names = dict.fromkeys(row["policy"] for row in rows)
    by = {name: [row for row in rows if row["policy"] == name] for name in names}
    return {name: [mine[k] for k in order] for name, mine in by.items()}


def _draw_pulls(out: Path, instance: str) -> None:
    by = _shares(out / "pulls.csv", instance)
    optimal = by.pop("optimal")
    figure, (axis,) = fig.new()
    at = np.arange(len(optimal))
    axis.bar(at, [float(row["share"]) for row in optimal], color="0.8", width=0.9, label="optimal allocation")
    for k, (policy, rows) in enumerate(by.items()):
        place = at + 0.8 * ((k + 0.5) / len(by) - 0.5)
        style = {**fig.STYLE[policy], "linestyle": "none"}
        share, two = ([float(row[key]) for row in rows] for key in ("share", "two_se"))
        axis.errorbar(place, share, yerr=two, markersize=5, label=policy, elinewidth=1, **style)
    axis.set_xticks(at, [row["arm"] for row in optimal])
    name = "First sphere, arms sorted by the optimal share" if instance == "sphere" else TITLES[instance]
    axis.set(xlabel="arm", ylabel="share of measurements", title=f"{name}: pulls per arm")
    fig.save(figure, out / f"pulls-{instance}.png", axis)


def pulls_table(path: Path, instance: str) -> str:
    """Shares in percent; on spheres the five arms with the largest optimal share."""
    by = _shares(path, instance)
    most = 5 if instance == "sphere" else 12
    header = ["policy", "t", *(f"arm {row['arm']}" for row in by["optimal"][:most])]
    body = []
    for name in ("optimal", *(name for name in by if name != "optimal")):
        shares = [f"{100 * float(row['share']):.1f}" for row in by[name][:most]]
        body.append([name, "" if name == "optimal" else by[name][0]["t"], *shares])
    return markdown(header, body)
