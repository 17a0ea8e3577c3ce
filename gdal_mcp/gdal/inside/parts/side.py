"""A thread for what must leave no trace on the job.

PROJ caches what it has read for each thread, and words a CRS differently once it has met its datum in another way. So the
warm-up and the description of the inputs happen in this thread, whose cache is warm by then, and the job has the main
thread's PROJ to itself.
"""

import os
import queue
import threading


class SideThread:
    """Does one step at a time. It starts with the first, and anew in a process that was forked."""

    def __init__(self):
        self._thread = self._process = None

    def do(self, step):
        """Returns when the step is done; a step must not raise, and may ask for another one."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._steps, self._done = queue.SimpleQueue(), queue.SimpleQueue()
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if threading.current_thread() is self._thread:
            step()
            return
        self._steps.put(step)
        self._done.get()

    def _work(self):
        while True:
            self._steps.get()()
            self._done.put(None)


SIDE_THREAD = SideThread()
