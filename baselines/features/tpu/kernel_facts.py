"""Computes loop and traffic statistics of each kernel from its raw columns.

A tile configuration sets the size of a tile of the *loop tensor*: the result of
a matrix product, the operand of a sum, or else the result of the kernel.  Every
other tensor either follows a loop or is needed again for each of its trips.
Shapes and opcodes alone decide which of the two (docs/guide/features.md).
"""

import copy

import numpy as np

from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.hlo import schema

# Loops: one for each dimension of the loop tensor, slowest first, then those
# of a matrix product's sum: its depth, and the window of a convolution.
LOOPS = schema.RANK + 2
_WINDOW = schema.RANK + 1

GROUPS = 6  # of tensors that follow the same loops, per kernel
_LANES = 128
_SUBLANES = 8


class KernelFacts:
    """Loop and traffic statistics of G kernels.  Registers hold 8 x 128 elements.

    Attributes:
        loop_units: float64 [G, 6], the loop tensor's dimensions, slowest first,
            in units of the 8 x 128 register; 0 where there is none.
        unit: float64 [G, 6], elements of each unit: 1, 8, 128, or 1,024.
        loop_sizes: float64 [G, 6], its dimensions in elements; 0 for none.
        loop_elements: float64 [G], the loop tensor's elements.
        summed_units: float64 [G, 6], dimensions of a product's second operand,
            likewise; 0 where it is not summed over.
        summed_unit: float64 [G, 6], elements of each unit.
        is_window: bool [G, 6], which of them are a convolution's window.
        has_product: bool [G].
        follows: bool [G, 6, 8], the loops that a group of tensors follows.
        read: float64 [G, 6], bytes of a group's operands, in whole registers.
        written: float64 [G, 6], bytes of its results, likewise.
        operations: float64 [G, 6], vector operations of a group, in registers.
    """

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        reader = _Reader(nodes)
        shapes, loop, right = reader.shapes, reader.loop, reader.right

        def at_loop(values: np.ndarray) -> np.ndarray:
            has_loop = (loop >= 0).reshape((-1,) + (1,) * (values.ndim - 1))
            return np.where(has_loop, values[loop], 0)

        self.loop_units, self.unit = at_loop(shapes.units), at_loop(shapes.unit)
        self.loop_sizes = at_loop(shapes.sizes)
        self.loop_elements = np.maximum(at_loop(shapes.elements), 1)
        self.summed_units = np.where(reader.summed, shapes.units[right], 0)
        self.summed_unit = np.where(reader.summed, shapes.unit[right], 0)
        self.is_window, self.has_product = reader.window, reader.product >= 0
        self.follows, totals = reader.compute_groups()
        self.read, self.written, self.operations = totals

    def rows(self, kernels: np.ndarray) -> 'KernelFacts':
        """Returns the facts with a row for each number in `kernels`, int [rows]."""
        facts = copy.copy(self)
        facts.__dict__ = {name: values[kernels] for name, values in vars(self).items()}
        return facts


