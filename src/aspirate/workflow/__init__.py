"""What a command does, from files to files."""
