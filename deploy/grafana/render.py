#!/usr/bin/env python3
"""Draws a dashboard from a Prometheus, without a Grafana: the same panels, queries, units and legends. Needs
python3-matplotlib.

    deploy/grafana/render.py overview.json http://127.0.0.1:9090 overview.png --minutes 10
"""

import argparse
import datetime
import json
import os
import re
import time
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))


def scaled(value, units, base):
    for unit in units:
        if abs(value) < base or unit == units[-1]:
            return f"{value:.3g} {unit}".strip()
        value /= base


def format_value(unit, value):
    if unit == "s":
        return f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s"
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "Bps":
        return scaled(value, ["B/s", "kB/s", "MB/s", "GB/s"], 1000)
    if unit == "flops":
        return scaled(value, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"], 1000)
    return scaled(value, ["", "K", "M", "G"], 1000) + {"reqps": " req/s", "ops": " /s"}.get(unit, "")


def query_range(url, expression, start, end, step):
    for name in ("$namespace", "$model", "$instance"):
        expression = expression.replace(name, ".*")
    expression = expression.replace("$__rate_interval", f"{max(4 * step, 15)}s")
    parameters = urllib.parse.urlencode({"query": expression, "start": start, "end": end, "step": step})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{parameters}", timeout=60) as answer:
        return json.load(answer)["data"]["result"]


def draw_panel(axes, panel, url, start, end, step):
    defaults = panel["fieldConfig"]["defaults"]
    lines = []
    for target in panel["targets"]:
        for series in query_range(url, target["expr"], start, end, step):
            legend = re.sub(r"\{\{(\w+)\}\}", lambda m: series["metric"].get(m[1], ""), target["legendFormat"])
            values = {float(t): float(v) for t, v in series["values"] if v not in ("NaN", "+Inf")}
            lines.append((legend, values))
    instants = sorted({t for _, values in lines for t in values})
    times = [datetime.datetime.fromtimestamp(t) for t in instants]
    if defaults["custom"]["stacking"]["mode"] == "normal" and lines:
        axes.stackplot(times, [[values.get(t, 0) for t in instants] for _, values in lines],
                       labels=[name for name, _ in lines], alpha=0.6)
    else:
        for name, values in lines:
            objective = name.startswith("objective")
            axes.plot(times, [values.get(t, float("nan")) for t in instants], label=name, linewidth=1.2,
                      linestyle="--" if objective else "-", color="tab:red" if objective else None)
    axes.set_title(panel["title"], fontsize=9, loc="left", fontweight="bold")
    axes.set_ylim(bottom=0, top=defaults.get("max"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(defaults["unit"], value)))
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M:%S" if end - start < 900 else "%H:%M"))
    axes.xaxis.set_major_locator(matplotlib.dates.AutoDateLocator(maxticks=6))
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)
    if lines:
        axes.legend(fontsize=6.5, loc="upper left", ncol=2, framealpha=0.6)
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dashboard", help="overview.json or workers.json")
    parser.add_argument("prometheus", help="URL")
    parser.add_argument("picture", help="file to write: .png or .svg")
    parser.add_argument("--minutes", type=float, default=15, help="how far to look back")
    arguments = parser.parse_args()
    with open(os.path.join(FOLDER, arguments.dashboard), encoding="utf-8") as file:
        dashboard = json.load(file)
    end = time.time()
    start = end - arguments.minutes * 60
    step = max(1, round((end - start) / 200))

    rows = []  # (title of a row or None, panels side by side)
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            rows.append((panel["title"], []))
        elif rows[-1][1] and rows[-1][1][0]["gridPos"]["y"] != panel["gridPos"]["y"]:
            rows.append((None, [panel]))
        else:
            rows[-1][1].append(panel)
    figure, grid = plt.subplots(len(rows), 3, figsize=(16, 2.45 * len(rows)), squeeze=False)
    for axes_row, (title, panels) in zip(grid, rows):
        for axes, panel in zip(axes_row, panels):
            draw_panel(axes, panel, arguments.prometheus, start, end, step)
        for axes in axes_row[len(panels):]:
            axes.axis("off")
        if title:
            axes_row[0].annotate(title, (0, 1.22), xycoords="axes fraction", fontsize=12, fontweight="bold",
                                 color="tab:blue")
    figure.suptitle(dashboard["title"], fontsize=14, x=0.02, ha="left", fontweight="bold")
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(arguments.picture, dpi=70)


if __name__ == "__main__":
    main()
