"""`LossRule`: stop when the expected loss E[max_z z @ theta - z_hat @ theta | data] is at most epsilon."""

from __future__ import annotations

from dataclasses import replace

from combopeps.alternatives.answer_probabilities import known_loss
from combopeps.alternatives.error_probability import budgeted_cone
from combopeps.errors import ParameterError
from combopeps.posterior.noise_level import MIN_DOF
from combopeps.stopping.base import BayesianRule, Verdict, View, check_rule_parameters

_STANDARD_ERRORS = 3.0  # of the Monte Carlo estimate, by which it has to be below epsilon
_ORACLE_CALLS = 256  # of one estimate at most, for an oracle that is not quick: as many are free in a run


class LossRule(BayesianRule):
    """Stop when the expected loss of choosing the current answer is at most epsilon, under the posterior.

    The loss is the difference between the values of the best answer and of the current one, in the units of the data.
    In large sets it falls long before the error probability does: many answers are nearly as good as the best one.

    The loss is estimated from up to 2,048 draws (see `View.rank`). The run stops when the estimate plus three standard
    errors of its Monte Carlo error is at most epsilon; where the prior is estimated, under two estimates of it. For an
    oracle that is not `quick`, the loss against the known answers, which takes no oracle calls, decides as long as it
    is larger.

    Parameters
    ----------
    epsilon
        Largest accepted expected loss, in the units of the data.
    ratio
        Factor between the times of looks.

    Examples
    --------
    >>> import numpy as np
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), stopping="loss", epsilon=0.1)
    >>> print(result.claim)
    the expected loss of the answer is at most 0.1 (Bayesian, prior N(0, 1) in every component)
    >>> result.expected_loss <= 0.1
    True
    """

    name = "loss"
    delta = 1.0

    def __init__(self, epsilon: float, *, ratio: float = 1.1) -> None:
        check_rule_parameters(0.5, epsilon, ratio)
        if epsilon == 0.0:
            raise ParameterError(
                'stopping "loss" needs an epsilon: the largest expected loss that you accept, in the units of the data'
            )
        self.epsilon, self.ratio = float(epsilon), ratio

    def _decide(self, view: View) -> Verdict:
        if view.posterior.dof[0] < MIN_DOF or not self._is_near(view):
            return Verdict(False, threshold=self.epsilon)
        ranking = view.rank(epsilon=self.epsilon)
        bound = ranking.loss.mean + _STANDARD_ERRORS * ranking.loss.error
        claim = f"the expected loss of the answer is at most {self.epsilon:g} ({self._assumptions(view)})"
        verdict = Verdict(bound <= self.epsilon, bound, self.epsilon, claim=claim)  # a NaN does not stop
        return replace(verdict, error_probability=ranking.error_probability)

    def _is_near(self, view: View) -> bool:
        """Return whether an estimate with oracle calls is worth its price, for an oracle that is not quick."""
        cone = budgeted_cone(view.sampler, view.question)
        if cone is None:
            return True
        if known_loss(view.question, cone, view.rng) > self.epsilon or not cone.memory.can_afford(
            _ORACLE_CALLS, _ORACLE_CALLS
        ):
            return False
        cone.memory.aside += _ORACLE_CALLS
        return True
