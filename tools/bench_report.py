# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Renders what selftests/bench/vm/run and hca_bench have measured: a table of what is wanted, all values, plots."""
import dataclasses
import json
import re
import statistics
import typing

from bench_plots import Plot

TALLY, RXE, CPU, NATIVE = "tally0", "rxe0", "cpu", "native"
MIB = 1 << 20

# Of the engine (kernel/tally/engine.c): bytes of other queues before it looks again at what it polls.
TURN_BYTES = 16 << 10


# ---- what was measured ----

@dataclasses.dataclass
class Run:
    """Values by (pass, name, device, key), in the order of the log; errors; what it ran on."""
    machine: dict = dataclasses.field(default_factory=dict)
    values: dict = dataclasses.field(default_factory=dict)
    commands: dict = dataclasses.field(default_factory=dict)
    errors: dict = dataclasses.field(default_factory=dict)
    seconds: float | None = None

    def add(self, number, name, dev, values):
        for key, value in values.items():
            self.values.setdefault((number, name, dev, key), []).append(value)

    def median(self, number, name, dev, key):
        """Of all runs in one pass, or None."""
        values = self.values.get((number, name, dev, key))
        return statistics.median(values) if values else None

    def keys(self, name, dev):
        return list(dict.fromkeys(k for _, n, d, k in self.values if (n, d) == (name, dev)))


def read(lines):
    """The log of selftests/bench/vm/run."""
    run = Run()
    for line in lines:
        said = json.loads(line)
        if "machine" in said:
            run.machine = said["machine"]
        elif "seconds" in said:
            run.seconds = said["seconds"]
        elif "error" in said:
            run.errors[said["name"], said["dev"]] = said["error"].strip().splitlines()[-1]
        else:
            run.add(said["pass"], said["name"], said["dev"], said["values"])
            run.commands[said["name"]] = said.get("command", "")
    return run


def read_native(run, number, document):
    """What hca_bench --benchmark_format=json says; each repetition is a value, in nanoseconds."""
    scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    for one in document.get("benchmarks", []):
        if one.get("run_type") != "aggregate" and "error_message" not in one:
            name = one.get("run_name", one["name"])
            run.add(number, name, NATIVE, {"ns": one["cpu_time"] * scale[one.get("time_unit", "ns")]})


def read_instructions(run, number, text):
    """What tools/instructions --print says: a path of hca_paths, and its instructions for one request."""
    for line in text.splitlines():
        if match := re.fullmatch(r"(\S+/\S+) +([\d.]+)", line):
            run.add(number, match[1], NATIVE, {"instructions": float(match[2])})


class View:
    """One pass of a run: view(name, device, key)."""

    def __init__(self, run, number):
        self.run = run
        self.number = number

    def __call__(self, name, dev, key):
        return self.run.median(self.number, name, dev, key)


# ---- what is wanted ----

