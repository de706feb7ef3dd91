"""Gradient, second derivative and value of each loss, row by row, at the current raw predictions f.

Every kernel here has one signature, so a loss is one loop and one class (losses/). Rows go in chunks: the `_rows` loop
of the loss fills grad, hess and value of a chunk, plain enough for the compiler to vectorise (it needs loops that
start at 0); `settle` then multiplies by the weights, notes the largest sizes (from which the fixed point is chosen) and
adds the value to the exact sum. Around it `advance` adds the last tree's leaves and `pack` makes integers of the pairs,
as `Update` says: a pass over all rows for each of them took as long again. A kernel cannot take the loop as an argument
and still be cached on disk: hence the same few lines in each.

Formulas: ESL 10.6 and Friedman (2001) section 4. y is 0/1 for the two-class losses; log-loss works on the log-odds f,
where the paper's F is half of it: f = 2F, so the paper's 2·y·F with y = ±1 is our ±f.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.exact import Packing, exact_exp, exact_log
from stagewise.kernels.jit import device, float_bits, from_bits, kernel
from stagewise.kernels.scores import NO_SCORES, Scores, code_rows
from stagewise.kernels.team import share

__all__ = [
    "CHUNK",
    "Update",
    "absolute_error_pairs",
    "advance",
    "exponential_pairs",
    "huber_pairs",
    "log_loss_pairs",
    "multiclass_pairs",
    "pack",
    "quantile_pairs",
    "quantize",
    "settle",
    "sigmoid",
    "squared_error_pairs",
    "tweedie_pairs",
]


class Update(NamedTuple):
    """What else is done to a row while it is at hand, for one output: its leaf of the last tree is added before the
    loss is evaluated, and its pair is packed afterwards."""

    labels: np.ndarray  # uint16 or uint32 (n_rows): the leaf of each row; empty: nothing is added
    leaves: np.ndarray  # float64 (n_nodes)
    packing: Packing
    by_weight: bool  # the second field is the weight, not the second derivative
    words: np.ndarray  # int64 (n_rows): packed pairs; empty: nothing is packed
    lost: np.ndarray  # int64 (n_threads, 8): rows that keep under 4 bits of their gradient are added here
    scores: Scores = NO_SCORES  # codes of the |gradients|, for a sampler


CHUNK = 256
"""Rows of a chunk: all that is read and written of them stays in the first-level cache (of 1,024 it takes 40 kB, and
log-loss takes a fifth longer)."""


@device
def largest(values, least):
    """The largest size of values and of `least`; NaN is left out.

    Bits of floats without their sign are ordered as integers, and the largest integer is found in vectors; NaN lies
    beyond infinity and sends us round a second time.
    """
    top = float_bits(least)
    for i in range(values.shape[0]):
        bits = float_bits(abs(values[i]))
        top = bits if bits > top else top
    if top > float_bits(np.inf):
        top = float_bits(least)
        for i in range(values.shape[0]):
            bits = float_bits(abs(values[i]))
            top = bits if top < bits <= float_bits(np.inf) else top
    return from_bits(top)


@device
def settle(weight, grad, hess, value, scale, bits, peaks, limbs):
    """Weigh a chunk and take it into the peaks (|grad|, hess, |value|) and the exact sum of the value.

    A value beyond the range of the sum (1/scale) counts as that range; the caller sees it in the peak and chooses
    another scale. NaN counts as the range too: a deviance reads as very large, never as NaN.
    """
    n = grad.shape[0]
    if weight.shape[0] > 0:
        for i in range(n):  # 0 times infinity would be NaN: rows of weight 0 take no part, whatever they hold
            w = weight[i]
            grad[i] = grad[i] * w if w != 0.0 else 0.0
            hess[i] = hess[i] * w if w != 0.0 else 0.0
            value[i] = value[i] * w if w != 0.0 else 0.0
    peaks[0], peaks[1] = largest(grad, peaks[0]), largest(hess, peaks[1])
    peaks[2] = largest(value, peaks[2])
    one = np.float64(1 << bits)
    hi, lo = np.int64(0), np.int64(0)
    for i in range(n):
        v = value[i] * scale
        v = v if v < 1.0 else 1.0
        v = (v if v > -1.0 else -1.0) * one
        high = np.trunc(v)
        hi += np.int64(high)
        lo += np.int64((v - high) * one)
    limbs[0] += hi
    limbs[1] += lo


@device
def advance(update, a, b, raw):
    """Add the leaves of rows a..b to their raw predictions, if there is a tree to add."""
    if update.labels.shape[0] > 0:
        labels, own = update.labels[a:b], raw[a:b]
        for i in range(b - a):
            own[i] += update.leaves[labels[i]]


@device
def pack_rows(grad, hess, packing, words):
    """words = packed pairs; how many rows keep under 4 bits of their gradient."""
    few = np.int64(0)
    for i in range(words.shape[0]):
        g = np.int64(np.rint(grad[i] * packing.grad_scale))
        h = np.int64(np.rint(hess[i] * packing.hess_scale))
        few += np.int64((abs(g) < 8) & (grad[i] != 0.0))
        words[i] = (g << packing.grad_shift) + (h << packing.hess_shift) + np.int64(1)
    return few


@device
def pack(update, a, b, tid, weight, grad, hess):
    """Pack the pairs of rows a..b in the way that is expected to be right, and score them, while they are at hand."""
    if update.words.shape[0] > 0:
        second = weight[a:b] if update.by_weight else hess[a:b]
        update.lost[tid, 0] += pack_rows(grad[a:b], second, update.packing, update.words[a:b])
    if update.scores.codes.shape[0] > 0:
        code_rows(grad[a:b], update.scores.scale, update.scores, a, b, tid)


@device
def squared_error_rows(y, f, option, grad, hess, value):
    """L = (y - f)² / 2; the value is (y - f)², so that the deviance is the mean squared error."""
    for i in range(y.shape[0]):
        r = f[i] - y[i]
        grad[i] = r
        hess[i] = 1.0
        value[i] = r * r


@kernel
def squared_error_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `squared_error_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        squared_error_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def absolute_error_rows(y, f, option, grad, hess, value):
    """L = |y - f|; grad is the sign of f - y."""
    for i in range(y.shape[0]):
        r = f[i] - y[i]
        grad[i] = (1.0 if r > 0.0 else 0.0) - (1.0 if r < 0.0 else 0.0)
        hess[i] = 1.0
        value[i] = abs(r)


@kernel
def absolute_error_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `absolute_error_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        absolute_error_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def huber_rows(y, f, option, grad, hess, value):
    """L = (y - f)²/2 for |y - f| <= δ, δ(|y - f| - δ/2) beyond; option[0] = δ of this stage."""
    delta = option[0]
    for i in range(y.shape[0]):
        r = f[i] - y[i]
        size = abs(r)
        inside = size if size < delta else delta
        grad[i] = inside if r > 0.0 else -inside
        hess[i] = 1.0
        value[i] = inside * (size - 0.5 * inside)


@kernel
def huber_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `huber_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        huber_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def quantile_rows(y, f, option, grad, hess, value):
    """L = α(y - f) above, (1 - α)(f - y) below; option[0] = α."""
    alpha = option[0]
    for i in range(y.shape[0]):
        r = y[i] - f[i]
        slope = alpha if r > 0.0 else alpha - 1.0
        grad[i] = -slope if r != 0.0 else 0.0
        hess[i] = 1.0
        value[i] = slope * r


@kernel
def quantile_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `quantile_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        quantile_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def tweedie_rows(y, f, option, grad, hess, value):
    """Poisson (power 1), Tweedie (1 to 2) and gamma (2) with log link, μ = e^f; option[0] = power p.

    grad = B - A and hess = (2 - p)·B + (p - 1)·A with A = y·μ^(1-p), B = μ^(2-p).
    The value is half the unit deviance less a part that depends on y alone.
    """
    power = option[0]
    if power == 1.0:
        for i in range(y.shape[0]):
            mean = exact_exp(f[i])
            grad[i] = mean - y[i]
            hess[i] = mean
            value[i] = mean - y[i] * f[i]
    elif power == 2.0:
        for i in range(y.shape[0]):
            ratio = y[i] * exact_exp(-f[i])
            grad[i] = 1.0 - ratio
            hess[i] = ratio
            value[i] = ratio + f[i]
    else:
        for i in range(y.shape[0]):
            big = exact_exp((2.0 - power) * f[i])
            small = y[i] * exact_exp((1.0 - power) * f[i])
            grad[i] = big - small
            hess[i] = (2.0 - power) * big + (power - 1.0) * small
            value[i] = big / (2.0 - power) + small / (power - 1.0)


@kernel
def tweedie_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `tweedie_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        tweedie_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def log_loss_rows(y, f, option, grad, hess, value):
    """L = log(1 + e^f) - y·f, f the log-odds: p = 1/(1 + e^-f), grad = p - y, hess = p(1 - p).

    Three loops with short chains of arithmetic take 2.3 ns a row, one with all of it 2.9 (Zen 4).
    """
    for i in range(y.shape[0]):
        value[i] = exact_exp(-abs(f[i]))
    for i in range(y.shape[0]):
        e = value[i]
        inverse = 1.0 / (1.0 + e)
        p, q = (1.0 if f[i] >= 0.0 else e) * inverse, (e if f[i] >= 0.0 else 1.0) * inverse
        grad[i] = p * (1.0 - y[i]) - q * y[i]  # p - y without cancellation: the classes mirror each other
        hess[i] = e * inverse * inverse
    for i in range(y.shape[0]):
        positive = f[i] if f[i] > 0.0 else 0.0
        value[i] = exact_log(1.0 + value[i]) + positive - y[i] * f[i]


@kernel
def log_loss_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `log_loss_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        log_loss_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def exponential_rows(y, f, option, grad, hess, value):
    """L = e^(-s·f) with s = ±1 (ESL 10.4); grad = -s·L, hess = L."""
    for i in range(y.shape[0]):
        s = 2.0 * y[i] - 1.0
        e = exact_exp(-s * f[i])
        grad[i] = -s * e
        hess[i] = e
        value[i] = e


@kernel
def exponential_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `exponential_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        advance(update, a, b, raw)
        exponential_rows(y[a:b], raw[a:b], option, grad[a:b], hess[a:b], value[tid])
        settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
        pack(update, a, b, tid, weight, grad, hess)


@device
def multiclass_rows(y, raw, a, b, factor, grad, hess, value, top, total):
    """K-class log-loss: p_k = softmax(f)_k, grad_k = p_k - [y = k], hess_k = factor·p_k(1 - p_k).

    The factor K/(K-1) makes the Newton step of a leaf Friedman's (K-1)/K·Σỹ / Σ|ỹ|(1 - |ỹ|) (Algorithm 6). y holds
    class numbers of rows a..b; raw, grad and hess are (K, n_rows). top and total are scratch.
    """
    n_classes, n = raw.shape[0], b - a
    f = raw[0, a:b]  # one contiguous piece of a class at a time: a strided view would not be vectorised
    for i in range(n):
        top[i] = f[i]
        total[i] = 0.0
    for k in range(1, n_classes):
        f = raw[k, a:b]
        for i in range(n):
            top[i] = f[i] if f[i] > top[i] else top[i]
    for k in range(n_classes):
        f, e = raw[k, a:b], grad[k, a:b]
        for i in range(n):
            e[i] = exact_exp(f[i] - top[i])
            total[i] += e[i]
    for i in range(n):
        value[i] = exact_log(total[i]) + top[i]
        total[i] = 1.0 / total[i]
    for i in range(n):
        value[i] -= raw[np.int64(y[i]), a + i]
    for k in range(n_classes):
        g, h = grad[k, a:b], hess[k, a:b]
        for i in range(n):
            p = g[i] * total[i]
            g[i] = p - (1.0 if y[i] == k else 0.0)
            h[i] = factor * p * (1.0 - p)


@kernel(arrays=True)
def multiclass_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `multiclass_rows` for this thread's rows; raw, grad and hess are (K, n_rows).

    option[0] = the factor of the second derivatives.
    """
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    top, total = np.empty(CHUNK), np.empty(CHUNK)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        multiclass_rows(y[a:b], raw, a, b, option[0], grad, hess, value[tid], top, total)
        for k in range(raw.shape[0]):
            settle(weight[a:b], grad[k, a:b], hess[k, a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
            value[tid, :] = 0.0  # the value is counted once


@device
def widen_rows(grad, hess, packing, words, more_words):
    """The same as two words a row."""
    for i in range(words.shape[0]):
        words[i] = np.int64(np.rint(grad[i] * packing.grad_scale))
        h = np.int64(np.rint(hess[i] * packing.hess_scale))
        more_words[i] = (h << packing.count_bits) + np.int64(1)


@kernel
def sigmoid(tid, n_threads, raw, factor, out):
    """out[i] = (1 - p, p) with p = 1/(1 + e^(-factor * raw)): probabilities of two classes."""
    a, b = share(0, raw.shape[0], tid, n_threads)
    f, own = raw[a:b], out[a:b]
    for i in range(b - a):
        x = f[i] * factor
        e = exact_exp(-abs(x))
        likely = 1.0 / (1.0 + e)
        unlikely = e * likely
        own[i, 0] = unlikely if x >= 0.0 else likely
        own[i, 1] = likely if x >= 0.0 else unlikely


@kernel
def quantize(tid, n_threads, grad, hess, packing, words, more_words, lost):
    """Turn pairs into packed words (or two words a row). lost[tid, 0] counts rows whose gradient keeps under 4 bits."""
    a, b = share(0, grad.shape[0], tid, n_threads)
    if packing.narrow:
        lost[tid, 0] = pack_rows(grad[a:b], hess[a:b], packing, words[a:b])
    else:
        widen_rows(grad[a:b], hess[a:b], packing, words[a:b], more_words[a:b])
        lost[tid, 0] = 0
