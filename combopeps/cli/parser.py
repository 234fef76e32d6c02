"""Argument parsers and help of all commands. The module that runs a command is imported only for that command."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from combopeps import __version__
from combopeps.cli.options import (
    add_name,
    add_noise_kind,
    add_problem,
    add_state,
    add_strategy,
    add_workers,
    integer,
    number,
    result,
)

MAX_DIM_OF_TAU_STAR = 100  # components up to which computing tau* takes seconds
MIN_BUDGET, MAX_BUDGET = 200, 30_000  # range of the default budget of `compare`
_DESCRIPTION = "Find the best answer of a huge combinatorial set with the fewest noisy measurements."
_EPILOG = """exit codes:
  0  done; for `solve` and `status`: the answer is certain enough
  1  error, in one line on stderr (with --json as an object on stdout); for `check`: the campaign is damaged
  2  invalid command line
  3  `solve`, `status`: not certain enough yet
  4  `ask`: the queries are recorded, but could not be shown; `status` lists them
  130  interrupted

With --json there is exactly one object on stdout, a result or {"error": ..., "type": ...}.
`init`, `tell`, `observe`, `abandon`, `correct`, `retract` and `copy` exit with 0 once the change is recorded, whether
or not their output can be written. A reader that closes the pipe changes the exit code of `ask` only (4); output that
cannot be written for another reason, such as a full disk, is an error.

`combopeps COMMAND --help` explains a command, with an example.
"""
_INIT = "combopeps init town --state run.db --delta 0.1"


class UsageError(Exception):
    """Invalid command line."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        # The pattern of argparse has no exponent: it would take the measurement -1e-05 for an option.
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


class _LabelAndValue(argparse.Action):
    """Split words into a label and, in the last word, a value; with --csv, both are left out."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, words: Any, option_string: str | None = None
    ) -> None:
        namespace.label, namespace.value = words[:-1], None
        if len(words) == 1:
            raise argparse.ArgumentError(self, "LABEL and VALUE are required: what was measured, and the result")
        if words:
            try:
                namespace.value = number(words[-1])
            except ValueError:
                raise argparse.ArgumentError(self, f"VALUE must be a number, got {words[-1]!r}") from None


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = _Parser("combopeps", description=_DESCRIPTION, epilog=_EPILOG)
    top.add_argument("--version", action="version", version=f"combopeps {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for add in (_add_show, _add_plan, _add_solve, _add_bench, _add_measure, _add_databases, _add_serve):
        add(commands)
    return top


def _add(commands: Any, module: str, name: str, summary: str, example: str, more: str = "") -> argparse.ArgumentParser:
    """Add a command, run by `run_<name>` of the module; `example` consists of shell lines, which the tests run."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary.replace("%", "%%"),
        description=f"{summary[0].upper()}{summary[1:]}.{' ' if more else ''}{more}",
        epilog="example:\n" + "".join(f"  {line}\n" for line in example.splitlines()),
    )
    command.add_argument("--json", action="store_true", help="print one JSON object, for scripts")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(module=f"combopeps.cli.{module}")
    return command


def _add_show(commands: Any) -> None:
    names = _add(
        commands, "options", "list", "the instances of the package, or its policies, rules, samplers or noises",
        "combopeps list\ncombopeps list policies",
    )  # fmt: skip
    names.add_argument(
        "what",
        nargs="?",
        default="instances",
        choices=("instances", "policies", "rules", "samplers", "noises"),
        help="what to list",
    )
    show = _add(
        commands, "show", "show", "what an instance is: size, best answer, gap, tau*",
        "combopeps show town\ncombopeps show topk-paper --json\ncombopeps show nsfnet --plot nsfnet.png",
        f"tau* is computed up to {MAX_DIM_OF_TAU_STAR} components, to 1 %.",
    )  # fmt: skip
    add_problem(show)
    show.add_argument("--plot", metavar="PNG", help="draw it (needs matplotlib: pip install 'combopeps[plot]')")


