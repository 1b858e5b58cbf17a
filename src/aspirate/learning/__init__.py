"""From tiles to learned weights: batches, augmentation, the one training loop, checkpoints."""
