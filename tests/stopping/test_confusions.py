"""Union bounds over mistakes, and equalities of answers, against enumeration."""

from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from families import FAMILIES

from combopeps.errors import AnswerError
from combopeps.oracles.exchanges import cyclic_confusions

CASES = {
    "top-k": 12,
    "grid": 8,
    "dag": 25,
    "multigraph": 25,
    "square matching": 4,
    "rectangular matching": 8,
    "sparse matching": 15,
    "tree": 40,
    "partition": 15,
    "at most": 8,
    "matroid": 12,
    "independent sets": 6,
    "cyclic": 40,
}


def swaps(oracle, star, hat):
    """Every pair across the boundary: any of the wrong items against any of the missed ones."""
    added, dropped = np.flatnonzero(hat & ~star), np.flatnonzero(star & ~hat)
    return [(frozenset([a]), frozenset([b])) for a, b in product(added.tolist(), dropped.tolist())]


def exchanges(oracle, star, hat):
    """Pairs of edges that make trees of both answers when they are exchanged: one at least for each wrong edge."""
    size = int(star.sum()) + 1

    def is_tree(chosen):
        graph = nx.Graph(oracle.components[i][:2] for i in np.flatnonzero(chosen))
        return len(graph) == size and nx.is_connected(graph)

    pairs = []
    for e in np.flatnonzero(hat & ~star).tolist():
        found = []
        for f in np.flatnonzero(star & ~hat).tolist():
            swap = np.isin(np.arange(len(star)), [e, f])
            if is_tree(star ^ swap) and is_tree(hat ^ swap):
                found.append((frozenset([e]), frozenset([f])))
        assert found
        pairs += found
    return pairs


def detours(oracle, star, hat):
    """Stretches between two nodes that both routes visit, where they take different edges."""
    ends = [label[:2] for label in oracle.components]
    routes = []
    for route in (star, hat):
        step = {ends[i][0]: i for i in np.flatnonzero(route).tolist()}
        node, walk = oracle.source, []
        while node != oracle.target:
            walk.append(step[node])
            node = ends[step[node]][1]
        routes.append(walk)
    shared = {ends[i][0] for i in routes[0]} & {ends[i][0] for i in routes[1]}
    stretches = []
    for walk in routes:
        cut = []
        for i in walk:
            if ends[i][0] in shared:
                cut.append([])
            cut[-1].append(i)
        stretches.append(cut)
    pairs = zip(stretches[1], stretches[0], strict=True)
    return [(frozenset(new), frozenset(old)) for new, old in pairs if new != old]


def steps_forward(oracle, star, hat):
    """From one node of the other route to the next, along the best one: such as lead onward on the other."""
    nodes, walks = [], []
    for route in (star, hat):
        passed, walk = oracle.decode_in_order(oracle.unit * route)
        nodes.append(passed)
        walks.append(walk)
    place = {node: i for i, node in enumerate(nodes[1])}
    met = [i for i, node in enumerate(nodes[0]) if node in place]
    pairs = []
    for i, j in pairwise(met):
        new, old = walks[1][place[nodes[0][i]] : place[nodes[0][j]]], walks[0][i:j]
        if new and new != old:
            pairs.append((frozenset(new), frozenset(old)))
    assert pairs
    return pairs


def alternating(oracle, star, hat):
    """Connected components of the symmetric difference."""
    graph = nx.Graph()
    for i in np.flatnonzero(star ^ hat).tolist():
        u, v = oracle.components[i]
        graph.add_edge(("left", u), ("right", v), number=i)
    blocks = []
    for nodes in nx.connected_components(graph):
        numbers = {number for *_, number in graph.subgraph(nodes).edges(data="number")}
        blocks.append((frozenset(i for i in numbers if hat[i]), frozenset(i for i in numbers if star[i])))
    return blocks


def moves(oracle, star, hat):
    """Components that the best answer has room for; else those that the other has room for; else all mutual swaps."""
    added, dropped = np.flatnonzero(hat & ~star).tolist(), np.flatnonzero(star & ~hat).tolist()
    blocks = [({a}, set()) for a in added if is_answer(oracle, star, {a})]
    blocks = blocks or [(set(), {b}) for b in dropped if is_answer(oracle, hat, {b})]
    blocks = blocks or [({a}, {b}) for a, b in product(added, dropped) if is_answer(oracle, star, {a, b})]
    blocks = [(frozenset(new), frozenset(old)) for new, old in blocks if is_answer(oracle, hat, new | old)]
    assert blocks  # a wrong answer is wrong in one of them at least
    return blocks


