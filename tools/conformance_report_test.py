# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of conformance_report.py."""
import unittest

import conformance_report as report
from results import FAILED, PASSED, SKIPPED

TALLY = """\
# kernel 6.12.1
KTAP version 1
1..4
# runs test_qp.QPTest.test_create_rc_qp
ok 1 - test_qp.QPTest.test_create_rc_qp
# runs test_qp.QPTest.test_create_raw_qp
ok 2 - test_qp.QPTest.test_create_raw_qp # SKIP raw | packet
# runs test_cq.CQTest.test_a
#   Traceback
#   AssertionError: 1 != 2
not ok 3 - test_cq.CQTest.test_a
# runs test_cq.CQTest.test_b
ok 4 - test_cq.CQTest.test_b
"""

OTHER = """\
# kernel 6.12.1
KTAP version 1
1..4
# runs test_qp.QPTest.test_create_rc_qp
# no end within 180 s
not ok 0 - test_qp.QPTest.test_create_rc_qp
KTAP version 1
1..3
# runs test_qp.QPTest.test_create_raw_qp
ok 1 - test_qp.QPTest.test_create_raw_qp
# runs test_cq.CQTest.test_a
# no end within 180 s
not ok 0 - test_cq.CQTest.test_a
# the rest was not run
"""


def runs():
    return [report.read("tally0", TALLY.splitlines()), report.read("rxe0", OTHER.splitlines())]


class Read(unittest.TestCase):
    def test_every_result_has_its_name_and_outcome(self):
        tally, _ = runs()
        self.assertEqual([result.outcome for result in tally.results.values()], [PASSED, SKIPPED, FAILED, PASSED])
        self.assertEqual(tally.kernel, "6.12.1")

    def test_a_failure_has_the_last_line_of_its_explanation(self):
        tally, _ = runs()
        self.assertEqual(tally.results["test_cq.CQTest.test_a"].reason, "AssertionError: 1 != 2")

    def test_a_test_without_end_has_failed_and_says_so(self):
        _, other = runs()
        hung = other.results["test_qp.QPTest.test_create_rc_qp"]
        self.assertEqual((hung.outcome, hung.reason), (FAILED, "no end within 180 s"))

    def test_results_behind_a_test_without_end_count(self):
        _, other = runs()
        self.assertEqual(other.results["test_qp.QPTest.test_create_raw_qp"].outcome, PASSED)


class Render(unittest.TestCase):
    def setUp(self):
        self.lines = list(report.render(runs(), "rdma-core 44", "1234567", "make conformance"))

    def test_the_tree_and_the_licence_are_told(self):
        self.assertIn("* tree: 1234567", self.lines)
        self.assertIn("SPDX-License-Identifier", self.lines[0])

    def test_devices_are_side_by_side(self):
        self.assertIn("| QPTest.test\\_create\\_raw\\_qp | skip: raw \\| packet | ok |", self.lines)

    def test_totals_count_each_test_once(self):
        self.assertIn("| tally0 | 2 | 1 | 1 | 0 |", self.lines)
        self.assertIn("| rxe0 | 1 | 0 | 2 | 1 |", self.lines)

    def test_a_test_that_one_device_did_not_come_to_is_not_run(self):
        self.assertIn("| CQTest.test\\_b | ok | not run |", self.lines)

    def test_a_device_that_ran_out_of_time_is_said_to_have(self):
        self.assertIn("rxe0: the rest was not run.", self.lines)

    def test_modules_have_headings_in_order(self):
        headings = [line for line in self.lines if line.startswith("## ")]
        self.assertEqual(headings, ["## test_cq", "## test_qp"])


if __name__ == "__main__":
    unittest.main()
