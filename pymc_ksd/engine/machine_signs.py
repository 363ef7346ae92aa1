"""Quadratic forms of random signs for several members at once, by machine code.

Four rows and four columns of a block can have signs in few ways: v'uw takes 128 values, whatever
the number of replicates. They are written to a table, where each replicate then looks up its own.
An entry holds the values of all members side by side, so that looking up costs the same for 16
members as for one, and several times less than a product of each member's block with the signs.

Like :mod:`pymc_ksd.engine.machine_loops`, this module is a template and never imported.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# mypy: ignore-errors
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True}
#: Members in an entry.
LANES = 16
#: Tables that fit the fastest cache, entries of each, and how many numbers these are.
_TABLES, _ENTRIES = 3, 128
_SIZE = _ENTRIES * LANES
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


def _pointer(context, builder, array_type, array, position):
    """Return the address of an entry that begins at some number of an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), _VECTOR.as_pointer())


def _signed_sums(count):
    """Return a function that writes the first of all 16 signed sums of four entries."""

    @intrinsic
    def write(typing, source, start, step, target, place, stride):
        """Write ± a ± b ± c ± d, one every `stride` numbers; the last bit is the sign of a."""

        def code(context, builder, signature, args):
            source, start, step, target, place, stride = args

            def entry(number):
                offset = builder.mul(step, step.type(number))
                position = builder.add(start, offset)
                return _pointer(context, builder, signature.args[0], source, position)

            a, b, c, d = (builder.load(entry(number), align=4) for number in range(4))
            inner = builder.fadd(a, b), builder.fsub(a, b)
            outer = builder.fadd(c, d), builder.fsub(c, d)
            half = []
            for number in range(8):
                minus_b, minus_c, minus_d = (number >> bit & 1 for bit in range(3))
                join = builder.fsub if minus_c else builder.fadd
                half.append(join(inner[minus_b], outer[minus_c ^ minus_d]))
            values = half + [builder.fneg(half[number ^ 7]) for number in range(8)]
            for number in range(count):
                position = builder.add(place, builder.mul(stride, stride.type(number)))
                entry_pointer = _pointer(context, builder, signature.args[3], target, position)
                builder.store(values[number], entry_pointer, align=4)
            return context.get_dummy_value()

        number = types.intp
        return types.void(source, number, number, target, number, number), code

    return write


_eight_sums, _sixteen_sums = _signed_sums(8), _signed_sums(16)


@intrinsic
def _add_entries(typing, total, place, table, first, second, third):
    """Add entries of three tables to one of the totals."""

    def code(context, builder, signature, args):
        total, place, table, *positions = args
        address = _pointer(context, builder, signature.args[0], total, place)
        value = builder.load(address, align=4)
        found = [
            builder.load(_pointer(context, builder, signature.args[2], table, each), align=4)
            for each in positions
        ]
        value = builder.fadd(builder.fadd(value, found[0]), builder.fadd(found[1], found[2]))
        builder.store(value, address, align=4)
        return context.get_dummy_value()

    number = types.intp
    return types.void(total, number, table, number, number, number), code


