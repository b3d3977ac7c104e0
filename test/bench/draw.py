"""Draws the picture of test/bench/compare from its rows: compare.png and compare.svg.

    python3 test/bench/draw.py build/compare     # draws it again, from compare.jsonl"""

import json
import sys
from pathlib import Path

INK, GRID = "#222222", "#dddddd"
BLUE, LIGHT, PALE = "#1f5fa8", "#6fa3d8", "#b5d0ec"  # p2pml: best path, then the next ones
GREY = "#b8b8b8"  # others
RED = "#c0392b"   # floors and limits
PATHS = {"avx512": BLUE, "avx2": LIGHT, "scalar": PALE, "cuda": "#2e8b57"}


def colour(who):
    return PATHS.get(who.split()[-1], BLUE) if who.startswith("p2pml") else GREY


def short(count):
    return f"{count / 1e6:.3g}M"


def told_time(ns):
    return f"{ns / 1e6:.0f} ms" if ns >= 1e8 else f"{ns / 1e6:.3g} ms" if ns >= 1e5 else f"{ns / 1e3:.3g} us"


def empty(axes, title, what):
    axes.set_title(title, loc="left")
    axes.text(0.5, 0.5, what, ha="center", va="center", transform=axes.transAxes, color="#777777")
    axes.set_axis_off()


def bars(axes, names, values, colours, labels):
    """Horizontal bars on a logarithmic axis, the first one on top, each with its figure at its end."""
    places = range(len(names), 0, -1)
    axes.barh(places, values, color=colours, height=0.72)
    axes.set_yticks(list(places), names)
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2.2, max(values) * 6)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for place, value, label in zip(places, values, labels):
        axes.text(value * 1.08, place, label, va="center", fontsize=8,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def selection(axes, rows, count):
    here = sorted((r for r in rows if r["stage"] == "select" and "skipped" not in r and r["count"] == count
                   and r["data"] == "gaussian" and r["percent"] == 1), key=lambda r: r["ns"])
    title = f"Top 1% of {short(count)} floats, Gaussian"
    if not here:
        return empty(axes, title, "not measured")
    floor = here[0]["floor_ns"]
    bars(axes, [r["who"] for r in here], [r["ns"] / 1e6 for r in here], [colour(r["who"]) for r in here],
         [f"{told_time(r['ns'])}, {r['ratio']:.3g}x" for r in here])
    axes.axvline(floor / 1e6, color=RED, linewidth=1.2)
    axes.set_title(title, loc="left")
    axes.set_xlabel(f"ms, one thread; red: one read of the vector ({told_time(floor)})")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, floor / 1e6 / 2), high)


def kinds(axes, rows):
    """p2pml on every kind of data, as multiples of one read."""
    here = [r for r in rows if r["stage"] == "select" and r["who"].startswith("p2pml") and "ratio" in r
            and r["percent"] == 1 and r["count"] == max(q["count"] for q in rows if "count" in q)]
    title = "Top 1% on other data, 31M floats"
    if not here:
        return empty(axes, title, "not measured")
    data = list(dict.fromkeys(r["data"] for r in here))
    paths = list(dict.fromkeys(r["who"] for r in here))
    width = 0.8 / len(paths)
    for i, path in enumerate(paths):
        heights = [next((r["ratio"] for r in here if r["data"] == d and r["who"] == path), 0) for d in data]
        places = [j + (i - (len(paths) - 1) / 2) * width for j in range(len(data))]
        axes.bar(places, heights, width * 0.92, color=colour(path), label=path.split()[-1])
    axes.axhline(1, color=RED, linewidth=1.2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(0.5, max(high, 4) * 2.5)
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100) if t < max(high, 4) * 2.5]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(data)), data)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left")
    axes.set_ylabel("multiples of one read (red)")
    axes.legend(frameon=False, ncols=len(paths), loc="upper left", fontsize=8)


