"""Files of campaigns are written in memory."""

from fast_files import files_in_memory  # noqa: F401, the fixture tmp_path
