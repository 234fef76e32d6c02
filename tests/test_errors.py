"""Every error survives a process pool."""

import pickle

import pytest

from combopeps import errors


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith("Error")])
def test_pickle_round_trip(name):
    error = getattr(errors, name)("what went wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "what went wrong"
    assert isinstance(copy, errors.ComboPepsError)
