"""Small sets listed without the package's own algorithms: what every oracle is measured against."""

from itertools import combinations, permutations

import networkx as nx
import numpy as np


def subsets(d, k):
    """All k-subsets of d items as 0/1 rows."""
    rows = np.zeros((0, d))
    for chosen in combinations(range(d), k):
        row = np.zeros((1, d))
        row[0, list(chosen)] = 1.0
        rows = np.concatenate([rows, row])
    return rows


def routes(graph, source, target):
    """All simple routes, each the list of its edge labels as `graph.edges` spells them."""
    if source not in graph or target not in graph:
        return []
    keys = {"keys": True} if graph.is_multigraph() else {}
    spelling = {label: label for label in graph.edges(**keys)}
    if not graph.is_directed():
        spelling |= {(v, u, *key): (u, v, *key) for u, v, *key in graph.edges(**keys)}
    return [[spelling[step] for step in path] for path in nx.all_simple_edge_paths(graph, source, target)]


def matchings(left, right, edges):
    """All matchings that saturate the left side, each a list of pairs."""
    allowed = set(edges)
    pairings = (list(zip(left, mates, strict=True)) for mates in permutations(right, len(left)))
    return [pairs for pairs in pairings if allowed.issuperset(pairs)]


def spanning_trees(graph):
    """All spanning trees, each the list of its edge labels: n - 1 edges that leave no node alone."""
    labels = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    found = []
    for chosen in combinations(labels, len(graph) - 1):
        tree = nx.Graph(label[:2] for label in chosen)
        if len(tree) == len(graph) and nx.is_connected(tree):
            found.append(list(chosen))
    return found


def rows_of(answers, components, unit):
    """Answers given as lists of labels, as rows of a matrix over `components`."""
    index = {label: i for i, label in enumerate(components)}
    rows = np.zeros((len(answers), len(components)))
    for row, labels in zip(rows, answers, strict=True):
        row[[index[label] for label in labels]] = unit
    return rows


def thetas_for(dim, domain, seed, size=6):
    """Smooth thetas, thetas full of ties, and ties broken by 1e-6 and 1e-9, in equal numbers."""
    rng = np.random.default_rng(seed)
    smooth = rng.normal(size=(size, dim))
    tied = rng.integers(-2, 3, size=(3 * size, dim)).astype(float)
    tied[size : 2 * size] += 1e-6 * rng.normal(size=(size, dim))
    tied[2 * size :] += 1e-9 * rng.normal(size=(size, dim))
    thetas = np.concatenate([smooth, tied])
    return np.abs(thetas) if domain == "nonnegative" else thetas


def assert_agrees(oracle, Z, seed):
    """The oracle maximises over exactly the rows of Z, and everything it says about them is true."""
    thetas = thetas_for(oracle.dim, oracle.domain, seed)
    scores = thetas @ Z.T
    record = scores.max(axis=1)
    best = oracle.argmax(thetas)
    np.testing.assert_allclose(np.einsum("bd,bd->b", best, thetas), record, rtol=0, atol=2e-10)

    listed = {tuple(z) for z in Z.tolist()}
    assert {tuple(z) for z in best.tolist()} <= listed
    alone = np.stack([oracle.argmax(theta) for theta in thetas])
    np.testing.assert_allclose(np.einsum("bd,bd->b", alone, thetas), record, rtol=0, atol=2e-10)

    for z, score in zip(Z[:20], scores.T, strict=False):
        np.testing.assert_array_equal(oracle.encode(oracle.decode(z)), z)
        clear = np.abs(record - score) > 2e-10
        still = oracle.membership(z, thetas)
        np.testing.assert_array_equal(still[clear], False)
        exact_tie = score == record
        np.testing.assert_array_equal(still[exact_tie], True)
    some = Z[seed % len(Z)]
    assert_facets(oracle, Z, some, np.concatenate([thetas, _near(oracle, some, seed)]))

    assert_counts(oracle.log_cardinality, len(Z))


def _near(oracle, z, seed):
    """Thetas close to the cone of z, where one missing facet is enough to be noticed."""
    toward = z - z.min() if oracle.domain == "nonnegative" else z
    near = toward + 0.4 * np.random.default_rng(seed).normal(size=(60, oracle.dim))
    return np.abs(near) if oracle.domain == "nonnegative" else near


def assert_facets(oracle, Z, z, thetas):
    """Listed facets lead to answers, none twice, and together they see everything that beats z."""
    rows = oracle.facets_up_to(z, 10_000)
    assert rows is not None
    assert len(rows.indices) == rows.count_nonzero()
    listed = {tuple(y) for y in (z + rows.toarray()).tolist()}
    assert len(listed) == rows.shape[0]
    assert listed <= {tuple(other) for other in Z.tolist()} - {tuple(z.tolist())}
    behind = (rows @ thetas.T).max(axis=0) if rows.shape[0] else np.full(len(thetas), -np.inf)
    beaten = (thetas @ (Z - z).T).max(axis=1)
    np.testing.assert_array_equal(behind[beaten > 2e-10] > 0.0, True)
    if rows.shape[0]:
        assert oracle.facets_up_to(z, rows.shape[0] - 1) is None


def assert_counts(claimed, true_count):
    """An exact claim is exact, a bound is a bound."""
    if claimed.exact:
        assert abs(claimed - np.log(true_count)) < 1e-9
    else:
        assert claimed >= np.log(true_count) - 1e-9
