"""Small HLO modules and raw files, for tests."""

from baselines.hlo import protos
from tests.helpers import places

SHARED = places.SHARED / 'hlo'
NO_SHARED = 'the raw files of ../shared/data/hlo are not there'


def module(*computations, name='m.1'):
    """Makes an HloModuleProto of computations given as dicts."""
    return protos.HloModuleProto(name=name, computations=list(computations))


def computation(*instructions, name='main', id=1, root_id=None):
    """Makes a computation, a dict; its root is by default the last instruction."""
    if root_id is None:
        root_id = instructions[-1].get('id', 0) if instructions else 0
    return dict(name=name, id=id, root_id=root_id, instructions=list(instructions))


def chain(name='fusion.1'):
    """Makes parameter (id 1) -> tanh (id 2) -> add of it to itself (id 3), f32[2,3]."""
    shape = dict(element_type=11, dimensions=[2, 3], layout=dict(minor_to_major=[1, 0]))
    return module(
        computation(
            dict(name='p', opcode='parameter', id=1, shape=shape),
            dict(name='t', opcode='tanh', id=2, operand_ids=[1], shape=shape),
            dict(name='a', opcode='add', id=3, operand_ids=[2, 2], shape=shape),
        ),
        name=name,
    )


def tile_run(time=5, default=False, error=False, **bounds):
    """Makes a ConfigProfile of the tile collection, a dict."""
    return dict(
        op_config=dict(tile_size_config=bounds),
        error=error,
        profile=dict(compute_time_ns=time),
        is_default=default,
    )


def layout_run(nodes, time=5, default=False, error=False):
    """Makes a ConfigProfile of the layout collection: per node, its tensors' dims."""
    layouts = [dict(tensors=[dict(dims=dims) for dims in node]) for node in nodes]
    return dict(
        module_config=dict(layout_config=dict(nodes=layouts)),
        error=error,
        profile=dict(compute_time_ns=time),
        is_default=default,
    )


def tuning(hlo=None, runs=(), fingerprint=0xAB, config_index_to_node=()):
    """Makes a ModuleTuningData, by default of `chain()`."""
    return protos.ModuleTuningData(
        module=chain() if hlo is None else hlo,
        fingerprint=fingerprint,
        runs=list(runs),
        config_index_to_node=list(config_index_to_node),
    )


def tile_file(*modules):
    """Serialises modules as a TuningData."""
    return protos.TuningData(modules=list(modules)).SerializeToString()


def good_tile(name='fusion.1', fingerprint=0xAB, times=(5, 7, 9)):
    """Makes a usable tile module; the first run is the default one."""
    runs = [
        tile_run(time, default=i == 0, kernel_bounds=[i + 1, 8 * i])
        for i, time in enumerate(times)
    ]
    return tuning(chain(name), runs, fingerprint)


def good_layout(name='main.1', fingerprint=0xCD, times=(5, 7)):
    """Makes a usable layout module with one configurable node; no default run."""
    runs = [layout_run([[[1, 0], [i]]], time) for i, time in enumerate(times)]
    return tuning(chain(name), runs, fingerprint, [2])
