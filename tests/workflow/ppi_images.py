"""A few small pictures in the place of CIFAR-10: each class has a colour, with noise."""

from pathlib import Path

import numpy as np

from aspirate.learning.cifar import TEST_BATCH, TRAINING_BATCHES, Cifar10, Images, read_cifar10
from aspirate.workflow.ppi_methods import StudyProtocol

RECORDS = 200

SMALL = StudyProtocol(
    bags=24,
    validation_bags=16,
    test_bags=20,
    tiles=10,
    validation_images=200,
    width=0.06,
    epochs=2,
    tiles_per_step=40,
    learning_rate=0.01,
)


def pictures(count: int, seed: int) -> Images:
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.arange(count) % 10)
    colours = np.stack([25 * np.arange(10), 255 - 25 * np.arange(10), np.full(10, 128)], 1)
    noise = rng.normal(0, 20, (count, 32, 32, 3))
    pixels = np.clip(colours[classes][:, None, None] + noise, 0, 255).astype(np.uint8)
    return Images(pixels, classes.astype(np.int64))


def small_cifar() -> Cifar10:
    return Cifar10(pictures(5 * RECORDS, 0), pictures(RECORDS, 1), "small")


def write_small_cifar(folder: Path) -> Path:
    """As binary batches; `cifar.RECORDS` must be set to `RECORDS` to read them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate((*TRAINING_BATCHES, TEST_BATCH)):
        images = pictures(RECORDS, number)
        planes = images.pixels.transpose(0, 3, 1, 2).reshape(RECORDS, -1)
        records = np.concatenate([images.classes.astype(np.uint8)[:, None], planes], 1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    assert len(read_cifar10(folder).test.classes) == RECORDS
    return folder
