"""`python -m mirrorax` is `mirrorax`."""

import sys

from mirrorax.cli import main

sys.exit(main())
