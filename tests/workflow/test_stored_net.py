"""A net that stays on disk: its fingerprint is reckoned once, and again whenever its file may have changed."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from aspirate.nn.fingerprint import tensors_sha256
from aspirate.workflow import stored_net
from aspirate.workflow.stored_net import StoredNet

LONG_AGO_S = 1_700_000_000


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredNet:
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stored_net, "SETTLED_NS", 0)  # as if all had been written long ago
    return StoredNet(tmp_path, "malignancy", "vgg11-quarter", 32)


def write(net: StoredNet, value: float) -> str:
    tensors = {"a": torch.full((5,), value)}
    save_file(tensors, net.path)
    return tensors_sha256(tensors)


def test_it_is_read_once_while_it_is_as_it_was(net: StoredNet, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = write(net, 1.0)
    net.refuse_others(sha256)

    def never(path: Path) -> str:
        raise AssertionError(f"{path} was read again")

    with monkeypatch.context() as only_here:
        only_here.setattr(stored_net, "stored_sha256", never)
        net.refuse_others(sha256)
        os.utime(net.path, (LONG_AGO_S, LONG_AGO_S))
        with pytest.raises(AssertionError, match="was read again"):
            net.refuse_others(sha256)
    net.refuse_others(sha256)


def test_other_weights_of_the_same_size_and_age_are_refused(net: StoredNet) -> None:
    sha256 = write(net, 1.0)
    os.utime(net.path, (LONG_AGO_S, LONG_AGO_S))
    net.refuse_others(sha256)
    other = write(net, 2.0)
    os.utime(net.path, (LONG_AGO_S, LONG_AGO_S))
    with pytest.raises(ValueError, match="the weights of malignancy are not those"):
        net.refuse_others(sha256)
    net.refuse_others(other)


def test_a_file_just_written_is_read_every_time(net: StoredNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_net, "SETTLED_NS", 10**12)
    net.refuse_others(write(net, 1.0))
    assert not list((net.folder / "cache").glob("weights-*")), "it may change within the same tick of the clock"
