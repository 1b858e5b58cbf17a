"""From files of a laboratory to pixels, labels and tiles."""
