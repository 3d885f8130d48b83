"""Trains models from Python, with callbacks after epochs."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import io
import json
import sys
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from baselines import config
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.runs import run_files
from tpugraphs.api import data as data_lib
from tpugraphs.api import runs as runs_lib

if TYPE_CHECKING:
    from baselines.training import progress


class Training:
    """A running training, as callbacks see it.

    Attributes:
        settings: of the training, by the names of the scripts' flags.
        curve: that of `Run`, for the epochs so far.
    """

    def __init__(self, settings: text.JsonObject):
        self.settings = settings
        self.curve: dict[str, list[float | None]] = {}

    def __repr__(self) -> str:
        epochs = len(self.curve.get('epoch', ()))
        return f'<Training of {self.settings["model"]} after {epochs} epochs>'


class Callback(Protocol):
    """An object that `train` calls after its epochs."""

    def on_epoch(self, run: Training, metrics: dict[str, float]) -> None:
        """Handles the end of an epoch of a graph model.

        Args:
            run: the training.
            metrics: of the epoch, by the names of `Run.curve`: epoch (from 0),
                train_loss, val_opa, ...; values that were not measured are absent.
        """


class _NoTerminal(io.TextIOBase):
    """A stream that is no terminal, so that no progress bars are written to it."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, content: str) -> int:
        return self._stream.write(content)


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Silences stdout and progress bars; notes on stderr are still printed."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(_NoTerminal(sys.stderr)):
        yield


def train(
    task: str = 'tile',
    *,
    model: type | str | None = None,
    loss: Callable | str | None = None,
    data: runs_lib.Path | None = None,
    verbose: bool = True,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> runs_lib.Run:
    """Trains a model, as tiles_train.py and layout_train.py do.

    Args:
        task: 'tile' or 'layout'.
        model: a name, a class, or 'my_file.py:MyModel'; 'my_file.py' where there is
            one model in it.
        loss: a function (labels, scores) -> a scalar, both float32 [lists, n]; or
            a value of --losses, such as 'ListMLELoss:1,MSE:0.02'.
        data: 'sample' (the measured data that ship) or a folder of splits.
        verbose: whether it prints its progress; notes and warnings are printed anyway.
        callbacks: objects whose `on_epoch` is called after every epoch of a graph
            model, see `Callback`; an error that they raise ends the training, and
            resume=True goes on from there.
        **settings: any flag of the scripts by its name: out_dir, epochs, batch,
            seed, recipe, ...; `model_kwargs` may be a dict.

    Returns:
        The run.

    Raises:
        ValueError: a setting or the data are unusable; says which.
        OSError: something cannot be written.
    """
    _check_callbacks(callbacks)
    kind = registry.resolve(task, config.CONFIGS, 'task')
    flags = {**settings, **data_lib.make_data_settings(data)}
    if 'model_kwargs' in flags:
        flags['model_kwargs_json'] = json.dumps(flags.pop('model_kwargs'))
    flags = settings_lib.convert_types(kind, flags)  # before TensorFlow is waited for
    models: runs_lib.Own = [model] if isinstance(model, type) else ''
    flags.update(_make_model_flags(model, task))
    models = models or flags.get('models_file', '')
    own_losses: dict[str, Callable] = {}
    if callable(loss):
        flags['losses'] = getattr(loss, '__name__', 'loss')
        own_losses = {flags['losses']: loss}
    elif isinstance(loss, str):
        flags['losses'] = loss
    elif loss is not None:
        raise ValueError(f'loss must be a function or text, not {loss!r}')
    from baselines.training import run_training

    arguments = [f'{key}={value!r}' for key, value in {'task': task, **flags}.items()]
    output = sys.stdout
    with contextlib.nullcontext() if verbose else silence_output():
        chosen = config.apply_recipe(kind(**flags), flags)
        training = Training(config.to_json(chosen))

        def after_epoch(state: 'progress.State') -> None:
            training.curve = state.curve
            measured = {name: values[-1] for name, values in state.curve.items()}
            metrics = {n: value for n, value in measured.items() if value is not None}
            with contextlib.redirect_stdout(output):
                for callback in callbacks:
                    callback.on_epoch(training, metrics)

        model_dir = run_training.train(
            chosen,
            models=models,
            own_losses=own_losses,
            command=f'tpugraphs.train({", ".join(arguments)})',
            after_epoch=after_epoch,
        )
    return runs_lib.Run(run_files.read(model_dir), models)


def _check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raises ValueError unless all callbacks have the method that is called."""
    if not isinstance(callbacks, (list, tuple)):
        raise ValueError(f'callbacks must be a list, not {callbacks!r}')
    for callback in callbacks:
        if not callable(getattr(callback, 'on_epoch', None)):
            raise ValueError(
                f'callbacks: {callback!r} must have on_epoch(run, metrics)'
            )


def _make_model_flags(model: type | str | None, task: str) -> dict[str, str]:
    """Returns the flags that name a model; raises ValueError for something else."""
    if model is None:
        return {}
    if isinstance(model, type):
        return {'model': model.__name__}
    if isinstance(model, str):
        return registry.split_model_name(model, task)
    raise ValueError(f'model must be a name, a file or a class, not {model!r}')
