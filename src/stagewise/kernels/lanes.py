"""Sixteen rows at a time: where the processor can move chosen lanes of a vector side by side."""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from stagewise.kernels.jit import JIT, address_of, in_every_lane

__all__ = [
    "COMPRESSES",
    "COMPRESSES_BYTES",
    "LANES",
    "below_mask",
    "count_ones",
    "left_mask",
    "run_mask",
    "store_bytes",
    "store_chosen",
    "store_run",
]

LANES = 16
"""Rows that `left_mask` and `store_chosen` take at a time."""

COMPRESSES = JIT and all(binding.get_host_cpu_features().get(name) for name in ("avx512f", "avx512bw", "avx512vl"))
"""Whether the processor can move chosen lanes of a vector side by side."""

COMPRESSES_BYTES = COMPRESSES and bool(binding.get_host_cpu_features().get("avx512vbmi2"))
"""Whether it can do so with 64 bytes."""


def _store_first(context, builder, vector, chosen, target, mask, align):
    """Store as many of the first lanes of `chosen` as the mask has bits."""
    wide, bits = ir.IntType(64), mask.type
    count = builder.ctpop(builder.zext(mask, wide) if bits.width < 64 else mask)
    # 2**count - 1, also for 64
    first = builder.select(
        builder.icmp_unsigned("==", count, wide(64)),
        wide(-1),
        builder.sub(builder.shl(wide(1), count), wide(1)),
    )
    first = first if bits.width == 64 else builder.trunc(first, bits)
    flags = ir.VectorType(ir.IntType(1), vector.count)
    signature = ir.FunctionType(ir.VoidType(), [vector, target.type, ir.IntType(32), flags])
    name = f"llvm.masked.store.v{vector.count}i{vector.element.width}.p0"
    store = builder.module.declare_intrinsic(name, (), signature)
    builder.call(store, [chosen, target, ir.IntType(32)(align), builder.bitcast(first, flags)])
    return context.get_dummy_value()


