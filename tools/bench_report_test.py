# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of bench_report.py."""
import json
import unittest
import unittest.mock

import bench_report as report

LOG = [
    {"machine": {"kernel": "6.12.1", "cpus": 2, "cpu": "some CPU", "mib": 5996}},
    {"pass": 1, "name": "write_8", "dev": "tally0", "values": {"rate": 3e6, "bandwidth": 24}, "command": "ib_write_bw"},
    {"pass": 1, "name": "write_8", "dev": "rxe0", "values": {"rate": 5e4, "bandwidth": 0.4}, "command": "ib_write_bw"},
    {"pass": 1, "name": "write_8", "dev": "tally0", "values": {"rate": 1e6, "bandwidth": 8}, "command": "ib_write_bw"},
    {"pass": 1, "name": "write_8", "dev": "tally0", "values": {"rate": 2e6, "bandwidth": 16}, "command": "ib_write_bw"},
    {"pass": 2, "name": "write_8", "dev": "tally0", "values": {"rate": 1e6, "bandwidth": 8}, "command": "ib_write_bw"},
    {"pass": 2, "name": "write_8", "dev": "rxe0", "values": {"rate": 5e4, "bandwidth": 0.4}, "command": "ib_write_bw"},
    {"pass": 1, "name": "write_lat_8", "dev": "rxe0", "error": "server: exit status 1\nno such device\n"},
    {"pass": 1, "name": "write_lat_8", "dev": "tally0",
     "values": {"typical": 3.0, "p999": 9.0, "p50": 3.1, "p99.9": 9.0}, "command": "ib_write_lat"},
    {"pass": 1, "name": "idle", "dev": "tally0", "values": {"cpu_ms": 0.0, "wakeups": 0}, "command": "tally_bench idle"},
    {"pass": 1, "name": "batch_16", "dev": "tally0", "values": {"cpu_ns": 1600}, "command": "tally_bench completions"},
    {"pass": 1, "name": "batch_4", "dev": "tally0", "values": {"cpu_ns": 800}, "command": "tally_bench completions"},
    {"seconds": 120.0},
]

NATIVE = {"benchmarks": [
    {"name": "hca/write_8/repeats:2", "run_name": "hca/write_8", "run_type": "iteration", "cpu_time": 50.0, "time_unit": "ns"},
    {"name": "hca/write_8/repeats:2", "run_name": "hca/write_8", "run_type": "iteration", "cpu_time": 0.06, "time_unit": "us"},
    {"name": "hca/write_8_median", "run_name": "hca/write_8", "run_type": "aggregate", "cpu_time": 1.0, "time_unit": "ns"},
    {"name": "memcpy/64k", "run_name": "memcpy/64k", "run_type": "iteration", "error_message": "no", "cpu_time": 0},
]}


def run():
    return report.read(json.dumps(line) for line in LOG)


def row(what):
    return next(r for r in report.ROWS if r.what.startswith(what))


class Read(unittest.TestCase):
    def test_a_value_is_the_median_of_its_pass(self):
        self.assertEqual(run().median(1, "write_8", "tally0", "rate"), 2e6)
        self.assertEqual(run().median(2, "write_8", "tally0", "rate"), 1e6)

    def test_what_was_not_run_is_none(self):
        self.assertIsNone(run().median(1, "read_8", "tally0", "rate"))

    def test_the_machine_is_known(self):
        self.assertEqual(run().machine["kernel"], "6.12.1")

    def test_an_error_is_kept_with_its_last_line(self):
        self.assertEqual(run().errors, {("write_lat_8", "rxe0"): "no such device"})

    def test_native_repetitions_are_values_in_nanoseconds(self):
        r = report.Run()
        report.read_native(r, 1, NATIVE)
        self.assertEqual(r.median(1, "hca/write_8", "native", "ns"), 55)
        self.assertIsNone(r.median(1, "memcpy/64k", "native", "ns"))


