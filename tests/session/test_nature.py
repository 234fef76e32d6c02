"""Kinds of noise: their moments, one stream per replication, normal as it always was, and what they refuse."""

import json

import joblib
import numpy as np
import pytest
from backends import events
from scipy import stats
from unit_problem import unit_problem

from combopeps import Campaign, ExplicitOracle, TopKOracle, identify, load_instance, save_instance, simulate
from combopeps.cli import main
from combopeps.errors import InstanceError, ParameterError
from combopeps.io import Instance
from combopeps.random import Streams, named_seed
from combopeps.session import Noise
from combopeps.session.simulated_environment import NOISES, Environment, SingleRunDraws, as_noise

RATES = np.array([0.9, 0.6, 0.3, 0.1, 0.0])
KINDS = ["normal", "normal:0.3", "relative:0.3", "bernoulli", "poisson", "student", "student:0.3"]
ALARM = 1e-6  # probability of a false alarm of each test below, over the choice of the seed


def clicks():
    return unit_problem(TopKOracle(5, k=2), noise_std=0.5)


def drawn(kind, mean, std=0.5, R=4000):
    """One measurement in each of R replications of a problem whose arms all have this mean."""
    nature = Environment(unit_problem(TopKOracle(2, k=1), noise_std=std), np.array([mean, 0.0]), Streams.of(3, R), kind)
    return nature.measure(np.zeros(R, dtype=np.intp))


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("normal", stats.norm(0.4, 0.5)),
        ("normal:2", stats.norm(0.4, 2.0)),
        ("relative:0.3", stats.norm(0.4, 0.12)),
        ("student", stats.t(5, 0.4, 0.5 * np.sqrt(3 / 5))),
        ("student:2", stats.t(5, 0.4, 2 * np.sqrt(3 / 5))),
    ],
)
def test_continuous_kinds_have_their_distribution(kind, reference):
    assert stats.kstest(drawn(kind, 0.4), reference.cdf).pvalue > ALARM
    assert stats.kstest(drawn(kind, 0.4), stats.norm(0.4, 0.25).cdf).pvalue < ALARM  # which no other has


@pytest.mark.parametrize(("kind", "reference"), [("bernoulli", stats.bernoulli(0.4)), ("poisson", stats.poisson(0.4))])
def test_counts_have_their_distribution(kind, reference):
    y = drawn(kind, 0.4)
    values = np.arange(3)
    seen = np.array([(y == 0).sum(), (y == 1).sum(), (y > 1).sum()])
    wanted = len(y) * np.r_[reference.pmf(values[:2]), reference.sf(1)]
    some = wanted > 0
    assert (seen[~some] == 0).all()
    assert stats.chisquare(seen[some], wanted[some]).pvalue > ALARM
    assert set(np.unique(y)) <= set(range(int(y.max()) + 1))


def test_student_has_the_stated_standard_deviation_and_outliers():
    y = drawn("student", 0.0, std=2.0, R=100_000)
    assert y.std() == pytest.approx(2.0, rel=0.03)
    assert (np.abs(y) > 5 * 2.0).sum() > 50  # normal noise: none in a million


def test_means_at_the_ends_of_a_range_are_possible():
    assert set(drawn("bernoulli", 0.0)) == {0.0}
    assert set(drawn("bernoulli", 1.0)) == {1.0}
    assert set(drawn("bernoulli", 1.0 + 1e-15)) == {1.0}  # what rounding makes of a probability
    assert set(drawn("poisson", 0.0)) == {0.0}
    assert set(drawn("poisson", -1e-15)) == {0.0}
    assert drawn("poisson", 1e15).std() == pytest.approx(np.sqrt(1e15), rel=0.1)


def test_noise_that_differs_between_arms_is_taken_arm_by_arm():
    problem = unit_problem(TopKOracle(5, k=2), noise_std=[1e-9, 10.0, 1e-9, 1e-9, 1e-9])
    nature = Environment(problem, RATES, Streams.of(0, 2), "normal")
    np.testing.assert_allclose(nature.measure(np.array([0, 0])), 0.9, atol=1e-7)
    assert (np.abs(nature.measure(np.array([1, 1])) - 0.6) > 0.01).all()
    same = Environment(clicks(), RATES, Streams.of(0, 2), "normal", problem.noise)
    np.testing.assert_allclose(same.measure(np.array([0, 0])), 0.9, atol=1e-7)


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_the_grouping(kind):
    """Runs side by side are the runs of a thread."""
    options = {"budget": 30, "replications": 9, "rng": 5, "noise": kind}
    whole = simulate(clicks(), RATES, **options)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        other = simulate(clicks(), RATES, **options)
    np.testing.assert_array_equal(whole.pulls, other.pulls)
    np.testing.assert_array_equal(whole.correct, other.correct)


def test_kinds_differ():
    pulls = [simulate(clicks(), RATES, budget=60, replications=9, noise=kind).pulls.tolist() for kind in KINDS]
    assert all(a != b for i, a in enumerate(pulls) for b in pulls[:i])


