"""An analysis as JSON: each number with interval, n and how it was made; the same input gives the same bytes."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np
from pydantic import BaseModel


def as_json(value: object) -> Any:
    """Records become objects by the names of their fields; what is no finite number becomes null."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float):
        # the last digits of a sum depend on the machine, and say nothing
        return float(f"{value:.9g}") if isfinite(value) else None
    return value
