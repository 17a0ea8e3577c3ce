"""A shared library made byte by byte that makes its loading visible: it writes a line to stderr and ends the process.

It needs no compiler and no binary file in the repository. For x86-64 and arm64.
"""

import platform
import struct

LOADED = b"CANARY-LIBRARY-LOADED\n"
EXIT = 77

_MACHINES = {"x86_64": 62, "aarch64": 183}


def _code(machine: str, text: int, here: int) -> bytes:
    """write(2, text, len); exit_group(EXIT)."""
    if machine == "x86_64":
        code = b"\x48\x8d\x35" + struct.pack("<i", text - (here + 7))  # lea rsi, [rip + text]
        code += b"\xba" + struct.pack("<I", len(LOADED)) + b"\xbf\x02\x00\x00\x00"  # edx, edi
        code += b"\xb8\x01\x00\x00\x00\x0f\x05"  # write
        return code + b"\xbf" + struct.pack("<I", EXIT) + b"\xb8\xe7\x00\x00\x00\x0f\x05"  # exit_group
    distance = text - (here + 4)
    adr = 0x10000001 | (distance & 3) << 29 | (distance >> 2) << 5  # adr x1, text
    words = [0xD2800040, adr, 0xD2800000 | len(LOADED) << 5 | 2, 0xD2800000 | 64 << 5 | 8, 0xD4000001]
    words += [0xD2800000 | EXIT << 5, 0xD2800000 | 94 << 5 | 8, 0xD4000001]
    return struct.pack(f"<{len(words)}I", *words)


def library() -> bytes:
    """The library for this machine's processor: one segment, one initialiser, no symbols."""
    machine = platform.machine()
    header, programs = 64, 56 * 3
    strings = header + programs
    table = strings + 8
    hashes = table + 24
    dynamic = hashes + 16 + 8
    rows = 8
    text = dynamic + rows * 16
    start = (text + len(LOADED) + 15) // 16 * 16
    code = _code(machine, text, start)
    size = start + len(code)
    entries = [(12, start), (4, hashes), (5, strings), (6, table), (10, 1), (11, 24), (0, 0), (0, 0)]
    elf = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, _MACHINES[machine], 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)  # fmt: skip
    # one segment that is readable, writable and executable
    elf += struct.pack("<IIQQQQQQ", 1, 7, 0, 0, 0, size, size, 0x1000)
    elf += struct.pack("<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, rows * 16, rows * 16, 8)
    # a stack that is not executable, otherwise the library is refused
    elf += struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)
    elf += b"\0" * 8 + b"\0" * 24 + struct.pack("<IIII", 1, 1, 0, 0) + b"\0" * 8
    elf += b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)
    elf += LOADED
    return elf.ljust(start, b"\0") + code
