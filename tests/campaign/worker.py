"""A process that works on a campaign and prints what was acknowledged: `python worker.py <task> <place> ...`.

Tasks: `crashes` starts children on the file one after the other and kills each at a random moment; `swarm` keeps four at
work on it at once, and kills one after the other; `hammer` asks, tells and observes for some seconds; `hold` takes the
lock, says so and sleeps; `create` makes the file, eight times at once.
"""

import json
import os
import random
import select
import signal
import sys
import tempfile
import time

from cases import go_on, measured, problems

from combopeps import Campaign
from combopeps.campaign import copy
from combopeps.campaign.sql_store import SQLStore
from combopeps.errors import StateFileError


def say(fd, *what):
    os.write(fd, (json.dumps(what) + "\n").encode())  # one write, so that a line is whole or missing


def work(path, more, out, fault):
    """Go on with the campaign for so many measurements, and acknowledge; with a fault, die at that point of a write."""
    if fault:
        arm_fault(fault)
    campaign = Campaign.open(path)
    say(out, "begun")
    samples = campaign.samples + more
    while True:
        queries = campaign.open_queries
        if not queries:
            if campaign.samples >= samples:
                say(out, "done")
                return
            queries = campaign.ask(2)
            say(out, "ask", [[query.id, *query.arms] for query in queries])
        for query in queries:
            y = measured(query)
            campaign.tell(query, y)
            say(out, "tell", query.id, y)
            if query.id % 7 == 3 and query.action is None:
                event = campaign.measurements()[-1].event
                campaign.correct(event, y + 0.125)
                say(out, "correct", event, y + 0.125)


def arm_fault(fault):
    """The fifth transaction that writes ends in death: before its rows, before or after its end."""
    (when, step), written, insert, commit = fault.split(), [0], SQLStore._insert, SQLStore._commit

    def die():
        if written[0] == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    def faulty_insert(self, *arguments):
        written[0] += 1
        if (when, step) == ("before", "insert"):
            die()
        insert(self, *arguments)

    def faulty_commit(self, connection):
        if (when, step) == ("before", "commit"):
            die()
        commit(self, connection)
        if (when, step) == ("after", "commit"):
            die()

    SQLStore._insert, SQLStore._commit = faulty_insert, faulty_commit


def crashes(path, kills, seed, fault=None):
    """Children one after the other; what they were told is printed at the end."""
    warm_up(path)
    rng, acknowledged, killed = random.Random(seed), [], 0
    while True:
        mine, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            work(path, 10**9 if killed < kills else 20, theirs, fault if killed < kills else None)
            os._exit(0)
        os.close(theirs)
        if not fault and killed < kills:
            if killed % 2:  # every second one while it works, however long it took to connect
                select.select([mine], [], [])
            pause(path, rng, 0.05)
            os.kill(child, signal.SIGKILL)
        text = b""
        while select.select([mine], [], []) and (part := os.read(mine, 65536)):
            text += part
        os.close(mine)
        died = os.waitpid(child, 0)[1] == signal.SIGKILL
        killed += died
        acknowledged += [json.loads(line) for line in text.splitlines()]
        if not died:
            break
    print(json.dumps({"killed": killed, "acknowledged": acknowledged}))


def swarm(path, kills, seed, children=4):
    """So many children at once; a random one is killed, and another one takes its place."""
    warm_up(path)
    rng, acknowledged, killed, number, alive = random.Random(seed), [], 0, 0, {}
    while alive or killed < kills:  # the last ones are killed, too, and not replaced
        while len(alive) < children and killed < kills:
            mine, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                storm(path, number, theirs)
            os.close(theirs)
            alive[child], number = mine, number + 1
        pause(path, rng, 0.05)
        child = rng.choice(sorted(alive))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(alive.pop(child), "rb") as pipe:
            acknowledged += [json.loads(line) for line in pipe]
        killed += 1
    print(json.dumps({"killed": killed, "acknowledged": acknowledged}))


def storm(path, number, out):
    """Ask, tell and observe until death; every observation has a value of its own."""
    campaign = Campaign.open(path, timeout=60)
    for count in range(4096):
        queries = campaign.ask(2)
        say(out, "ask", [[query.id, *query.arms] for query in queries])
        for query in queries:
            campaign.tell(query, measured(query))
            say(out, "tell", query.id, measured(query))
        value = 1.0 + (number * 4096 + count) * 2.0**-40
        campaign.observe("a", value)
        say(out, "observe", value)
        campaign.samples  # noqa: B018


def warm_up(path):
    """Load everything now: kills shall fall into work, not into imports."""
    with tempfile.TemporaryDirectory() as folder:
        spare = path.partition("#")[0] + "#spare" if "://" in path else folder + "/copy"
        copy(path, spare)
        go_on(Campaign.open(spare), 10, batch=2)


def pause(path, rng, most):
    """Until the next kill. To connect to a database takes longer than to open a file."""
    time.sleep(rng.uniform(0.0, most * (6 if "://" in path else 1)))


def create(path, children=8):
    """All wait for the end of one pipe, and then create the file at once."""
    with tempfile.TemporaryDirectory() as folder:
        Campaign.create(folder + "/first", problems()["topk"])  # loads everything
    wait, go = os.pipe()
    mine, theirs = os.pipe()
    for _ in range(children):
        if os.fork() == 0:
            os.close(go)
            os.read(wait, 1)
            try:
                Campaign.create(path, problems()["topk"])
                say(theirs, "created")
            except StateFileError as error:
                say(theirs, str(error))
            os._exit(0)
    os.close(go)
    os.close(theirs)
    with os.fdopen(mine, "rb") as pipe:
        print(json.dumps([json.loads(line)[0] for line in pipe]))


def hammer(path, seconds, name):
    campaign, said, count = Campaign.open(path, timeout=60), [], 0
    print("ready", flush=True)
    sys.stdin.readline()  # all begin at the same time, however long one took to get here
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for query in campaign.ask(2):
            campaign.tell(query, measured(query))
            said.append(["tell", query.id, measured(query)])
        count += 1
        campaign.observe("a", name + count * 2.0**-20)
        said.append(["observe", name + count * 2.0**-20])
    print(json.dumps(said))


def hold(path, kill=False):
    with Campaign.open(path).store.locked():
        print("held", flush=True)
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


TASKS = {"crashes": crashes, "swarm": swarm, "hammer": hammer, "hold": hold, "create": create}

if __name__ == "__main__":
    task, path, *rest = sys.argv[1:]
    TASKS[task](path, *(json.loads(word) if word[0].isdigit() else word for word in rest))
