"""What the machine at hand does fastest without changing what is learned."""

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from aspirate.core.errors import ConfigError

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


def choose_compute(precision: Precision = "auto", devices: int = 1) -> Compute:
    """The fastest accelerator present; bf16 where it pays, unless told otherwise. `devices` is how many processes share
    a training, on GPUs one each."""
    accelerator = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    there = torch.cuda.device_count() if accelerator == "cuda" else 1 if accelerator == "mps" else devices
    if devices > there:
        raise ConfigError(f"{devices} devices are asked for, and this machine has {there} ({accelerator})")
    bf16 = bf16_pays(accelerator) if precision == "auto" else precision == "bf16"
    return Compute(accelerator, devices, bf16)


def bf16_pays(accelerator: str) -> bool:
    if accelerator == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return accelerator == "cpu" and bf16_pays_on_cpu()


WORTH = 1.3
"""bf16 must be so much faster than fp32; well above 1, so that noise does not decide."""

_ATTEMPT = """
import time, torch
from torch import nn
from aspirate.learning.memory import kept_memory
torch.set_num_threads(1)
layers = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 64))
net = net.to(memory_format=torch.channels_last)
x = torch.rand(16, 32, 64, 64).to(memory_format=torch.channels_last)
def seconds(bf16):
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = net(x).float().square().mean()
    loss.backward()
    return time.perf_counter() - start
with kept_memory():
    turns = [(seconds(False), seconds(True)) for _ in range(6)]
fp32, bf16 = map(min, zip(*turns))
print(fp32 / bf16)
"""
"""In turns, on one thread and with memory that is kept, as in training: with two threads that share their cores with
other work, and with memory mapped anew for each step, one and the same machine said 1.2 and 2.4."""


@cache
def bf16_pays_on_cpu() -> bool:
    """Tried in another process: some virtual machines announce bf16 matrix instructions that end a process."""
    if not torch.cpu._is_avx512_bf16_supported():
        return False
    done = subprocess.run([sys.executable, "-c", _ATTEMPT], capture_output=True, text=True, check=False)
    return done.returncode == 0 and float(done.stdout) > WORTH
