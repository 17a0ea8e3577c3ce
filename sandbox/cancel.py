"""A cancellation that wakes a thread waiting for a descriptor, from any other thread."""

import os
import threading


class Cancellation:
    """Set once, never cleared. Close it when nobody waits on it any more; setting it later does nothing."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._closed = False
        self.is_set = False

    def set(self) -> None:
        with self._lock:
            if not self.is_set and not self._closed:
                self.is_set = True
                os.write(self._writing, b"!")

    def fileno(self) -> int:
        return self._reading

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reading)
                os.close(self._writing)
