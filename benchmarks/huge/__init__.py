"""Cost per round and samples from |Z| = 10^2 to 10^1000: `python -m benchmarks.huge`."""