def _add_plan(commands: Any) -> None:
    plan = _add(
        commands, "plan", "plan", "forecast measurements, cost and error rate by simulation",
        "combopeps plan cyclic-matching --stopping posterior,verified --runs 4\n"
        "combopeps plan cyclic-matching --budget 60 --runs 10 --plot plan.png",
        "Reports for each rule\nthe number of measurements, their cost and the share of right answers, and how that "
        "share grows with the budget.\nTheta is that of the instance or file, a guess of your own (--theta), or drawn "
        "from the prior.",
    )  # fmt: skip
    add_problem(plan)
    add_noise_kind(plan)
    add_name(plan, "--policy", "policies", "greedy", "what to measure next")
    plan.add_argument(
        "--stopping", metavar="NAMES", action="append",
        help="rules, separated by commas or one at a time (posterior); `combopeps list rules` shows all",
    )  # fmt: skip
    plan.add_argument("--delta", type=number, default=0.05, help="allowed probability of a wrong answer (0.05)")
    plan.add_argument(
        "--epsilon", type=number, default=0.0, help="accept answers that are worse than the best by at most this (0)"
    )
    plan.add_argument("--budget", type=integer, help="available samples or actions: report what they achieve")
    plan.add_argument("--initial-design", metavar="N", type=integer, help="first measure every arm N times")
    plan.add_argument("--runs", type=integer, default=100, help="simulated runs for each rule (100)")
    plan.add_argument(
        "--theta", metavar="CSV", help="guess: columns label (or source and target, left and right), value, opt. sem"
    )
    plan.add_argument("--theta-std", metavar="STD", type=number, help="standard deviation of the guess (0)")
    plan.add_argument("--from-prior", action="store_true", help="draw theta from the prior in every run")
    plan.add_argument("--seconds", type=number, default=48.0, help="time after which all runs are cut off (48)")
    plan.add_argument("--seed", type=integer, default=0, help="seed of all random numbers (0)")
    plan.add_argument("--jobs", type=integer, help="processes; by default one, or all cores for long plans")
    plan.add_argument("--scheduler", metavar="ADDRESS", help="a Dask cluster to run on")
    plan.add_argument("--csv", metavar="FILE", help="write the table to a file")
    plan.add_argument("--plot", metavar="PNG", help="plot ends of runs and shares of right answers (needs matplotlib)")


def _add_solve(commands: Any) -> None:
    solve = _add(
        commands, "solve", "solve", "find the best answer from simulated measurements",
        "combopeps solve town --delta 0.1 --seed 1\ncombopeps solve cyclic-matching --policy peps --json\n"
        "combopeps solve nsfnet --stopping certified --plot nsfnet.png\ncombopeps solve town --nature relative:0.3\n"
        "combopeps solve town --actions answers",
        "Each measurement is the true value\nplus noise, which is normal unless --nature is given. To use your own "
        "measurements: `combopeps init`.",
    )  # fmt: skip
    add_problem(solve)
    add_noise_kind(solve)
    add_strategy(solve)
    add_name(solve, "--sampler", "samplers", "auto", "sampler of alternatives")
    solve.add_argument("--budget", type=integer, help="maximal number of samples, or actions")
    solve.add_argument("--budget-cost", type=number, metavar="COST", help="maximal cost of the samples")
    solve.add_argument("--batch", type=integer, default=1, help="samples that are requested at once (1)")
    solve.add_argument("--save", metavar="JSON", help="write the result to a file, as --json prints it")
    solve.add_argument(
        "--plot", metavar="PNG", help="draw the answer (needs matplotlib: pip install 'combopeps[plot]')"
    )
    solve.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show progress; by default on a terminal"
    )


def _add_bench(commands: Any) -> None:
    compare = _add(
        commands, "compare", "compare", "samples that policies need to be right in 80, 90 and 95 % of runs",
        "combopeps compare cyclic-matching --policies peps,top-two,uniform --runs 20 --budget 400\n"
        "combopeps compare soare --policies top-two,lingame --runs 10 --budget 400 --plot curves.png",
        "\nIntervals are 95 % bootstrap intervals over the runs. If a policy cannot run on the problem, its row has\n"
        "the reason.",
    )  # fmt: skip
    add_problem(compare)
    add_noise_kind(compare)
    compare.add_argument("--policies", default="peps,top-two", help="names, separated by commas (peps,top-two)")
    compare.add_argument("--runs", type=integer, default=100, help="runs per policy (100)")
    compare.add_argument(
        "--budget", type=integer, help=f"samples per run; by default 12/tau*, {MIN_BUDGET} to {MAX_BUDGET}"
    )
    compare.add_argument("--seed", type=integer, default=0, help="seed of all random numbers (0)")
    add_workers(compare)
    compare.add_argument("--plot", metavar="PNG", help="draw the curves (needs matplotlib)")
    bench = _add(
        commands, "compare", "bench", "run a benchmark of the checkout; without a name, list them", "combopeps bench",
        "\nArguments after the name are passed on: `combopeps bench policies --quick`. Results go to docs/results/.",
    )  # fmt: skip
    bench.add_argument("name", metavar="NAME", nargs="?", help="a module or package of benchmarks/")
    bench.add_argument("rest", metavar="...", nargs=argparse.REMAINDER, help="passed on to the benchmark")


