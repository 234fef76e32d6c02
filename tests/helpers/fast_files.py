"""Folders for test files in memory, where the system has them: tests of databases spend most of their time in fsync."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY, ENOUGH = Path("/dev/shm"), 1 << 30  # bytes


def folder():
    """Where temporary files are written fast; None for the default of the system."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH
    return MEMORY if usable else None


@pytest.fixture(name="tmp_path")
def files_in_memory():
    """As the fixture of pytest, without files that are kept after the test."""
    with tempfile.TemporaryDirectory(dir=folder(), ignore_cleanup_errors=True) as name:
        yield Path(name)