def index_bits(axes, rows):
    here = [r for r in rows if r["stage"] == "index" and "bits" in r]
    title = "Bits of an index"
    if not here:
        return empty(axes, title, "not measured")
    percents = sorted({r["percent"] for r in here})
    names = ["entropy"] + sorted({r["who"] for r in here if r["who"].startswith("p2pml")})[:1] + ["varint"]
    names = [n for n in names if any(r["who"] == n for r in here)]
    for i, who in enumerate(names):
        heights = [next(r["bits"] for r in here if r["who"] == who and r["percent"] == p) for p in percents]
        places = [j + (i - (len(names) - 1) / 2) * 0.3 for j in range(len(percents))]
        axes.bar(places, heights, 0.28, label="p2pml" if who.startswith("p2pml") else who,
                 color=RED if who == "entropy" else BLUE if who.startswith("p2pml") else GREY)
        for place, height in zip(places, heights):
            axes.text(place, height + 0.2, f"{height:.2f}", ha="center", fontsize=6.8)
    axes.set_ylim(0, max(r["bits"] for r in here) * 1.22)
    axes.set_xticks(range(len(percents)), [f"{p:g}% kept" for p in percents])
    axes.set_title(title, loc="left")
    axes.legend(frameon=False, ncols=3, loc="upper right", fontsize=8)


def entry_bytes(axes, rows):
    here = [r for r in rows if r["stage"] == "bytes" and r.get("percent", 1) == 1]
    title = "Bytes per kept entry, everything included, at 1%"
    if not here:
        return empty(axes, title, "not measured")
    here.sort(key=lambda r: r["bytes_entry"])
    bars(axes, [r["who"] for r in here], [r["bytes_entry"] for r in here], [colour(r["who"]) for r in here],
         [f"{r['bytes_entry']:.2f}" for r in here])
    axes.set_xscale("linear")
    axes.set_xlim(0, max(r["bytes_entry"] for r in here) * 1.15)
    for text, row in zip(axes.texts, here):
        text.set_x(row["bytes_entry"] + 0.06)
    axes.set_xlabel("bytes")
    axes.set_title(title, loc="left")


WAYS = {"out": "OUT: the whole path", "prepare": "  x - r, select, quantise, code", "seal": "  seal",
        "in": "IN: the whole path", "open": "  open", "commit": "  check, decode, apply, hash"}


def ways(axes, rows):
    here = [r for case in WAYS for r in rows if r["stage"] == "way" and r.get("case") == case]
    title = "A whole exchange, 31M floats, 1%"
    if not here:
        return empty(axes, title, "not measured")
    bars(axes, [WAYS[r["case"]] for r in here], [r["ratio"] for r in here],
         [BLUE if r["case"] in ("out", "in") else LIGHT for r in here],
         [f"{r['ratio']:.3g}x, {told_time(r['ns'])}" for r in here])
    axes.axvline(1, color=RED, linewidth=1.2)
    axes.set_xlabel("reads of x and r (out), of x (in); red: 1")
    axes.set_title(title, loc="left")


def draw(rows, folder):
    """Returns a line that says what was drawn, or why there is no picture."""
    try:
        import matplotlib
    except ImportError as error:
        return f"no picture: {error} (Debian: apt-get install python3-matplotlib)"
    matplotlib.use("Agg")
    from matplotlib import pyplot
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "axes.titlesize": 10.5, "axes.titleweight": "bold", "text.color": INK,
                            "svg.hashsalt": "p2pml", "axes.edgecolor": "#888888"})
    figure, grid = pyplot.subplots(2, 3, figsize=(19, 9), layout="constrained")
    counts = sorted({r["count"] for r in rows if r["stage"] == "select" and "count" in r}, reverse=True) or [31_000_000]
    selection(grid[0][0], rows, counts[0])
    selection(grid[0][1], rows, counts[-1])
    kinds(grid[0][2], rows)
    index_bits(grid[1][0], rows)
    entry_bytes(grid[1][1], rows)
    ways(grid[1][2], rows)
    computer = next((r["who"] for r in rows if r["stage"] == "machine"), "")
    figure.suptitle(f"p2pml beside its peers, one run, one thread  ({computer})", fontsize=11, color="#555555")
    for ending in ("png", "svg"):
        figure.savefig(folder / f"compare.{ending}", dpi=110)
    return f"drawn: {folder}/compare.png, compare.svg"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(draw([json.loads(line) for line in (place / "compare.jsonl").read_text().splitlines()], place))
