"""`python -m continual_learning.cli`."""

import sys

from continual_learning.cli import main

sys.exit(main())
