"""Model x kernels -> scores, in bounded memory.

Kernels are packed in groups, and one compiled loop scores the slices ("items")
of a group, a few at a time.  Slices are small enough for what a model computes
per node and configuration to stay in cache, so memory does not grow with the
number of configurations.
"""

import copy
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines.hlo import arrays
from baselines.tiles import graphs as graphs_lib

# Configurations handed to TensorFlow at once; 64 scaled columns of so many
# take 16 MB.
_CONFIGS_PER_GROUP = 1 << 16

# Slices scored side by side: enough to keep 8 cores busy.
_PARALLEL_ITEMS = 8

# Slices that are scored before compiling would have been.
_FEW_ITEMS = 16

# oneDNN's kernel behind LayerNormalization keeps its state in the operation: run
# twice at the same time, it corrupts memory (TensorFlow 2.15.1).
_NOT_SIDE_BY_SIDE = 'FusedBatchNorm'


class KernelScorer:
    """Scores kernels with a model that is compiled once for all splits.

    Args:
        model: a built model.
        once: see `runs.tasks.Task.model_scorer`.
    """

    def __init__(self, model: tf.keras.Model, once: bool = False):
        self._model, self._once = model, once
        self._scorer: Optional['TileScorer'] = None

    def scores(
        self, graphs: graphs_lib.TileGraphs, numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """See `runs.tasks.ModelScorer`."""
        return self._of(graphs).score_all(numbers)

    def chosen(
        self, graphs: graphs_lib.TileGraphs, configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """See `runs.tasks.ModelScorer`."""
        scorer = self._of(graphs)
        return lambda: scorer.score_chosen(np.arange(len(configs)), list(configs))

    def _of(self, graphs: graphs_lib.TileGraphs) -> 'TileScorer':
        if self._scorer is None:
            cells = np.diff(graphs.store.node_offsets) @ graphs.store.config_counts
            is_small = cells <= _FEW_ITEMS * graphs_lib.CELLS_PER_ITEM
            is_eager = self._once and is_small and len(graphs.store) <= _FEW_ITEMS
            self._scorer = TileScorer(self._model, graphs, not is_eager)
        return self._scorer.of(graphs)


class TileScorer:
    """Scores configurations with one model; compiled once for all shapes.

    Args:
        model: has `forward(graph, num_configs)`.  A model without the
            attribute `joins_early = False` is taken to compute something for
            every pair of node and configuration, and is given small slices.
            A `forward` that needs a Python number, not a tensor, for
            `num_configs` is called slice by slice without compiling it.
            With `scores_depend_on_list = True` configurations are cut into
            lists at random, several times, and scores averaged; the same
            lists every time.
        graphs: the kernels to score.
        compiled: whether to compile, which takes two seconds, and pays from some
            dozens of slices on.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        graphs: graphs_lib.TileGraphs,
        compiled: bool = True,
    ):
        self._graphs = graphs
        self._model = model
        self._in_lists = getattr(model, 'scores_depend_on_list', False)
        self._score: Callable[[graphs_lib.Packed], tf.Tensor] = self._score_one_by_one
        if not compiled:
            return
        compiled_score = self._compiled(_PARALLEL_ITEMS)
        self._score = compiled_score
        try:
            traced = compiled_score.get_concrete_function()
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            # If it is not for want of a number, this raises the same again.
            self._score = self._score_one_by_one
        else:
            if _runs(traced, _NOT_SIDE_BY_SIDE):
                self._score = self._compiled(parallel_items=1)

    def of(self, graphs: graphs_lib.TileGraphs) -> 'TileScorer':
        """Returns this scorer for other kernels of as many columns, still compiled."""
        other = copy.copy(self)
        other._graphs = graphs
        return other

    def score_all(self, kernels: Optional[np.ndarray] = None) -> Iterator[np.ndarray]:
        """Yields the scores of every kernel, float32 [configurations].

        Args:
            kernels: numbers of the kernels in the split; None means all.

        Raises:
            ValueError: a score is not finite.
        """
        store = self._graphs.store
        if kernels is None:
            kernels = np.arange(store.num_graphs)
        counts = store.config_counts[kernels]
        for members in arrays.groups(counts, _CONFIGS_PER_GROUP):
            group = kernels[members]
            if self._in_lists:
                yield from self._score_lists(group)
                continue
            cells = cells_per_item(self._model)
            scores = self._score(self._graphs.scoring_items(group, cells))
            yield from self._by_kernel(group, scores.numpy(), counts[members])

    def score_chosen(
        self, kernels: np.ndarray, configs: List[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Scores the chosen configurations of kernels; yields as `score_all`.

        A model that compares configurations sees those of a kernel together.
        """
        sizes = np.array([len(chosen) for chosen in configs])
        scores = self._score(self._graphs.chosen_items(kernels, configs))
        yield from self._by_kernel(kernels, scores.numpy(), sizes)

    def _score_lists(self, kernels: np.ndarray) -> Iterator[np.ndarray]:
        """Yields means over several ways of cutting configurations into lists."""
        counts = self._graphs.store.config_counts[kernels]
        lists = [arrays.list_cuts(int(count)) for count in counts]
        scored = self.score_chosen(
            np.repeat(kernels, [len(cuts) for cuts in lists]),
            [chosen for cuts in lists for chosen in cuts],
        )
        for count, cuts in zip(counts, lists):
            yield arrays.mean_scores(int(count), cuts, scored)

    def _by_kernel(self, kernels: np.ndarray, scores: np.ndarray, sizes: np.ndarray):
        pieces = np.split(scores, np.cumsum(sizes)[:-1])
        for kernel, piece in zip(kernels, pieces):
            if not np.isfinite(piece).all():
                name = self._graphs.store.graph_ids[kernel]
                raise ValueError(
                    f'the model gives {name} a score that is not finite; '
                    'its weights or the features of this kernel are unusable'
                )
            yield piece

    def _compiled(self, parallel_items: int) -> Any:  # a tf.function
        return tf.function(
            lambda packed: score_items(self._model, packed, parallel_items),
            input_signature=[self._graphs.signature(batch=1)],
        )

    def _score_one_by_one(self, packed: graphs_lib.Packed) -> tf.Tensor:
        tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
        rows = []
        for item, configs in enumerate(packed['configs_per_kernel'].tolist()):
            graph, _ = graphs_lib.unpack(tensors, item, 1, configs)
            rows.append(tf.reshape(self._model.forward(graph, configs), [-1]))
        return tf.concat(rows, 0)


def cells_per_item(model: tf.keras.Model) -> Optional[int]:
    """Returns how many nodes x configurations are scored together; None: no limit."""
    return graphs_lib.CELLS_PER_ITEM if getattr(model, 'joins_early', True) else None


def score_items(
    model: tf.keras.Model, packed: Dict[str, tf.Tensor], parallel_items: int = 1
) -> tf.Tensor:
    """Scores packed items of a kernel each, in a loop: float32 [configurations]."""
    items = tf.shape(packed['configs_per_kernel'])[0]

    def score(item: tf.Tensor, scores: tf.TensorArray):
        graph, _ = graphs_lib.unpack(packed, item, batch=1)
        configs = packed['configs_per_kernel'][item]
        row = tf.reshape(model.forward(graph, configs), [-1])
        return item + 1, scores.write(item, row)

    scores = tf.TensorArray(tf.float32, items, infer_shape=False, element_shape=[None])
    _, scores = tf.while_loop(
        lambda item, _: item < items,
        score,
        (tf.constant(0), scores),
        parallel_iterations=parallel_items,
    )
    return scores.concat()


def _runs(function: Any, operation: str) -> bool:
    """Tells whether a concrete function runs operations of that name, also in loops."""
    parts = function.graph.as_graph_def().library.function
    return any(
        node.op.startswith(operation) for part in parts for node in part.node_def
    )
