"""Measures scores in memory, with the interface of OGB's evaluators."""

from collections.abc import Collection, Mapping

import numpy as np

from baselines import config
from baselines.core import registry
from baselines.core import text
from baselines.evaluation import report

_KEYS = ('y_true', 'y_pred', 'graph_ids')
_FORMAT = """{'y_true': runtimes, 'y_pred': scores, 'graph_ids': IDs (optional)}
runtimes: a list with one array per graph, [configurations], positive, in any unit;
    of tiles usually divided by the runtime of the kernel's default tile
scores: a list with one array per graph, [configurations], lower = predicted faster
IDs: names of the graphs, as the dataset has them: intervals of tiles are over programs,
    <program>_<hash>; without them each graph counts as a program"""


class Figures(dict):
    """Figures by name, as `tpugraphs evaluate --json` has them; shown in short."""

    def __repr__(self) -> str:
        overall = self['overall']
        means = ', '.join(
            f'{name} {text.format_value(figure["mean"], ".4f")}'
            for name, figure in overall.items()
            if isinstance(figure, dict) and 'mean' in figure
        )
        groups = text.count(len(self['groups']), 'group')
        return (
            f'<{text.count(overall["graphs"], "graph")}: {means}; '
            f"['groups'] has {groups}>"
        )


class Evaluator:
    """Measures scores as `tpugraphs evaluate` does, with the interface of OGB's.

        evaluator = tpugraphs.Evaluator('tile')
        figures = evaluator.eval({'y_true': runtimes, 'y_pred': scores})
        figures['overall']['top_5_error']['mean']

    y_i is the runtime of configuration i of a graph, s_i its score, K the k
    configurations with the lowest scores.  Each figure is a mean over graphs.

    * `top_k_error` (tiles; k = 1, 5, 10): min_{i in K} y_i / min_i y_i - 1, of
      TpuGraphs (arXiv:2308.13490).  Kaufman et al. (MLSys 2021, arXiv:2008.01040)
      divide sums over kernels, so that slow kernels count more.
    * `slowdown_k` (layouts; k = 1, 10, 100): `top_k_error` + 1.
    * `kaggle_score` (tiles): 1 - `top_5_error`, of Kaggle's competition "Google - Fast
      or Slow?".
    * `opa`, ordered-pair accuracy (TpuGraphs): the share of the pairs with y_i > y_j
      that have s_i > s_j.  `opa_pooled` takes the pairs of all graphs together.
    * `kendall_tau` (Kendall 1945, The treatment of ties in ranking problems): tau-b =
      (P - Q) / sqrt((n - t) (n - u)), with P pairs in the same order by y and by s, Q
      in the opposite one, n pairs in all, t of equal y, u of equal s.  TpuGraphs and
      Kaufman et al. report it.

    Of equal scores, top-k errors and slowdowns are the expectation over all orders;
    pairs of them count as wrong in `opa`.  Tau of scores that are all equal is 0 (in
    SciPy NaN), since leaving such graphs out would reward them.  A graph whose runtimes
    are all equal has no `opa` and no tau.

    Args:
        task: 'tile' or 'layout'.

    Raises:
        ValueError: there is no such task.
    """

    def __init__(self, task: str):
        registry.resolve(task, config.CONFIGS, 'task')
        self.task = task

    @property
    def expected_input_format(self) -> str:
        """What `eval` takes."""
        return _FORMAT

    def eval(self, input_dict: Mapping[str, Collection]) -> Figures:
        """Measures the graphs of a dict; see `expected_input_format`.

        Returns:
            The object of `tpugraphs evaluate --json`, without the keys that tell of a
            model and of files: `overall` and `groups` have for each measure `mean`, the
            95 % interval from `low` to `high`, and the figure of `random` scores.

        Raises:
            ValueError: a key is unknown or missing, a value is not a collection, the
                lists differ in length, two graphs have one ID, or a graph has masked
                arrays, or no scores or runtimes that can be compared.
        """
        for key in input_dict:
            registry.resolve(key, dict.fromkeys(_KEYS), 'key')
        missing = [key for key in _KEYS[:2] if key not in input_dict]
        if missing:
            raise ValueError(f'{missing[0]} is missing: give {_KEYS[0]} and {_KEYS[1]}')
        runtimes = input_dict['y_true']
        try:
            numbers = [str(number) for number in range(len(runtimes))]
            graph_ids = input_dict.get('graph_ids', numbers)
            columns = graph_ids, input_dict['y_pred'], runtimes
            sizes = [len(column) for column in columns]
        except TypeError as error:  # of a generator, None, or a number
            raise ValueError(f'give lists with one item per graph: {error}') from None
        if len({*sizes}) > 1:
            raise ValueError(
                f'{sizes[2]} graphs in y_true, {sizes[1]} in y_pred, {sizes[0]} '
                'graph_ids: give one of each per graph'
            )
        results: dict[str, report.GraphResult] = {}
        for graph_id, scores, times in zip(*columns):
            name = str(graph_id)
            if name in results:
                raise ValueError(f'{text.quoted(name)} is the ID of two graphs')
            if np.ma.isMaskedArray(scores) or np.ma.isMaskedArray(times):
                raise ValueError(f'{text.quoted(name)} has masked arrays: give numbers')
            arrays = np.asarray(scores), np.asarray(times)
            results[name] = report.GraphResult(name, *arrays)
        figures = Figures(report.summarise(self.task, [*results.values()]))
        if 'graph_ids' not in input_dict:
            figures['interval_over'] = 'graphs'  # each is taken for a program
        return figures
