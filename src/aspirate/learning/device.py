"""What the machine at hand does fastest without changing what is learned."""

from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, slots=True)
class Compute:
    """Where and how arithmetic is done."""

    accelerator: str
    """`cuda`, `mps` or `cpu`, as Fabric calls them."""
    devices: int
    bf16: bool
    """Weights stay in fp32; products are rounded to bf16 where the hardware multiplies it faster."""

    @property
    def fabric_precision(self) -> Literal["bf16-mixed", "32-true"]:
        return "bf16-mixed" if self.bf16 else "32-true"


def choose_compute(precision: Precision = "auto", devices: int | None = None) -> Compute:
    """The fastest accelerator present; bf16 where it is native, unless told otherwise."""
    if torch.cuda.is_available():
        accelerator, count, native = "cuda", torch.cuda.device_count(), torch.cuda.is_bf16_supported()
    elif torch.backends.mps.is_available():
        accelerator, count, native = "mps", 1, False
    else:
        accelerator, count, native = "cpu", 1, cpu_multiplies_bf16()
    return Compute(accelerator, devices or count, native if precision == "auto" else precision == "bf16")


def cpu_multiplies_bf16() -> bool:
    """AVX-512 BF16 or AMX; elsewhere bf16 is emulated and slower than fp32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