class Table(unittest.TestCase):
    def line(self, what):
        return next(line for line in report.table(run()) if line.startswith(f"| {what}"))

    def test_a_ratio_that_is_reached_in_one_pass_only_is_not_reached(self):
        self.assertEqual(self.line("8-byte WRITE rate, one doorbell each"),
                         "| 8-byte WRITE rate, one doorbell each, tally0 / rxe0 | ≥ 30 | 40 | 20 | -50 % | **no** |")

    def test_nothing_is_invented_where_one_side_is_missing(self):
        self.assertIn("| not measured | not measured |  | not measured |", self.line("8-byte WRITE latency, typical"))

    def test_nothing_at_all_is_at_most_nothing(self):
        self.assertIn("| ≤ 0 ms | 0 ms | not measured |  | yes |", self.line("CPU time of an idle device"))

    def test_every_row_can_do_without_any_value(self):
        lines = [line for line in report.table(report.Run()) if line.startswith("|")]
        self.assertEqual(len(lines), len(report.ROWS) + 2)
        self.assertTrue(all("not measured" in line for line in lines[2:]))

    def test_rows_have_names_of_their_own(self):
        self.assertEqual(len({r.what for r in report.ROWS}), len(report.ROWS))

    def test_limits_belong_to_rows(self):
        self.assertLessEqual({limit.what for limit in report.LIMITS}, {r.what for r in report.ROWS})

    def test_every_limit_can_do_without_any_value(self):
        lines = list(report.limits(report.Run()))
        self.assertEqual(len(lines), len(report.LIMITS) + 2)
        self.assertTrue(all(line.endswith("| not measured | not measured |") for line in lines[2:]))

    def limit(self, what, r, measured=""):
        found, = (x for x in report.LIMITS if x.what.startswith(what) and measured in x.measured)
        return found.value(report.View(r, 1))

    def test_the_limit_of_a_ping_pong_has_no_device(self):
        r = report.Run()
        r.add(1, "pingpong_e", "rxe0", {"usec": 300})
        r.add(1, "handoff", "cpu", {"usec": 60})
        self.assertEqual(self.limit("event-driven", r, "pipes"), 5)

    def test_the_rarest_latencies_are_compared_with_those_that_have_no_device(self):
        r = report.Run()
        r.add(1, "write_lat_8", "rxe0", {"p999": 3000})
        r.add(1, "exchange", "cpu", {"usec": 300})
        self.assertEqual(self.limit("8-byte WRITE latency, 99.9 %", r), 10)

    def test_few_requests_on_each_queue_are_compared_with_as_many(self):
        r = report.Run()
        r.add(1, "qps_16_window_4", "tally0", {"rate": 8})
        r.add(1, "qps_1024_window_4", "tally0", {"rate": 6})
        self.assertEqual(self.limit("WRITE rate, 1,024", r, "4 requests"), 0.75)

    def test_instructions_are_those_of_the_device_for_one_request(self):
        r = report.Run()
        report.read_instructions(r, 1, "# of one request\ncompiler: gcc 12.2.0\nhca/write_8      800.5\n")
        self.assertEqual(r.values, {(1, "hca/write_8", "native", "instructions"): [800.5]})
        report.read_instructions(r, 1, "hca/write_8_batch 400.25\n")
        r.add(1, "hca/write_8_batch", "native", {"ns": 640})
        self.assertEqual(self.limit("native: an 8-byte WRITE", r, "batch"), 80)

    def test_a_copy_and_a_request_take_longer_than_the_copy(self):
        r = report.Run()
        r.add(1, "memcpy/64k", "native", {"ns": 900})
        r.add(1, "memcpy/64k_write_8", "native", {"ns": 1000})
        self.assertAlmostEqual(self.limit("native: 64 KiB", r), 0.9)

    def test_loads_that_take_longer_slow_writes_down(self):
        r = report.Run()
        r.add(1, "qps_16_of_16", "tally0", {"rate": 1e6})
        r.add(1, "pages_64", "cpu", {"ns": 10})
        r.add(1, "pages_4096", "cpu", {"ns": 10})
        self.assertEqual(self.limit("WRITE rate, 1,024", r, "loads"), 1)
        r.add(1, "pages_4096", "cpu", {"ns": 510})
        # The median of 10 and 510, three times.
        self.assertAlmostEqual(self.limit("WRITE rate, 1,024", r, "loads"), 1 / (1 + 3 * 0.25))

    def test_notes_belong_to_rows(self):
        self.assertLessEqual(set(report.NOTES), {r.what for r in report.ROWS})

    def test_a_note_is_below_the_table(self):
        row = "8-byte WRITE rate, one doorbell each, tally0 / rxe0"
        with unittest.mock.patch.dict(report.NOTES, {row: "because."}, clear=True):
            self.assertEqual(list(report.table(run()))[-1],
                             "*8-byte WRITE rate, one doorbell each, tally0 / rxe0*: because.")

    def test_a_row_that_is_reached_needs_no_note(self):
        row = "8-byte WRITE rate, one doorbell each, tally0 / rxe0"
        r = report.Run()
        r.add(1, "write_8", "tally0", {"rate": 31})
        r.add(1, "write_8", "rxe0", {"rate": 1})
        with unittest.mock.patch.dict(report.NOTES, {row: "because."}, clear=True):
            self.assertFalse([line for line in report.table(r) if "because." in line])

    def test_latency_beside_a_stream_is_in_turns_of_it(self):
        r = report.Run()
        r.add(1, "fairness", "tally0", {"p999_us_beside": 6.25, "stream_mib_s": 5000})
        self.assertAlmostEqual(row("99.9 % WRITE latency beside").value(report.View(r, 1)), 2)

    def test_instructions_are_compared_builder_by_builder(self):
        r = report.Run()
        r.add(1, "builders", "tally0", {"write_mlx5_16": 60, "write_work_queue_16": 30})
        self.assertEqual(row("instructions to post a WRITE, 16").value(report.View(r, 1)), 2)
        self.assertIsNone(row("instructions to post a WRITE, one").value(report.View(r, 1)))


