"""Draws the curves of a run with matplotlib."""

from typing import Any, Mapping, Sequence

_SCORES = {
    'train_opa': 'OPA, training',
    'val_opa': 'OPA, validation',
    'val_tau': "Kendall's tau, validation",
}
_LOSSES = {'train_loss': 'training', 'val_loss': 'validation'}


def plot(curve: Mapping[str, Sequence[Any]], best_epoch: int, axes: Any = None) -> Any:
    """Draws scores and losses by epoch, from 1.

    Args:
        curve: see `Run.curve`; values that were not measured are None.
        best_epoch: the epoch whose weights the run has, from 0; -1 for none.
        axes: two matplotlib axes; None: of a new figure.

    Returns:
        The axes: scores, losses.
    """
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(9, 3), layout='constrained')
    for panel, names, title in zip(axes, (_SCORES, _LOSSES), ('score', 'loss')):
        for name, label in names.items():
            values = [float('nan') if v is None else v for v in curve.get(name) or ()]
            if values:
                panel.plot(range(1, len(values) + 1), values, label=label)
        if best_epoch >= 0:
            panel.axvline(best_epoch + 1, color='grey', linestyle=':', label='best')
        panel.set(xlabel='epoch', ylabel=title)
        panel.locator_params(axis='x', integer=True)
        panel.legend()
    return axes
