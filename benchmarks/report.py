# SPDX-License-Identifier: Apache-2.0
"""Makes a page of a run of tools/bench: one file of HTML, with tables and SVG, that needs nothing else."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import goals
import plots
from results import (
    FAMILY_OF_KEY,
    OURS,
    STEADY_LIMIT,
    Family,
    Record,
    Run,
    family_of,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_rate,
    format_round_seconds,
    format_seconds,
    format_times,
    median,
    quartile_range,
    unique,
)

ROOFS = {
    "read": "reads of one block, in order",
    "copy": "a copy by ordinary stores; bytes read and bytes written count",
    "stream_copy": "a copy by streaming stores, which pass the cache by",
    "gather": "reads of random rows",
}
WIDTH = 1120  # of the wide charts; two small ones beside each other take as much

_STYLE = """
:root{color-scheme:light dark;--text:#1b1b1b;--faint:#5c5c5c;--line:#dcdcdc;--ground:#fff;--band:#f5f6f8;--link:#0b5cad;
--slow:#b3261e;--fast:#1b1b1b;--good:#0b5cad}
@media screen and (prefers-color-scheme:dark){:root{--text:#e8e8e8;--faint:#a8a8a8;--line:#3a3a3a;--ground:#16181c;
--band:#1f2227;--link:#7ab8ff;--slow:#ff8f7e;--fast:#e8e8e8;--good:#7ab8ff}}
body{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;color:var(--text);background:var(--ground);max-width:1320px;
margin:0 auto;padding:1.2rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.25rem;margin:2.4rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .3rem}p,ul{max-width:52rem}a{color:var(--link)}code{font-size:.9em}
.faint,caption{color:var(--faint)}caption{text-align:left;padding:.2rem 0}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:13px}th,td{padding:.18rem .55rem;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top}th{font-weight:600}
thead th{border-bottom:2px solid var(--line);vertical-align:bottom}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}tbody th{font-weight:400}
td.id,th.id{white-space:nowrap}#summary{font-size:12px}#summary td,#summary th{padding:.18rem .35rem}
#summary thead th{white-space:normal}#summary thead .swatch{display:block;margin:0 0 .2em auto}
#summary td.id{position:sticky;left:0;background:var(--ground)}tr.op th{background:var(--band);font-weight:600}
.slow{color:var(--slow);font-weight:600}.held{color:var(--good);font-weight:600}
.swatch{display:inline-block;width:.7em;height:.7em;margin-right:.35em}
nav{font-size:13px;margin:.6rem 0}nav a{margin-right:.9em;white-space:nowrap}
.charts{display:flex;flex-wrap:wrap;gap:.6rem 1rem}.charts figure,figure{margin:0}
svg.chart{max-width:100%;height:auto}details{margin:.6rem 0}summary{cursor:pointer}
input{font:inherit;padding:.15rem .4rem;width:22rem;max-width:100%}th[data-sorts]{cursor:pointer}
@page{size:A4 landscape;margin:12mm}
@media print{body{max-width:none;padding:0;font-size:10pt}table{font-size:7pt}#summary{font-size:5.8pt}
#summary td.id{position:static}.charts figure{width:48%}.wide{overflow:visible}nav,.screen{display:none}
figure,tr{break-inside:avoid}h2,h3{break-after:avoid}th,td,#summary td,#summary th{padding:.08rem .2rem}}
"""

# Only for comfort: the page says the same without it.
_SCRIPT = """
const table = document.getElementById('summary'), body = table.tBodies[0], all = [...body.rows];
const filter = document.getElementById('filter');
filter.parentElement.hidden = false;
filter.addEventListener('input', () => {
  let wanted;
  try { wanted = new RegExp(filter.value, 'i'); } catch { return; }
  for (const row of all) row.hidden = !wanted.test(row.dataset.id);
});
table.tHead.querySelectorAll('th').forEach((head, column) => {
  head.dataset.sorts = '';
  let up = true;
  head.addEventListener('click', () => {
    const key = row => row.cells[column]?.dataset.v ?? '';
    const rows = all.filter(row => !row.classList.contains('op'));
    all.filter(row => row.classList.contains('op')).forEach(row => row.remove());
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === '' || y === '') return (x === '') - (y === '');
      return (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y) * (up ? 1 : -1);
    });
    up = !up;
    body.append(...rows);
  });
});
"""


def write_report(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(run), encoding="utf-8")


def render(run: Run) -> str:
    operations: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        operations[record.op].append(record)
    links = " ".join(f'<a href="#{_anchor(op)}">{escape(op)}</a>' for op in operations)
    parts = [
        _header(run),
        f'<nav><a href="#goals">Goals</a> <a href="#table">Table</a> {links}</nav>',
        _goals(run),
        _summary(run, operations),
        *(_operation(run, op, records) for op, records in operations.items()),
    ]
    return page("Benchmarks of lodtensor", "\n".join(parts), _SCRIPT if run.records else "")


def page(title: str, body: str, script: str = "") -> str:
    """A whole document; also what a comparison is shown in."""
    return (
        '<!DOCTYPE html>\n<!-- SPDX-License-Identifier: Apache-2.0 -->\n<html lang="en">\n<head>\n'
        '<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{plots.style_sheet()}</style>\n</head>\n<body>\n{body}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), caption: str = "") -> str:
    """A table of cells that are HTML already; the columns `numbers` are set flush right."""
    numbers = set(numbers)

    def cells(row: Sequence[str], tag: str) -> str:
        classes = {column: ' class="n"' for column in numbers}
        return "<tr>" + "".join(f"<{tag}{classes.get(i, '')}>{cell}</{tag}>" for i, cell in enumerate(row)) + "</tr>"

    return (
        '<div class="wide"><table>'
        + (f"<caption>{caption}</caption>" if caption else "")
        + f"<thead>{cells(head, 'th')}</thead><tbody>{''.join(cells(row, 'td') for row in rows)}</tbody></table></div>"
    )


def _anchor(op: str) -> str:
    return "op-" + re.sub(r"[^\w-]+", "-", op)


def _code(text: str) -> str:
    """Escaped, with `code` between backticks."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


