"""What the process beside the server does: look at the campaign, and put what it sees into words.

It reads the storage for itself, so that whatever it computes, and however long, results are taken meanwhile.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from combopeps.campaign import Campaign
from combopeps.campaign.export import measurements_csv
from combopeps.errors import ComboPepsError, ServerError
from combopeps.forms import plain
from combopeps.page import Curve, Live, facts_of, fragment, render
from combopeps.policies.ledger import ActionQuery, Query
from combopeps.run.status import Status


@dataclass(frozen=True)
class Look:
    """What was seen: `tag` stands for the records that were there, `content` is what a request gets."""

    tag: str
    content: Any
    seconds: float = 0.0


def main() -> None:
    """Answer (name, *arguments) by (True, look) or (False, error), until the other end is gone; first, open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server ends this process
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an oracle prints must not mix with answers
    warnings.simplefilter("ignore", UserWarning)  # of measurements: the status says them
    eyes: _Eyes | None = None
    said = set[tuple[str, type]]()
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            if eyes is None:
                eyes = _Eyes(question())
                answer = True, eyes.campaign.header
            else:
                begun = time.perf_counter()
                seen = getattr(eyes, question[0])(*question[1:])
                answer = True, replace(seen, seconds=time.perf_counter() - begun) if isinstance(seen, Look) else seen
        except ComboPepsError as error:
            answer = False, error
        except Exception as error:
            what = "campaign" if eyes is None else question[0]
            if (what, type(error)) not in said:  # once is enough: a page asks every few seconds
                said.add((what, type(error)))
                traceback.print_exc()
            answer = False, ServerError(f"the {what} cannot be {_DONE.get(what, 'shown')}: {_cause(error)}")
        try:
            answers.write(pickle.dumps(answer))
            answers.flush()
        except BrokenPipeError:
            return


_DONE = {"campaign": "opened", "page": "drawn"}


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.200}" if str(error) else type(error).__name__


class _Eyes:
    """One method for each kind of look."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.curve = campaign, Curve()
        campaign.pin()

    def tag(self) -> str:
        """Of the records that are there now."""
        with self.campaign._reading():
            return blake2b(repr(self.campaign._cursor).encode(), digest_size=12).hexdigest()

    def status(self) -> Look:
        with self.campaign._mutex:
            tag = self.tag()
            return Look(tag, dumped(status_json(self.campaign, self.campaign.status()) | {"tag": tag}))

    def page(self) -> Look:
        """The whole page, the part of it that changes, and what stands in the page for the nonce of a request."""
        with self.campaign._mutex:
            tag, placeholder = self.tag(), secrets.token_hex(16)
            facts, live = facts_of(self.campaign, curve=self.curve), Live(f'"{tag}"')
        document = render(facts, live, nonce=placeholder)
        return Look(tag, (_encoded(document), _encoded(fragment(facts, live)), placeholder.encode()))

    def measurements(self) -> Look:
        return Look(self.tag(), measurements_csv(self.campaign.store.read().events)[0])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # of what people have named


def dumped(document: Any) -> bytes:
    """JSON as the server sends it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def query_json(query: Query) -> dict[str, Any]:
    """Number, label, what is to be read; and which arm, or which components of an action, as in a state file."""
    said = {"id": query.id, "label": plain(query.label), "components": plain(query.components)}
    if isinstance(query, ActionQuery):
        return said | {"action": np.flatnonzero(query.action).tolist()}
    return said | {"arm": query.arm}


def open_json(campaign: Campaign) -> list[dict[str, Any]]:
    """The open queries, and who has them until when."""
    with campaign._reading() as state:
        held = [(query, state.hands.get(query.id)) for query in state.ledger.open.values()]
    return [
        query_json(query) | {"client": holder and holder.client, "until": holder and holder.until}
        for query, holder in held
    ]


def status_json(campaign: Campaign, status: Status) -> dict[str, Any]:
    """As `combopeps status --json` has it, with answers as vectors beside their names: [component, entry] pairs."""
    oracle = campaign.problem.oracle
    rival = None if status.alternative is None else oracle.encode(status.alternative)
    return {
        "answer": plain(status.answer),
        "z": entries(status.z),
        "runner_up": plain(status.alternative),
        "runner_up_z": None if rival is None else entries(rival),
        "error_probability": plain(status.error_probability),
        "error_interval": [*status.error_interval],
        "leaders": plain(status.leaders),
        "leaders_z": [entries(one.z) for one in status.leaders],
        "delta": status.delta,
        "epsilon": status.epsilon,
        "stop": bool(status.stop),
        "claim": status.claim,
        "samples": status.samples,
        "actions": status.actions,
        "cost": status.cost,
        "open": open_json(campaign),
        "next": plain(status.next),
        "pulls": [[plain(label), int(count)] for label, count in status.pulls.items() if count],
        "warning": status.warning,
        "noise_estimate": plain(status.noise_estimate),
    }


def entries(z: Any) -> list[list[Any]]:
    """What is not zero in an answer."""
    vector = np.asarray(z)
    return [[int(i), float(vector[i])] for i in np.flatnonzero(vector)]
