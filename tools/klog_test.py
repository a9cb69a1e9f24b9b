# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of what counts as a report in the kernel log."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "vm"))
import klog  # noqa: E402

REPORTS = """\
[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   12.345678] BUG: KASAN: slab-use-after-free in hca_run+0x12/0x90 [tally]
[   12.345678] kernel BUG at mm/slub.c:1234!
[   12.345678] Oops: 0000 [#1] PREEMPT SMP NOPTI
[   12.345678] WARNING: CPU: 1 PID: 77 at drivers/infiniband/core/restrack.c:40 rdma_restrack_clean+0x1/0x2
[   12.345678] WARNING: possible circular locking dependency detected
[   12.345678] WARNING: suspicious RCU usage
[   12.345678] INFO: task kworker/0:1:12 blocked for more than 120 seconds.
[   12.345678] INFO: trying to register non-static key.
[   12.345678] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [tally:1]
[   12.345678] rcu: INFO: rcu_preempt self-detected stall on CPU
[   12.345678] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[   12.345678] BUG: scheduling while atomic: bash/12/0x00000002
[   12.345678] BUG: sleeping function called from invalid context at mm/slab.h:1
[   12.345678] refcount_t: underflow; use-after-free.
[   12.345678] UBSAN: array-index-out-of-bounds in kernel/hca/wqe.c:10:2
[   12.345678] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
[   12.345678] kmemleak: unreferenced object 0xffff888003dab140 (size 32):
[   12.345678] kmemleak: Kernel memory leak detector disabled
[   12.345678] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-.... } 6002 jiffies s: 125 root: 0x2/.
[   12.345678] INFO: rcu_tasks detected stalls on tasks:
** 12 printk messages dropped **
[   12.345678] restrack: CQ object allocated by user is not freed
[   12.345678] unregister_netdevice: waiting for tally-net0 to become free. Usage count = 2
[   12.345678] list_add corruption. next->prev should be prev
[   12.345678] BUG tally_qp (Tainted: G O): Objects remaining in tally_qp on __kmem_cache_shutdown()
[   12.345678] ODEBUG: free active (active state 0) object: 0 object type: work_struct
[   12.345678] DMA-API: exceeded 7 overlapping mappings of cacheline 0x0000000000000000
[   12.345678][   T12]  Call Trace:
[   12.345678] general protection fault, probably for non-canonical address 0xdead000000000100
[   12.345678] Kernel panic - not syncing: Fatal exception
"""

INT3 = """\
[    1.393202] clocksource: Switched to clocksource tsc-early
[    1.450003] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[    1.452689] CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted 6.12.117+deb12-amd64 #1
[    1.452689] RIP: 0010:run_timer_softirq+0xd7/0xf0
[    1.452689] Code: 48 89 df e8 12 f8 ff ff 48 89 df e8 7a 16 b4 00 eb <0a> 48 83 c4 18 5b c3 cc cc cc cc 48 83
[    1.452689] Call Trace:
[    1.452689] RIP: 0010:pv_native_safe_halt+0xf/0x20
[    1.452689] Code: 90 90 90 90 90 90 f3 0f 1e fa eb 07 0f 00 2d a5 4e 32 00 fb cc <c3> cc cc cc cc 66 66 2e 0f
"""

HARMLESS = """\
[    0.000000] kmemleak: Kernel memory leak detector initialized (mem pool available: 38000)
[    1.000000] kmemleak: Cannot allocate a scan area, scanning the full object
[    0.000000] rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.
[    0.000000] rcu: RCU lockdep checking is enabled.
[    0.000000] ACPI: bus type PCI registered
[    0.000000] ACPI BIOS Warning (bug): Incorrect checksum in table
[    0.000000] debug: skipping boot console de-registration.
[    1.000000] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    1.000000] tally: loading out-of-tree module taints kernel.
[    1.000000] tally: module verification failed: signature and/or required key missing - tainting kernel
[    1.000000] rdma_selftest[77]: segfault at 0 ip 0000000000401000 sp 00007ffc0 error 4 in rdma_selftest
[    1.000000] DMA-API: preallocated 65536 debug entries
[    1.000000] DMA-API: debugging enabled by kernel config
[    1.000000] tally-vm: the command ended with 0
"""


class KernelLog(unittest.TestCase):
    def test_every_kind_of_report_is_seen(self):
        for line in REPORTS.splitlines():
            with self.subTest(line):
                self.assertEqual(klog.offending([line]), [0])

    def test_ordinary_messages_pass(self):
        for line in HARMLESS.splitlines():
            with self.subTest(line):
                self.assertEqual(klog.offending([line]), [])

    def test_excerpt_has_what_follows_a_report_and_not_what_precedes_it(self):
        lines = ["[    1.000000] before", "[    2.000000] WARNING: CPU: 0", "[    2.000000] RIP: 0010:f"]
        self.assertEqual(klog.excerpt(lines), lines[1:])

    def test_excerpt_shows_overlapping_reports_once(self):
        lines = ["[    2.000000] WARNING: CPU: 0", "[    2.000000] Call Trace:", "[    2.000000]  f+0x1"]
        self.assertEqual(klog.excerpt(lines), lines)

    def test_excerpt_of_a_clean_log_is_empty(self):
        self.assertEqual(klog.excerpt(HARMLESS.splitlines()), [])

    def test_a_breakpoint_that_is_gone_is_the_emulators_fault(self):
        self.assertTrue(klog.stale_breakpoint(INT3.splitlines()))

    def test_a_breakpoint_that_is_there_is_not(self):
        self.assertFalse(klog.stale_breakpoint(INT3.replace("eb <0a>", "cc <cc>").splitlines()))

    def test_one_behind_another_report_is_not(self):
        self.assertFalse(klog.stale_breakpoint([REPORTS.splitlines()[0], *INT3.splitlines()]))

    def test_another_oops_is_not(self):
        self.assertFalse(klog.stale_breakpoint(INT3.replace("int3", "0002").splitlines()))


if __name__ == "__main__":
    unittest.main()
