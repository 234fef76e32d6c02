"""The least expected cost of rules with a frequentist guarantee: one formula, in the library and in both commands."""

import json
import re

import numpy as np
import pytest
from scipy.special import rel_entr

from combopeps import load_instance, lower_bound, plan
from combopeps.cli import main
from combopeps.stopping import least_expected_cost


@pytest.mark.parametrize("delta", [0.4, 0.05, 1e-3])
def test_it_is_the_binary_relative_entropy_over_tau(delta):
    kl = rel_entr(delta, 1 - delta) + rel_entr(1 - delta, delta)
    assert least_expected_cost(0.02, delta) == pytest.approx(kl / 0.02)
    assert least_expected_cost(0.02, delta) != pytest.approx(np.log(1 / delta) / 0.02, rel=1e-6)  # the control


def test_one_half_asks_for_nothing():
    assert least_expected_cost(0.1, 0.5) == least_expected_cost(0.1, 0.7) == 0.0


def test_show_and_plan_state_the_same_number(capsys):
    assert main(["show", "nsfnet", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    instance = load_instance("nsfnet")
    bound = lower_bound(instance.problem, instance.theta, relative_gap=0.01, max_rounds=20)
    tau = bound.tau_star if bound.certified else bound.upper
    assert shown["least_cost"] == pytest.approx(least_expected_cost(tau, 0.05))
    ahead = plan(instance.problem, theta=instance.theta, runs=2, most=20)
    assert ahead.least.cost == pytest.approx(shown["least_cost"])
    number = f"{shown['least_cost']:,.0f}"
    sentence = next(line for line in ahead.words if "frequentist guarantee" in line)
    assert re.search(rf"\b{number}\b", sentence)
    assert re.search(rf"\b{number} samples\b", shown["tau_star_text"])
    for text in (sentence, shown["tau_star_text"]):
        assert "for every theta" in text
        assert "a Bayesian rule may need less" in text
