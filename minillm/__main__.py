"""`python -m minillm` is the command `minillm`."""

import sys

from minillm.cli import main

if __name__ == "__main__":
    sys.exit(main())
