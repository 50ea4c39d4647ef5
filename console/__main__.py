"""`gpudeck`: the console without words, a command with them. Neither pays for the other's imports."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the words of the call ask for and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    from console.start import console_call, open_console

    call = console_call(words)
    if call is not None:
        return open_console(call)
    from console.cli import main as command

    return command(words)


if __name__ == "__main__":
    sys.exit(main())
