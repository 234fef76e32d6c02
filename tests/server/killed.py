"""A server that is started again whenever it dies: `python killed.py FILE PORT`. Prints the pid of each.

Everything is loaded once: kills shall fall into work, not into imports.
"""

import os
import signal
import sys
import tempfile

from combopeps import Campaign
from combopeps.campaign import copy
from combopeps.server.launch import app, serve

if __name__ == "__main__":
    path, port = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        copy(path, folder + "/copy")
        campaign = Campaign.open(folder + "/copy")
        campaign.tell_many([(query, 1.0) for query in campaign.ask(8)])
        campaign.ask()
        app(folder + "/copy")
    while True:
        child = os.fork()
        if child == 0:
            serve(path, port=port, rate=1e6, burst=1e6)
            os._exit(0)
        print(child, flush=True)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            break
