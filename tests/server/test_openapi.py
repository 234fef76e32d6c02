"""Random requests, made from the OpenAPI description: none of them is a fault of the server."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from served import begun, client

from combopeps import Campaign

POSTS = ("/ask", "/tell", "/observe", "/abandon", "/correct", "/retract", "/login")


@pytest.fixture
def web(tmp_path):
    campaign = begun(tmp_path / "campaign.db")
    campaign.ask(20)
    with client(tmp_path / "campaign.db", rate=1e6, burst=1e6) as made:
        yield made


def fuzz(web, cases):
    """So many of all addresses and methods, half of them against the description."""
    schema = schemathesis.openapi.from_url(f"{web.base_url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    modes, seen = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE), []
    bodies = [operation for operation in operations if operation.path in POSTS]
    assert len(bodies) == len(POSTS)
    plans = [(operation, mode) for operation in bodies for mode in modes]
    plans += [(operation, modes[0]) for operation in operations if operation not in bodies]
    for operation, mode in plans:
        share = cases // len(plans) + 1

        @settings(
            max_examples=share,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            answer = case.call(session=None)
            seen.append((case.method, case.path, answer.status_code))
            assert answer.status_code < 500, (case.method, case.path, case.body, answer.text)
            if answer.status_code >= 400 and case.path != "/":
                assert json.loads(answer.content).keys() == {"error", "type"}

        check()
    return seen


def test_no_fault_in_200_cases(web):
    seen = fuzz(web, 200)
    assert len(seen) >= 150  # small sets of cases have fewer
    assert {200, 404, 422} <= {status for *_, status in seen}


@pytest.mark.slow
def test_no_fault_in_2000_cases(web):
    assert len(fuzz(web, 3_000)) >= 2_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
NAMES = (
    "id", "value", "sem", "values", "results", "label", "rows", "count", "key", "client", "n", "lease", "token", "event",
    "confirm",
)  # fmt: skip


def test_no_fault_in_bodies_with_the_right_names(web):
    """Any values below names that mean something, and bytes that are hardly JSON."""

    @settings(max_examples=150, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(POSTS),
        st.dictionaries(st.sampled_from(NAMES), JSON | st.just(0) | st.just("a") | st.just(1.5)).map(
            lambda body: json.dumps(body).encode()
        )
        | st.binary(max_size=20),
    )
    def check(address, body):
        answer = web.post(address, content=body, headers={"content-type": "application/json"})
        assert answer.status_code < 500, (address, body, answer.text)
        assert answer.status_code == 200 or answer.json().keys() == {"error", "type"}

    check()


def test_the_check_sees_a_fault(tmp_path):
    """So that what passes above could fail."""

    class Broken(Campaign):
        @property
        def open_queries(self):
            raise RuntimeError("broken")

    path = tmp_path / "campaign.db"
    begun(path)
    with client(None, opened=lambda: Broken.open(path)) as web, pytest.raises(AssertionError, match="/open"):
        fuzz(web, 1)
