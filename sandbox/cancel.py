"""A cancellation that wakes a thread waiting in select, from any other thread."""

import os


class Cancellation:
    """Set once, never cleared. Close it when nobody waits on it any more."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.is_set = False

    def set(self) -> None:
        if not self.is_set:
            self.is_set = True
            os.write(self._writing, b"!")

    def fileno(self) -> int:
        return self._reading

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)
