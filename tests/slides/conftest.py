"""Lets the tests of this folder, and processes they spawn, import the slides' maker beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
