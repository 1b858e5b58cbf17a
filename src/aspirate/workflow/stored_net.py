"""A net of a bundle that stays on disk: its weights are checked when the bundle is loaded, and read only by an engine
that cannot do without them, as one that has compiled the net before can."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from aspirate.core.errors import AspirateError
from aspirate.engines.cache import fingerprint, keep_note, kept_note
from aspirate.learning.stored import stored_sha256, stored_shapes
from aspirate.workflow.admission import Admission

if TYPE_CHECKING:
    from aspirate.nn.tile_net import TileNet


SETTLED_NS = 2_000_000_000
"""A file that was changed less long ago may change again without a later time."""


@dataclass(frozen=True)
class StoredNet:
    """`OnDisk` of `engines/engine.py`."""

    folder: Path
    name: str
    encoder: str
    side_px: int
    outputs: int = 1

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.safetensors"

    def refuse_others(self, sha256: str, admissions: Sequence[Admission] = ()) -> None:
        """Weights must be those that model.json describes, and what it says of other precisions must fit them."""
        if _sha256(self.path) != sha256:
            raise ValueError(f"the weights of {self.name} are not those that model.json describes")
        layers = sum(len(shape) > 1 for shape in stored_shapes(self.path))
        for admission in admissions:
            admission.refuse_other(self.name, layers)

    @cached_property
    def numbers(self) -> int:
        return sum(map(prod, stored_shapes(self.path)))

    def read(self) -> "TileNet":
        try:
            return self._net
        except (ValueError, RuntimeError, TypeError, OverflowError, MemoryError) as error:
            raise AspirateError(
                f"{self.folder}: not a model bundle, or a damaged one ({error}); train or copy it again"
            ) from error

    @cached_property
    def _net(self) -> "TileNet":
        import torch  # here, since whoever scores with a compiled net needs none

        from aspirate.learning.checkpoints import load_tensors
        from aspirate.nn.tile_net import TileNet

        with torch.device("meta"):  # its weights come from disk
            net = TileNet(self.encoder, self.side_px, self.outputs)
        tensors, _ = load_tensors(self.path)
        expected = {key: tuple(tensor.shape) for key, tensor in net.state_dict().items()}
        if {key: tuple(tensor.shape) for key, tensor in tensors.items()} != expected:
            raise ValueError(f"the tensors of {self.name} are not those of a {self.encoder}")
        net.load_state_dict(tensors, assign=True)  # they stay on disk until someone computes with them
        return net.eval()


def _sha256(path: Path) -> str:
    """Of its tensors; reckoned once while the file is as it was, since a large one takes longer than a slide."""
    state = path.stat()
    changed = max(state.st_mtime_ns, state.st_ctime_ns)
    name = f"weights-{fingerprint(str(path.resolve()), state.st_size, state.st_mtime_ns, changed, state.st_ino)}.json"
    known = (kept_note(name) or {}).get("sha256")
    if isinstance(known, str):
        return known
    found = stored_sha256(path)
    if time.time_ns() - changed > SETTLED_NS:
        keep_note(name, {"sha256": found})
    return found
