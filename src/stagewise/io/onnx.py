"""A model as ONNX: one TreeEnsemble of ai.onnx.ml and the link after it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from stagewise._version import __version__
from stagewise.errors import MissingExtraError
from stagewise.inspection.levels import set_codes
from stagewise.io.export import Export, Proof, export_of, finish, unchecked
from stagewise.params import check_choice
from stagewise.tree.tree import Tree

__all__ = ["export_onnx"]

_OPSET, _ML_OPSET = 21, 5
_BRANCH_LEQ, _BRANCH_MEMBER, _SUM, _NO_TRANSFORM = 0, 6, 1, 0


def export_onnx(
    model: Any, path: str | os.PathLike[str], *, dtype: str = "float64", on_difference: str = "refuse"
) -> Proof:
    """Write a fitted estimator as ONNX (ai.onnx.ml 5), for onnxruntime and others. Needs `stagewise[onnx]`.

    Input: X (n, n_columns) of `dtype`, NaN where a value is missing, categories as the codes that `export_input` gives.
    Outputs: prediction (n,); for classes label (n,)
    and probabilities (n, K). With float64 predictions agree to rounding; with float32 thresholds are rounded so that
    float32 values reach the same leaves, whose values are float32. Checked with onnxruntime on rows that stand on and
    around every threshold; on_difference="warn" writes the file even if some differ.
    """
    check_choice("dtype", dtype, ("float64", "float32"))
    check_choice("on_difference", on_difference, ("refuse", "warn"))
    export = export_of(model, "ONNX")
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("ONNX export needs onnx: pip install 'stagewise[onnx]'.") from error
    kind = np.dtype(dtype)
    data = _Graph(onnx, kind).model(export)
    try:
        import onnxruntime
    except ImportError:
        return unchecked(path, data, "onnxruntime", "; pip install 'stagewise[onnx]'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    name = "prediction" if export.classes is None else "probabilities"

    def predict(rows: np.ndarray) -> np.ndarray:
        return np.asarray(session.run([name], {"X": rows.astype(kind)})[0])

    total = float(np.abs(export.model.initial).max()) + sum(float(np.abs(tree.value).max()) for tree in export.trees)
    unit = float(np.finfo(kind).eps) * (len(export.trees) + 4) * (1.0 + total) * export.factor
    relative = unit if export.link in ("exp", "signed_square") else 0.0
    return finish(
        path, data, export, f"onnxruntime {onnxruntime.__version__}", predict, on_difference=on_difference,
        dtype=kind.type, relative=relative, absolute=unit,
    )  # fmt: skip


class _Graph:
    """Nodes and constants of a graph that is being written."""

    def __init__(self, onnx: Any, kind: np.dtype[Any]) -> None:
        self.onnx, self.kind = onnx, kind
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.type = onnx.helper.np_dtype_to_tensor_dtype(kind)

    def constant(self, values: Any, name: str) -> str:
        array = np.asarray(values)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, value: float, name: str) -> str:
        return self.constant(np.array(value, self.kind), name)

    def add(self, operation: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [output], **attributes))
        return output

    def model(self, export: Export) -> bytes:
        helper = self.onnx.helper
        initial = self.constant(export.model.initial.astype(self.kind)[None, :], "initial")
        raw = self.add("Add", [self.trees(export), initial], "raw")
        rows, width = "n", len(export.classes) if export.classes is not None else 1
        if export.classes is None:
            column = self.numbers(export, raw)
            self.add("Reshape", [column, self.constant(np.array([-1], np.int64), "flat")], "prediction")
            outputs = [helper.make_tensor_value_info("prediction", self.type, [rows])]
        else:
            text = export.classes.dtype.kind in "UO"
            self.labels(export, raw, self.probabilities(export, raw), text)
            label = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.INT64
            if export.classes.dtype.kind == "f":
                label = self.onnx.TensorProto.DOUBLE
            outputs = [
                helper.make_tensor_value_info("label", label, [rows]),
                helper.make_tensor_value_info("probabilities", self.type, [rows, width]),
            ]
        inputs = [helper.make_tensor_value_info("X", self.type, [rows, export.n_columns])]
        graph = helper.make_graph(self.nodes, "stagewise", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, producer_name="stagewise", producer_version=__version__)
        made.ir_version = 10
        if export.names is not None:
            self.onnx.helper.set_model_props(made, {"columns": "\n".join(export.names)})
        self.onnx.checker.check_model(made)
        return bytes(made.SerializeToString())

    def trees(self, export: Export) -> str:
        """The TreeEnsemble; inner nodes and leaves have numbers of their own. A lone leaf hangs on a test twice."""
        lists: list[list[Any]] = [[] for _ in range(12)]
        feature, split, missing, true, false, true_leaf, false_leaf, root, target, weight, modes, members = lists
        for t, tree in enumerate(export.trees):
            leaf, first, first_leaf = tree.left < 0, len(feature), len(weight)
            number = np.where(leaf, first_leaf + np.cumsum(leaf) - 1, first + np.cumsum(~leaf) - 1)
            inner = np.flatnonzero(~leaf)
            root.append(first)
            target += [t % export.n_outputs] * int(leaf.sum())
            weight += tree.value[leaf].tolist()
            if len(inner) == 0:
                ends = np.array([first_leaf]), np.array([first_leaf]), np.array([1]), np.array([1])
                columns, splits, sides = np.array([0]), np.array([0.0]), np.array([0])
                modes.append(_BRANCH_LEQ)
            else:
                a, b = tree.left[inner], tree.left[inner] + 1
                ends = number[a], number[b], leaf[a].astype(int), leaf[b].astype(int)
                columns, splits, sides = tree.feature[inner], tree.threshold[inner], tree.missing_left[inner]
                own_modes, own_members, splits = _members(tree, inner, splits)
                modes += own_modes
                members += own_members
            feature += columns.tolist()
            split += splits.tolist()
            missing += sides.astype(int).tolist()
            for own, part in zip((true, false, true_leaf, false_leaf), ends, strict=True):
                own += part.tolist()
        tensor = self.onnx.numpy_helper.from_array
        return self.add(
            "TreeEnsemble", ["X"], "sum", domain="ai.onnx.ml", n_targets=export.n_outputs, aggregate_function=_SUM,
            post_transform=_NO_TRANSFORM, tree_roots=root, nodes_featureids=feature,
            nodes_modes=tensor(np.array(modes, np.uint8), "modes"),
            nodes_splits=tensor(_round_down(np.array(split), self.kind), "splits"),
            nodes_missing_value_tracks_true=missing, nodes_truenodeids=true, nodes_trueleafs=true_leaf,
            nodes_falsenodeids=false, nodes_falseleafs=false_leaf, leaf_targetids=target,
            leaf_weights=tensor(np.array(weight, self.kind), "weights"),
            **({"membership_values": tensor(np.array(members, self.kind), "members")} if members else {}),
        )  # fmt: skip

    def sigmoid(self, raw: str, factor: float, output: str) -> str:
        """1/(1 + e^(-factor·f)), of plain operations: not every runtime has a float64 Sigmoid."""
        scaled = self.add("Mul", [raw, self.number(-factor, f"{output}_factor")], f"{output}_scaled")
        one = self.number(1.0, f"{output}_one")
        below = self.add("Add", [self.add("Exp", [scaled], f"{output}_exp"), one], f"{output}_below")
        return self.add("Div", [one, below], output)

    def numbers(self, export: Export, raw: str) -> str:
        """The prediction (n, 1) of a regressor."""
        link = export.link
        if link == "identity" and export.n_outputs == 1:
            return raw
        if link == "sigmoid":
            return self.sigmoid(raw, export.factor, "linked")
        if link == "exp":
            low, high = self.number(-708.0, "low"), self.number(708.0, "high")
            return self.add("Exp", [self.add("Clip", [raw, low, high], "clipped")], "linked")
        if link == "signed_square":
            return self.add("Mul", [raw, self.add("Abs", [raw], "size")], "linked")
        if link == "softplus":
            small = self.add("Exp", [self.add("Neg", [self.add("Abs", [raw], "size")], "minus")], "small")
            log = self.add("Log", [self.add("Add", [small, self.number(1.0, "one")], "above")], "log")
            return self.add("Add", [self.add("Max", [raw, self.number(0.0, "zero")], "positive"), log], "linked")
        if link == "step":
            return self.add(
                "Cast", [self.add("Greater", [raw, self.number(0.0, "zero")], "above")], "linked", to=self.type
            )
        raise export.refuse("ONNX")

    def probabilities(self, export: Export, raw: str) -> str:
        if export.link == "sigmoid":
            both = [self.sigmoid(raw, sign * export.factor, name) for sign, name in ((-1.0, "no"), (1.0, "yes"))]
            return self.add("Concat", both, "probabilities", axis=1)
        if export.link == "softmax":
            return self.add("Softmax", [raw], "probabilities", axis=1)
        if export.link == "one_vs_all":
            return self.sigmoid(raw, export.factor, "probabilities")
        raise export.refuse("ONNX")

    def labels(self, export: Export, raw: str, probabilities: str, text: bool) -> None:
        """The most likely class, or with costs the one of least expected cost."""
        assert export.classes is not None
        if export.cost is not None:
            cost = self.constant(export.cost.T.astype(self.kind), "cost")
            chosen = self.add(
                "ArgMin", [self.add("MatMul", [probabilities, cost], "costs")], "chosen", axis=1, keepdims=0
            )
        else:
            score = probabilities if export.n_outputs == 1 else raw
            chosen = self.add("ArgMax", [score], "chosen", axis=1, keepdims=0)
        labels = export.classes.astype(object if text else np.float64 if export.classes.dtype.kind == "f" else np.int64)
        self.add("Gather", [self.constant(labels, "classes"), chosen], "label")


def _members(tree: Tree, inner: np.ndarray, splits: np.ndarray) -> tuple[list[int], list[float], np.ndarray]:
    """(modes of the inner nodes, the members of their sets, each list of them closed by NaN, thresholds)."""
    modes, members, splits = [_BRANCH_LEQ] * len(inner), [], splits.copy()
    for at, k in enumerate(inner.tolist() if len(tree.subset) else ()):
        if tree.subset[k] >= 0:
            codes = set_codes(tree.sets[tree.subset[k]])
            if len(codes):
                modes[at] = _BRANCH_MEMBER
                members += [*map(float, codes.tolist()), np.nan]
            else:
                splits[at] = -1.0  # no code is below 0
    return modes, members, splits


def _round_down(values: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """The largest numbers of the type that are not above: float32 values compare with them as with the originals."""
    with np.errstate(over="ignore"):
        near = values.astype(kind)
        return np.where(near.astype(np.float64) > values, np.nextafter(near, kind.type(-np.inf)), near).astype(kind)
