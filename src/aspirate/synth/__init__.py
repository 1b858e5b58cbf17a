"""Thyroid aspirates that nobody has to protect: drawn, labelled, written as slides."""
