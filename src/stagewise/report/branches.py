"""Trees as plain lists, for a page that lets one walk through them."""

from __future__ import annotations

import json
from typing import Any

from stagewise.inspection.outline import OneTree
from stagewise.inspection.subject import Subject

__all__ = ["trees_of"]

_MOST_BYTES = 500_000


def trees_of(subject: Subject) -> dict[str, Any]:
    """The trees of the first stages, as many as fit: stages, outputs, and trees[stage][output].

    A tree is a list of nodes: a leaf is [value, rows], another node [test, rows, gain, side, yes], where yes is the
    number of the node that follows when the test is met (the next one follows otherwise), and side says where missing
    values go ("yes", "no", or "" where there were none).
    """
    model = subject.model
    trees: list[list[list[Any]]] = []
    spent = 0
    for stage in range(len(model.stages)):
        own = [_nodes(OneTree.of(subject.estimator or model, stage, output)) for output in range(model.n_outputs)]
        spent += len(json.dumps(own))
        if trees and spent > _MOST_BYTES:
            break
        trees.append(own)
    return {"stages": len(model.stages), "outputs": list(subject.outputs), "trees": trees}


def _nodes(one: OneTree) -> list[list[Any]]:
    tree = one.tree
    nodes: list[list[Any]] = []
    for node in range(tree.n_nodes):
        rows = int(tree.count[node])
        if tree.left[node] < 0:
            nodes.append([float(f"{tree.value[node]:.6g}"), rows])
        else:
            gain = float(f"{tree.gain[node]:.4g}")
            nodes.append([one.test(node), rows, gain, one.missing_side(node), int(tree.left[node])])
    return nodes
