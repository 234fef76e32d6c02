"""What `tell` is told: a number, the parts of an action as LABEL=VALUE or in their order, or a CSV file of either."""

from __future__ import annotations

import argparse
from collections.abc import Hashable
from typing import Any

from combopeps.campaign import Campaign
from combopeps.errors import LabelError, ParameterError
from combopeps.tables.book import LabelBook
from combopeps.tables.rows import read_parts_told, read_results
from combopeps.tables.written import label_text


def results_for(campaign: Campaign, args: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Return results as `Campaign.tell_many` takes them."""
    if args.csv is not None:
        single = not campaign.problem.measures_actions
        return list(read_results(args.csv) if single else read_parts_told(args.csv, _book(campaign)))
    return [(args.id, value_for(campaign, args), args.sem)]


def value_for(campaign: Campaign, args: argparse.Namespace) -> Any:
    """Return one result as `Campaign.tell` takes it: a number, or those of the parts of an action."""
    pairs = [value for value in args.value if isinstance(value, tuple)]
    if not campaign.problem.measures_actions:
        if pairs or len(args.value) != 1:
            raise ParameterError("this campaign measures one thing at a time: give one number, VALUE")
        return args.value[0]
    if args.sem is not None:
        raise ParameterError(
            "--sem is for single measurements; of the parts of an action, it is a column of a --csv file"
        )
    if not pairs:
        return args.value
    if len(pairs) < len(args.value):
        raise ParameterError("give LABEL=VALUE for every part that was read, or all values in the order of `ask`")
    return _by_label(pairs, _book(campaign))


def _by_label(pairs: list[tuple[str, float]], book: LabelBook) -> dict[Hashable, float]:
    told: dict[Hashable, float] = {}
    for words, value in pairs:
        label = book.by_words([words.strip()])
        if label in told:
            raise LabelError(f"{label_text(label):.60} stands there twice")
        told[label] = value
    return told


def _book(campaign: Campaign) -> LabelBook:
    return LabelBook(campaign.problem.arms.labels, campaign.problem.oracle)
