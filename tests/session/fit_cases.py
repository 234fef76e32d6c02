"""Rows, and results that are no linear function of them."""

import numpy as np


def sphere(seed, arms, d):
    rows = np.random.default_rng(seed).normal(size=(arms, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def curved(value):
    return value + 0.5 * value**2
