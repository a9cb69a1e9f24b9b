# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Line plots, drawn by gnuplot as SVG."""
import dataclasses
import subprocess


@dataclasses.dataclass
class Plot:
    """Series of (x, y) by name; those without points are left out."""
    title: str
    x: str
    y: str
    series: dict
    log_x: bool = False
    log_y: bool = False


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def script(plot, target):
    """What gnuplot is told; None if there is nothing to draw."""
    drawn = {name: [p for p in points if not (plot.log_x and p[0] <= 0 or plot.log_y and p[1] <= 0)]
             for name, points in plot.series.items()}
    drawn = {name: points for name, points in drawn.items() if points}
    if not drawn:
        return None
    lines = ["set terminal svg noenhanced size 720,400 font 'sans-serif,12' background '#ffffff'",
             f"set output {quoted(str(target))}", f"set title {quoted(plot.title)}",
             f"set xlabel {quoted(plot.x)}", f"set ylabel {quoted(plot.y)}",
             "set grid", "set key outside right top", "set format y '%.3s%c'"]
    if plot.log_x:
        lines += ["set logscale x 2", "set format x '%.0f'"]
    if plot.log_y:
        lines.append("set logscale y")
    for i, points in enumerate(drawn.values()):
        lines += [f"$data{i} << end", *(f"{x:.10g} {y:.10g}" for x, y in points), "end"]
    curves = (f"$data{i} title {quoted(name)} with linespoints linewidth 2 pointtype 7 pointsize 0.5"
              for i, name in enumerate(drawn))
    lines.append("plot " + ", ".join(curves))
    return "\n".join(lines) + "\n"


def draw(plot, target):
    """Writes the file; False if there is nothing to draw."""
    text = script(plot, target)
    if text is None:
        return False
    subprocess.run(["gnuplot"], input=text, text=True, check=True)
    declaration, _, rest = target.read_text().partition("\n")
    target.write_text(f"{declaration}\n<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->\n{rest}")
    return True
