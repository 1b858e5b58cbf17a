"""Networks and losses: tensors in, tensors out; no files, no slides."""
