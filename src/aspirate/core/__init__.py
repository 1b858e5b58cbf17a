"""Words, units, files and errors that all rooms share; imports no other room."""
