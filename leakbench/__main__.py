"""`python -m leakbench`."""

from leakbench.cli import main

if __name__ == "__main__":
    main()
