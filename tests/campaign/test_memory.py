"""A campaign on a large problem needs memory for its components, never for components times arms."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
LIMIT = 0.6e9  # bytes; one array of components times arms has 12.8e9 for the matching, 3.2e9 for the items

SCRIPT = """
import json, resource, sys, tempfile
import scipy.sparse
from combopeps import Campaign, MatchingOracle, Problem, TopKOracle

def peak():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/status") as status:  # ru_maxrss would be that of whoever started us, if that is larger
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

items, peaks = TopKOracle(20_000, k=2), {"start": peak()}
for name, problem, stopping in [
    ("matching", MatchingOracle(200, 200), "posterior"),
    ("items", Problem(items, noise_std=1.0), "certified"),
    ("scaled arms", Problem(items, arms=2.0 * scipy.sparse.identity(items.dim, format="csr")), "posterior"),
]:
    path = f"{tempfile.mkdtemp()}/run.db"
    Campaign.create(path, problem, stopping=stopping)
    campaign = Campaign.open(path)
    campaign.tell(campaign.ask(), 1.0)
    assert campaign.status().samples == 1
    peaks[name] = peak()
print(json.dumps(peaks))
"""


def test_a_large_campaign_takes_memory_for_its_components_only():
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)
    assert max(peaks.values()) < LIMIT, peaks
