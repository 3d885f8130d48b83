"""Configurations in words, as people write them."""

from typing import Any, List, Optional, Sequence

from baselines.hlo import schema

_BOUNDS = ('output', 'kernel', 'input')


def tile_words(run: Any) -> str:
    """Returns e.g. `output 8x128, kernel 256, input -`; `-` is an empty list.

    Args:
        run: a ConfigProfile with tile sizes.
    """
    sizes = run.op_config.tile_size_config
    names = list(_BOUNDS)
    if sizes.iteration_bounds:  # no feature, and hardly ever there
        names.append('iteration')
    return ', '.join(
        f'{name} {_joined(getattr(sizes, f"{name}_bounds"), "x") or "-"}'
        for name in names
    )


def layout_words(run: Any, nodes: Sequence[int], default: Optional[Any] = None) -> str:
    """Returns e.g. `12: output {1,0} input {0,1}; 15: output {}`.

    Args:
        run: a ConfigProfile with layouts.
        nodes: the number of each configurable node.
        default: another one; only nodes that differ from it are listed.
    """
    words: List[str] = []
    layouts = run.module_config.layout_config.nodes
    usual = default.module_config.layout_config.nodes if default else ()
    for i, (number, layout) in enumerate(zip(nodes, layouts)):
        if i < len(usual) and layout == usual[i]:
            continue
        tensors = ' '.join(
            f'{name} {{{_joined(tensor.dims, ",")}}}'
            for name, tensor in zip(schema.LAYOUT_ARRAYS, layout.tensors)
        )
        words.append(f'{number}: {tensors or "-"}')
    return '; '.join(words) or 'as the default'


def _joined(numbers: Sequence[int], separator: str) -> str:
    return separator.join(map(str, numbers))
