# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests that tools/kmod notices what goes wrong, with a make and an rsync that only pretend."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


def kmod(make, rsync="exit 0", kernels=("6.12",)):
    """Its status and what it says; beside a copy of itself, so that what has been built stays."""
    with tempfile.TemporaryDirectory() as folder:
        copy, programs = pathlib.Path(folder) / "tools", pathlib.Path(folder) / "bin"
        shutil.copytree(TOOLS, copy, ignore=shutil.ignore_patterns("__pycache__"))
        programs.mkdir()
        for name, script in (("make", make), ("rsync", "mkdir -p ${@:$#}kernel; " + rsync)):
            (programs / name).write_text(f"#!/bin/bash\n{script}\n")
            (programs / name).chmod(0o755)
        done = subprocess.run([copy / "kmod", *kernels], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False,
                              env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"})
        return done.returncode, done.stdout


class Build(unittest.TestCase):
    def test_one_without_a_warning_is_ok(self):
        status, said = kmod("echo all is well")
        self.assertEqual(status, 0)
        self.assertRegex(said, r"^ok - modules for Linux 6\.12 ")

    def test_warnings_are_noticed_however_many_there_are(self):
        for number in (1, 100, 5000):
            status, said = kmod(f"yes 'warning: something that takes a line of some length' | head -n {number}")
            self.assertNotEqual(status, 0, number)
            self.assertIn("not ok - modules for Linux 6.12", said)

    def test_that_of_another_compiler_is_none(self):
        self.assertEqual(kmod("echo 'warning: the compiler differs from the one used to build the kernel'")[0], 0)

    def test_one_that_fails_is_noticed(self):
        status, said = kmod("exit 2")
        self.assertNotEqual(status, 0)
        self.assertIn("not ok - modules for Linux 6.12", said)

    def test_without_the_sources_nothing_is_built(self):
        for kernels in (("6.12",), ("6.12", "6.1")):
            status, said = kmod("echo built", "exit 23", kernels)
            self.assertNotEqual(status, 0, kernels)
            self.assertNotRegex(said, r"(?m)^ok")

    def test_one_of_two_that_fails_is_noticed(self):
        self.assertNotEqual(kmod("case $* in *-6.12*|*6.12.*) exit 2;; esac", kernels=("6.12", "6.1"))[0], 0)


if __name__ == "__main__":
    unittest.main()