def _add_measure(commands: Any) -> None:
    init = _add(commands, "campaigns", "init", "create a campaign for your own measurements", _INIT)
    add_problem(init)
    add_strategy(init)
    add_state(init, timeout=False, oracle=False)
    ask = _add(
        commands, "campaigns", "ask", "what to measure next", f"{_INIT}\ncombopeps ask --state run.db -n 2",
        "Prints the number of\neach query and what to measure, with the parts to be read below an action. Report "
        "results by\n`combopeps tell`.",
    )  # fmt: skip
    add_state(ask)
    ask.add_argument("-n", type=integer, default=1, help="number of queries (1)")
    ask.add_argument("--client", metavar="NAME", help="name of the client, which gets its open queries back first")
    ask.add_argument(
        "--lease", metavar="SECONDS", type=number,
        help="time without a result after which other clients may get the queries",
    )  # fmt: skip
    tell = _add(
        commands, "campaigns", "tell", "record the result of a query",
        f"{_INIT}\ncombopeps ask --state run.db -n 3\ncombopeps tell --state run.db 0 3.25\n"
        "printf 'id,value\\n1,4.5\\n2,5.5\\n' > results.csv\ncombopeps tell --state run.db --csv results.csv\n"
        "combopeps init town --actions answers --state routes.db\ncombopeps ask --state routes.db\n"
        "combopeps tell --state routes.db 0 'station - harbour=4.5' 'harbour - bridge=3.25'",
        "Recording the same result twice is harmless.",
    )  # fmt: skip
    add_state(tell)
    tell.add_argument("id", metavar="ID", nargs="?", type=integer, help="number of the query")
    tell.add_argument(
        "value", metavar="VALUE", nargs="*", type=result,
        help="what was measured; of an action LABEL=VALUE for every part that was read, or all values in their order",
    )  # fmt: skip
    tell.add_argument(
        "--csv", metavar="FILE",
        help="many results: a CSV file with the columns id, value, and optionally sem; for actions also label (or "
        "source and target, left and right), with a row for every part that was read",
    )  # fmt: skip
    tell.add_argument("--sem", type=number, help="standard error of this measurement, in place of the noise")
    _add_yes(tell)
    observe = _add(
        commands, "campaigns", "observe", "record measurements that no query asked for",
        f"{_INIT}\ncombopeps observe --state run.db station market 3.25\n"
        "combopeps observe --state run.db 'station - market' 3.5\n"
        "printf 'source,target,value\\nstation,market,3.5\\nmarket,harbour,4.5\\n' > history.csv\n"
        "combopeps observe --state run.db --csv history.csv",
        "Measurements that are\nrecorded twice count twice. If some are left out because of their values, no claim "
        "holds.",
    )  # fmt: skip
    add_state(observe)
    observe.add_argument(
        "label", metavar="LABEL", nargs="*", action=_LabelAndValue,
        help="what was measured: an item, or the ends of an edge, or either as `ask` prints it; then the result, VALUE",
    )  # fmt: skip
    observe.usage = "combopeps observe --state FILE [options] (LABEL ... VALUE | --csv FILE)"
    observe.add_argument("--sem", type=number, help="standard error of the value")
    observe.add_argument("--count", type=integer, default=1, help="number of measurements whose mean the value is (1)")
    observe.add_argument(
        "--csv", metavar="FILE",
        help="many measurements: a CSV file with the columns label (or source and target, left and right) and value; "
        "all of them are recorded or none",
    )  # fmt: skip
    _add_yes(observe)
    correct = _add(
        commands, "campaigns", "correct", "replace a result that was recorded wrongly",
        f"{_INIT}\ncombopeps observe --state run.db station market 32.5\ncombopeps export --state run.db -o run.csv\n"
        "combopeps correct --state run.db 2 3.25",
        "\nThe numbers of events are in the column\n`event` of an export. A result that is corrected because of its "
        "value makes every claim void.",
    )  # fmt: skip
    add_state(correct)
    correct.add_argument("event", metavar="EVENT", type=integer, help="number of the event that recorded the result")
    correct.add_argument(
        "value", metavar="VALUE", nargs="+", type=result,
        help="the right result; of an action LABEL=VALUE for every part that was read, or all values in their order",
    )  # fmt: skip
    correct.add_argument("--sem", type=number, help="standard error of this measurement, in place of the noise")
    _add_yes(correct)
    retract = _add(
        commands, "campaigns", "retract", "withdraw a result that should not have been recorded",
        f"{_INIT}\ncombopeps observe --state run.db station market 32.5\ncombopeps retract --state run.db 2",
        "A result that is retracted because of its value makes every claim void.",
    )  # fmt: skip
    add_state(retract)
    retract.add_argument("event", metavar="EVENT", type=integer, help="number of the event that recorded the result")
    abandon = _add(
        commands, "campaigns", "abandon", "close a query that will never be answered",
        f"{_INIT}\ncombopeps ask --state run.db\ncombopeps abandon --state run.db 0",
        "A query that is abandoned because of its result makes every claim void.",
    )  # fmt: skip
    add_state(abandon)
    abandon.add_argument("id", metavar="ID", type=integer, help="number of the query")
    status = _add(
        commands, "campaigns", "status", "the answer so far, its error probability, and what to do next",
        "combopeps init town --state run.db\ncombopeps status --state run.db || test $? = 3",
        "\nExit code 0 when the answer is certain enough, 3 when it is not.",
    )  # fmt: skip
    add_state(status)
    status.add_argument("--plot", metavar="PNG", help="draw the answer so far (needs matplotlib)")
    report = _add(
        commands, "campaigns", "report", "write the state of the campaign to an HTML file",
        f"{_INIT}\ncombopeps report --state run.db -o report.html",
        "The page\nshows the status, a picture of the answer, and the error probability over time (needs jinja2: "
        "pip install\n'combopeps[serve]').",
    )  # fmt: skip
    add_state(report)
    report.add_argument("-o", "--output", metavar="HTML", required=True, help="the file to write")
    report.add_argument("--title", default="", help="title of the page; by default the name of the problem")
    check = _add(
        commands, "campaigns", "check", "verify the checksum and the content of every event of a campaign",
        f"{_INIT}\ncombopeps check --state run.db",
        "Exit code 1 if it is damaged.",
    )  # fmt: skip
    add_state(check, timeout=False)
    export = _add(
        commands, "campaigns", "export", "the events of a campaign as JSON Lines, or its measurements as CSV",
        f"{_INIT}\ncombopeps export --state run.db -o run.jsonl\ncombopeps export --state run.db -o run.csv",
        "Damaged events are\nleft out and listed.",
    )  # fmt: skip
    add_state(export, timeout=False, oracle=False)
    export.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write: .jsonl or .csv")


