"""`python -m firstsound levers`: what beside the budgets can be asked of a stack."""

import sys

from firstsound import limits


def main(arguments: list[str]) -> int:
    """Run the command line; return its exit status."""
    # Before anything loads the native pools, which read their size once.
    limits.set_thread_variables(limits.read_limits().threads)
    if arguments[:1] != ["levers"]:
        sys.stderr.write("usage: python -m firstsound levers [--help]\n")
        return 2
    from firstsound import levers  # noqa: PLC0415 - it loads numpy

    return levers.main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