def test_solve_measures_what_it_always_did(capsys):
    town, rng = load_instance("town"), np.random.default_rng(named_seed(3, "measurements"))
    means = dict(zip(town.arms.labels, town.arms.dot(town.theta[None])[0], strict=True))
    measure = lambda road: float(means[road] + town.noise_std * rng.standard_normal())  # noqa: E731
    result = identify(town.problem, measure, budget=60, rng=3)
    main(["solve", "town", "--seed", "3", "--budget", "60", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["samples"], said["error_probability"]) == (result.samples, result.error_probability)
    assert said["nature"] == "normal"


# ---------------------------------------------------------------- names, and what is refused


def test_every_name_makes_a_noise_and_says_what_it_is():
    for name, kind in NOISES.items():
        assert isinstance(as_noise("relative:0.1" if name == "relative" else name), kind)
        assert kind.__doc__.strip()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gauss", "there are normal, relative"),
        ("", "no noise is called"),
        ("relative", 'relative:0.3"'),
        ("relative:", "must be positive"),
        ("relative:-1", "must be positive"),
        ("relative:nan", "must be positive"),
        ("relative:1_0", "must be positive"),
        ("bernoulli:0.3", "takes no number"),
        (3, "a kind of noise is a name"),
        (None, "a kind of noise is a name"),
    ],
)
def test_what_is_no_noise_is_refused(name, said):
    with pytest.raises(ParameterError, match=said):
        simulate(clicks(), RATES, budget=5, replications=1, noise=name)


@pytest.mark.parametrize(("kind", "theta"), [("bernoulli", [0.5, 1.2, 0.1]), ("poisson", [3.0, -0.5, 2.0])])
def test_means_that_cannot_be_are_named_by_their_arm(kind, theta):
    problem = unit_problem(TopKOracle(["ale", "bock", "cider"], k=1))
    with pytest.raises(ParameterError, match="'bock' is"):
        simulate(problem, theta, budget=5, replications=1, noise=kind)
    assert simulate(problem, np.clip(theta, 0, 1), budget=5, replications=1, noise=kind).pulls.sum() == 5
    sums = unit_problem(ExplicitOracle(np.eye(2)), arms={"both": [1.0, 1.0], "one": [1.0, 0.0]})
    with pytest.raises(ParameterError, match=r"'both' is 1\.4"):
        simulate(sums, [0.7, 0.7], budget=5, replications=1, noise="bernoulli")


def test_a_noise_of_ones_own_and_one_run_as_a_source_of_numbers():
    class Silence(Noise):
        def draw(self, mean, std, draws):
            return mean

    trace = simulate(clicks(), RATES, "uniform", budget=5, replications=3, noise=Silence(), checkpoints=[5])
    assert trace.correct.all()
    nature = Environment(clicks(), RATES, SingleRunDraws(np.random.default_rng(0)), "poisson")
    assert nature.measure(np.array([0])).shape == (1,)


# ---------------------------------------------------------------- instances and the command line


def test_an_instance_says_what_it_is_really_like(tmp_path):
    for nature in ("normal", "bernoulli"):
        save_instance(Instance("ads", clicks(), RATES, nature=nature), tmp_path / "ads.json")
        assert load_instance(tmp_path / "ads.json").nature == nature
        assert ("nature" in (tmp_path / "ads.json").read_text()) == (
            nature != "normal"
        )  # files of old stay as they are
    for wrong in ("gauss", 3, "relative"):
        with pytest.raises(InstanceError, match="nature") as caught:
            Instance("ads", clicks(), RATES, nature=wrong)
        assert caught.value.field == "nature"
    with pytest.raises(InstanceError, match=r"nature: .*arm 1 is 1\.5"):
        Instance("ads", clicks(), [0.0, 1.5, 0.0, 0.0, 0.0], nature="bernoulli")
    assert Instance("ads", clicks(), nature="bernoulli").theta is None


def test_a_campaign_does_not_store_what_only_simulations_know(tmp_path):
    Campaign.create(tmp_path / "run.db", Instance("ads", clicks(), RATES, nature="bernoulli"))
    assert "bernoulli" not in str(events(tmp_path / "run.db"))


def test_commands_measure_what_the_file_or_the_option_says(tmp_path, capsys):
    save_instance(Instance("ads", clicks(), RATES, nature="bernoulli"), tmp_path / "ads.json")
    file = str(tmp_path / "ads.json")

    def said(*words):
        main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    assert said("show", file)["nature"] == "bernoulli"
    ours, other, normal = (
        said("solve", file, "--budget", "40", *more) for more in ([], ["--nature", "poisson"], ["--nature", "normal"])
    )
    assert (ours["nature"], other["nature"], normal["nature"]) == ("bernoulli", "poisson", "normal")
    assert len({one["error_probability"] for one in (ours, other, normal)}) == 3
    compared = said("compare", file, "--policies", "uniform", "--runs", "5", "--budget", "20")
    assert compared["nature"] == "bernoulli"
    assert {row["name"] for row in said("list", "noises")["noises"]} == set(NOISES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["solve", "town", "--nature", "gauss"], "there are normal"),
        (["compare", "town", "--nature", "relative"], "relative:0.3"),
        (["solve", "town", "--nature", "bernoulli"], "needs means from 0 to 1; that of arm"),
    ],
)
def test_commands_refuse_a_nature_that_cannot_be(words, said, capsys):
    assert main(words) in (1, 2)
    assert said in capsys.readouterr().err
