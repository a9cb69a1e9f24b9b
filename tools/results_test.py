# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the readers of test results."""
import unittest

import results


def read(reader, text):
    found = [result for line in text.splitlines(keepends=True) if (result := reader.feed(line))]
    return [(result.outcome, result.name) for result in found], reader.end()


class TapReader(unittest.TestCase):
    def test_results_and_plan(self):
        found, wrong = read(results.Tap(), "TAP version 13\n1..3\nok 1 - one\nnot ok 2 two\nok 3 - three # SKIP no device\n")
        self.assertEqual(found, [("passed", "one"), ("failed", "two"), ("skipped", "three")])
        self.assertEqual(wrong, [])

    def test_reason_of_a_skip(self):
        self.assertEqual(results.Tap().feed("ok 1 - a # SKIP needs udmabuf\n").reason, "needs udmabuf")

    def test_missing_result_is_noticed(self):
        self.assertEqual(read(results.Tap(), "1..2\nok 1 - one\n")[1], ["planned 2 tests, saw 1"])

    def test_surplus_result_is_noticed(self):
        self.assertEqual(read(results.Tap(), "1..1\nok 1 - a\nok 2 - b\n")[1], ["planned 1 tests, saw 2"])

    def test_plan_at_the_end(self):
        self.assertEqual(read(results.Tap(), "ok 1 - a\nok 2 - b\n1..2\n")[1], [])
        self.assertEqual(read(results.Tap(), "ok 1 - a\n1..2\n")[1], ["planned 2 tests, saw 1"])

    def test_two_documents(self):
        text = "KTAP version 1\n1..1\nok 1 - a\nKTAP version 1\n1..2\nok 1 - b\n"
        found, wrong = read(results.Tap(), text)
        self.assertEqual(len(found), 2)
        self.assertEqual(wrong, ["planned 2 tests, saw 1"])

    def test_two_documents_with_plans_at_the_end(self):
        self.assertEqual(read(results.Tap(), "ok 1 - a\n1..1\nok 1 - b\n1..1\n")[1], [])

    def test_a_document_without_any_result(self):
        self.assertEqual(read(results.Tap(), "1..2\n")[1], ["planned 2 tests, saw 0"])

    def test_innermost_results_count(self):
        text = "1..1\n  KTAP version 1\n  1..2\n  ok 1 - in\n  not ok 2 - out\nnot ok 1 - group\n"
        found, wrong = read(results.Tap(), text)
        self.assertEqual(found, [("passed", "in"), ("failed", "out")])
        self.assertEqual(wrong, [])

    def test_group_that_fails_without_a_failed_member_counts(self):
        found, _ = read(results.Tap(), "1..1\n  1..1\n  ok 1 - in\nnot ok 1 - group\n")
        self.assertEqual(found, [("passed", "in"), ("failed", "group")])

    def test_nested_plan_is_checked(self):
        self.assertEqual(read(results.Tap(), "1..1\n  1..2\n  ok 1 - in\nok 1 - group\n")[1], ["planned 2 tests, saw 1"])

    def test_todo_that_fails_is_a_failure(self):
        self.assertEqual(read(results.Tap(), "not ok 1 - a # TODO later\n")[0], [("failed", "a")])

    def test_skip_that_fails_is_a_failure(self):
        self.assertEqual(read(results.Tap(), "not ok 1 - a # SKIP\n")[0], [("failed", "a")])

    def test_bail_out_is_wrong(self):
        self.assertEqual(read(results.Tap(), "ok 1 - a\nBail out! no device\n")[1], ["Bail out! no device"])

    def test_prose_is_no_result(self):
        self.assertEqual(read(results.Tap(), "okay\nnot okay\n# ok 1\nit is ok 1\n"), ([], []))


class GoogleTestReader(unittest.TestCase):
    RUN = ("[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n"
           "[ RUN      ] A.c\nx.cc:1: Failure\n[  FAILED  ] A.c, where GetParam() = 3 (4 ms)\n")
    END = "[==========] 2 tests from 1 test suite ran. (4 ms total)\n[  PASSED  ] 1 test.\n[  FAILED  ] A.c\n"

    def test_results(self):
        self.assertEqual(read(results.GoogleTest(), self.RUN + self.END), ([("passed", "A.b"), ("failed", "A.c")], []))

    def test_crash_is_noticed(self):
        self.assertEqual(read(results.GoogleTest(), self.RUN)[1], ["the program ended in the middle: 2 of 2 tests"])

    def test_lost_test_is_noticed(self):
        found = read(results.GoogleTest(), self.RUN.replace("[       OK ] A.b (0 ms)\n", "") + self.END)
        self.assertEqual(found[1], ["2 tests were to run, 1 did"])