@njit(**_OPTIONS)
def _codes(signs):
    """Return the signs of every four points in a number below 16, the first in the highest bit."""
    m, n = signs.shape
    codes = np.zeros((-(-n // 4), m), dtype=np.uint64)
    for r in range(m):
        own = signs[r]
        for group in range(n // 4):
            high = np.uint64(own[4 * group] < 0) << 3
            low = np.uint64(own[4 * group + 1] < 0) | np.uint64(own[4 * group + 2] < 0) << 1
            codes[group, r] = high | low | np.uint64(own[4 * group + 3] < 0) << 2
        for j in range(n - n % 4, n):
            codes[n // 4, r] |= np.uint64(own[j] < 0) << (j + 3) % 4
    return codes


@njit(**_OPTIONS)
def column_codes(signs):
    """Return the signs of every twelve columns as places in three tables, in 16 bits each."""
    codes = _codes(signs)
    triples = np.zeros((-(-codes.shape[0] // _TABLES), codes.shape[1]), dtype=np.uint64)
    for group in range(codes.shape[0]):
        shift = np.uint64(16 * (group % _TABLES))
        for r in range(codes.shape[1]):
            triples[group // _TABLES, r] |= codes[group, r] * np.uint64(LANES) << shift
    return triples


@njit(**_OPTIONS)
def row_codes(signs):
    """Return the signs of every four rows, to be combined with the codes of columns by xor.

    Where the first sign is negative, all signs of rows and of columns are changed.
    """
    codes = _codes(signs)
    for group in range(codes.shape[0]):
        for r in range(codes.shape[1]):
            code = np.intp(codes[group, r])
            code = ((code ^ 15) << 4 | 15 if code & 8 else code << 4) * LANES
            # The second and third table begin at multiples of a power of two.
            code |= (code + _SIZE) << 16 | (code + 2 * _SIZE) << 32
            codes[group, r] = np.uint64(code)
    return codes


@njit(**_OPTIONS)
def _room(size):
    """Return so many zeros that begin where the processor's cache lines do."""
    room = np.zeros(size + LANES, dtype=np.float32)
    skipped = (-room.ctypes.data % 64) // 4
    return room[skipped : skipped + size]


@njit(**_OPTIONS)
def _arrange(small, first, i, u):
    """Put some members' values of four rows side by side."""
    members, n, m = small.shape
    length = u.shape[0] // 4
    for a in range(4):
        for k in range(min(LANES, members - first)):
            for j in range(m):
                place = a * length + j * LANES + k
                u[place] = small[first + k, i + a, j] if i + a < n else 0.0


@njit(**_OPTIONS)
def _write_tables(u, triple, sums, tables):
    """Write the tables of twelve columns."""
    length = u.shape[0] // 4
    for number in range(_TABLES):
        for b in range(4):
            column = (4 * (_TABLES * triple + number) + b) * LANES
            _eight_sums(u, column, length, sums, b * LANES, 4 * LANES)
        for row in range(8):
            place = number * _SIZE + row * 16 * LANES
            _sixteen_sums(sums, row * 4 * LANES, LANES, tables, place, LANES)


@njit(**_OPTIONS)
def _look_up(tables, row, column, total):
    """Add what every replicate finds in the tables."""
    for r in range(row.shape[0]):
        places = row[r] ^ column[r]
        first, second = places & np.uint64(0xFFFF), places >> np.uint64(16) & np.uint64(0xFFFF)
        third = places >> np.uint64(32)
        _add_entries(total, r * LANES, tables, np.intp(first), np.intp(second), np.intp(third))


@njit(**_OPTIONS)
def add_forms(small, rows, columns, position, forms):
    """Add the quadratic forms of rows and columns.

    Parameters
    ----------
    small : ndarray of shape (members, n, m), single precision
        The Stein kernels.
    rows, columns : ndarray
        Codes of the signs, from :func:`row_codes` and :func:`column_codes`.
    position : int
        Which of the columns is the first row, where only those after a row count, else -1.
    forms : ndarray of shape (replicates, members)
        What is added to.
    """
    members, n, _ = small.shape
    triples, replicates = columns.shape
    u, sums = _room(4 * 4 * _TABLES * triples * LANES), _room(8 * 4 * LANES)
    tables = _room(_TABLES * _SIZE)
    for first in range(0, members, LANES):
        u[:] = 0.0
        total = _room(replicates * LANES)
        for i in range(0, n, 4):
            _arrange(small, first, i, u)
            begin = (position + i) // (4 * _TABLES) if position >= 0 else 0
            for triple in range(begin, triples):
                _write_tables(u, triple, sums, tables)
                _look_up(tables, rows[i // 4], columns[triple], total)
            # Not many numbers are added in single precision.
            if i % 8 == 4 or i + 4 >= n:
                for r in range(replicates):
                    for k in range(min(LANES, members - first)):
                        forms[r, first + k] += total[r * LANES + k]
                total[:] = 0.0
