"""How much faster flags of XLA make whole programs, without any tuning.

  python tools/measured_data/export.py OUT --sizes small   # in its own environment
  python benchmarks/xla_flags.py OUT/by_others/mobile_f32_*.pb --core 1

A gain of `tuned_programs.py` that a flag gives as well is no gain of tuning.  A row is
a flag that XLA documents in its list of options; a column has the gain of a program,
each in a process of its own: the least time without the flag divided by that with it.
The last row, without a flag again, shows the noise.  A flag that the installed release
lacks, or refuses a program with, has XLA's reason.
"""

from collections.abc import Sequence
from typing import Any

import results

# Flags of releases from 0.4.30 to 0.12; each release lacks some.
_FLAGS = (
    'xla_disable_hlo_passes=onednn-matmul-rewriter',
    'xla_cpu_use_onednn=false',
    'xla_cpu_use_thunk_runtime=false',
    'xla_cpu_enable_fast_math=true',
    'xla_cpu_prefer_vector_width=512',
    'xla_cpu_enable_concurrency_optimized_scheduler=false',
    'xla_cpu_use_xnnpack=true',
    'xla_cpu_experimental_xnn_graph_fusion_mode=XNN_GRAPH_FUSION_MODE_GREEDY',
    'xla_cpu_experimental_xnn_fusion_type=LIBRARY_FUSION_TYPE_DOT,'
    'LIBRARY_FUSION_TYPE_ELTWISE,LIBRARY_FUSION_TYPE_REDUCE',
    'xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,'
    'LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION',
    'xla_cpu_experimental_onednn_fusion_type=LIBRARY_FUSION_TYPE_DOT',
    'xla_cpu_use_fusion_emitters=false',
    'xla_cpu_strict_dot_conv_math=true',
    'xla_cpu_disable_loop_unrolling=true',
    'xla_backend_optimization_level=2',
)
_PASSES = 10


def main() -> None:
    """Prints the programs' times without a flag, and a row for each flag."""
    parser = results.parser(__doc__)
    parser.add_argument('programs', nargs='+', metavar='PROGRAM')
    parser.add_argument('--core', type=int, default=-1)
    parser.add_argument('--flags', nargs='*', default=_FLAGS, metavar='NAME=VALUE')
    args = parser.parse_args()
    from tpugraphs.kernels import preparation

    programs = [preparation.load(path) for path in args.programs]
    results.head('flag', *(program.name for program in programs))
    base = [_time(program, '', args.core) for program in programs]
    results.row('none', *(f'{ns / 1e6:.2f} ms' for ns in base))
    for flag in [*args.flags, '']:
        cells: list[str] = []
        for program, without in zip(programs, base):
            try:
                cells.append(f'{without / _time(program, flag, args.core):.2f}')
            except ValueError as error:
                cells.append(str(error)[-80:])
        results.row(f'`--{flag}`' if flag else 'none, again', *cells)


def _time(program: Any, flag: str, core: int) -> int:
    """Returns the nanoseconds of a program under a flag; raises ValueError."""
    from tpugraphs.clock import backend
    from tpugraphs.clock import session as session_lib
    from tpugraphs.clock import timing
    from tpugraphs.kernels import cutting

    flags = [backend.FLAGS, f'--{flag}'] if flag else [backend.FLAGS]
    backend.VARIABLES['XLA_FLAGS'] = ' '.join(flags)  # of the next worker
    modules = [program.module.SerializeToString()]
    inputs: Sequence[Any] = cutting.inputs_of(program.module, balanced=True)
    with session_lib.Session(core) as session:
        try:
            measured = session.measure(
                program.name, modules, inputs, 0, timing.Protocol(_PASSES, _PASSES)
            )
        except session_lib.WorkerError as error:
            raise ValueError(str(error)) from error
    return int(measured.times[0])


if __name__ == '__main__':
    results.run(main)