# The header


def _header(run: Run) -> str:
    data = run.data
    machine, context = data.get("machine", {}), data.get("context", {})
    caches = ", ".join(f"L{cache['level']} {format_bytes(cache['bytes'])}" for cache in machine.get("caches", []))
    threads = context.get("threads") or max((record.workload.get("threads", 1) for record in run.records), default=1)
    described = {
        "Processor": machine.get("cpu") or context.get("cpu"),
        "Cores, threads used": f"{machine.get('cores', '?')}, {threads}",
        "Caches": caches,
        "Memory": format_bytes(machine["memory"]) if machine.get("memory") else "",
        "System": ", ".join(filter(None, [machine.get("system"), machine.get("kernel"), machine.get("virtual")])),
        "Compiler": " ".join(filter(None, [context.get("compiler"), context.get("flags")])),
        "Instruction set": context.get("simd"),
        "BLAS of our program": context.get("blas"),
        "lodtensor": " ".join(filter(None, [context.get("version"), data.get("revision")])),
        "Date": data.get("date"),
        "Form": data.get("form"),
        "Took": format_duration(data["seconds"]) if data.get("seconds") else "",
    }
    rows = [[escape(key), escape(str(value))] for key, value in described.items() if value]
    without = [record.without.startswith("left out") for record in run.records if record.ours is None]
    unsteady = sum(record.unsteady for record in run.records)
    state = []
    if data.get("interrupted"):
        state.append("The run was interrupted: workloads are missing.")
    if False in without:
        state.append(f"Our program failed on {without.count(False)} workloads.")
    if True in without:
        state.append(f"{without.count(True)} workloads were left out for want of memory.")
    if unsteady:
        state.append(f"{unsteady} of {len(run.records)} workloads are unsteady.")
    return "\n".join(
        [
            "<h1>Benchmarks of lodtensor</h1>",
            "<p>Each operation on batches of sequences of different lengths, beside other libraries on the same data, "
            "in one run on one machine.</p>",
            f'<p class="slow">{" ".join(state)}</p>' if state else "",
            table(["Machine", ""], rows),
            _peers(run),
            _roofs(run),
            _how_to_read(run),
        ]
    )