@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.  @value: of a View, None if it was not measured."""
    what: str
    wanted: float
    value: typing.Callable
    most: bool = False  # wanted is an upper limit
    unit: str = ""

    def reached(self, values):
        """None if nothing was measured; every pass counts."""
        known = [v for v in values if v is not None]
        if not known:
            return None
        return all(v <= self.wanted if self.most else v >= self.wanted for v in known)


def ratio(above, below):
    """Of two (name, device, key)."""
    def value(view):
        a, b = view(*above), view(*below)
        return a / b if a is not None and b else None
    return value


def faster(name, key="rate"):
    return ratio((name, TALLY, key), (name, RXE, key))


def sooner(name, key):
    return ratio((name, RXE, key), (name, TALLY, key))


def builders(what, per_doorbell):
    return ratio(("builders", TALLY, f"{what}_mlx5_{per_doorbell}"),
                 ("builders", TALLY, f"{what}_work_queue_{per_doorbell}"))


def native(name, requests=1):
    """Of one request; the time that was measured is of so many."""
    def value(view):
        ns = view(name, NATIVE, "ns")
        return None if ns is None else ns / requests
    return value


def native_ratio(reference, name):
    return ratio((reference, NATIVE, "ns"), (name, NATIVE, "ns"))


def slow_down(view):
    kept = view("counters", TALLY, "ratio")
    return None if kept is None else 100 * (1 - kept)


def in_turns(*which):
    """A time in microseconds, in turns of the stream that goes on beside."""
    def value(view):
        time, rate = view(*which), view("fairness", TALLY, "stream_mib_s")
        return time / (TURN_BYTES / MIB / rate * 1e6) if time and rate else None
    return value


ROWS = (
    Row("8-byte WRITE rate, one doorbell each, tally0 / rxe0", 30, faster("write_8")),
    Row("8-byte WRITE rate, 16 requests a doorbell, tally0 / rxe0", 40, faster("write_8_l16")),
    Row("8-byte READ rate, one doorbell each, tally0 / rxe0", 20, faster("read_8")),
    Row("8-byte READ rate, 16 requests a doorbell, tally0 / rxe0", 20, faster("read_8_l16")),
    Row("8-byte SEND rate, one doorbell each, tally0 / rxe0", 20, faster("send_8")),
    Row("8-byte SEND rate, 16 requests a doorbell, tally0 / rxe0", 20, faster("send_8_l16")),
    Row("8-byte WRITE latency, typical, rxe0 / tally0", 12, sooner("write_lat_8", "typical")),
    Row("8-byte WRITE latency, mean, rxe0 / tally0", 20, sooner("write_lat_8", "mean")),
    Row("8-byte WRITE latency, 99.9 %, rxe0 / tally0", 15, sooner("write_lat_8", "p999")),
    Row("event-driven ping-pong, 8 bytes, rxe0 / tally0", 3, sooner("pingpong_e", "usec")),
    Row("64 KiB WRITE bandwidth, tally0 / rxe0", 70, faster("write_64k", "bandwidth")),
    Row("1 MiB WRITE bandwidth / memcpy", 0.8,
        ratio(("write_1m", TALLY, "bandwidth"), ("memcpy_1m", CPU, "bandwidth"))),
    Row("WRITE rate, 16 of 1,024 QPs active / 16 QPs", 0.9,
        ratio(("qps_16_of_1024", TALLY, "rate"), ("qps_16_of_16", TALLY, "rate"))),
    Row("WRITE rate, 1,024 QPs active / 16 active", 0.7,
        ratio(("qps_1024_of_1024", TALLY, "rate"), ("qps_16_of_16", TALLY, "rate"))),
    Row("WRITE rate beside a stream of 1 GiB messages / alone", 0.4,
        ratio(("fairness", TALLY, "rate_beside"), ("fairness", TALLY, "rate_alone"))),
    Row("99.9 % WRITE latency beside that stream, in turns of it", 1,
        in_turns("fairness", TALLY, "p999_us_beside"), most=True),
    Row("CPU time to learn that 4,096 writes are done, polled CQEs / counter (mean of 10,000 reads)", 50,
        ratio(("completions_4096", TALLY, "cpu_ns"), ("counted_4096", TALLY, "cpu_ns"))),
    Row("slow-down of WRITEs by counters on both sides", 3, slow_down, most=True, unit=" %"),
    Row("CPU time of an idle device's engine in 10 s", 0, lambda v: v("idle", TALLY, "cpu_ms"), most=True, unit=" ms"),
    Row("its wake-ups in 10 s", 0, lambda v: v("idle", TALLY, "wakeups"), most=True),
    Row("1 GiB within tmpfs, rate of tally copy --no-hash / cp", 0.5,
        ratio(("cp", CPU, "seconds"), ("tally_copy", TALLY, "seconds"))),
    Row("native: an 8-byte WRITE with CQE and counters, one a doorbell", 60, native("hca/write_8"), most=True, unit=" ns"),
    Row("native: the same, 16 a doorbell", 60, native("hca/write_8_batch", 16), most=True, unit=" ns"),
    Row("native: 64 KiB WRITE / memcpy", 0.95, native_ratio("memcpy/64k", "hca/write_64k")),
    Row("native: 1 MiB WRITE / memcpy", 0.95, native_ratio("memcpy/1m", "hca/write_1m")),
    Row("native: gather of 64-byte blocks / a loop of memcpy() of a variable size", 0.8,
        native_ratio("loop/gather_64", "hca/gather_64")),
    Row("native: gather of 64-byte blocks / a loop by words, without vector registers", 0.8,
        native_ratio("loop/gather_64_words", "hca/gather_64")),
    Row("native: gather of 64-byte blocks / a loop that is compiled for 64", 0.8,
        native_ratio("loop/gather_64_fixed", "hca/gather_64")),
    Row("native: gather of 64 KiB in blocks of 4 KiB / a loop", 0.95, native_ratio("loop/gather_4k", "hca/gather_4k")),
    Row("native: gather of 1 MiB in blocks of 4 KiB / a loop", 0.95,
        native_ratio("loop/gather_4k_1m", "hca/gather_4k_1m")),
) + tuple(
    Row(f"instructions to post a {name}, {count}, libmlx5 / tally::work_queue", 1.5, builders(what, n))
    for what, name in (("write", "WRITE"), ("memcpy", "memory copy"), ("interleaved", "layout of 3 entries"))
    for n, count in ((1, "one a doorbell"), (16, "16 a doorbell"))
)

@dataclasses.dataclass(frozen=True)
class Limit:
    """What a row is made of or waits for whatever the device does, measured in the same run.  @what: Row.what"""
    what: str
    measured: str
    value: typing.Callable
    unit: str = ""


def beside_loads(loads):
    """What is left of the rate of 16 QPs if each write waits for loads from so many pages of 4,096, not of 64."""
    def value(view):
        rate, few, many = view("qps_16_of_16", TALLY, "rate"), view("pages_64", CPU, "ns"), view("pages_4096", CPU, "ns")
        if not rate or few is None or many is None:
            return None
        return 1 / (1 + loads * (many - few) / 1e9 * rate)
    return value


def at_the_pace_of_a_batch(view):
    """How long an 8-byte WRITE would take if its instructions were as fast as those of one of 16."""
    one, each = view("hca/write_8", NATIVE, "instructions"), view("hca/write_8_batch", NATIVE, "instructions")
    ns = view("hca/write_8_batch", NATIVE, "ns")
    return ns / 16 / each * one if one and each and ns else None


LIMITS = (
    Limit("8-byte SEND rate, one doorbell each, tally0 / rxe0",
          "a thread of real-time priority that sleeps for 100 us while all CPUs are busy sleeps longer by, median",
          lambda v: v("oversleep", CPU, "p50_us"), " us"),
    Limit("8-byte WRITE latency, 99.9 %, rxe0 / tally0",
          "rxe0 / two threads that pass a word to and fro and have no device: half of the round that comes every 10 ms, which"
          " are 1,000 of these writes or fewer",
          ratio(("write_lat_8", RXE, "p999"), ("exchange", CPU, "usec"))),
    Limit("event-driven ping-pong, 8 bytes, rxe0 / tally0",
          "the same with linger_us=0, by which each side sleeps for each message",
          ratio(("pingpong_e", RXE, "usec"), ("pingpong_e_slept", TALLY, "usec"))),
    Limit("event-driven ping-pong, 8 bytes, rxe0 / tally0",
          "rxe0 / two processes that wake each other by pipes and have no device",
          ratio(("pingpong_e", RXE, "usec"), ("handoff", CPU, "usec"))),
    Limit("64 KiB WRITE bandwidth, tally0 / rxe0", "memcpy of 64 KiB / rxe0",
          ratio(("memcpy_64k", CPU, "bandwidth"), ("write_64k", RXE, "bandwidth"))),
    Limit("64 KiB WRITE bandwidth, tally0 / rxe0", "tally0 / rxe0 on a netdev of MTU 9000, in packets of 4,096 bytes",
          ratio(("write_64k", TALLY, "bandwidth"), ("write_64k_jumbo", RXE, "bandwidth"))),
    Limit("WRITE rate, 1,024 QPs active / 16 active", "16 QPs with 1 request under way on each / with 64 on each",
          ratio(("qps_16_window_1", TALLY, "rate"), ("qps_16_of_16", TALLY, "rate"))),
    Limit("WRITE rate, 1,024 QPs active / 16 active", "1,024 QPs / 16 QPs, with 4 requests under way on each",
          ratio(("qps_1024_window_4", TALLY, "rate"), ("qps_16_window_4", TALLY, "rate"))),
    Limit("WRITE rate, 1,024 QPs active / 16 active",
          "what is left of the rate if each write waits for 3 loads that come from 4,096 pages in turn, not from 64",
          beside_loads(3)),
    Limit("99.9 % WRITE latency beside that stream, in turns of it",
          "the pause that comes every 20 ms, which are 1,000 to 2,000 of these writes, on one of two CPUs that only spin",
          in_turns("pauses", CPU, "usec")),
    Limit("native: an 8-byte WRITE with CQE and counters, one a doorbell",
          "three locks, one inside of the other, and two atomic additions", native("plain/locked"), " ns"),
    Limit("native: an 8-byte WRITE with CQE and counters, one a doorbell",
          "its instructions, each as fast as one of a WRITE in a batch of 16", at_the_pace_of_a_batch, " ns"),
    Limit("native: 64 KiB WRITE / memcpy", "memcpy / memcpy and a WRITE of 8 bytes in one loop",
          native_ratio("memcpy/64k", "memcpy/64k_write_8")),
    Limit("native: gather of 64-byte blocks / a loop that is compiled for 64",
          "the same loop without vector registers", native_ratio("loop/gather_64_fixed", "loop/gather_64_words")),
    Limit("native: gather of 64 KiB in blocks of 4 KiB / a loop", "the loop / the loop and a WRITE of 8 bytes in one",
          native_ratio("loop/gather_4k", "loop/gather_4k_write_8")),
)

# Why a row is not reached, by Row.what; shown below the table where that is so.
NOTES = {
    "8-byte SEND rate, one doorbell each, tally0 / rxe0":
        "sender and receiver spin on a CPU each. The engine takes one of them away at intervals and executes what has"
        " come together; a timer that is late makes the intervals longer, and the receiver has the rest of that CPU."
        " With a fault for each doorbell it is the rate of send_8_trapped.",
    "event-driven ping-pong, 8 bytes, rxe0 / tally0":
        "who arms a CQ stays awake for a while if its events come soon (linger_us), and if nobody else wants the CPU. Where"
        " he sleeps all the same, two CPUs that have halted must be woken up for each iteration: without lingering that is"
        " most of it, as it is for two processes that only wake each other (both below).",
    "64 KiB WRITE bandwidth, tally0 / rxe0":
        "the bytes are moved at least as fast as a program's memcpy() moves them (memcpy_64k), the rest of the ratio is"
        " rxe0's. Both netdevs have their default MTU, 1500, by which rxe0 sends packets of 1,024 bytes; tally0 has no"
        " packets. What jumbo frames make of it is below.",
    "8-byte WRITE latency, typical, rxe0 / tally0":
        "one pass and the other differ by what the host does meanwhile, on either device; both values are below, in All"
        " values, with the 99.9 %.",
    "8-byte WRITE latency, mean, rxe0 / tally0":
        "as the typical one.",
    "8-byte WRITE latency, 99.9 %, rxe0 / tally0":
        "every 4 ms the timers of both CPUs interrupt whatever runs there, and the host has other work for its CPUs now and"
        " then; two threads that only pass a word to and fro are kept waiting in the same way (exchange, below).",
    "WRITE rate, 16 of 1,024 QPs active / 16 QPs":
        "QPs that are quiet cost nothing: no list is as long as there are QPs, and none of them is looked at (the other"
        " pass shows it). What differs between the passes is the host.",
    "WRITE rate, 1,024 QPs active / 16 active":
        "1,024 requests are under way in either case: one on each of 1,024 QPs, where no two are executed together and the"
        " poster waits for the very QP that the engine is to look at next, or 64 on each of 16. What one on each"
        " makes of 16 QPs, and 1,024 QPs beside 16 with 4 on each, is below. Besides, the ring and the"
        " structures of requester and responder are pages of their own for each QP, in the kernel and in the program, more"
        " of them than the emulator's address translation remembers: the loads below.",
    "99.9 % WRITE latency beside that stream, in turns of it":
        "threads that only spin are kept from running for several turns, too, and alone the same latency"
        " (p999_us_alone) is not shorter than a turn, either. Half of the requests wait for less than one"
        " (p50_us_beside).",
    "native: an 8-byte WRITE with CQE and counters, one a doorbell":
        "a good part of it are the locks of two queues and a CQ, and the additions to counters that user space shares;"
        " of the instructions, a fifth is not the device's (callgrind: link.cpp stands for the program, port_user.c for the"
        " kernel's locks). Sixteen a doorbell share all of that but the additions.",
    "native: gather of 64 KiB in blocks of 4 KiB / a loop":
        "what the request costs before and behind its bytes is the difference to the loop, and what it needs of queues"
        " and keys is not in the CPU's first cache any more, as for the WRITE of 64 KiB.",
    "native: gather of 1 MiB in blocks of 4 KiB / a loop":
        "1 MiB does not fit into the first two caches of a CPU here, and what a pass gets of the third one depends on"
        " whoever else uses it; the code is that of 64 KiB.",
    "native: 64 KiB WRITE / memcpy":
        "the copy itself is no slower than memcpy (see 1 MiB). A request costs more than hca/write_8 beside it: 64 KiB and"
        " their copy are more than the CPU's first cache, and what it needs of queues and keys comes from the second one"
        " each time (below: the same with a request of 8 bytes behind the copy).",
    "native: gather of 64-byte blocks / a loop that is compiled for 64":
        "such a loop uses vector registers, which kernel code has not; it cannot be compiled for a size that a work"
        " request brings, either.",
}


# ---- the document ----

SPDX = ("<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->", "")

UNITS = {"rate": "/s", "rate_alone": "/s", "rate_beside": "/s", "rate_with": "/s", "rate_without": "/s",
         "bandwidth": "MiB/s", "stream_mib_s": "MiB/s", "typical": "us", "mean": "us", "p999": "us", "max": "us",
         "usec": "us", "cpu_ns": "ns", "ran_ns": "ns", "cpu_ms": "ms", "seconds": "s", "ns": "ns"}


def unit_of(name, key):
    return "instructions" if name == "builders" or key == "instructions" else UNITS.get(key, "us" if "_us" in key else "")


def number(value):
    if value is None:
        return "not measured"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def difference(first, second):
    if first is None or second is None:
        return ""
    if first == second:
        return "0 %"
    return f"{100 * (second - first) / abs(first):+.0f} %" if first else ""


def table(run, rows=ROWS):
    yield "| what | wanted | first pass | second pass | difference | reached |"
    yield "| --- | --: | --: | --: | --: | --- |"
    for row in rows:
        first, second = (row.value(View(run, n)) for n in (1, 2))
        verdict = {None: "not measured", True: "yes", False: "**no**"}[row.reached((first, second))]
        wanted = f"{'≤' if row.most else '≥'} {number(row.wanted)}{row.unit}"
        cells = [number(v) + (row.unit if v is not None else "") for v in (first, second)]
        yield f"| {row.what} | {wanted} | {cells[0]} | {cells[1]} | {difference(first, second)} | {verdict} |"
    for row in rows:
        if row.what in NOTES and not row.reached([row.value(View(run, n)) for n in (1, 2)]):
            yield ""
            yield f"*{row.what}*: {NOTES[row.what]}"


def limits(run):
    yield "| of | measured | first pass | second pass |"
    yield "| --- | --- | --: | --: |"
    for limit in LIMITS:
        cells = [number(v) + (limit.unit if v is not None else "") for v in (limit.value(View(run, n)) for n in (1, 2))]
        yield f"| {limit.what} | {limit.measured} | {cells[0]} | {cells[1]} |"


def all_values(run):
    yield "| measurement | device | value | unit | first pass | second pass | runs |"
    yield "| --- | --- | --- | --- | --: | --: | --: |"
    for name, dev in dict.fromkeys((n, d) for _, n, d, _ in run.values):
        if name.startswith("pace_"):
            continue  # the plots have them
        for key in run.keys(name, dev):
            if key[0] == "p" and key[1:2].isdigit() and "_" not in key and key != "p999":
                continue  # the plot has them
            first, second = (run.median(n, name, dev, key) for n in (1, 2))
            count = len(run.values.get((1, name, dev, key), []))
            yield f"| {name} | {dev} | {key} | {unit_of(name, key)} | {number(first)} |" \
                  f" {number(second) if second is not None else ''} | {count} |"


def series(run, names, dev, key, scale=1):
    """Points (x, value) of measurements NAME_X."""
    points = []
    for x, name in names:
        value = run.median(1, name, dev, key)
        if value is not None:
            points.append((x, value * scale(x) if callable(scale) else value * scale))
    return points


def measured(run, prefix):
    names = {n for _, n, _, _ in run.values if n.startswith(prefix) and n[len(prefix):].isdigit()}
    return sorted((int(n[len(prefix):]), n) for n in names)


def latency(run, dev):
    points = []
    for key in run.keys("write_lat_8", dev):
        if key[0] == "p" and key != "p999":
            points.append((float(key[1:]), run.median(1, "write_lat_8", dev, key)))
    return sorted(points)


def plots(run):
    """(file name, Plot) of all that there are points for."""
    sizes, active = measured(run, "size_"), measured(run, "active_")
    batches, counted = measured(run, "batch_"), measured(run, "batch_counted_")
    yield "rate-by-size", Plot(
        "RDMA WRITE, one doorbell each", "bytes of a message", "messages per second",
        {dev: series(run, sizes, dev, "rate") for dev in (TALLY, RXE)}, log_x=True, log_y=True)
    yield "bandwidth-by-size", Plot(
        "RDMA WRITE, one doorbell each", "bytes of a message", "MiB per second",
        {dev: series(run, sizes, dev, "bandwidth") for dev in (TALLY, RXE)}, log_x=True, log_y=True)
    yield "rate-by-qps", Plot(
        "8-byte RDMA WRITE by QPs in turn, 1,024 requests under way", "active QPs", "messages per second",
        {dev: series(run, active, dev, "rate") for dev in (TALLY, RXE)}, log_x=True, log_y=True)
    yield "latency", Plot(
        "8-byte RDMA WRITE, two processes", "percentile", "microseconds",
        {dev: latency(run, dev) for dev in (TALLY, RXE)}, log_y=True)
    yield "cpu-per-completion", Plot(
        "learning that a batch of writes is done", "writes in the batch", "CPU nanoseconds per write",
        {f"{TALLY}, a CQE each": series(run, batches, TALLY, "cpu_ns", lambda x: 1 / x),
         f"{RXE}, a CQE each": series(run, batches, RXE, "cpu_ns", lambda x: 1 / x),
         f"{TALLY}, one counter": series(run, counted, TALLY, "cpu_ns", lambda x: 1 / x)}, log_x=True, log_y=True)
    for cpus, what in (("idle", "a CPU is idle"), ("busy", "no CPU is idle")):
        paced = {way: measured(run, f"pace_{way}_{cpus}_") for way in ("trapped", "polled", "chosen")}
        yield f"doorbells-{cpus}", Plot(
            f"8-byte RDMA WRITE, {what}", "writes per second", "microseconds",
            {f"{way}, {name}": series(run, points, TALLY, key) for way, points in paced.items()
             for name, key in (("median", "p50_us"), ("99 %", "p99_us"))}, log_x=True, log_y=True)
        yield f"doorbells-{cpus}-cpu", Plot(
            f"the engine's share of a CPU, {what}", "writes per second", "share",
            {way: series(run, points, TALLY, "engine") for way, points in paced.items()}, log_x=True)


def commands(run):
    """Those of measurements that differ in a number only, once."""
    families = {}
    for name, command in run.commands.items():
        match = re.fullmatch(r"(.*_)(\d+)", name)
        if command and match and re.search(rf" {match[2]}\b", command):
            general = re.sub(rf" {match[2]}\b", " N", command)
            families.setdefault((match[1] + "N", general), []).append((match[2], name, command))
        elif command:
            families[name, command] = []
    for (name, command), members in families.items():
        if len(members) == 1:
            _, name, command = members[0]
        numbers = f", N = {', '.join(number for number, _, _ in members)}" if len(members) > 1 else ""
        yield f"* {name}: `{command}`{numbers}"


def render(run, host, folder):
    """The lines of the document.  @host: what was found out outside the virtual machine; @folder: of the plots."""
    yield from SPDX
    yield "# Performance"
    yield ""
    yield f"Tally ({TALLY}) beside the kernel's other software adapter ({RXE}) in one boot of one virtual machine, run" \
          " by turns, and beside plain memory copies. Every number is the median of the runs of a pass. The rows of the" \
          " tables are measured in two passes, the plots in the first."
    yield ""
    machine = run.machine
    yield f"* virtual machine: {machine.get('cpus', '?')} CPUs ({machine.get('cpu', 'unknown')})," \
          f" {machine.get('mib', '?')} MiB, kernel {machine.get('kernel', 'unknown')}" \
          f" ({machine.get('cmdline', 'command line unknown')})"
    yield f"* MTU of both devices' netdevs: {machine.get('mtu', 'unknown')}"
    for what, value in host.items():
        yield f"* {what}: {value}"
    if run.seconds:
        yield f"* {run.seconds / 60:.0f} minutes in the virtual machine"
    yield "* made by `make bench`"
    yield ""
    yield "## What is wanted, and what is"
    yield ""
    yield from table(run)
    for (name, dev), why in run.errors.items():
        yield ""
        yield f"{name} on {dev}: {why}"
    yield ""
    yield "## What the rows are made of"
    yield ""
    yield "Measured in the same run, most of it without the device: what a row consists of or waits for in any case. No upper bound" \
          " where the scheduler decides where two processes run, or where the kernel copies faster than a program's" \
          " memcpy()."
    yield ""
    yield from limits(run)
    yield ""
    yield "Whoever posts by tally::work_queue has no lock taken and no wr_id kept for him, which libmlx5 does for" \
          " several threads and for ibv_poll_cq()."
    yield ""
    yield "## Plots"
    for name, plot in plots(run):
        if any(plot.series.values()):
            yield ""
            yield f"![{plot.title}: {plot.y} by {plot.x}]({folder}/{name}.svg)"
    yield ""
    yield "## All values"
    yield ""
    yield from all_values(run)
    yield ""
    yield "## Commands"
    yield ""
    yield "`-d DEVICE` and the number of its GID are left out. Programs of two sides run as server and client, those" \
          " of ib_write_lat pinned to a CPU each. NAME=VALUE behind a comma is a parameter of tally.ko meanwhile."
    yield ""
    yield from commands(run)