if JIT:

    @intrinsic
    def left_mask(typing, column, rows, k, shift, bound):
        """Bit i is set when column[rows[k + i]] + shift <= bound, in 8 bits, for 16 rows."""
        if column.layout != "C" or rows.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
            numbers, vector = address_of(context, builder, sig.args[1], *args[1:3]), ir.VectorType(i8, LANES)
            codes = ir.Constant(vector, ir.Undefined)
            for lane in range(LANES):
                row = builder.zext(builder.load(builder.gep(numbers, [i32(lane)])), i64)
                code = builder.load(address_of(context, builder, sig.args[0], args[0], row))
                codes = builder.insert_element(codes, code, i32(lane))
            shifted = builder.add(codes, in_every_lane(builder, args[3], vector))
            left = builder.icmp_unsigned("<=", shifted, in_every_lane(builder, args[4], vector))
            return builder.bitcast(left, ir.IntType(LANES))

        return types.uint16(column, rows, types.uint64, types.uint8, types.uint8), codegen

    @intrinsic
    def run_mask(typing, column, row, shift, bound):
        """The same for 16 rows that follow each other, from `row` on: their codes are one load."""
        if column.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            vector = ir.VectorType(ir.IntType(8), LANES)
            source = builder.bitcast(address_of(context, builder, sig.args[0], *args[:2]), vector.as_pointer())
            shifted = builder.add(builder.load(source, align=1), in_every_lane(builder, args[2], vector))
            left = builder.icmp_unsigned("<=", shifted, in_every_lane(builder, args[3], vector))
            return builder.bitcast(left, ir.IntType(LANES))

        return types.uint16(column, types.uint64, types.uint8, types.uint8), codegen

    @intrinsic
    def store_chosen(typing, rows, k, mask, to, place):
        """Those of rows[k : k + 16] whose bit is set in the mask, side by side to to[place:]; nothing else is touched.

        For processors with AVX-512 alone, see COMPRESSES.
        """
        if rows.layout != "C" or to.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            vector, flags = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.IntType(1), LANES)
            source = builder.bitcast(address_of(context, builder, sig.args[0], *args[:2]), vector.as_pointer())
            target = builder.bitcast(address_of(context, builder, sig.args[3], *args[3:]), vector.as_pointer())
            some, zeros = builder.load(source, align=4), ir.Constant(vector, [0] * LANES)
            compress = builder.module.declare_intrinsic(
                "llvm.x86.avx512.mask.compress.v16i32", (), ir.FunctionType(vector, [vector, vector, flags])
            )
            chosen = builder.call(compress, [some, zeros, builder.bitcast(args[2], flags)])
            return _store_first(context, builder, vector, chosen, target, args[2], 4)

        return types.void(rows, types.uint64, types.uint16, to, types.uint64), codegen

    @intrinsic
    def store_run(typing, row, mask, to, place):
        """The same for the row numbers row, row + 1 ... row + 15."""
        if to.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            vector, flags = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.IntType(1), LANES)
            target = builder.bitcast(address_of(context, builder, sig.args[2], *args[2:]), vector.as_pointer())
            some = builder.add(in_every_lane(builder, args[0], vector), ir.Constant(vector, list(range(LANES))))
            compress = builder.module.declare_intrinsic(
                "llvm.x86.avx512.mask.compress.v16i32", (), ir.FunctionType(vector, [vector, vector, flags])
            )
            zeros = ir.Constant(vector, [0] * LANES)
            chosen = builder.call(compress, [some, zeros, builder.bitcast(args[1], flags)])
            return _store_first(context, builder, vector, chosen, target, args[1], 4)

        return types.void(types.uint32, types.uint16, to, types.uint64), codegen

    @intrinsic
    def store_bytes(typing, column, k, mask, to, place):
        """Those of column[k : k + 64] whose bit is set in the mask, side by side to to[place:]; nothing else is read or
        touched. For processors with AVX-512 VBMI2 alone, see COMPRESSES_BYTES."""
        if column.layout != "C" or to.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            vector, flags = ir.VectorType(ir.IntType(8), 64), ir.VectorType(ir.IntType(1), 64)
            source = builder.bitcast(address_of(context, builder, sig.args[0], *args[:2]), vector.as_pointer())
            target = builder.bitcast(address_of(context, builder, sig.args[3], *args[3:]), vector.as_pointer())
            asked, zeros = builder.bitcast(args[2], flags), ir.Constant(vector, [0] * 64)
            signature = ir.FunctionType(vector, [source.type, ir.IntType(32), flags, vector])
            load = builder.module.declare_intrinsic("llvm.masked.load.v64i8.p0", (), signature)
            some = builder.call(load, [source, ir.IntType(32)(1), asked, zeros])
            compress = builder.module.declare_intrinsic(
                "llvm.x86.avx512.mask.compress.v64i8", (), ir.FunctionType(vector, [vector, vector, flags])
            )
            chosen = builder.call(compress, [some, zeros, asked])
            return _store_first(context, builder, vector, chosen, target, args[2], 1)

        return types.void(column, types.uint64, types.uint64, to, types.uint64), codegen

    @intrinsic
    def below_mask(typing, values, bounds, k):
        """Bit i is set when values[k + i] < bounds[k + i], both uint32, for 16 lanes."""
        if values.layout != "C" or bounds.layout != "C":
            return None

        def codegen(context, builder, sig, args):
            vector = ir.VectorType(ir.IntType(32), LANES)
            own, limits = (
                builder.load(
                    builder.bitcast(address_of(context, builder, sig.args[n], args[n], args[2]), vector.as_pointer()),
                    align=4,
                )
                for n in (0, 1)
            )
            return builder.bitcast(builder.icmp_unsigned("<", own, limits), ir.IntType(LANES))

        return types.uint16(values, bounds, types.uint64), codegen

    @intrinsic
    def count_ones(typing, mask):
        """How many bits of a mask, uint16 or uint64, are set."""

        def codegen(context, builder, sig, args):
            count = builder.ctpop(args[0])
            return builder.zext(count, ir.IntType(64)) if mask.bitwidth < 64 else count

        return types.uint64(mask), codegen

else:

    def left_mask(column, rows, k, shift, bound):
        codes = column[rows[int(k) : int(k) + LANES]] + np.uint8(shift)
        return np.uint16(np.dot(codes <= bound, 1 << np.arange(LANES)))

    def run_mask(column, row, shift, bound):
        return left_mask(column, np.arange(int(row), int(row) + LANES), 0, shift, bound)

    def store_chosen(rows, k, mask, to, place):
        chosen = rows[int(k) : int(k) + LANES][(int(mask) >> np.arange(LANES)) & 1 == 1]
        to[int(place) : int(place) + len(chosen)] = chosen

    def store_run(row, mask, to, place):
        store_chosen(np.arange(int(row), int(row) + LANES, dtype=np.uint32), 0, mask, to, place)

    def store_bytes(column, k, mask, to, place):
        chosen = [column[int(k) + i] for i in range(64) if int(mask) >> i & 1]
        to[int(place) : int(place) + len(chosen)] = chosen

    def below_mask(values, bounds, k):
        below = values[int(k) : int(k) + LANES] < bounds[int(k) : int(k) + LANES]
        return np.uint16(np.dot(below, 1 << np.arange(LANES)))

    def count_ones(mask):
        return np.uint64(int(mask).bit_count())
