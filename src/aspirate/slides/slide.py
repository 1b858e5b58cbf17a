"""What a slide is to the rest of the program, whatever file it comes from."""

from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import DEFAULT_MPP, DEFAULT_SIDE_PX, Box, Size

RgbArray = NDArray[np.uint8]
