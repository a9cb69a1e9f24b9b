# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the guard over the hot paths' instructions: it must be able to fail."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent / "instructions"


def load():
    loader = importlib.machinery.SourceFileLoader("instructions", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("instructions", loader))
    loader.exec_module(module)
    return module


instructions = load()

PROFILE = """\
version: 1
positions: line
events: Ir
desc: Trigger: Client Request: hca/write_8 10

ob=(1) /build/bin/hca_paths
fl=(1) /src/kernel/hca/cq.c
fn=(1) put
10 30
+2 20
calls=10 40
* 5000
fi=(2) /src/selftests/native/hca/world.hpp
* 700
fe=(1)
+1 50
cob=(2) /lib/libc.so.6
cfi=(3) memmove.S
cfn=(2) memcpy
calls=10 1
* 900
fl=(3)
fn=(2)
1 900
"""


class Profile(unittest.TestCase):
    def test_counts_what_is_ours_and_nothing_twice(self):
        self.assertEqual(instructions.parse_profile(PROFILE.splitlines()), ("hca/write_8", 10.0))

    def test_profile_of_the_programs_end_is_none(self):
        self.assertIsNone(instructions.parse_profile(["desc: Trigger: Program termination", "fl=(1) a.c", "1 5"]))


class Comparison(unittest.TestCase):
    def verdict(self, was, now):
        [(good, sentence)] = instructions.compare(was, now)
        return good, sentence

    def test_the_same_passes(self):
        self.assertTrue(self.verdict({"a": 100.0}, {"a": 104.9})[0])

    def test_dearer_by_more_than_the_slack_fails(self):
        good, sentence = self.verdict({"a": 100.0}, {"a": 105.1})
        self.assertFalse(good)
        self.assertIn("instead of 100.0", sentence)

    def test_cheaper_passes_and_says_how_to_keep_it(self):
        good, sentence = self.verdict({"a": 100.0}, {"a": 80.0})
        self.assertTrue(good)
        self.assertIn("--update", sentence)

    def test_a_path_that_is_not_measured_any_more_fails(self):
        self.assertFalse(self.verdict({"a": 100.0}, {})[0])

    def test_a_path_that_the_file_does_not_know_fails(self):
        self.assertFalse(self.verdict({}, {"a": 100.0})[0])


class File(unittest.TestCase):
    def test_is_read_as_it_was_written(self):
        paths = {"hca/write_8": 1384.0, "builder/write": 37.5}
        self.assertEqual(instructions.parse_file(instructions.format_file("gcc 12.2.0", paths)), ("gcc 12.2.0", paths))
