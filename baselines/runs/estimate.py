"""The analytical estimate as a ranker that nobody trained: `--dir estimate`."""

from typing import Iterator

import numpy as np

from baselines.data import collections
from baselines.data import variants
from baselines.data.packed import splits
from baselines.hlo import schema
from baselines.runs import finding
from baselines.runs import prediction


class EstimatePredictor(prediction.Predictor):
    """Scores graphs by formulas alone, those of a TPU v3.

    Tiles by `features.estimate`, layouts by `layout.estimate`.

    Args:
        collection: name of the collection whose graphs it scores.
        data: where graphs come from.

    Raises:
        ValueError: there is no such collection.
    """

    def __init__(
        self, collection: str, data: prediction.DataOptions = prediction.DataOptions()
    ):
        chosen = collections.of_name(collection)
        super().__init__(finding.ESTIMATE, finding.ESTIMATE, chosen, data)
        self.variant = variants.Variant(config_features=chosen.config_columns)
        self.num_ops = max(schema.OPCODE_NUMBERS.values()) + 1

    def check(self, store: splits.PackedSplit) -> None:
        """See `Predictor`; columns are the published ones."""
        self.variant.check(store, 'the estimate reads')

    def _scores(self, store: splits.PackedSplit) -> Iterator[np.ndarray]:
        return self.task.estimates(store)
