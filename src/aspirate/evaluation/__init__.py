"""Records in, numbers and pictures out; no torch, no slides."""
