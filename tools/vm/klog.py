#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds what must not be in a kernel log: klog.py FILE...

Prints the offending lines with what follows them, and exits with 1 if there are any.
"""
import re
import sys

# One line per kind of report. Each is matched against the message, behind the
# time stamp, and in the case the kernel writes it.
REPORTS = re.compile("|".join((
    r"\bBUG\b",
    r"\bWARNING:",
    r"\bOops\b",
    r"Kernel panic",
    r"Call Trace:",
    r"general protection fault",
    r"[Uu]nable to handle",
    r"\b(KASAN|KCSAN|KFENCE|UBSAN|KMSAN):",
    r"\bODEBUG:",
    r"\bDMA-API:.*(device driver|leak|exceeded)",
    # lockdep
    r"possible (circular locking|recursive locking|irq lock inversion|deadlock)",
    r"INFO: (trying to register|possible|suspicious|lockdep is turned off)",
    r"inconsistent lock state|bad unlock balance|held lock freed|suspicious RCU usage",
    r"Invalid wait context|(un)?lock(s)? (still )?held (when|at)",
    # time
    r"blocked for more than \d+ seconds|hung_task",
    r"soft lockup|hard LOCKUP|workqueue lockup",
    r"\brcu\w*:? .*(detected (expedited )?stall|self-detected stall|stall on|starved)",
    r"scheduling while atomic|sleeping function called from invalid context",
    # references, lists, leaks
    r"refcount_t:|list_(add|del) corruption|percpu ref .*(<= 0|underflow)",
    r"kmemleak: .*(suspected memory leak|unreferenced object|detector disabled)",
    r"restrack: .*(not freed|leak)|object.* (is|are) (leaked|not freed)",
    r"Objects remaining in|Slab .* (corrupt|still has objects)",
    r"unregister_netdevice: waiting for|leaked (reference|references)",
    # what else was there is not known
    r"printk messages dropped",
    r"Bad page (state|map)|nonzero mapcount|page allocation failure",
)))
STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*[TC]\d+\])? ?")
CONTEXT = 30


def offending(lines):
    """The indexes of the lines that are, or begin, a report."""
    return [i for i, line in enumerate(lines) if REPORTS.search(STAMP.sub("", line))]


def excerpt(lines, limit=120):
    """The offending lines, each with the lines behind it, or nothing."""
    shown, until = [], -1
    for i in offending(lines):
        for at in range(max(i, until), min(i + CONTEXT, len(lines))):
            shown.append(lines[at])
        until = max(until, i + CONTEXT)
        if len(shown) > limit:
            return shown[:limit] + ["..."]
    return shown


def stale_breakpoint(lines):
    """Whether the kernel died of a breakpoint where there is none, which only an emulator does.

    The kernel changes its own code by way of a breakpoint (int3, 0xcc) that it takes away again. When QEMU
    emulates several CPUs (TCG), one of them may still run it afterwards. In the report the byte in front of
    the instruction pointer is something else by then; of a breakpoint that is there, it is 0xcc.
    """
    found = offending(lines)
    if not found or "Oops: int3:" not in lines[found[0]]:
        return False
    for line in lines[found[0]:found[0] + CONTEXT]:
        if "Code:" in line:
            code = re.search(r"\b([0-9a-f]{2}) <[0-9a-f]{2}>", line)
            return bool(code) and code[1] != "cc"
    return False


def read(path):
    with open(path, errors="replace") as log:
        return log.read().replace("\r", "").splitlines()


def main():
    dirty = False
    for path in sys.argv[1:]:
        found = excerpt(read(path))
        for line in found:
            print(line)
        dirty = dirty or bool(found)
    return 1 if dirty else 0


if __name__ == "__main__":
    sys.exit(main())
