"""Scoring tiles with trained nets, fast: one interface, several ways."""
