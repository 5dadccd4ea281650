"""`python -m leakbench`."""

import os
import sys

# With modules alone that Python itself has loaded already.
HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120


def without_working_folder(path: list[str]) -> list[str]:
    """``path`` without its first entry, where `python -m` put the working folder.

    A file ``random.py`` that lies where the user is must not stand for Python's; a checkout of
    leakbench that is run in place stays.
    """
    if sys.flags.safe_path or not path or os.path.realpath(path[0]) == HERE:
        return path
    return path[1:]


if __name__ == "__main__":
    sys.path[:] = without_working_folder(sys.path)
    from leakbench.cli import main

    main()