def _peers(run: Run) -> str:
    rows = []
    for peer in run.data.get("peers", []):
        if peer.get("missing"):
            rows.append([escape(peer["peer"]), "", _code(f"left out: {peer['missing']}")])
        else:
            said = [f"{key} {peer[key]}" for key in ("threads", "blas") if peer.get(key)]
            rows.append([escape(peer["peer"]), escape(str(peer.get("version", ""))), escape(", ".join(said))])
    compiled: dict[tuple[str, str], None] = {}
    known = {peer["peer"] for peer in run.data.get("peers", [])}
    for record in run.records:
        for result in record.others:
            if result.get("peer") not in known:
                compiled[family_of(result).name, result.get("version", "")] = None
    rows += [[escape(name), escape(version), "in our program, C++"] for name, version in sorted(compiled)]
    return table(["Peer", "Version", ""], rows) if rows else ""


def _roofs(run: Run) -> str:
    rows = []
    for name, what in ROOFS.items():
        for suffix, threads in (("", "all threads"), ("_1", "one thread")):
            values = run.roofs(name + suffix)
            if values:
                rows.append(
                    [f"<code>{name}</code>", threads, f"{statistics.median(values) / 1e9:.1f}"]
                    + [f"{value / 1e9:.1f}" for value in (min(values), max(values))]
                    + [what]
                )
    if not rows:
        return ""
    moved = sorted(record.data["moved"] for record in run.records if "moved" in record.data)
    caption = "The roofs: GB/s that plain loops reach here, measured before and after each workload."
    if moved:
        caption += (
            " Within a workload, <code>read</code> or <code>copy</code> moved by "
            f"{format_percent(statistics.median(moved))} (median), {format_percent(moved[-1])} at most."
        )
    return table(["Roof", "", "median", "least", "greatest", ""], rows, numbers=(2, 3, 4), caption=caption)


def _how_to_read(run: Run) -> str:
    return f"""<h2 id="reading">How to read it</h2>
<ul>
<li>A workload's name is its operation, then what it varies: kind, lengths of the sequences, row size, element
type, size.</li>
<li>Times are medians over the repetitions of one call, after a call that does not count.</li>
<li>The fraction of the roof is the bytes that the operation must read and write at least, by its time and by the roof
that bounds it, measured around it. Workloads of less than {format_bytes(run.cache)} lie in the cache, whose bandwidth
is greater: theirs may pass 100 %, and they are pale in the plots.</li>
<li>A speed-up is a peer's time by ours: 2\u00d7 means that the peer takes twice as long. Below 1\u00d7 we are slower:
<span class="slow">0.8\u00d7\u2009\u25bc</span>. Of several forms of a peer, the fastest counts.</li>
<li><span class="slow">\u2260</span>: the peer's result differs from ours by more than the tolerance of the checksums,
so that its time says nothing.</li>
<li>~: unsteady. The roofs moved by more than {format_percent(STEADY_LIMIT)} while the workload was measured, also
when it was repeated.</li>
<li>Lengths: <code>u16</code>, <code>u256</code> uniform with mean 16, about 256; <code>zipf11</code> a power law;
<code>giant</code> nine tenths of the rows in one sequence; <code>empty90</code> nine sequences of ten are empty;
<code>all1</code> one row each; <code>one</code> a single sequence; <code>pow2align</code> 16 rows each;
<code>real-like</code> log-normal.</li>
</ul>"""


# Goals


