"""Entry point of `python -m klamm`."""

import sys

from klamm.cli.main import main

sys.exit(main())