class CTestReader(unittest.TestCase):
    def test_results(self):
        text = ("    Start 1: a\n1/4 Test #1: a.b c ...........   Passed    0.01 sec\n"
                "2/4 Test #2: d ................***Failed    0.02 sec\n"
                "3/4 Test #3: e ................***Exception: SegFault  0.02 sec\n"
                "4/4 Test #4: f ................***Skipped   0.00 sec\n\n"
                "50% tests passed, 2 tests failed out of 4\n")
        found, wrong = read(results.CTest(), text)
        self.assertEqual(found, [("passed", "a.b c"), ("failed", "d"), ("failed", "e"), ("skipped", "f")])
        self.assertEqual(wrong, [])

    def test_end_is_expected(self):
        self.assertEqual(read(results.CTest(), "")[1], ["ctest did not come to its end"])

    PROGRAM = """test 7
    Start 7: hca.hca_test

7: Test command: /x/hca_test
7: [==========] Running {} tests from 2 test suites.
7: [ RUN      ] Copy.Works
7: [       OK ] Copy.Works (12 ms)
7: [       OK ] All/Copy.Param/0, where GetParam() = 8 (0 ms)
7: [  SKIPPED ] Copy.Skips (0 ms)
{}
1/1 Test #7: hca.hca_test .................   {}   12.3 sec

{}% tests passed, {} tests failed out of 1
"""
    RAN = "7: [==========] {} tests from 2 test suites ran. (12 ms total)"

    def test_tests_of_a_program_count_instead_of_it(self):
        found, wrong = read(results.CTest(), self.PROGRAM.format(3, self.RAN.format(3), "Passed", 100, 0))
        self.assertEqual(found, [
            ("passed", "hca.Copy.Works"), ("passed", "hca.All/Copy.Param/0"), ("skipped", "hca.Copy.Skips")])
        self.assertEqual(wrong, [])

    def test_a_program_that_fails_by_a_test_of_its_own_is_one_failure(self):
        bad = "7: [  FAILED  ] Copy.Fails (1 ms)\n" + self.RAN.format(4) + "\n7: [  FAILED  ] Copy.Fails"
        found, wrong = read(results.CTest(), self.PROGRAM.format(4, bad, "***Failed", 0, 1))
        self.assertEqual(wrong, [])
        self.assertEqual([name for outcome, name in found if outcome == "failed"], ["hca.Copy.Fails"])

    def test_a_program_that_dies_between_its_tests_is_a_failure(self):
        found, wrong = read(results.CTest(), self.PROGRAM.format(4, "", "***Exception: SegFault", 0, 1))
        self.assertEqual(wrong, ["the program ended in the middle: 3 of 4 tests"])
        self.assertEqual([name for outcome, name in found if outcome == "failed"], ["hca.hca_test"])


class UnitTestReader(unittest.TestCase):
    def test_results(self):
        text = ("test_a (tests.x.Y) ... ok\ntest_b (tests.x.Y.test_b)\nWhat it does ... ok\n"
                "test_c (tests.x.Y) ... skipped 'no device'\ntest_d (tests.x.Y) ... FAIL\n\nRan 3 tests in 1.2s\n")
        found, wrong = read(results.UnitTest(), text)
        self.assertEqual([outcome for outcome, _ in found], ["passed", "skipped", "failed"])
        self.assertEqual(wrong, [])

    def test_lost_test_is_noticed(self):
        self.assertEqual(read(results.UnitTest(), "Ran 2 tests in 0s\n")[1], ["unittest ran 2 tests, 0 were seen"])


class LibFuzzerReader(unittest.TestCase):
    def test_end(self):
        self.assertEqual(read(results.LibFuzzer(), "Done 12 runs in 61 second(s)\n"), ([("passed", "12 inputs in 61 s")], []))

    def test_crash(self):
        self.assertEqual(read(results.LibFuzzer(), "==1== ERROR: libFuzzer: deadly signal\n")[1], ["the fuzzer did not come to its end"])


if __name__ == "__main__":
    unittest.main()
