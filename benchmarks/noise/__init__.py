"""What wrong assumptions about the noise, and about rows, do to a run: `python -m benchmarks.noise`."""