def is_answer(oracle, chosen, flipped):
    z = chosen.copy()
    z[list(flipped)] ^= True
    try:
        oracle.decode(oracle.unit * z)
    except AnswerError:
        return False
    return True


BLOCKS = {
    "cyclic": steps_forward,
    "top-k": swaps,
    "tree": exchanges,
    "grid": detours,
    "dag": detours,
    "multigraph": detours,
}
BLOCKS |= dict.fromkeys(["partition", "at most", "matroid", "independent sets"], moves)


def weighted_counts(family, oracle, Z):
    """For every z*: sums over single blocks and over whole answers of exp(-charges)."""
    block_of = BLOCKS.get(family, alternating)
    chosen = Z != 0
    answers = {row.tobytes() for row in chosen}
    single, whole = confusions_of(family, oracle, False).charge, confusions_of(family, oracle, True).charge
    for star in chosen:
        blocks = set()
        for hat in chosen:
            if (hat != star).any():
                blocks.update(block_of(oracle, star, hat))
        for new, old in blocks if family != "cyclic" else ():  # a block is a mistake of its own
            other = star.copy()
            other[list(old)], other[list(new)] = False, True
            assert other.tobytes() in answers
        yield (
            sum(np.exp(-single[list(new)].sum()) for new, _ in blocks),
            sum(np.exp(-whole[hat & ~star].sum()) for hat in chosen if (hat != star).any()),
        )


def confusions_of(family, oracle, whole):
    """Small graphs with cycles have so few routes that these are counted instead: here what larger ones have."""
    if family != "cyclic" or oracle.domain == "real":
        return oracle.confusions(whole=whole)
    return cyclic_confusions(oracle._network, oracle.dim, directed=oracle.directed, whole=whole)


@pytest.mark.parametrize("family", CASES)
def test_the_union_bound_holds_at_every_best_answer(family):
    rng, tightest = np.random.default_rng(0), 0.0
    for _ in range(CASES[family]):
        oracle, Z = FAMILIES[family](rng)
        single, whole = (np.exp(confusions_of(family, oracle, whole).log_count) for whole in (False, True))
        for blocks, answers in weighted_counts(family, oracle, Z):
            assert blocks <= single * (1 + 1e-9)
            assert answers <= whole * (1 + 1e-9)
            tightest = max(tightest, blocks / single)
    assert tightest > (0.1 if family == "cyclic" else 0.3)  # it is not just large


@pytest.mark.parametrize("family", ["explicit", "cyclic"])
def test_by_default_all_other_answers_count(family):
    rng = np.random.default_rng(1)
    for _ in range(20):
        oracle, Z = FAMILIES[family](rng)
        for whole in (False, True):
            confusions = oracle.confusions(whole=whole)
            if confusions.charge.any():
                assert family == "cyclic"  # many routes: see above
                continue
            assert np.exp(confusions.log_count) >= (len(Z) - 1) * (1 - 1e-9)


def test_a_set_of_unknown_size_says_so():
    oracle, _ = FAMILIES["knapsack"](np.random.default_rng(2))
    assert oracle.confusions() is None
    assert oracle.equalities() is None


@pytest.mark.parametrize("family", FAMILIES)
def test_equalities_hold_for_all_answers(family):
    rng, known = np.random.default_rng(3), 0
    for _ in range(15):
        oracle, Z = FAMILIES[family](rng)
        rows = oracle.equalities()
        if rows is not None:
            known += 1
            np.testing.assert_allclose(np.ptp(rows @ Z.T, axis=1), 0.0, atol=1e-12)
            rank = np.linalg.matrix_rank(Z - Z[0])
            assert rank <= oracle.dim - np.linalg.matrix_rank(rows.toarray())
    none = ("explicit", "size 1 or 2", "knapsack", "at most", "independent sets")
    assert known == 0 if family in none else known > 0
