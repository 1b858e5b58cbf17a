"""Faults: kills, full and read-only disks, slides that go missing, two starts at once; after each, the same results."""
