"""`python -m combopeps`."""

import sys

from combopeps.cli import main

if __name__ == "__main__":
    sys.exit(main())
