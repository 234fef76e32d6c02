"""Measuring eight things at a time: which 3 of 12 servers are the fastest?

A measurement is a test download; it takes a while, and several can run at once. There are two ways to use that:

1. `identify(..., batch_size=8)`: `measure` gets eight labels and returns eight numbers. Simple; each batch waits for
   its slowest download.
2. `session.ask(8)`, and `session.tell(query, y)` whenever a result arrives, in any order. Eight downloads are under way
   at all times.

Downloads run in threads; asking and telling is done by one, as a session serves one thread at a time.
"""

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from combopeps import Problem, Query, Result, Session, TopKOracle, identify

AT_ONCE = 8
NOISE = 1.0  # standard deviation of one test download, in MB/s
TYPICAL = 5.0  # MB/s; how large the speeds may be expected to be, before anything is measured
DELTA = 0.01

# Average MB/s. The library never sees this table, only noisy downloads.
SPEEDS = {
    "Oslo": 8.1, "Lyon": 7.6, "Porto": 7.2, "Ghent": 5.5, "Turin": 5.2, "Malmo": 5.0,
    "Cork": 4.4, "Graz": 4.1, "Brno": 3.5, "Split": 3.0, "Patras": 2.6, "Tartu": 2.0,
}  # fmt: skip


def download(server: str, rng: np.random.Generator) -> float:
    """One test download. It takes between 1 and 5 milliseconds here; yours will take longer."""
    time.sleep(rng.uniform(0.001, 0.005))
    return SPEEDS[server] + NOISE * rng.normal()


def in_batches(problem: Problem, budget: int | None, seed: int) -> Result:
    """Eight downloads, wait for all of them, eight more."""
    rng = np.random.default_rng(seed)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def measure(servers: list[str]) -> list[float]:
            return list(pool.map(download, servers, rng.spawn(len(servers))))  # threads must not share a generator

        return identify(problem, measure, delta=DELTA, budget=budget, rng=seed, batch_size=AT_ONCE)


def as_they_come(problem: Problem, budget: int | None, seed: int) -> Result:
    """Eight downloads under way at all times; a result that arrives makes room for the next one."""
    rng = np.random.default_rng(seed)
    session = Session(problem, policy="top-two", delta=DELTA, rng=seed)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def start(n: int) -> dict[Future[float], Query]:
            return {pool.submit(download, query.label, rng.spawn(1)[0]): query for query in session.ask(n)}

        running = start(min(AT_ONCE, budget or AT_ONCE))
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                session.tell(running.pop(future), future.result())
            if session.due and session.result().evidence.stop:  # due now and then: a look costs more than a round
                break
            room = len(finished) if budget is None else min(len(finished), budget - session.samples - len(running))
            if room > 0:
                running.update(start(room))
        for future, query in running.items():  # not needed any more
            future.cancel()
            session.abandon(query)
    return session.result()


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Find the three fastest servers, both ways."""
    problem = Problem(TopKOracle(SPEEDS, k=3), noise_std=NOISE, prior_std=TYPICAL, prior_mean=0.0)

    began = time.perf_counter()
    result = in_batches(problem, budget, seed)
    print(f"In batches of {AT_ONCE}: {', '.join(sorted(result.answer))}")
    print(f"  {result.samples} downloads in {time.perf_counter() - began:.2f} seconds", end="; ")
    print(f"wrong with probability {result.error_text}")
    print(f"  {', '.join(f'{server} {pulls}' for server, pulls in result.pulls.items())}")

    began = time.perf_counter()
    one_by_one = as_they_come(problem, budget, seed)
    print(f"As they come: {', '.join(sorted(one_by_one.answer))}")
    print(f"  {one_by_one.samples} downloads in {time.perf_counter() - began:.2f} seconds", end="; ")
    print(f"wrong with probability {one_by_one.error_text}")
    return result


if __name__ == "__main__":
    main()
