"""One tree of a model: chosen, checked, and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.inspection.levels import Names, set_codes, set_text
from stagewise.inspection.listing import number
from stagewise.inspection.subject import Subject
from stagewise.params import check_count
from stagewise.tree.tree import Tree

__all__ = ["OneTree", "tree_text"]


@dataclass(frozen=True, slots=True, eq=False)
class OneTree:
    """A tree and the words for its nodes."""

    tree: Tree
    names: tuple[str, ...]
    seen_missing: np.ndarray  # bool by column: whether training values were missing (or it is not known)
    levels: tuple[Names, ...]  # by column: names of codes, None for numbers

    @classmethod
    def of(cls, model: Any, stage: int = 0, output: int = 0) -> OneTree:
        """The tree of a stage (0 is the first) and an output."""
        subject = Subject.of_trees(model)
        stage = check_count("stage", stage, 0, len(subject.model.stages) - 1)
        output = check_count("output", output, 0, subject.model.n_outputs - 1)
        marginals = subject.model.marginals
        seen = np.array([own.missing > 0.0 for own in marginals] or [True] * len(subject.names))
        return cls(subject.model.stages[stage][output], subject.names, seen, subject.levels)

    def test(self, node: int, longest: int = 60) -> str:
        """What an inner node asks; yes goes left. Sets are shown in at most some `longest` characters."""
        tree, name = self.tree, self.names[self.tree.feature[node]]
        if len(tree.subset) and tree.subset[node] >= 0:
            names = self.levels[tree.feature[node]] or ()
            return f"{name} in {set_text(set_codes(tree.sets[tree.subset[node]]), names, longest)}"
        if np.isinf(tree.threshold[node]) and tree.threshold[node] > 0:
            return f"{name} is there" if not tree.missing_left[node] else f"{name}: any"
        return f"{name} ≤ {tree.threshold[node]:.4g}"

    def missing_side(self, node: int) -> str:
        """ "yes" or "no": where missing values go; empty when none were seen in training."""
        if not self.seen_missing[self.tree.feature[node]]:
            return ""
        return "yes" if self.tree.missing_left[node] else "no"


def tree_text(model: Any, stage: int = 0, output: int = 0) -> str:
    """A tree as indented text: tests, leaf values (times the learning rate) and training rows."""
    one = OneTree.of(model, stage, output)
    lines: list[str] = []
    stack = [(0, "", "")]
    while stack:
        node, indent, answer = stack.pop()
        rows = f"{int(one.tree.count[node]):,} rows"
        if one.tree.left[node] < 0:
            lines.append(f"{indent}{answer}{one.tree.value[node]:+.5g}  ({rows})")
            continue
        side = one.missing_side(node)
        missing = f", missing: {side}" if side else ""
        gain = number(float(one.tree.gain[node]))
        lines.append(f"{indent}{answer}{one.test(node)}?  ({rows}, gain {gain}{missing})")
        deeper = indent + ("    " if answer else "  ")
        left = int(one.tree.left[node])
        stack += [(left + 1, deeper, "no:  "), (left, deeper, "yes: ")]
    return "\n".join(lines)
