"""The command `rnnc` (docs/commands.md), which the wheel's library has inside."""

import ctypes
import os
import signal
import sys

from rnnc._library import library


def main():
    try:
        run = library.rnnc_main
    except AttributeError:
        sys.exit("this librnnc is without the command: the wheel's has it")
    # Python's own ways with these would keep Ctrl-C from stopping the command, and `| head`.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = [b"rnnc", *map(os.fsencode, sys.argv[1:])]
    return run(len(words), (ctypes.c_char_p * (len(words) + 1))(*words))


if __name__ == "__main__":
    sys.exit(main())
