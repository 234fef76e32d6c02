"""Hedge and AdaHedge against a loop in fifty decimal digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from combopeps.policies import AdaHedge, Hedge


def in_decimals(gains, step):
    """Exponential weights with step(t, lam, gain, state) in exact-looking arithmetic; the lambdas after each round."""
    with localcontext() as context:
        context.prec = 50
        arms = len(gains[0])
        total, lam, history = [Decimal(0)] * arms, [Decimal(1) / arms] * arms, []
        for gain in gains:
            gain = [Decimal(float(g)) for g in gain]
            eta = step(lam, gain)
            total = [a + b for a, b in zip(total, gain, strict=True)]
            weight = [(eta * (a - max(total))).exp() for a in total]
            lam = [w / sum(weight) for w in weight]
            history.append([float(p) for p in lam])
    return np.array(history)


def hedge(gains, eta):
    return in_decimals(gains, lambda lam, gain: Decimal(eta))


def adahedge(gains):
    delta, log_arms = [Decimal("0.01")], Decimal(len(gains[0])).ln()

    def step(lam, gain):
        eta = log_arms / delta[0]
        mix = sum(p * (eta * g).exp() for p, g in zip(lam, gain, strict=True)).ln() / eta
        delta[0] += mix - sum(p * g for p, g in zip(lam, gain, strict=True))
        return log_arms / delta[0]

    return in_decimals(gains, step)


def played(learner, gains):
    history = []
    for gain in gains:
        learner.update(np.asarray(gain)[None])
        history.append(learner.lam[0].copy())
    return np.array(history)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_learners_follow_their_definition(scale):
    gains = scale * np.random.default_rng(0).exponential(size=(60, 5))
    np.testing.assert_allclose(played(Hedge(5, 1, eta=0.3), gains), hedge(gains, 0.3), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(played(AdaHedge(5, 1), gains), adahedge(gains), rtol=1e-7, atol=1e-300)


MAKE = {"hedge": lambda arms, rows: Hedge(arms, rows, eta=0.4), "adahedge": AdaHedge}
each_learner = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


@each_learner
def test_the_first_distribution_is_uniform_and_one_arm_gets_everything(make):
    np.testing.assert_array_equal(make(4, 1).lam, np.full((1, 4), 0.25))
    only = make(1, 1)
    only.update(np.array([[5.0]]))
    np.testing.assert_array_equal(only.lam, [[1.0]])


@each_learner
def test_many_arms_and_huge_gains_do_not_overflow(make):
    arms, rng = 20_000, np.random.default_rng(2)
    learner = make(arms, 2)
    for scale in (1e-200, 1.0, 1e9, 1e200):
        gain = scale * rng.random((2, arms))
        gain[:, 17] = 2.0 * scale
        learner.update(gain)
        assert np.isfinite(learner.lam).all()
        np.testing.assert_allclose(learner.lam.sum(axis=1), 1.0, rtol=1e-9)
    assert (learner.lam.argmax(axis=1) == 17).all()


@each_learner
def test_a_constant_added_to_all_gains_changes_nothing(make):
    gains = np.random.default_rng(3).random((40, 4))
    np.testing.assert_allclose(played(make(4, 1), gains), played(make(4, 1), gains + 1e3), rtol=1e-6)


@each_learner
def test_rows_are_what_they_would_be_alone(make):
    gains = np.random.default_rng(5).exponential(size=(50, 4, 6))
    together, alone = make(6, 4), [make(6, 1) for _ in range(4)]
    for gain in gains:
        together.update(gain)
        for r in range(4):
            alone[r].update(gain[r : r + 1])
    np.testing.assert_array_equal(together.lam, np.concatenate([one.lam for one in alone]))


@pytest.mark.parametrize("kind", ["random", "one good arm", "alternating", "late change"])
def test_regret_of_adahedge_is_within_its_bound(kind):
    """S sqrt(T ln K) + S (4/3 ln K + 2) for gains in a range of size S; the start Delta_0 = 0.01 adds at most 0.02."""
    T, K, S, rng = 2000, 8, 3.0, np.random.default_rng(4)
    gains = S * rng.random((T, K))
    if kind == "one good arm":
        gains[:, 0] = S * (0.5 + 0.5 * rng.random(T))
    elif kind == "alternating":
        gains = S * (np.add.outer(np.arange(T), np.arange(K)) % 2.0)
    elif kind == "late change":
        gains[: T // 2, 1], gains[T // 2 :, 2] = S, S
    learner, earned = AdaHedge(K, 1), 0.0
    for gain in gains:
        earned += learner.lam[0] @ gain
        learner.update(gain[None])
    regret = gains.sum(axis=0).max() - earned
    assert regret <= S * np.sqrt(T * np.log(K)) + S * (4 / 3 * np.log(K) + 2) + 0.02
    if kind == "one good arm":  # staying uniform would not pass
        assert gains.sum(axis=0).max() - gains.mean(axis=1).sum() > 2 * S * np.sqrt(T * np.log(K))
