"""The reading room: slides and evidence in a browser, and what readers enter there."""
