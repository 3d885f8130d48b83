"""Event files of TensorBoard, read back."""

import glob

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util


def scalars(folder):
    """Scalars of a folder's one event file: {tag: [(step, value)]}."""
    [path] = glob.glob(f'{folder}/events.out.tfevents.*')
    events = event_accumulator.EventAccumulator(path)
    events.Reload()
    return {
        tag: [
            (one.step, tensor_util.make_ndarray(one.tensor_proto).item())
            for one in events.Tensors(tag)
        ]
        for tag in events.Tags()['tensors']
    }
