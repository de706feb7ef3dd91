"""The dictionary of a report -> one HTML page. Nothing is computed here, and everything that is not ours is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from stagewise.report.fragments import bars, figure, number, table

__all__ = ["render"]

_ROWS_SHOWN = 30  # columns of the profile that are open at first


def render(summary: dict[str, Any]) -> str:
    """The page of a dictionary that `summarise` made."""
    sections = [
        (key, heading, body)
        for key, heading, make in _SECTIONS
        if (body := make(summary)) is not None
    ]  # fmt: skip
    contents = "\n".join(f'<li><a href="#{key}">{escape(heading)}</a></li>' for key, heading, _ in sections)
    body = _head(summary) + "".join(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(heading)}</h2>\n{own}</section>\n'
        for key, heading, own in sections
    )
    script = f"<script>\n{_file('tree.js')}</script>" if summary["trees"] else ""
    return Template(_file("page.html")).substitute(
        title=escape(summary["title"]), version=escape(summary["version"]), style=_file("style.css"),
        contents=contents, body=body, script=script,
    )  # fmt: skip


def _file(name: str) -> str:
    return files("stagewise.report").joinpath(name).read_text(encoding="utf-8")


def _p(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{escape(text)}</p>\n"


def _code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>\n'


def _head(summary: dict[str, Any]) -> str:
    scores = summary["scores"] or []
    where = {True: "held-out rows", False: "rows it was trained on", None: "rows"}[summary["held_out"]]
    lead = f"Looked at on {summary['rows']:,} {where}."
    if scores:
        first = scores[0]
        lead = f"{first['name']}: {first['text']} on {summary['rows']:,} {where}."
    cards = "".join(
        f'<div class="card"><div class="name">{escape(one["name"])}</div><div class="value">{escape(one["text"])}</div>'
        f'<div class="range">{escape(one["low_text"])} to {escape(one["high_text"])}</div></div>'
        for one in scores[:4]
    )
    shown = f'<div class="cards">{cards}</div>\n' if cards else ""
    return f"<header><h1>{escape(summary['title'])}</h1>\n{_p(lead, 'lead')}{shown}</header>\n"


def _about(summary: dict[str, Any]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(own)}</dd>" for name, own in summary["facts"])
    return f"<dl>{rows}</dl>\n"


def _scores(summary: dict[str, Any]) -> str | None:
    if not summary["scores"]:
        return None
    rows = [
        (one["name"], one["text"], f"{one['low_text']} to {one['high_text']}", one["constant_text"], one["better"])
        for one in summary["scores"]
    ]
    words = (
        "Intervals cover 95 % and come from drawing the rows again and again: how far the score would move with other "
        "rows of the same kind. The last columns say what a constant prediction would score, and which way is better."
    )
    if summary["held_out"] is False:
        words = "These rows were trained on, so the scores are too good. " + words
    head = ("score", "value", "95 % interval", "a constant", "better")
    return _p(words) + table(head, rows, numbers=(1, 3))


def _learning(summary: dict[str, Any]) -> str | None:
    own = summary["learning"]
    return None if own is None else _p(own["words"]) + figure(own["picture"])


def _importance(summary: dict[str, Any]) -> str | None:
    own = summary["importance"]
    return None if own is None else _p(own["words"]) + figure(own["picture"])


def _dependence(summary: dict[str, Any]) -> str | None:
    own, pair = summary["dependence"], summary["pair"]
    if own is None and pair is None:
        return None
    out = "" if own is None else _p(own["words"]) + _grid(own["pictures"], "three")
    if pair is not None:
        listed = table(("pair", "strength", "H"), pair["table"], numbers=(1, 2))
        drawn = "" if pair["picture"] is None else figure(pair["picture"])
        out += f'<h3>Together</h3>\n{_p(pair["words"])}<div class="beside">{drawn}{listed}</div>\n'
    return out


def _attributions(summary: dict[str, Any]) -> str | None:
    own = summary["attributions"]
    if own is None:
        return None
    words = f"{own['words']} SHAP values of {own['rows']:,} rows; those of a row add up to its prediction."
    out = _p(words) + "".join(map(figure, own["pictures"]))
    return out + (_grid(own["examples"]) if own["examples"] else "")


def _grid(pictures: Sequence[dict[str, str]], kind: str = "") -> str:
    return f'<div class="pictures {kind}">{"".join(map(figure, pictures))}</div>\n'


def _verdict(summary: dict[str, Any]) -> str | None:
    own = summary["verdict"]
    if own is None:
        return None
    out = ""
    if own["pictures"]:
        out = _p(own["words"]) + _grid(own["pictures"], "three" if len(own["pictures"]) == 3 else "")
    if own["kind"] == "numbers":
        return out
    out += "<h3>Confusion</h3>\n" + _confusion(own["classes"], own["confusion"])
    if own["costs"]:
        costs = own["costs"]
        out += "<h3>Costs</h3>\n" + _p(
            f"Decisions of least expected cost cost {number(costs['decided'])} a row; the most likely class would cost "
            f"{number(costs['likely'])}."
        )
        head = ("truth", *(f"said {name}" for name in own["classes"]))
        lines = [(name, *map(number, line)) for name, line in zip(own["classes"], costs["matrix"], strict=True)]
        out += table(head, lines, numbers=range(1, len(head)))
    elif own["thresholds"]:
        out += "<h3>Thresholds</h3>\n" + _p(
            f"Rows are said to be {own['classes'][1]} from a probability on; 0.5 is where predict draws the line. "
            "Where mistakes have different costs, misclassification_cost chooses for you."
        )
        head = ("from probability", "rows taken", "precision", "recall")
        out += table(head, own["thresholds"], numbers=range(1, 4))
    head = ("class", "rows", "recall", "precision")
    lines = [(name, f"{rows:,.0f}", recall, precision) for name, rows, recall, precision in own["by_class"]]
    return out + "<h3>By class</h3>\n" + table(head, lines, numbers=range(1, 4))


def _confusion(names: Sequence[str], counts: Sequence[Sequence[float]]) -> str:
    """Rows are the truth; the shade is the share of the row."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    many = " many" if len(names) > 8 else ""
    lines = []
    for name, line in zip(names, counts, strict=True):
        total = sum(line) or 1.0
        cells = "".join(
            f'<td style="background: rgba(var(--wash), {0.62 * own / total:.3f})" '
            f'title="{own / total:.1%} of {escape(name)}">{_count(own)}</td>'
            for own in line
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Confusion"><table class="confusion{many}">'
        "<caption>One line for each true class, one column for each class that was said</caption>"
        f'<thead><tr><td class="axis" style="border: 0">truth ↓ said →</td>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def _count(own: float) -> str:
    return f"{own:,.0f}" if own else '<span class="tops">0</span>'


def _trees(summary: dict[str, Any]) -> str | None:
    own = summary["trees"]
    if not own or not own["trees"]:
        return None
    n = len(own["trees"])
    outputs = ""
    if len(own["outputs"]) > 1:
        choices = "".join(f"<option>{escape(name)}</option>" for name in own["outputs"])
        outputs = f'<label>class <select id="tree-output">{choices}</select></label>'
    partly = f" The first {n:,} are here." if n < own["stages"] else ""
    words = (
        f"The model is the sum of {own['stages']:,} stages of trees.{partly} Leaves hold what they add to the "
        "prediction; rows are those of training."
    )
    controls = (
        f'<div class="controls"><label>stage <input id="tree-stage" type="number" min="1" max="{n}" value="1"></label>'
        f'{outputs}<button id="tree-all" type="button">open or close all</button></div>\n'
    )
    data = json.dumps({"trees": own["trees"]}, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    first = _node(own["trees"][0][0], 0, "", 0)
    how = 'class="tree" id="tree" tabindex="0" role="region" aria-label="Tree" aria-live="polite"'
    drawn = f"<div {how}><ul>{first}</ul></div>\n"
    return _p(words) + controls + drawn + f'<script type="application/json" id="trees-data">{data}</script>\n'


def _node(nodes: Sequence[Sequence[Any]], at: int, answer: str, depth: int) -> str:
    node = nodes[at]
    said = f'<span class="answer">{answer}</span> ' if answer else ""
    rows = f"{node[1]:,} row{'' if node[1] == 1 else 's'}"
    if len(node) == 2:
        sign, kind = ("+", "up") if node[0] >= 0 else ("−", "down")
        value = f'<span class="{kind}">{sign}{abs(node[0]):g}</span><span class="more">{rows}</span>'
        return f"<li><span>{said}{value}</span></li>"
    missing = f", missing: {node[3]}" if node[3] else ""
    more = f'<span class="more">{rows}, gain {node[2]:g}{missing}</span>'
    below = _node(nodes, node[4], "yes", depth + 1) + _node(nodes, node[4] + 1, "no", depth + 1)
    opened = " open" if depth < 3 else ""
    head = f"<summary><span>{said}{escape(node[0])}?{more}</span></summary>"
    return f"<li><details{opened}>{head}<ul>{below}</ul></details></li>"


def _data(summary: dict[str, Any]) -> str | None:
    columns = summary["columns"]
    if not columns:
        return None
    target = [summary["target_profile"]] if summary["target_profile"] else []
    out = _p(f"The {summary['rows']:,} rows of this report, the most important columns first.")
    out += _profile([*target, *columns[:_ROWS_SHOWN]], bool(target))
    if len(columns) > _ROWS_SHOWN:
        rest = _profile(columns[_ROWS_SHOWN:], False)
        out += f"<details><summary>{len(columns) - _ROWS_SHOWN} more columns</summary>{rest}</details>\n"
    if summary["columns_left"]:
        out += _p(f"{summary['columns_left']:,} further columns are not listed.", "note")
    return out


def _profile(columns: Iterable[dict[str, Any]], first_is_target: bool) -> str:
    lines = []
    for k, own in enumerate(columns):
        mark = ' <span class="tops">target</span>' if first_is_target and k == 0 else ""
        missing = f"{own['missing']:.1%}" if own["missing"] else "–"
        start = f'<th scope="row">{escape(own["name"])}{mark}</th>'
        start += f'<td class="n">{missing}</td><td class="n">{own["distinct"]:,}</td>'
        if own["kind"] == "number":
            ends = "".join(f'<td class="n">{number(own[key])}</td>' for key in ("low", "median", "high"))
            lines.append(f"<tr>{start}{ends}<td>{bars(own)}</td></tr>")
        else:
            top = ", ".join(f"{escape(label)} {share:.0%}" for label, share in own["top"][:4])
            more = ", …" if own["distinct"] > 4 else ""
            lines.append(f'<tr>{start}<td colspan="4" class="tops">{top}{more}</td></tr>')
    heads = ("column", "missing", "distinct", "lowest", "median", "highest", "distribution")
    head = "".join(f'<th scope="col"{" class=n" if 0 < k < 6 else ""}>{own}</th>' for k, own in enumerate(heads))
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Columns"><table class="wide">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def _settings(summary: dict[str, Any]) -> str:
    changed = [(name, value) for name, value, own in summary["settings"] if own]
    rest = [(name, value) for name, value, own in summary["settings"] if not own]
    out = ""
    if summary["run"]:
        out += _p("What follows repeats the training exactly; the model file will have the same bytes.")
        out += _code(summary["run"])
        if summary["run"].lstrip().startswith(("#", "[")):
            code = "stagewise train --config run.toml --out model.stagewise    # with the lines above in run.toml"
            python = 'from stagewise.cli import Run\n\nmodel = Run.read("run.toml").train().model'
            out += _p("From the shell, or from Python:") + _code(code) + _code(python)
    if changed:
        out += "<h3>Settings that are not the defaults</h3>\n" + table(("parameter", "value"), changed)
    out += f"<details><summary>All other settings</summary>{table(('parameter', 'value'), rest)}</details>\n"
    if summary["left_out"]:
        notes = "".join(f"<li>{escape(own)}</li>" for own in summary["left_out"])
        out += f'<h3>Not in this report</h3><ul class="note">{notes}</ul>\n'
    return out


_SECTIONS = (
    ("about", "What was trained on what", _about),
    ("scores", "Scores", _scores),
    ("learning", "Learning curve", _learning),
    ("importance", "Importance", _importance),
    ("dependence", "Dependence", _dependence),
    ("shap", "Single predictions", _attributions),
    ("errors", "Errors", _verdict),
    ("trees", "Trees", _trees),
    ("data", "Data", _data),
    ("settings", "Settings, and how to repeat it", _settings),
)
