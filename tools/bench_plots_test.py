# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of bench_plots.py; none needs gnuplot."""
import unittest

from bench_plots import Plot, script


class Script(unittest.TestCase):
    def test_each_series_is_a_curve_with_its_points(self):
        text = script(Plot("t", "x", "y", {"a": [(1, 2), (3, 4.5)], "b": [(1, 1)]}), "out.svg")
        self.assertIn("$data0 << end\n1 2\n3 4.5\nend\n$data1 << end\n1 1\nend\n", text)
        self.assertIn('plot $data0 title "a" with', text)
        self.assertIn('$data1 title "b" with', text)
        self.assertIn('set output "out.svg"', text)

    def test_a_series_without_points_is_left_out(self):
        text = script(Plot("t", "x", "y", {"a": [], "b": [(1, 1)]}), "out.svg")
        self.assertNotIn('"a"', text)

    def test_nothing_is_drawn_from_nothing(self):
        self.assertIsNone(script(Plot("t", "x", "y", {"a": []}), "out.svg"))

    def test_what_has_no_logarithm_is_left_out(self):
        text = script(Plot("t", "x", "y", {"a": [(1, 0), (2, 5)]}, log_y=True), "out.svg")
        self.assertIn("set logscale y", text)
        self.assertNotIn("1 0\n", text)

    def test_axes_are_linear_unless_asked_for(self):
        self.assertNotIn("logscale", script(Plot("t", "x", "y", {"a": [(1, 1)]}), "out.svg"))

    def test_quotes_in_a_title_stay_in_it(self):
        self.assertIn(r'set title "a \"b\""', script(Plot('a "b"', "x", "y", {"a": [(1, 1)]}), "out.svg"))


if __name__ == "__main__":
    unittest.main()
