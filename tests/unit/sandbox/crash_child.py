"""Forks for tests: reads pickled work from stdin, does each in a child, and writes how it ended.

A fork of this small process costs a tenth of a fork of pytest, and the tests need thousands.
"""

import os
import pickle
import sys
import traceback
from collections.abc import Callable


def ended(work: Callable[[], object]) -> int:
    """The exit code of a child that does this work; 0 if it finished."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - its traceback is printed, and the parent gets an exit code of 1
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    os.fsync = lambda _file: None  # a killed process loses nothing that it wrote; only a power cut would
    while True:
        try:
            work = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(ended(work), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
