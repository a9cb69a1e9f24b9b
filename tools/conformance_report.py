# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Renders what rdma-core's tests said on some devices as one table in Markdown."""
import dataclasses
import itertools
import re

import results
from results import FAILED, PASSED, SKIPPED

SPDX = ("<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->", "")
WORDS = {PASSED: "ok", SKIPPED: "skip", FAILED: "**fail**"}


@dataclasses.dataclass
class Run:
    """A device's results by the test's name, in the order of the log; and what ended it early."""
    device: str
    kernel: str
    results: dict
    notes: list


def read(device, lines):
    """A log of selftests/peers/conformance."""
    reader = results.Tap()
    run = Run(device, "unknown", {}, [])
    said = []
    for line in lines:
        line = line.rstrip("\n")
        if match := re.match(r"# kernel (\S+)", line):
            run.kernel = match[1]
        elif line.startswith("# runs "):
            said = []
        elif line.startswith("# no end within ") or line == "# the program died":
            said = [line[2:]]
        elif line == "# the rest was not run":
            run.notes.append(line[2:])
        elif line.startswith("#   "):
            said.append(line[4:].strip())
        if result := reader.feed(line):
            if result.outcome == FAILED and not result.reason and said:
                result = dataclasses.replace(result, reason=said[-1])
            run.results[result.name] = result
            said = []
    return run


def cell(result):
    if result is None:
        return "not run"
    word = WORDS[result.outcome]
    if result.outcome == PASSED or not result.reason:
        return word
    reason = result.reason if len(result.reason) <= 160 else result.reason[:157] + "..."
    return f"{word}: {escape(reason)}"


def escape(text):
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


def totals(runs, names):
    yield "| | ok | skip | fail | not run |"
    yield "| --- | --: | --: | --: | --: |"
    for run in runs:
        counts = [sum(1 for name in names if name in run.results and run.results[name].outcome == outcome)
                  for outcome in (PASSED, SKIPPED, FAILED)]
        yield f"| {run.device} | {' | '.join(map(str, counts))} | {len(names) - sum(counts)} |"


def ordered(runs):
    """All names, in the order of the module, then of the log that has most of them."""
    logs = sorted(runs, key=lambda run: -len(run.results))
    names = list(dict.fromkeys(itertools.chain.from_iterable(run.results for run in logs)))
    return sorted(names, key=lambda name: name.partition(".")[0])


def render(runs, suite, tree, command):
    """The lines of the document."""
    names = ordered(runs)
    yield from SPDX
    yield "# rdma-core's tests"
    yield ""
    yield f"What the tests of rdma-core say on Tally ({runs[0].device}) and on the kernel's other software adapter" \
          f" ({', '.join(run.device for run in runs[1:])}), one device after the other in one virtual machine."
    yield ""
    yield f"* kernel: {runs[0].kernel}"
    yield f"* tests: {suite}"
    yield f"* tree: {tree}"
    yield f"* made by `{command}`"
    yield ""
    yield "A skip has the reason that the suite gives, or, where that is vague, that of" \
          " selftests/peers/rdma-core.skips."
    yield ""
    yield from totals(runs, names)
    for run in runs:
        for note in run.notes:
            yield ""
            yield f"{run.device}: {note}."
    for module, group in itertools.groupby(names, key=lambda name: name.partition(".")[0]):
        yield ""
        yield f"## {module}"
        yield ""
        yield f"| test | {' | '.join(run.device for run in runs)} |"
        yield "| --- |" + " --- |" * len(runs)
        for name in group:
            cells = " | ".join(cell(run.results.get(name)) for run in runs)
            yield f"| {escape(name.partition('.')[2])} | {cells} |"
