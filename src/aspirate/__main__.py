"""`python -m aspirate`: the same as the command."""

from aspirate.cli.app import main

main()
