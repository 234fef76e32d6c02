"""`read_network`: a route problem from the network file that people have."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from combopeps.errors import GraphError
from combopeps.files import refuse
from combopeps.instances.model import Instance, instance_from_file
from combopeps.instances.network_formats import read_gr, read_graphml, read_node_link, read_tntp
from combopeps.oracles import ShortestPathOracle
from combopeps.tables.cells import LARGEST

if TYPE_CHECKING:
    import networkx as nx

Reader = Callable[[Path, str], "tuple[nx.Graph[Any], set[Any]]"]
_FORMATS: dict[str, tuple[Reader, str]] = {
    ".json": (read_node_link, "weight"),
    ".graphml": (read_graphml, "weight"),
    ".tntp": (read_tntp, "free_flow_time"),
    ".gr": (read_gr, "weight"),
}


def read_network(
    path: str | os.PathLike[str],
    source: Hashable,
    target: Hashable,
    *,
    attribute: str | None = None,
    objective: Literal["min", "max"] = "min",
    noise_std: float = 1.0,
    prior_std: float | None = None,
) -> Instance:
    r"""The best route through a network file.

    Parameters
    ----------
    path
        networkx node-link `.json`, `.graphml`, a TNTP link file `.tntp`, or DIMACS `.gr`, in UTF-8.
    source, target
        Two nodes, as they are, or as they are written: "7" finds the node 7.
    attribute
        The edge attribute that becomes theta. By default "weight" (TNTP: "free_flow_time"); when no edge has a weight,
        theta is unknown.
    objective
        "min" for lengths, "max" for rewards on an acyclic graph.
    noise_std
        Standard deviation of one measurement.
    prior_std
        Expected size of theta; by default its root mean square, or 1 when it is unknown.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.gr"
    ...     _ = path.write_text("p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
    ...     read_network(path, "1", "3").best
    [1, 2, 3]
    """
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        refuse(path, f"the format is told by the suffix: {', '.join(_FORMATS)}")
    read, usual = _FORMATS[path.suffix.lower()]
    graph, closed = read(path, attribute or usual)
    ends = _node(graph, source, "source"), _node(graph, target, "target")
    graph.remove_nodes_from(closed - set(ends))
    oracle = ShortestPathOracle(graph, *ends, objective=objective)
    theta = _theta(path, graph, oracle, attribute or usual, required=attribute is not None)
    return instance_from_file(path, oracle, theta, noise_std, prior_std)


def _node(graph: nx.Graph[Any], wanted: Hashable, end: str) -> Hashable:
    """The node itself, or the only one that is written like it."""
    try:
        if wanted in graph and not isinstance(wanted, bool):
            return wanted
    except TypeError:
        raise GraphError(f"{end} {wanted!r} cannot be a node; give a string, a number or a tuple") from None
    alike: list[Hashable] = [node for node in graph if str(node) == str(wanted)]
    if len(alike) == 1:
        return alike[0]
    if not graph:
        raise GraphError(f"{end} {wanted!r} is not a node of the network, which has none; is this the right file?")
    names = [str(node) for node in graph]
    near = get_close_matches(str(wanted), names, n=5, cutoff=0.5) or names[:5]
    cure = "several nodes are written like it" if alike else f"did you mean {', '.join(near)}?"
    raise GraphError(f"{end} {wanted!r} is not a node of the network; {cure}")


def _theta(
    path: Path, graph: nx.Graph[Any], oracle: ShortestPathOracle, attribute: str, *, required: bool
) -> list[float] | None:
    """The attribute of every edge on a route; None when no edge of the file has it."""
    if not any(attribute in data for _, _, data in graph.edges(data=True)):
        if not required:
            return None
        known = sorted({str(name) for _, _, data in graph.edges(data=True) for name in data})
        refuse(path, f"no edge has this attribute; there are {', '.join(known) or 'none'}", field=attribute)
    theta = []
    for label in oracle.components:
        assert isinstance(label, tuple)
        value: Any = graph.get_edge_data(*label).get(attribute)
        if type(value) not in (int, float) or not abs(value) < LARGEST:
            refuse(path, f"the edge {label!r} must have a finite number here, got {value!r:.40}", field=attribute)
        theta.append(float(value))
    return theta
