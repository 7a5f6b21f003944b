"""Symmetric matrices with the sparsity of a tree: [i, j] where velocity j is i or above it.

Mass matrices have this sparsity, and they keep it when contacts of a body with the ground add to
them. A factorization from the leaves to the root adds no entries (Featherstone 2008, section 6.4;
MuJoCo's mj_factorI).
"""

from __future__ import annotations

from collections.abc import Sequence

from continual_learning.physics.scalars import ONE, ZERO, Scalar, is_known, total

Matrix = dict[tuple[int, int], Scalar]
"""The entries that are not zero at trace time, by (i, j) with j ≤ i."""

Vector = tuple[Scalar, ...]


class Tree:
    """The tree of the velocities.

    Attributes:
      chains: by velocity, itself and all velocities above it, the nearest first.
    """

    def __init__(self, above: Sequence[int]):
        self.chains: tuple[tuple[int, ...], ...] = ()
        for number, parent in enumerate(above):
            self.chains += ((number, *(self.chains[parent] if parent >= 0 else ())),)

    def __len__(self) -> int:
        return len(self.chains)

    def factorized(self, matrix: Matrix) -> Matrix:
        """Return L with LᵀDL = matrix, where 1 / D replaces the ones of the diagonal of L."""
        left, factor = dict(matrix), {}
        for k in reversed(range(len(self))):
            inverse = ONE / left[k, k]
            factor[k, k] = inverse
            row = [i for i in self.chains[k][1:] if (k, i) in left]
            for i in row:
                factor[k, i] = left[k, i] * inverse
            for number, i in enumerate(row):
                for j in row[number:]:
                    change = factor[k, i] * left[k, j]
                    left[i, j] = left.get((i, j), ZERO) - change
        return factor

    def solved(self, factor: Matrix, right: Sequence[Scalar]) -> Vector:
        """Return x with matrix · x = right, by the factorization of the matrix."""
        x = list(right)
        for k in reversed(range(len(self))):
            for i in self.chains[k][1:]:
                if (k, i) in factor:
                    x[i] = x[i] - factor[k, i] * x[k]
        for k in range(len(self)):
            x[k] = x[k] * factor[k, k]
            for i in self.chains[k][1:]:
                if (k, i) in factor:
                    x[k] = x[k] - factor[k, i] * x[i]
        return tuple(x)

    def times(self, matrix: Matrix, x: Sequence[Scalar]) -> Vector:
        """Return the matrix times a vector."""
        terms: list[list[Scalar]] = [[] for _ in x]
        for (i, j), entry in matrix.items():
            terms[i].append(entry * x[j])
            if i != j:
                terms[j].append(entry * x[i])
        return tuple(total(each) for each in terms)

    def dense(self, matrix: Matrix) -> list[list[Scalar]]:
        """Return all entries, [n, n]."""
        size = range(len(self))
        return [[matrix.get((max(i, j), min(i, j)), ZERO) for j in size] for i in size]


def add(matrix: Matrix, entry: tuple[int, int], number: Scalar) -> None:
    """Add to an entry of a matrix."""
    if not is_known(number.value, 0.0):
        matrix[entry] = matrix.get(entry, ZERO) + number
