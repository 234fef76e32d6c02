"""The paper and its rivals, reproduced with one command: `python -m benchmarks.paper --runs 500`."""
