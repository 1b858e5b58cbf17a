"""The method, one stage a file; they exchange records and never import each other."""
