"""Model x kernels -> scores, in bounded memory.

Kernels are packed in groups, and one compiled loop scores the slices ("items")
of a group, a few at a time.  Slices are so small that the intermediate results per node
and configuration stay in cache, and memory does not grow with the number of
configurations.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from baselines.core import arrays
from baselines.tiles import graphs as graphs_lib

_Score = Callable[[graphs_lib.Packed], tf.Tensor]

# Configurations handed to TensorFlow at once; 64 scaled columns of them take 16 MB.
CONFIGS_PER_GROUP = 1 << 16

# A model that compares configurations is given lists of at most this length; scores are
# averaged over this number of random cuts into lists.
_LIST_LENGTH = 128
_PERMUTATIONS = 4

# Slices scored side by side: enough to keep 8 cores busy.
_PARALLEL_ITEMS = 8

# Slices that are scored before compiling would have been.
_FEW_ITEMS = 16

# oneDNN's kernel behind LayerNormalization keeps its state in the operation: run
# twice at the same time, it corrupts memory (TensorFlow 2.15.1).
_NOT_SIDE_BY_SIDE = 'FusedBatchNorm'


class TileScorer:
    """Scores configurations of kernels with one model; compiled once for all splits.

    Args:
        model: has `forward(graph, num_configs)`.  A model without the
            attribute `joins_early = False` is taken to compute something for
            every pair of node and configuration, and is given small slices.
            A `forward` that needs a Python number, not a tensor, for
            `num_configs` is called slice by slice without compiling it.
            With `scores_depend_on_list = True` configurations are cut into
            lists at random, several times, and scores averaged; the same
            lists every time.
        once: whether the process ends when it has scored: a few small kernels are
            scored before compiling, which takes two seconds, would have been done.
    """

    def __init__(self, model: tf.keras.Model, once: bool = False):
        self._model, self._once = model, once
        self._in_lists = getattr(model, 'scores_depend_on_list', False)
        self._score: _Score | None = None

    def scores(
        self, graphs: graphs_lib.TileGraphs, numbers: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the scores of every kernel, float32 [configurations].

        Args:
            graphs: the kernels of a split, with as many columns as at the first call.
            numbers: int64, the kernels by their number in the split; None means all.

        Raises:
            ValueError: a score is not finite.
        """
        store = graphs.store
        if numbers is None:
            numbers = np.arange(len(store))
        counts = store.config_counts[numbers]
        for members in arrays.group_pieces(counts, CONFIGS_PER_GROUP):
            kernels = numbers[members]
            if self._in_lists:
                yield from self._score_lists(graphs, kernels)
            else:
                packed = graphs.pack_all(kernels, pairs_per_item(self._model))
                yield from self._score_items(graphs, kernels, packed, counts[members])

    def chosen(
        self, graphs: graphs_lib.TileGraphs, configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """Returns a function that scores given configurations; see `Scorer`.

        A model that compares configurations is given all of a kernel together.
        """
        kernels = np.arange(len(configs))
        return lambda: self._score_chosen(graphs, kernels, configs)

    def _score_chosen(
        self,
        graphs: graphs_lib.TileGraphs,
        kernels: np.ndarray,
        configs: Sequence[np.ndarray],
    ) -> Iterator[np.ndarray]:
        """Yields the scores of the chosen configurations, kernel by kernel."""
        sizes = np.array([len(chosen) for chosen in configs])
        packed = graphs.pack_chosen(kernels, configs)
        return self._score_items(graphs, kernels, packed, sizes)

    def _score_lists(
        self, graphs: graphs_lib.TileGraphs, kernels: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yields scores of kernels, averaged over several cuts into lists."""
        counts = graphs.store.config_counts[kernels]
        lists = [cut_into_lists(int(count)) for count in counts]
        # All lists of all kernels are packed together, a list in an item.
        scored = self._score_chosen(
            graphs,
            np.repeat(kernels, [len(cuts) for cuts in lists]),
            [chosen for cuts in lists for chosen in cuts],
        )
        for count, cuts in zip(counts, lists, strict=True):
            # `scored` is an iterator: a kernel takes as many lists as it was cut into.
            yield average_lists(int(count), cuts, scored)

    def _score_items(
        self,
        graphs: graphs_lib.TileGraphs,
        kernels: np.ndarray,
        packed: graphs_lib.Packed,
        sizes: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """Scores packed items; yields the next `sizes[i]` scores for kernels[i]."""
        self._score = self._score or self._choose_scoring(graphs, packed)
        scores = self._score(packed).numpy()
        for kernel, of_kernel in zip(kernels, np.split(scores, np.cumsum(sizes)[:-1])):
            yield check_finite(of_kernel, graphs.store.graph_ids[kernel], 'kernel')

    def _choose_scoring(
        self, graphs: graphs_lib.TileGraphs, packed: graphs_lib.Packed
    ) -> _Score:
        """Returns the function that scores packed items, compiled if that pays."""
        # A model that joins early computes something for each node and configuration.
        pairs = np.diff(graphs.store.node_offsets) @ graphs.store.config_counts
        is_small = pairs <= _FEW_ITEMS * graphs_lib.PAIRS_PER_ITEM
        if self._once and is_small and len(graphs.store) <= _FEW_ITEMS:
            return self._score_one_by_one
        compiled = self._compile_scoring(packed, _PARALLEL_ITEMS)
        try:
            traced = compiled.get_concrete_function()
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            # If it is not for want of a number, this raises the same again.
            return self._score_one_by_one
        if _has_operation(traced, _NOT_SIDE_BY_SIDE):
            return self._compile_scoring(packed, parallel_items=1)
        return compiled

    def _compile_scoring(
        self, packed: graphs_lib.Packed, parallel_items: int
    ) -> tf.types.experimental.PolymorphicFunction:
        """Returns a tf.function that scores packed items, such as these."""
        return tf.function(
            lambda packed: score_items(self._model, packed, parallel_items),
            input_signature=[graphs_lib.make_signature(packed)],
        )

    def _score_one_by_one(self, packed: graphs_lib.Packed) -> tf.Tensor:
        """Scores packed items eagerly: float32 [configurations]."""
        tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
        rows = []
        for item, configs in enumerate(packed['configs_per_kernel'].tolist()):
            graph, _ = graphs_lib.unpack(tensors, item, 1, configs)
            rows.append(tf.reshape(self._model.forward(graph, configs), [-1]))
        return tf.concat(rows, 0)


def check_finite(scores: np.ndarray, graph_id: str, noun: str) -> np.ndarray:
    """Returns the scores of a kernel or program; raises ValueError unless finite."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f'the model gives {graph_id} a score that is not finite: look in its code, '
            f"if it is your own, at its weights, and at this {noun}'s features"
        )
    return scores


def pairs_per_item(model: tf.keras.Model) -> int | None:
    """Returns how many nodes x configurations are scored together; None: no limit."""
    return graphs_lib.PAIRS_PER_ITEM if getattr(model, 'joins_early', True) else None


def cut_into_lists(count: int) -> list[np.ndarray]:
    """Cuts configurations into lists of nearly equal length, several times.

    The same count gives the same lists, int64 arrays.  A configuration is in four of
    them; if one list can hold all configurations, there is no other.
    """
    if count <= _LIST_LENGTH:
        return [np.arange(count)]
    rng = np.random.default_rng(count)
    pieces = -(-count // _LIST_LENGTH)
    return [
        chosen
        for _ in range(_PERMUTATIONS)
        for chosen in np.array_split(rng.permutation(count), pieces)
    ]


def average_lists(
    count: int, cuts: Sequence[np.ndarray], scored: Iterable[np.ndarray]
) -> np.ndarray:
    """Averages the scores of lists, given in the order of `cuts`: float32 [count]."""
    total = np.zeros(count)
    for chosen, scores in zip(cuts, scored):
        total[chosen] += scores
    # Every configuration is in as many lists as any other.
    times = sum(len(chosen) for chosen in cuts) / count
    return (total / times).astype(np.float32)


def score_items(
    model: tf.keras.Model, packed: dict[str, tf.Tensor], parallel_items: int = 1
) -> tf.Tensor:
    """Scores packed items of a kernel each, in a loop: float32 [configurations]."""
    items = tf.shape(packed['configs_per_kernel'])[0]

    def score(item: tf.Tensor, scores: tf.TensorArray):
        graph, _ = graphs_lib.unpack(packed, item, batch=1)
        configs = packed['configs_per_kernel'][item]
        row = tf.reshape(model.forward(graph, configs), [-1])
        return item + 1, scores.write(item, row)

    # An entry per item, of different lengths: [configurations of the item].
    scores = tf.TensorArray(tf.float32, items, infer_shape=False, element_shape=[None])
    # A loop in TensorFlow: it is compiled once for any number of items.
    _, scores = tf.while_loop(
        lambda item, _: item < items,
        score,
        (tf.constant(0), scores),
        parallel_iterations=parallel_items,
    )
    return scores.concat()


def _has_operation(function: 'tf.types.experimental.ConcreteFunction', op: str) -> bool:
    """Returns whether a concrete function runs operations of a name, also in loops."""
    parts = function.graph.as_graph_def().library.function
    return any(node.op.startswith(op) for part in parts for node in part.node_def)
