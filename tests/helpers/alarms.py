"""What tests of the guards share: how many alarms are too many, and measuring in batches."""

from scipy.stats import binom


def too_many(alarms, runs):
    """More than 1 in 1,000, beyond doubt: a false verdict has probability 1e-5."""
    return alarms > binom.isf(1e-5, runs, 1e-3)


def measuring_with(options, one):
    """`one` for an only label; for a list of them where runs have batches."""
    return (lambda labels: [one(label) for label in labels]) if "batch_size" in options else one
