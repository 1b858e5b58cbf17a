"""Are the rivals at full strength? Their poolings on the classical data sets, with an MLP in place of the CNN.

python benchmarks/mil.py DATA [--sets musk1 elephant] [--pools attention gated-attention] [--out FILE.json]

Settings as published for attention (Ilse et al. 2018): layers of 256, 128, 64 with dropout, weights drawn as by
Glorot and Bengio (2010), SGD with momentum 0.9 and weight decay 0.005, rate 0.0005 (musk1) or 0.0001 (elephant), one
bag a step, 100 epochs; the decision at one half; 5 × 10-fold. Features are scaled by the training part of each fold,
and the last epoch is taken. Nothing was tuned here. Writes as it goes, resumes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from aspirate.core.store import write_json
from aspirate.nn.pooling import POOLS

RATES = {"musk1": 5e-4, "elephant": 1e-4}
PUBLISHED = {
    ("musk1", "attention"): (0.892, 0.040),
    ("musk1", "gated-attention"): (0.900, 0.050),
    ("elephant", "attention"): (0.868, 0.022),
    ("elephant", "gated-attention"): (0.857, 0.027),
}
EPOCHS, REPEATS, FOLDS = 100, 5, 10
CUT = torch.zeros(1)


class BagMlp(nn.Module):
    """(N, features) of a bag → logit that it is positive."""

    def __init__(self, features: int, pool: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in (256, 128, 64):
            layers += [nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.5)]
            features = width
        self.encoder = nn.Sequential(*layers)
        self.pool = POOLS[pool](features)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, rows: Tensor, bag: Tensor) -> Tensor:
        logits: Tensor = self.pool(self.encoder(rows), bag, CUT)[:, 0]
        return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(RATES))
    parser.add_argument("--pools", nargs="+", default=["attention", "gated-attention"])
    parser.add_argument("--out", type=Path, default=Path("mil.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.sets:
        arrays = np.load(given.data / f"{name}.npz", allow_pickle=False)
        for pool in given.pools:
            for repeat in range(REPEATS):
                key = f"{name} {pool} {repeat}"
                if key not in found:
                    found[key] = accuracies(arrays["X"], arrays["bag"], arrays["bag_label"], pool, RATES[name], repeat)
                    write_json(given.out, found)
            means = [float(np.mean(found[f"{name} {pool} {repeat}"])) for repeat in range(REPEATS)]
            known = PUBLISHED.get((name, pool))
            print(f"{name} {pool}: {np.mean(means):.3f} (repeats {min(means):.3f}–{max(means):.3f}), published {known}")


def accuracies(x: np.ndarray, bag: np.ndarray, label: np.ndarray, pool: str, rate: float, seed: int) -> list[float]:
    """One accuracy per fold."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(label)), label)
    return [accuracy(x, bag, label, train, test, pool, rate, seed) for train, test in folds]


def accuracy(
    x: np.ndarray,
    bag: np.ndarray,
    label: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    pool: str,
    rate: float,
    seed: int,
) -> float:
    rows = x[np.isin(bag, train)]
    spread = rows.std(0)  # some features are constant in a training part, and must not be blown up elsewhere
    scaled = torch.from_numpy((x - rows.mean(0)) / np.where(spread > 1e-6, spread, 1.0)).float()
    bags = [scaled[bag == number] for number in range(len(label))]
    whole = [torch.zeros(len(rows), dtype=torch.long) for rows in bags]
    target = torch.from_numpy(label).float()
    torch.manual_seed(seed)
    net = BagMlp(x.shape[1], pool)
    optimiser = torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=0.005, fused=True)
    order = np.random.default_rng(seed)
    net.train()
    for _ in range(EPOCHS):
        for number in order.permutation(train):
            optimiser.zero_grad()
            said = net(bags[number], whole[number])
            loss = binary_cross_entropy_with_logits(said, target[number : number + 1])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    net.eval()
    with torch.no_grad():
        right = [(float(net(bags[n], whole[n])) > 0) == bool(label[n]) for n in test]
    return float(np.mean(right))


if __name__ == "__main__":
    main()
