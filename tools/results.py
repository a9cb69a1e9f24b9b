# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads test results out of a program's output, line by line.

A reader has feed(line), which returns the Result that the line completes, or None, and end(), which
returns what is wrong with the output as a whole: a list of sentences, empty if nothing is.
"""
import dataclasses
import re

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Result:
    """One test's outcome."""
    name: str
    outcome: str
    reason: str = ""


class Tap:
    """TAP and KTAP. Of nested results the innermost count; any number of documents may follow each other."""

    RESULT = re.compile(r"^( *)(not )?ok\b(?: +(\d+))?(?: +-)?(?: +(.*?))?\s*$")
    PLAN = re.compile(r"^( *)1\.\.(\d+)\b")
    VERSION = re.compile(r"^( *)K?TAP version \d+")
    DIRECTIVE = re.compile(r"^(.*?)\s*# *(SKIP|TODO|XFAIL)\b:?\s*(.*)$", re.IGNORECASE)

    class Level:
        """The results at one depth of indentation since its last version line."""

        def __init__(self):
            self.planned = None
            self.plan_first = False
            self.seen = 0
            self.failed = 0

    def __init__(self):
        self.levels = {}
        self.wrong = []

    def level(self, depth):
        return self.levels.setdefault(depth, self.Level())

    def close(self, depth):
        """Ends the documents at this depth and below; returns whether there was one, and its failures."""
        had, failed = False, 0
        for inner in [at for at in self.levels if at >= depth]:
            level = self.levels.pop(inner)
            if level.planned is not None and level.planned != level.seen:
                self.wrong.append(f"planned {level.planned} tests, saw {level.seen}")
            had = had or bool(level.seen) or level.planned is not None
            failed += level.failed
        return had, failed

    def feed(self, line):
        line = line.rstrip("\r\n")
        if match := self.VERSION.match(line):
            self.close(len(match[1]))
            self.level(len(match[1]))
            return None
        if match := self.PLAN.match(line):
            depth, planned = len(match[1]), int(match[2])
            level = self.level(depth)
            # A second plan, or results behind a plan that came at the end: another document.
            if level.planned is not None:
                self.close(depth)
                level = self.level(depth)
            level.planned, level.plan_first = planned, level.seen == 0
            return None
        if match := self.RESULT.match(line):
            return self.result(len(match[1]), bool(match[2]), match[3], match[4] or "")
        if line.startswith("Bail out!"):
            self.wrong.append(line)
        return None

    def result(self, depth, not_ok, number, text):
        level = self.levels.get(depth)
        if level and level.planned is not None and not level.plan_first and level.seen == level.planned:
            self.close(depth)
        nested, nested_failures = self.close(depth + 1)
        level = self.level(depth)
        level.seen += 1
        reason, directive = "", ""
        if match := self.DIRECTIVE.match(text):
            text, directive, reason = match[1], match[2].upper(), match[3]
        if not_ok and directive != "XFAIL":
            level.failed += 1
        # The line behind nested results sums them up; it is news only if it contradicts them.
        if nested and not (not_ok and not nested_failures):
            return None
        name = text or (f"test {number}" if number else "unnamed test")
        if directive == "SKIP":
            return Result(name, FAILED if not_ok else SKIPPED, reason)
        if directive == "XFAIL":
            return Result(name, PASSED if not_ok else FAILED, "expected to fail")
        return Result(name, FAILED if not_ok else PASSED, reason)

    def end(self):
        self.close(0)
        return self.wrong


class GoogleTest:
    """GoogleTest's own output, of one or more programs."""

    RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (.*?)(?:, where .*)? \(\d+ ms\)\s*$")
    STARTED = re.compile(r"^\[=+\] Running (\d+) tests? from")
    ENDED = re.compile(r"^\[=+\] (\d+) tests? from .* ran\.")
    OUTCOME = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}

    def __init__(self):
        self.running = None
        self.seen = 0
        self.failed = False
        self.wrong = []

    def feed(self, line):
        if match := self.STARTED.match(line):
            self.check_ended()
            self.running, self.seen = int(match[1]), 0
        elif self.ENDED.match(line):
            if self.running != self.seen:
                self.wrong.append(f"{self.running} tests were to run, {self.seen} did")
            self.running = None
        elif match := self.RESULT.match(line):
            self.seen += 1
            self.failed = self.failed or match[1] == "FAILED"
            return Result(match[2], self.OUTCOME[match[1]])
        return None

    def check_ended(self):
        if self.running is not None:
            self.wrong.append(f"the program ended in the middle: {self.seen} of {self.running} tests")

    def end(self):
        self.check_ended()
        return self.wrong