def _add_yes(command: Any) -> None:
    command.add_argument(
        "--yes", action="store_true", help="accept values that are implausible given the results so far"
    )


def _add_databases(commands: Any) -> None:
    copy = _add(
        commands, "campaigns", "copy", "copy a campaign to another database",
        f"{_INIT}\ncombopeps copy run.db sqlite:///runs.db#town\ncombopeps copy sqlite:///runs.db#town copy.db",
        "\nThe source is not changed; the target must not exist.",
    )  # fmt: skip
    copy.add_argument("source", metavar="FROM", help="a SQLite file, or the URL of a campaign in a database")
    copy.add_argument("target", metavar="TO", help="a new SQLite file, or the URL of a new campaign in a database")
    names = _add(
        commands, "campaigns", "campaigns", "the names of all campaigns in a database",
        "combopeps init town --state sqlite:///runs.db#town\ncombopeps campaigns --state sqlite:///runs.db",
    )  # fmt: skip
    names.add_argument(
        "--state", metavar="URL", required=True, help="sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )


def _add_serve(commands: Any) -> None:
    serve = _add(
        commands, "campaigns", "serve", "a campaign over HTTP, for a team, with a live page",
        f"{_INIT}\ncombopeps serve --state run.db --port 0",
        "Runs until it is interrupted. Without\n--token-file it is reachable from this machine only, by all of its "
        "users. Needs FastAPI and uvicorn: pip install\n'combopeps[serve]'.",
    )  # fmt: skip
    add_state(serve)
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=integer, default=8765, help="the port (8765); 0 for any free port")
    serve.add_argument(
        "--token-file", metavar="FILE", help="access tokens: lines `owner TOKEN` and `measurer TOKEN [name]`"
    )
    serve.add_argument(
        "--lease", metavar="SECONDS", type=number,
        help="time without a result after which other clients may get a query; by default unlimited",
    )  # fmt: skip
    serve.add_argument(
        "--pause", metavar="SECONDS", type=number, default=0.5,
        help="minimal time between two updates of the status (0.5)",
    )  # fmt: skip
    serve.add_argument("--rate", type=number, default=2000.0, help="requests per second and token (2000)")
    serve.add_argument(
        "--root-path", metavar="PATH", default="", help="the path under which a reverse proxy exposes the server"
    )
    serve.add_argument(
        "--proxy", metavar="IP", action="append", default=[],
        help="a reverse proxy whose forwarded headers (client, https) are trusted; by default none",
    )  # fmt: skip
