"""Kernels that put values into cells: the inner loops of a pass over a log."""

from __future__ import annotations

from heavytail._typing import FloatArray, IntArray
from heavytail.kernels.jit import jit

__all__ = ["EMPTY", "merge", "tally"]

EMPTY = -1
MIX = 0x9E3779B97F4A7C1  # odd; its multiples spread neighbouring keys over a table


@jit
def tally(
    keys: IntArray, columns: FloatArray, table: IntArray, found: IntArray, sums: FloatArray
) -> int:
    """Add column i of ``columns`` (k, n) to the row of ``sums`` (n, k) that keys[i] has.

    Keys get rows in the order in which they are first met; ``found`` has their keys. ``table``
    (a power of two, more than n, filled with -1) holds the rows by hash. Returns how many.
    """
    mask = table.shape[0] - 1
    count = 0
    for i in range(keys.shape[0]):
        key = keys[i]
        at = ((key * MIX) >> 20) & mask
        while table[at] != EMPTY and found[table[at]] != key:
            at = (at + 1) & mask
        if table[at] == EMPTY:
            table[at] = count
            found[count] = key
            for j in range(columns.shape[0]):
                sums[count, j] = 0.0
            count += 1
        row = table[at]
        for j in range(columns.shape[0]):
            sums[row, j] += columns[j, i]
    return count


@jit
def merge(
    keys: IntArray,
    sums: FloatArray,
    more: IntArray,
    plus: FloatArray,
    found: IntArray,
    total: FloatArray,
) -> int:
    """Two sets of cells, each in the order of its keys, as one: ``found`` and ``total``.

    Returns how many cells there are.
    """
    i, j, count = 0, 0, 0
    while i < keys.shape[0] or j < more.shape[0]:
        first = j == more.shape[0] or (i < keys.shape[0] and keys[i] <= more[j])
        second = i == keys.shape[0] or (j < more.shape[0] and more[j] <= keys[i])
        found[count] = keys[i] if first else more[j]
        for k in range(total.shape[1]):
            total[count, k] = 0.0
            if first:
                total[count, k] += sums[i, k]
            if second:
                total[count, k] += plus[j, k]
        if first:
            i += 1
        if second:
            j += 1
        count += 1
    return count
