# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of what counts as a failure of a step."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import results

LOADER = importlib.machinery.SourceFileLoader("check", str(pathlib.Path(__file__).with_name("check")))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", LOADER))
LOADER.exec_module(check)


def failures(command, reader=results.Tap, **more):
    """What is wrong with a step that runs this."""
    with tempfile.TemporaryDirectory() as logs, contextlib.redirect_stdout(io.StringIO()), \
            mock.patch.object(check, "LOGS", pathlib.Path(logs)), mock.patch.object(check, "REPO", pathlib.Path(logs)):
        return check.run_once(check.Step("step", command, reader, **more), check.Progress(1))[1].failures


class OneStep(unittest.TestCase):
    def test_one_that_passes_has_no_failure(self):
        self.assertEqual(failures("echo ok 1 - x"), [])

    def test_one_that_skips_all_of_its_tests_fails(self):
        self.assertEqual(failures("echo 'ok 1 - x # SKIP y'"), ["step: all of its tests were skipped"])

    def test_unless_it_may(self):
        self.assertEqual(failures("echo 'ok 1 - x # SKIP y'", may_skip=True), [])

    def test_one_that_skips_some_does_not(self):
        self.assertEqual(failures("echo 'ok 1 - x # SKIP y'; echo ok 2 - z"), [])

    def test_one_without_a_result_fails(self):
        self.assertEqual(failures("true"), ["step: no test result in its output"])

    def test_one_that_ends_with_an_error_fails(self):
        self.assertEqual(failures("echo ok 1 - x; exit 3"), ["step: ended with status 3"])

    def test_one_that_takes_too_long_fails(self):
        self.assertEqual(failures("echo ok 1 - x; sleep 60", minutes=0.005), ["step: not finished within 0.005 minutes"])


if __name__ == "__main__":
    unittest.main()