class CTest:
    """ctest's list of tests.  With -V, those of GoogleTest's programs count instead of the programs."""

    START = re.compile(r"^ *Start +(\d+): (\S+)")
    SAID = re.compile(r"^(\d+): (.*)$")
    RESULT = re.compile(r"^ *\d+/\d+ +Test +#(\d+): (.+?) \.* *(\*\*\*[A-Za-z ]+|Passed)")
    TOTAL = re.compile(r"^\d+% tests passed, \d+ tests failed out of (\d+)")

    def __init__(self):
        self.seen = 0
        self.total = None
        self.names = {}
        self.programs = {}
        self.wrong = []

    def feed(self, line):
        line = line.rstrip("\r\n")
        if match := self.TOTAL.match(line):
            self.total = int(match[1])
        elif match := self.START.match(line):
            self.names[match[1]] = match[2]
        elif match := self.SAID.match(line):
            result = self.programs.setdefault(match[1], GoogleTest()).feed(match[2])
            if result:
                prefix = self.names.get(match[1], "").partition(".")[0]
                return dataclasses.replace(result, name=f"{prefix}.{result.name}")
        elif match := self.RESULT.match(line):
            self.seen += 1
            verdict = match[3].strip("* ")
            outcome = {"Passed": PASSED, "Skipped": SKIPPED}.get(verdict, FAILED)
            program = self.programs.get(match[1])
            if program and program.seen:
                self.wrong += program.end()
                # The program's own verdict is news only if its tests do not explain it.
                if outcome == PASSED or program.failed:
                    return None
            return Result(match[2].rstrip(" ."), outcome, "" if outcome == PASSED else verdict)
        return None

    def end(self):
        if self.total is None:
            return self.wrong + ["ctest did not come to its end"]
        lost = [] if self.total == self.seen else [f"ctest ran {self.total} tests, {self.seen} were seen"]
        return self.wrong + lost


class UnitTest:
    """Python's unittest with -v."""

    RESULT = re.compile(r"^(\S+ \([\w.]+\))(?:.*?) \.\.\. (?:.* )?"
                        r"(ok|FAIL|ERROR|expected failure|unexpected success|skipped)(?: '(.*)'| \"(.*)\")?\s*$")
    RAN = re.compile(r"^Ran (\d+) tests? in")
    OUTCOME = {"ok": PASSED, "expected failure": PASSED, "skipped": SKIPPED}

    def __init__(self):
        self.seen = 0
        self.ran = None

    def feed(self, line):
        if match := self.RAN.match(line):
            self.ran = int(match[1])
        elif match := self.RESULT.match(line):
            self.seen += 1
            return Result(match[1], self.OUTCOME.get(match[2], FAILED), match[3] or match[4] or "")
        return None

    def end(self):
        if self.ran is None:
            return ["unittest did not come to its end"]
        return [] if self.ran == self.seen else [f"unittest ran {self.ran} tests, {self.seen} were seen"]


class LibFuzzer:
    """A fuzzing run: one test, passed when it ends by itself having tried something."""

    DONE = re.compile(r"^Done (\d+) runs in (\d+) second")

    def __init__(self):
        self.done = False

    def feed(self, line):
        if (match := self.DONE.match(line)) and int(match[1]) > 0:
            self.done = True
            return Result(f"{match[1]} inputs in {match[2]} s", PASSED)
        return None

    def end(self):
        return [] if self.done else ["the fuzzer did not come to its end"]


class Status:
    """A command without tests in it: its exit status, which the caller sees, is the result."""

    def feed(self, _):
        return None

    def end(self):
        return []
