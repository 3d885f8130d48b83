"""Returns programs after XLA's passes; kernels are cut from these."""

from typing import Any

from baselines import text
from baselines.hlo import protos
from tpugraphs.measure import own_tiles
from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure import session as session_lib
from tpugraphs.programs import extras
from tpugraphs.programs import reader


def is_optimised(module: Any) -> bool:
    """Tells whether XLA's passes went over a module: it has fusions or own tiles."""
    return any(
        instruction.opcode == 'fusion' or own_tiles.of(instruction)
        for computation in module.computations
        for instruction in computation.instructions
    )


def optimise(program: reader.Program) -> Any:
    """Returns a program's module after XLA's passes; an optimised one as it is.

    Raises:
        ValueError: jaxlib is needed and not installed, or XLA cannot compile it.
    """
    if is_optimised(program.module):
        return program.module
    extras.require(
        f'{program.source}: cutting a program that XLA has not optimised yet'
    )
    module = programs_lib.prepare(program).module
    with session_lib.Session() as session:
        return optimise_with(session, module, program.name)


def optimise_with(session: session_lib.Session, module: Any, name: str) -> Any:
    """Returns a module after the passes of a session's XLA.

    Collectives need several devices, so an optimised module that has them is returned
    as it is: its other kernels can be measured.

    Raises:
        ValueError: XLA cannot compile it.
    """
    exchanged = programs_lib.collectives(module)
    if exchanged and is_optimised(module):
        return module
    if exchanged:
        raise ValueError(
            f'{name}: {text.most_common(exchanged)}: collectives need several devices; '
            'dump the program where it has them, after optimisations'
        )
    try:
        content = session.optimise(module.SerializeToString())
    except session_lib.WorkerError as error:
        raise ValueError(f'XLA cannot compile {name}: {error}') from error
    return protos.protos().HloModuleProto.FromString(content)
