"""Event files of TensorBoard, read back."""

import glob

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


def read(folder):
    """Scalars of a folder's one event file, {tag: [(step, value)]}, and hparams."""
    found = _events(folder)
    content = found.summary_metadata['_hparams_/session_start_info'].plugin_data.content
    data = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    hparams = {
        name: getattr(value, value.WhichOneof('kind'))
        for name, value in data.hparams.items()
    }
    return _scalars(found), hparams


def scalars(folder):
    """The first of what `read` returns, of a file without hparams."""
    return _scalars(_events(folder))


def _events(folder):
    [path] = glob.glob(f'{folder}/events.out.tfevents.*')
    found = event_accumulator.EventAccumulator(path)
    found.Reload()
    return found


def _scalars(found):
    return {
        tag: [
            (one.step, tensor_util.make_ndarray(one.tensor_proto).item())
            for one in found.Tensors(tag)
        ]
        for tag in found.Tags()['tensors']
        if not tag.startswith('_hparams_')
    }
