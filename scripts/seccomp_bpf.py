"""Compiles sandbox/isolation/seccomp.json for a process that loads its filter itself, as in a Pod; one file per
architecture.

Run it after a change of seccomp.json; tests/unit/sandbox/engines/test_k8s_gate.py fails if it was not run. Needs
libseccomp 2.5.
"""

import ctypes
import json
import sys
import tempfile
from pathlib import Path

from sandbox.isolation.seccomp import profile

FOLDER = Path(__file__).parents[1] / "sandbox/engines/k8s"
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*, linux/audit.h
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
OPERATORS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
OPTIMIZE, BY_TREE = 8, 2  # SCMP_FLTATR_CTL_OPTIMIZE: the filter is a binary tree


class Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def compiled(architecture: str) -> bytes:
    """The program, in the kernel's own form."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    seccomp_profile = json.loads(profile(architecture))
    context = ctypes.c_void_p(
        library.seccomp_init(ctypes.c_uint32(ERRNO | seccomp_profile["defaultErrnoRet"]))
    )
    number = ARCHITECTURES[architecture]
    if library.seccomp_arch_exist(context, ctypes.c_uint32(number)):
        check(library.seccomp_arch_add(context, ctypes.c_uint32(number)))
        check(library.seccomp_arch_remove(context, ctypes.c_uint32(0)))  # this machine's own
    check(library.seccomp_attr_set(context, OPTIMIZE, ctypes.c_uint32(BY_TREE)))
    for row in seccomp_profile["syscalls"]:
        action = ALLOW if row["action"] == "SCMP_ACT_ALLOW" else ERRNO | row["errnoRet"]
        rules = [
            Comparison(
                condition["index"],
                OPERATORS[condition["op"]],
                condition["value"],
                condition.get("valueTwo", 0),
            )
            for condition in row["args"]
        ]
        for name in row["names"]:
            call = library.seccomp_syscall_resolve_name(name.encode())
            if call != -1:  # newer than the library: refused, like every call that is not named
                comparisons = (Comparison * max(1, len(rules)))(*rules)
                check(
                    library.seccomp_rule_add_array(
                        context, ctypes.c_uint32(action), call, len(rules), comparisons
                    )
                )
    with tempfile.TemporaryFile() as file:
        check(library.seccomp_export_bpf(context, file.fileno()))
        file.seek(0)
        return file.read()


def check(result: int) -> None:
    if result:
        raise OSError(-result, "libseccomp refused")


if __name__ == "__main__":
    for one in ARCHITECTURES:
        made = compiled(one)
        (FOLDER / f"seccomp-{one}.bpf").write_bytes(made)
        sys.stdout.write(f"{one}: {len(made) // 8} instructions\n")