def _goals(run: Run) -> str:
    rows = []
    for verdict in goals.judge(run, goals.load()["goals"]):
        match verdict.held:
            case True:
                held = '<span class="held">held</span>'
            case False:
                held = '<span class="slow">not held</span>'
            case None:
                held = '<span class="faint">not measured</span>'
        goal, measured = (cell.replace(" ", "\u00a0") for cell in (verdict.goal, verdict.measured))
        cells = (verdict.work, verdict.what, verdict.against, goal, measured)
        rows.append([*map(_code, cells), held, _code(verdict.note), _code(verdict.worst)])
    caption = "Of several workloads the worst counts."
    return '<h2 id="goals">Goals</h2>\n' + table(
        ["Work", "What", "Against", "Goal", "Measured", "Held", "Held by", "The worst"], rows, caption=caption
    )


# The table of all workloads


def _summary(run: Run, operations: Mapping[str, Sequence[Record]]) -> str:
    families = run.families
    head = ["Workload", "Time", "GB/s", "of roof", "ns a row", "Best peer", "Speed-up"]
    heads = [f'<th class="n">{name}</th>' for name in head[1:5]] + ["<th>Best peer</th>", '<th class="n">Speed-up</th>']
    heads += [f'<th class="n">{_swatch(family)}{escape(family.name)}</th>' for family in families]
    rows = []
    for op, records in operations.items():
        rows.append(
            f'<tr class="op" data-id="{escape(op)}"><th colspan="{len(head) + len(families)}">'
            f'<a href="#{_anchor(op)}">{escape(op)}</a></th></tr>'
        )
        rows += [_summary_row(record, families) for record in records]
    return (
        '<h2 id="table">All workloads</h2>\n'
        "<p>Ours, then our speed-up over the fastest form of each peer; point at a figure for the form and its time."
        "</p>\n"
        '<p class="screen" hidden><label>Show only <input id="filter" placeholder="pool/.*giant"></label> '
        '<span class="faint">A click on a column\u2019s head sorts.</span></p>\n'
        f'<div class="wide"><table id="summary"><thead><tr><th>Workload</th>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _swatch(family: Family) -> str:
    square = f'<rect width="10" height="10" class="m-{family.key}"/>'
    return f'<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">{square}</svg>'


def _summary_row(record: Record, families: Sequence[Family]) -> str:
    mark = ""
    if record.unsteady:
        moved = format_percent(record.data.get("moved", 0.0))
        mark = f' <span class="slow" title="unsteady: the roofs moved by {moved}">~</span>'
    cells = [f'<td class="id" data-v="{escape(record.id)}">{escape(record.short_id)}{mark}</td>']
    ours = record.ours
    if ours is None:
        word = record.without.partition(":")[0]
        cells.append(f'<td class="n slow" title="{escape(record.without)}">{word}</td>' + "<td></td>" * 5)
        cells += ["<td></td>"] * len(families)
        return f'<tr data-id="{escape(record.id)}">{"".join(cells)}</tr>'

    seconds, workload = median(ours), record.workload
    spread = f"quartiles {format_seconds(quartile_range(ours))} apart, {len(ours['seconds'])} repetitions"
    cells.append(_number(format_seconds(seconds), seconds, spread))
    rate = workload["bytes"] / seconds
    cells.append(_number(f"{rate / 1e9:.3g}", rate) if rate else '<td class="n"></td>')
    fraction, roof = record.fraction(), record.roof()
    if fraction is None or roof is None:
        cells.append('<td class="n"></td>')
    else:
        name = f"{workload['roof']}, {format_rate(roof)}" + ("" if record.past_cache else "; in the cache")
        shown = format_percent(fraction)
        cells.append(_number(shown, fraction, name) if record.past_cache else _number(f"({shown})", fraction, name))
    row = seconds / max(workload["rows"], 1) * 1e9
    cells.append(_number(f"{row:.3g}" if row < 1000 else f"{row:.0f}", row))
    best = record.best_peer
    cells.append(f'<td data-v="{escape(best["by"])}">{escape(best["by"])}</td>' if best else "<td></td>")
    cells.append(_speed_up(record, best))
    for family in families:
        result = record.best_by_family.get(family.key)
        # A family that only failed says so.
        failure = next((r for r in record.others if not r["seconds"] and family_of(r) == family), None)
        cells.append(_speed_up(record, result or failure))
    return f'<tr data-id="{escape(record.id)}">{"".join(cells)}</tr>'


def _number(text: str, value: float, title: str = "", classes: str = "n") -> str:
    hint = f' title="{escape(title)}"' if title else ""
    return f'<td class="{classes}" data-v="{value:.6g}"{hint}>{escape(text)}</td>'


def _speed_up(record: Record, result: Mapping[str, Any] | None) -> str:
    if result is None:
        return '<td class="n"></td>'
    title = _describe(result)
    ratio = record.speed_up(result)
    if ratio is None:
        return f'<td class="n faint" title="{escape(title)}">failed</td>'
    if result.get("disagrees"):
        return f'<td class="n slow" title="{escape(title)}">\u2260</td>'
    if ratio < 1:
        return _number(format_times(ratio) + "\u2009\u25bc", ratio, title, "n slow")
    return _number(format_times(ratio), ratio, title)


def _describe(result: Mapping[str, Any]) -> str:
    text = f"{result['by']}: {format_seconds(median(result))}" if result["seconds"] else f"{result['by']}: failed"
    if result.get("disagrees"):
        text += "; its result differs from ours"
    return text + (f" ({result['note']})" if result.get("note") else "")


# A section an operation


def _operation(run: Run, op: str, records: Sequence[Record]) -> str:
    present = {key for record in records for key in record.best_by_family}
    families = [FAMILY_OF_KEY[OURS]] + [family for family in run.families if family.key in present]
    measured = [record for record in records if record.ours]
    parts = [f'<h2 id="{_anchor(op)}">{escape(op)}</h2>', f"<figure>{plots.legend(families, WIDTH)}</figure>"]
    small = _time_plots(measured) + _skew_plots(measured)
    if small:
        parts.append('<div class="charts">' + "".join(f"<figure>{chart}</figure>" for chart in small) + "</div>")
    parts += [f"<figure>{chart}</figure>" for chart in (_fraction_plot(measured), _ratio_plot(measured)) if chart]
    parts.append(_details(records))
    return "\n".join(parts)


def _grouped(records: Iterable[Record], keys: Callable[[Record], tuple[Any, ...]]) -> list[list[Record]]:
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        groups[keys(record)].append(record)
    return list(groups.values())


def _fields(record: Record, *names: str) -> tuple[Any, ...]:
    return tuple(record.workload.get(name) for name in names)


def _caption(record: Record, *names: str) -> str:
    words = []
    for name in names:
        value = record.workload.get(name)
        if value not in ("", None):
            words.append(f"row size {value}" if name == "row_size" else str(value))
    return ", ".join(words)


def _series(points: Iterable[tuple[float, Record]], value: Callable[[Record, float], float]) -> list[plots.Series]:
    """A line for us and for the fastest form of each family that agrees; `value` of a record and a time is y."""
    series: dict[str, plots.Series] = {}
    for x, record in points:
        measured = [record.ours, *(r for r in record.best_by_family.values() if not r.get("disagrees"))]
        for result in filter(None, measured):
            family = family_of(result)
            tooltip = f"{record.id}\n{_describe(result)}"
            one = series.setdefault(family.key, plots.Series(family))
            one.points.append((x, value(record, median(result)), tooltip))
    return list(series.values())


def _time_plots(records: Sequence[Record]) -> list[str]:
    named = ("variant", "lengths", "ids", "row_size", "dtype")
    charts = []
    for group in _grouped(records, lambda record: _fields(record, *named, "threads")):
        sizes = {record.workload["rows"] for record in group}
        if len(sizes) > 1 and min(sizes) > 0:
            group.sort(key=lambda record: record.workload["rows"])
            series = _series(((record.workload["rows"], record) for record in group), lambda _, seconds: seconds)
            charts.append(
                plots.log_log(
                    _caption(group[0], *named), series, "rows", format_count, "time of a call", format_round_seconds
                )
            )
    return charts


def _skew_plots(records: Sequence[Record]) -> list[str]:
    named = ("variant", "ids", "row_size", "dtype")

    def alike(record: Record) -> tuple[Any, ...]:
        # Random lengths make sizes that are only nearly equal.
        size = record.workload.get("size") or round(math.log2(max(record.workload["rows"], 1)))
        return (*_fields(record, *named, "threads"), size)

    charts = []
    for group in _grouped((record for record in records if record.workload["bytes"]), alike):
        names = unique(record.workload["lengths"] for record in group if record.workload["lengths"])
        if len(names) > 1:
            points = (
                (names.index(record.workload["lengths"]), record) for record in group if record.workload["lengths"]
            )
            series = _series(points, lambda record, seconds: seconds / record.workload["bytes"] * 1e12)
            rows = format_count(statistics.median(record.workload["rows"] for record in group))
            charts.append(
                plots.categories(
                    f"{_caption(group[0], *named)}, about {rows} rows",
                    names,
                    series,
                    "lengths of the sequences",
                    "time a byte, ps",
                    format_count,
                )  # fmt: skip
            )
    return charts


def _fraction_plot(records: Sequence[Record]) -> str:
    bars = []
    for record in records:
        fraction, roof = record.fraction(), record.roof()
        if fraction is not None and roof is not None:
            title = f"{record.id}: {format_percent(fraction)} of {record.workload['roof']}, {format_rate(roof)}"
            text = format_percent(fraction) + (" ~" if record.unsteady else "")
            bars.append(
                plots.Bar(
                    f"{record.short_id} ({record.workload['roof']})",
                    fraction,
                    text,
                    title,
                    FAMILY_OF_KEY[OURS],
                    pale=not record.past_cache,
                )  # fmt: skip
            )
    return plots.fraction_bars("Fraction of the roof that we reach", bars, WIDTH) if bars else ""


def _ratio_plot(records: Sequence[Record]) -> str:
    groups = []
    for record in records:
        bars = []
        for result in sorted(record.best_by_family.values(), key=median):
            ratio = record.speed_up(result)
            assert ratio is not None
            text = format_times(ratio)
            if result.get("disagrees"):
                text += " \u2260"
            bars.append(
                plots.Bar(
                    result["by"], ratio, text, _describe(result), family_of(result), bool(result.get("disagrees"))
                )
            )
        if bars:
            groups.append((record.short_id + (" ~" if record.unsteady else ""), bars))
    title = "Time of the fastest form of each peer by ours"
    return plots.ratio_bars(title, groups, WIDTH) if groups else ""


def _details(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        for result in sorted(record.results, key=lambda r: median(r) if r["seconds"] else math.inf):
            seconds = result["seconds"]
            ratio = record.speed_up(result)
            notes = ["its result differs from ours"] if result.get("disagrees") else []
            notes += [result["note"]] if result.get("note") else []
            rows.append(
                [
                    escape(record.short_id),
                    _swatch(family_of(result)) + escape(result["by"]),
                    escape(result.get("version", "")),
                    str(result.get("threads", "")),
                    format_seconds(median(result)) if seconds else "failed",
                    f"{quartile_range(result) / median(result) * 100:.1f} %" if seconds else "",
                    str(len(seconds)),
                    format_times(ratio) if ratio is not None else "",
                    escape("; ".join(notes)),
                ]
            )
    head = ["Workload", "By", "Version", "Threads", "Median", "Quartiles apart", "Repetitions", "By ours", "Note"]
    return f"<details><summary>Every result</summary>{table(head, rows, numbers=(3, 4, 5, 6, 7))}</details>"


# The picture of docs/speed.md


def write_summary_svg(run: Run, path: Path) -> None:
    """A few operations: speed-ups over well-known peers, and the part of the roof."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_summary_svg(run), encoding="utf-8")


def render_summary_svg(run: Run) -> str:
    wanted = goals.load()
    lines: list[tuple[str, Record]] = []
    for headline in wanted["headline"]:
        candidates = [r for r in run.records if r.ours and goals.matches(r, headline["workloads"])]
        if candidates:
            # The largest; of those alike the first, which is the plainest.
            lines.append(
                (
                    headline["label"],
                    max(candidates, key=lambda record: (record.workload["bytes"], record.workload["rows"])),
                )
            )
    keys = wanted["headline_families"]
    shown = [family for family in run.families if family.key in keys]

    points = [
        [
            (ratio, result)
            for key, result in record.best_by_family.items()
            if key in keys and not result.get("disagrees") and (ratio := record.speed_up(result)) is not None
        ]
        for _, record in lines
    ]
    width, row, top, left, middle, bars, right = 900, 30, 78, 190, 625, 665, 825
    svg = plots.Svg(
        width, top + row * len(lines) + 34, "Speed-ups of lodtensor over other libraries, and fractions of the roof"
    )
    bottom = top + row * len(lines)
    svg.elements.append(f'<rect width="{svg.width}" height="{svg.height}" class="ground"/>')
    svg.text(left, 18, "How many times as long other libraries take", "t strong")
    svg.text(bars, 18, "Fraction of the roof we reach", "t strong")
    places, x = [], float(left - 8)
    for family in shown:
        places.append((x, 24.0, family))
        x += 34 + len(family.name) * (plots.CHARACTER + 0.4)
    plots.draw_legend(svg, places)

    every = [1.0, *(ratio for line in points for ratio, _ in line)]
    axis = plots.LogAxis.around(every, left + 36, middle - 44, margin=1.15)
    ticks = axis.ticks(room=50)
    for tick in sorted({1.0, *(t for t in ticks if t == 1 or abs(axis(t) - axis(1)) > 30)}):
        svg.line(axis(tick), top - 6, axis(tick), bottom, "axis" if tick == 1 else "grid")
        svg.text(axis(tick), top - 12, f"{tick:g}\u00d7", "faint middle")
    for tick in (0, 0.5, 1):
        at = bars + (right - bars) * tick
        svg.line(at, top - 6, at, bottom, "axis" if tick in (0, 1) else "grid", "4 3" if tick == 1 else "")
        svg.text(at, top - 12, f"{tick * 100:.0f} %", "faint middle")

    for place, ((label, record), dots) in enumerate(zip(lines, points, strict=True)):
        y = top + row * place + row / 2
        svg.text(left - 10, y + 4, label, "t end", record.id)
        if dots:
            svg.line(axis(min(r for r, _ in dots)), y, axis(max(r for r, _ in dots)), y, "axis")
        for ratio, result in sorted(dots, key=lambda dot: dot[0]):
            svg.marker(family_of(result), axis(ratio), y, f"{result['by']}: {format_times(ratio)}", radius=5.5)
        if dots:
            least, greatest = (choose(ratio for ratio, _ in dots) for choose in (min, max))
            svg.text(axis(greatest) + 10, y + 4, format_times(greatest), "faint")
            if least < greatest:
                svg.text(axis(least) - 10, y + 4, format_times(least), "faint end")
        fraction = record.fraction()
        if fraction is None:
            svg.text(bars + 4, y + 4, "not bound by memory", "faint")
        else:
            length = (right - bars) * min(fraction, 1.1)
            svg.bar(bars, y - 7, length, 14, f"m-{OURS}", f"{record.id}: {format_percent(fraction)}")
            svg.text(width - 8, y + 4, format_percent(fraction), "t end")
    machine, context = run.data.get("machine", {}), run.data.get("context", {})
    about = [machine.get("cpu") or context.get("cpu", ""), f"{context.get('threads', '?')} threads", "float32"]
    about.append(str(run.data.get("date", ""))[:10])
    svg.text(left, bottom + 22, ", ".join(filter(None, about)), "faint")
    return svg.render(f"<!-- SPDX-License-Identifier: Apache-2.0 --><style>{plots.style_sheet()}</style>") + "\n"
