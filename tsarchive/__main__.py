"""``python -m tsarchive``: the same as the ``tsarchive`` command."""

from tsarchive.cli import main

if __name__ == "__main__":
    main(prog_name="tsarchive")