class Document(unittest.TestCase):
    def text(self):
        return "\n".join(report.render(run(), {"outside": "1 CPU"}, "performance"))

    def test_it_says_on_what_and_how(self):
        for part in ("kernel 6.12.1", "* outside: 1 CPU", "* 2 minutes in the virtual machine", "`ib_write_bw`",
                     "write_lat_8 on rxe0: no such device"):
            self.assertIn(part, self.text())

    def test_absolute_values_of_both_devices_are_there(self):
        self.assertIn("| write_8 | tally0 | rate | /s | 2,000,000 | 1,000,000 | 3 |", self.text())
        self.assertIn("| write_8 | rxe0 | rate | /s | 50,000 | 50,000 | 1 |", self.text())

    def test_only_plots_with_points_are_shown(self):
        self.assertIn("](performance/cpu-per-completion.svg)", self.text())
        self.assertNotIn("rate-by-qps.svg", self.text())


class Plots(unittest.TestCase):
    def test_the_cpu_time_of_a_batch_is_shared_by_its_writes_in_the_order_of_size(self):
        plot = dict(report.plots(run()))["cpu-per-completion"]
        self.assertEqual(plot.series["tally0, a CQE each"], [(4, 200), (16, 100)])

    def test_commands_that_differ_in_a_number_are_shown_once(self):
        r = report.Run()
        r.commands = {"size_8": "ib_write_bw -s 8", "size_64": "ib_write_bw -s 64", "write_8": "ib_write_bw -q 1 -s 8",
                      "idle": "tally_bench idle", "none": "",
                      "pace_100": "pace --rate 100, poll_us=100", "pace_200": "pace --rate 200, poll_us=100"}
        self.assertEqual(list(report.commands(r)), [
            "* size_N: `ib_write_bw -s N`, N = 8, 64", "* write_8: `ib_write_bw -q 1 -s 8`",
            "* idle: `tally_bench idle`", "* pace_N: `pace --rate N, poll_us=100`, N = 100, 200"])

    def test_values_have_their_unit(self):
        r = report.Run()
        r.add(1, "builders", "tally0", {"write_mlx5_1": 100})
        r.add(1, "fairness", "tally0", {"p50_us_beside": 3})
        self.assertIn("| builders | tally0 | write_mlx5_1 | instructions | 100 |", "\n".join(report.all_values(r)))
        self.assertIn("| fairness | tally0 | p50_us_beside | us | 3 |", "\n".join(report.all_values(r)))

    def test_ways_of_doorbells_are_drawn_over_the_rate(self):
        r = report.Run()
        r.add(1, "pace_trapped_idle_1000", "tally0", {"p50_us": 5, "p99_us": 7, "engine": 0.25})
        r.add(1, "pace_chosen_busy_2000", "tally0", {"p50_us": 6, "p99_us": 9, "engine": 0})
        plots = dict(report.plots(r))
        self.assertEqual(plots["doorbells-idle"].series["trapped, 99 %"], [(1000, 7)])
        self.assertEqual(plots["doorbells-idle"].series["chosen, median"], [])
        self.assertEqual(plots["doorbells-idle-cpu"].series["trapped"], [(1000, 0.25)])
        self.assertEqual(plots["doorbells-busy"].series["chosen, median"], [(2000, 6)])

    def test_percentiles_are_points(self):
        plot = dict(report.plots(run()))["latency"]
        self.assertEqual(plot.series, {"tally0": [(50, 3.1), (99.9, 9.0)], "rxe0": []})


if __name__ == "__main__":
    unittest.main()