class _Reader:
    """Computes the facts of all kernels at once."""

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        self._nodes = nodes
        self._features, self._kernel = self._nodes.raw, self._nodes.kernel
        self._count = len(nodes.root)
        self._consumer, self._producer = self._nodes.edges.T
        self.shapes = _PhysicalShapes(self._nodes)
        self._parameters, self._results = self._find_ends()
        # Of edges, so that a product without operands is left out.
        products = self._consumer[self._nodes.have(tiling.PRODUCTS)[self._consumer]]
        self.product = self._nodes.last(np.unique(products))
        self.loop = self._find_loop_nodes()
        self._left, self.right = self._find_operands()
        loops = self._find_product_loops()
        self.summed, self.window, self._of_left, self._of_right = loops

    def compute_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Adds up bytes read, bytes written and operations; see `_sum_groups`."""
        costs = tiling.count_vector_operations(self._nodes.opcodes)
        computed = np.flatnonzero((costs > 0) & self.shapes.is_array)
        parts = self._parameters, self._results, computed
        nodes, kind = np.concatenate(parts), np.repeat([0, 1, 2], [*map(len, parts)])
        kernel = self._kernel[nodes]
        has_product = self.product[kernel] >= 0
        # Nodes that compute an operand of a product have the operand's shape.
        before = has_product & (
            (kind == 0) | ((kind == 2) & (nodes < self.product[kernel]))
        )
        follows = self._find_followed_loops(nodes, before)
        # A result stays in place while its sum goes on.
        follows[(kind == 1) & has_product, schema.RANK :] = False
        operations = costs[nodes] * self.shapes.registers[nodes]
        weights = np.where(kind == 2, operations, self.shapes.bytes[nodes])
        weights = weights * (kind == np.arange(3)[:, np.newaxis])  # [3, nodes]
        return self._sum_groups(kernel, follows, weights)

    def _find_largest(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the node with most elements in each kernel; the last of equals."""
        # By elements, then by number; `last` keeps the last of a kernel.
        order = np.lexsort((nodes, self.shapes.elements[nodes]))
        return self._nodes.last(nodes[order])

    def _find_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Finds the nodes that are read from memory, and those written to it.

        These are the parameters of the entry computation, and the arrays of its result.
        """
        is_root, root = self._nodes.is_root, self._nodes.root
        roots = np.flatnonzero(is_root)
        # The entry computation is stored last, behind the root of the one before it.
        before = self._nodes.last(roots[roots != root[self._kernel[roots]]])
        in_entry = np.arange(len(self._kernel)) > before[self._kernel]
        parameters = np.flatnonzero(in_entry & self._nodes.have(('parameter',)))
        ends = np.zeros(len(self._kernel), bool)
        ends[root[root >= 0]] = True
        is_tuple = self._features[:, schema.IS_TUPLE] > 0
        calls = self._nodes.have(('fusion', 'call'))
        # A fusion that returns a tuple, the tuple, and its entries.
        for _ in range(2):
            opened = ends & is_tuple
            edge = opened[self._consumer] & (
                ~calls[self._consumer] | is_root[self._producer]
            )
            ends &= ~opened
            ends[self._producer[edge]] = True
        return parameters, np.flatnonzero(ends & self.shapes.is_array)

    def _find_loop_nodes(self) -> np.ndarray:
        """Returns the node of each kernel's loop tensor, or -1: int64 [G]."""
        sums = self._producer[self._nodes.have(('reduce',))[self._consumer]]
        sums = self._find_largest(np.unique(sums[self.shapes.is_array[sums]]))
        loop = np.where(sums >= 0, sums, self._find_largest(self._results))
        return np.where(self.product >= 0, self.product, loop)

    def _find_operands(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first and second operand of each product, or any node.

        Edges do not keep the order of operands.  A convolution's dimension
        numbers fit one order better, unless both are alike.
        """
        product = self.product
        # [G] each: at first the operand with the larger number counts as the second.
        edge = self._consumer == product[self._kernel[self._consumer]]
        producers = np.sort(self._producer[edge])
        right = self._nodes.last(producers)
        left = self._nodes.last(producers[::-1])
        size, feature = self.shapes.get_sizes, self._features[product]

        def fit(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            """Counts the roles in which dimension sizes of both operands agree."""
            return sum(
                (size(a, feature[:, i]) == size(b, feature[:, j])).astype(int)
                for a, i, b, j in (
                    (first, schema.INPUT_BATCH, product, schema.OUTPUT_BATCH),
                    (first, schema.INPUT_FEATURE, second, schema.KERNEL_INPUT),
                    (second, schema.KERNEL_OUTPUT, product, schema.OUTPUT_FEATURE),
                )
            )

        swap = self._nodes.have(('convolution',))[product] & (
            fit(right, left) > fit(left, right)
        )
        return np.where(swap, right, left), np.where(swap, left, right)

    def _find_product_loops(self) -> tuple[np.ndarray, ...]:
        """Returns the loops of products.

        bool [G, 6] twice: dimensions of the second operand that are summed over, and
        dimensions of a window among them; bool [G, 8] twice: the loops that the first
        and the second operand follow.
        """
        product, left, right = self.product, self._left, self.right
        shapes, feature = self.shapes, self._features[product]
        logical = shapes.logical
        in_right = logical[right] >= 0
        columns = logical[product] == feature[:, [schema.OUTPUT_FEATURE]]
        summed = in_right & (logical[right] != feature[:, [schema.KERNEL_OUTPUT]])
        window = summed & (logical[right] != feature[:, [schema.KERNEL_INPUT]])
        # A `dot` has no dimension numbers here: sizes must do.
        is_dot = self._nodes.have(('dot',))[product][:, np.newaxis]
        of_product, sizes = shapes.sizes[product], shapes.sizes
        rows_of_dot, _ = _match_dimensions(of_product, sizes[left], True)
        columns_of_dot, kept = _match_dimensions(of_product, sizes[right], False)
        summed = np.where(is_dot, in_right & ~kept, summed)
        window &= ~is_dot
        exists = (product >= 0)[:, np.newaxis]
        of_left = _append_sums(np.where(is_dot, rows_of_dot, ~columns))
        # Every position of a window goes over the whole first operand.
        of_left[:, _WINDOW] = False
        of_right = _append_sums(np.where(is_dot, columns_of_dot, columns))
        return summed & exists, window & exists, of_left, of_right

    def _find_followed_loops(self, nodes: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Returns the loops that the tensors of nodes follow, bool [nodes, 8].

        Tensors `before` a product follow the loops of its operand of their shape.
        """
        kernel, sizes, loop = self._kernel[nodes], self.shapes.sizes, self.loop
        follows, _ = _match_dimensions(sizes[loop[kernel]], sizes[nodes], False)
        follows = _append_sums(follows)
        whole = (sizes[nodes] == sizes[loop[kernel]]).all(axis=1)
        operands = (self.right, self._of_right), (self._left, self._of_left)
        for operand, mask in operands:
            same = (sizes[nodes] == sizes[operand[kernel]]).all(axis=1)
            follows = np.where((same & before)[:, np.newaxis], mask[kernel], follows)
        follows[whole & ~before] = True
        return follows

    def _sum_groups(
        self, kernel: np.ndarray, follows: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adds up tensors of the same loops: bool [G, 6, 8] and float64 [3, G, 6].

        The first group follows every loop, the others come by size; beyond six groups,
        tensors count in the first.
        """
        # follows: bool [n, 8]; weights: float64 [3, n], bytes read, bytes written,
        # operations.  Few distinct rows of `follows` occur in a kernel, so they are
        # summed in a dict per kernel.
        follow_all = (True,) * LOOPS
        followed = np.ones((self._count, GROUPS, LOOPS), bool)
        totals = np.zeros((len(weights), self._count, GROUPS))
        order = np.argsort(kernel, kind='stable')
        ends = np.searchsorted(kernel[order], np.arange(1, self._count))
        for number, nodes in enumerate(np.split(order, ends)):
            sums = {follow_all: np.zeros(len(weights))}
            for loops, weight in zip(follows[nodes].tolist(), weights[:, nodes].T):
                sums[tuple(loops)] = sums.get(tuple(loops), 0) + weight

            def by_weight(loops: tuple[bool, ...], sums: dict = sums) -> tuple:
                read, written, operations = sums[loops]
                # An operation on a register takes as long as moving some 256 bytes.
                return -(read + written + 256 * operations), loops[::-1]

            others = sorted(sums.keys() - {follow_all}, key=by_weight)
            for place, loops in enumerate([follow_all, *others]):
                place = place if place < GROUPS else 0
                totals[:, number, place] += sums[loops]
                followed[number, place] = loops if place else follow_all
        return followed, totals


def _append_sums(follows: np.ndarray) -> np.ndarray:
    """Appends the two loops of a sum, both followed: bool [n, 6] -> [n, 8]."""
    return np.concatenate([follows, np.ones((len(follows), 2), bool)], axis=1)


class _PhysicalShapes:
    """Shapes of n nodes in a TPU's memory: slowest dimension first.

    Arrays are kept in registers of 8 x 128 elements: 128 in the fastest dimension, 8
    in the next, 1 in all others; 1,024 where there is one dimension alone.

    Attributes:
        dims: float64 [n, 6], sizes in logical order; 0 where there is none.
        logical: int64 [n, 6], the logical dimension at each place, or -1.
        sizes: float64 [n, 6], its size, or 0.
        unit: float64 [n, 6], elements of a register along it.
        units: float64 [n, 6], registers along it.
        is_array: bool [n]; scalars, tuples and tokens are none.
        elements: float64 [n]; 1 of a scalar.
        registers: float64 [n]; 0 of a scalar.
        bytes: float64 [n], those of whole registers.
    """

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        dims = self.dims = nodes.dims.astype(np.float64)
        rank = (dims > 0).sum(axis=1)[:, np.newaxis]  # [n, 1]
        # With --pad=-1 absent places hold -1; `exists` leaves them out below.
        layout = np.clip(nodes.raw[:, schema.MINOR_TO_MAJOR], 0, schema.RANK - 1)
        layout = layout.astype(np.int64)
        # The layout names the fastest dimension first.
        turned, exists = tiling.reverse_dimensions(dims)
        order = np.take_along_axis(layout, turned, axis=1)
        self.logical = np.where(exists, order, -1)
        self.sizes = np.where(exists, np.take_along_axis(dims, order, axis=1), 0)
        # [n, 6]: 0 for the fastest dimension, 1 for the next one, ...
        fastest = rank - 1 - np.arange(schema.RANK)
        self.unit = np.where(
            fastest == 0,
            np.where(rank > 1, _LANES, _LANES * _SUBLANES),
            np.where(fastest == 1, _SUBLANES, 1),
        ).astype(np.float64)
        self.units = np.ceil(self.sizes / self.unit)
        self.is_array = rank[:, 0] > 0
        self.elements = np.where(self.sizes > 0, self.sizes, 1).prod(axis=1)
        registers = np.where(self.sizes > 0, self.units, 1).prod(axis=1)
        self.registers = np.where(self.is_array, registers, 0)
        self.bytes = self.registers * _LANES * _SUBLANES * nodes.element_bytes

    def get_sizes(self, node: np.ndarray, dimension: np.ndarray) -> np.ndarray:
        """Returns the sizes of dimension[i] of node[i]: float64 [n]; 0 for none."""
        inside = np.clip(dimension, 0, schema.RANK - 1).astype(np.int64)
        return np.where(
            (dimension >= 0) & (dimension < schema.RANK), self.dims[node, inside], 0
        )


def _match_dimensions(
    loops: np.ndarray, sizes: np.ndarray, slowest_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs dimensions of one size, each with at most one other.

    Args:
        loops: [n, 6] sizes; 0 for none.
        sizes: [n, 6], of another tensor.
        slowest_first: whether, of equal dimensions, the slowest ones are paired first.

    Returns:
        bool [n, 6] and bool [n, 6]: which dimensions of both have a partner.
    """
    order = range(schema.RANK) if slowest_first else range(schema.RANK - 1, -1, -1)
    of_loops, of_sizes = np.zeros(loops.shape, bool), np.zeros(sizes.shape, bool)
    for i in order:
        for j in order:
            pair = (loops[:, i] == sizes[:, j]) & (loops[:, i] > 0)
            pair &= ~of_loops[:, i] & ~of_sizes[:, j]
            of_loops[:, i] |= pair
            of_sizes[:, j] |= pair
    return of_loops, of_sizes
