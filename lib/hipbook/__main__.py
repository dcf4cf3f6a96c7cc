"""`python -m hipbook` is `hipbook`: the form the Makefile uses, whatever is on the path."""

from hipbook.cli import main

if __name__ == "__main__":
    main()
