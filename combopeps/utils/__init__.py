"""Problem-independent utilities: validation, files, labels, formatting, locks, compiled numerics."""
