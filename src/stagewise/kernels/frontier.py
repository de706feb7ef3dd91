"""The leaves that can be split, as a heap: which one comes next is the growth order.

"leafwise" takes the leaf with the largest improvement, "levelwise" the shallowest first, by improvement within a level.
"""

from __future__ import annotations

from stagewise.kernels.jit import device
from stagewise.kernels.nodes import DEPTH

__all__ = ["LEAFWISE", "LEVELWISE", "comes_before", "pop", "push"]

LEAFWISE, LEVELWISE = 0, 1


@device
def comes_before(nodes, a, b, order):
    """Whether leaf a is split before leaf b: by level (levelwise), by improvement, by number."""
    if order == LEVELWISE and nodes.state[a, DEPTH] != nodes.state[b, DEPTH]:
        return nodes.state[a, DEPTH] < nodes.state[b, DEPTH]
    if nodes.gain[a] != nodes.gain[b]:
        return nodes.gain[a] > nodes.gain[b]
    return a < b


@device
def push(heap, size, node, nodes, order):
    """Put a leaf into the heap of those that can be split; the new size."""
    k = size
    heap[k] = node
    while k > 0 and comes_before(nodes, heap[k], heap[(k - 1) // 2], order):
        heap[k], heap[(k - 1) // 2] = heap[(k - 1) // 2], heap[k]
        k = (k - 1) // 2
    return size + 1


@device
def pop(heap, size, nodes, order):
    """Take the leaf to be split next off the heap (size > 0); the caller counts down."""
    first, size = heap[0], size - 1
    heap[0] = heap[size]
    k = 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and comes_before(nodes, heap[child + 1], heap[child], order):
            child += 1
        if not comes_before(nodes, heap[child], heap[k], order):
            break
        heap[k], heap[child] = heap[child], heap[k]
        k = child
    return first
