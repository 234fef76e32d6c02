"""`serve`: a campaign over HTTP, until it is told to stop."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from functools import partial

from combopeps.campaign import Campaign
from combopeps.cli.options import OK
from combopeps.cli.output import dumped, shown
from combopeps.cli.own import oracle_of
from combopeps.server.launch import serve


def run_serve(args: argparse.Namespace) -> int:
    """Serve; the addresses are printed at once, not at the end."""

    def ready(addresses: list[str]) -> None:
        where = " or ".join(addresses) + (f", for a proxy that shows it at {args.root_path}" if args.root_path else "")
        line = f"{shown(args.state)} at {where}; Ctrl-C stops it\n"
        document = {"address": addresses[0], "addresses": addresses, "root_path": args.root_path, "pid": os.getpid()}
        text = dumped(document) if args.json else line
        with suppress(OSError):  # a reader that has closed the pipe knows the address
            os.write(1, text.encode("utf-8", "backslashreplace"))

    serve(
        args.state, host=args.host, port=args.port, tokens=args.token_file, ready=ready,
        opened=partial(opened, args.state, args.oracle, args.timeout), lease=args.lease, pause=args.pause,
        rate=args.rate, burst=max(10_000.0, 5 * args.rate), root_path=args.root_path,
        proxies=args.proxy,
    )  # fmt: skip
    return OK


def opened(state: str, oracle: str | None, timeout: float) -> Campaign:
    """The campaign, in whatever process."""
    return Campaign.open(state, oracle=oracle_of(oracle), timeout=timeout)
