"""Programs that the checks run inside a container beside the look program, as texts. They print what they found as JSON."""

# takes memory that no RLIMIT_DATA counts, so that only the container's own limit can end it
TAKE_MEMORY = """
import mmap, sys
size = int(sys.argv[1])
held = mmap.mmap(-1, size)
for at in range(0, size, 4096): held[at] = 1
print("held", flush=True)
"""

# asks for memory as libraries do
ASK_MEMORY = """
import json, sys
try: held = bytearray(int(sys.argv[1]))
except MemoryError: print(json.dumps("refused"))
else: print(json.dumps("given"))
"""

# starts processes until it is refused, or until there are too many
FORK = """
import json, os, signal
children, reason = [], "none"
for _ in range(400):
    try: child = os.fork()
    except OSError as error:
        reason = str(error.errno)
        break
    if child == 0:
        signal.pause()
        os._exit(0)
    children.append(child)
for one in children: os.kill(one, signal.SIGKILL)
for one in children: os.waitpid(one, 0)
print(json.dumps([len(children), reason]))
"""

# computes with two processes for a second; the processor time that they got
COMPUTE = """
import json, os, time
def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass
child = os.fork()
compute(1.0)
if child == 0: os._exit(0)
os.waitpid(child, 0)
print(json.dumps(sum(os.times()[:4])))
"""

SPEAK = "import os, sys; os.write(1, b'out'); os.write(2, b'err'); os._exit(int(sys.argv[1]))"
WAIT_FOR_THE_END = "import os; os.write(1, b'ready'); os.read(0, 1); os._exit(3)"
REPEAT = """
import os
while data := os.read(0, 65536):
    while data: data = data[os.write(1, data):]
"""
CRASH = "import ctypes; ctypes.string_at(0)"  # a fault, as process 1 is deaf to most signals
LEAVE_A_MARK = "open('/staging/started', 'w').close()"
PRINT_MUCH = """
import os, sys
for number in range(int(sys.argv[1])):
    data = b"%08d" % number * 512
    while data: data = data[os.write(1, data):]
"""
