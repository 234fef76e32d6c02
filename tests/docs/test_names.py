"""Whatever has a name in a registry stands in the tables of the documentation."""

from pathlib import Path

import pytest

from combopeps.alternatives.registry import SAMPLERS
from combopeps.io.generators import FAMILIES
from combopeps.io.oracle_kinds import KINDS
from combopeps.policies.registry import POLICIES
from combopeps.session.simulated_environment import NOISES
from combopeps.stopping.registry import RULES

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "choosing.md": {**POLICIES, **SAMPLERS, **{name: rule.make for name, rule in RULES.items()}},
    "instances.md": {**FAMILIES, **KINDS},
    "noise.md": {f"{name}:0.3" if name == "relative" else name: kind for name, kind in NOISES.items()},
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, known in PAGES.items() for name in known])
def test_every_name_or_its_class_stands_in_a_table(page, name):
    rows = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("|")]
    words = [f'"{name}"', f"`{name}`", getattr(PAGES[page][name], "__name__", name)]
    assert any(word in row for row in rows for word in words)
