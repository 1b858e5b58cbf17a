"""Broken and hostile files: more than a thousand, each through the door of the program that reads its kind."""
