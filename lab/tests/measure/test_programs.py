"""Programs: what cannot be measured is said in one line."""

import collections
import itertools
import os
import textwrap

import numpy as np
import pytest

from baselines.data import families
from baselines.hlo import protos
from lab.tests.helpers import measured_programs
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import rewriting
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import random_programs
from tpugraphs_lab.programs import functions

_FILE = """
import tensorflow as tf

def plain(x):
    return x

number = 3

@tf.function(input_signature=[tf.TensorSpec([None, 4])])
def dynamic(x):
    return x

@tf.function(input_signature=[tf.TensorSpec([3], tf.string)])
def words(x):
    return tf.strings.length(x)

@tf.function(input_signature=[tf.TensorSpec([8, 4])])
def nothing(x):
    pass

@tf.function(input_signature=[tf.TensorSpec([8, 4])])
def leaves(x):
    raise SystemExit(0)

@tf.function(input_signature=[tf.TensorSpec([8, 4])])
def fails(x):
    raise KeyError('no such key')

@tf.function(input_signature=[tf.TensorSpec([8, 4]), tf.TensorSpec([4])])
def good(x, y):
    return tf.nn.relu(x + y)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(textwrap.dedent(_FILE))
    return path


@pytest.mark.slow  # imports JAX
def test_a_function_becomes_a_module(file):
    program = preparation.load(f'{file}:good')
    assert program.name == 'mine_good'
    opcodes = [i.opcode for c in program.module.computations for i in c.instructions]
    assert 'add' in opcodes and 'maximum' in opcodes
    with pytest.raises(ValueError, match='mine.py:nothing returns no array that it co'):
        preparation.load(f'{file}:nothing')


@pytest.mark.parametrize(
    'function, message',
    [
        ('number', r'mine.py:number: no such function; there: dynamic, fails, good'),
        ('plain', r'mine.py:plain has neither an input signature nor example argum'),
        ('dynamic', r'mine.py:dynamic has the dynamic shape \(None, 4\)'),
        ('words', r'mine.py:words: XLA cannot compile the function'),
        ('leaves', r'mine.py:leaves: XLA cannot compile the function: SystemExit: 0'),
        ('fails', r"mine.py:fails: XLA cannot .*: KeyError: 'no such key'"),
    ],
)
def test_functions_that_cannot_be_measured(file, function, message):
    with pytest.raises(ValueError, match=message) as caught:
        functions.trace_file(str(file), function, '', b'')
    assert '\n' not in str(caught.value)


def test_files_that_hold_no_program(tmp_path, file):
    with pytest.raises(ValueError, match='which function. say .*mine.py:FUNCTION'):
        preparation.load(str(file))
    with pytest.raises(FileNotFoundError, match='nowhere.py:f: there is no such file'):
        preparation.load(f'{tmp_path}/nowhere.py:f')
    for name in ('pipe.py:f', 'pipe.pb'):
        os.mkfifo(tmp_path / name.partition(':')[0])
        with pytest.raises(ValueError, match='pipe.p.*: not a regular file'):
            preparation.load(f'{tmp_path}/{name}')
    broken = tmp_path / 'broken.py'
    broken.write_text('import no_such_module_here')
    with pytest.raises(ValueError, match='broken.py: ModuleNotFoundError'):
        preparation.load(f'{broken}:f')


def test_modules_that_cannot_be_measured(tmp_path):
    module = protos.HloModuleProto(entry_computation_id=1)
    entry = module.computations.add(id=1)
    entry.instructions.add(opcode='parameter', name='p.1').shape.element_type = 13
    path = tmp_path / 'tuple.pb'
    path.write_bytes(module.SerializeToString())
    with pytest.raises(ValueError, match='tuple.pb: parameter %p.1 is .* fixed size'):
        preparation.load(str(path))
    shape = entry.instructions[0].shape
    shape.element_type = building.shape_of('f32', []).element_type
    shape.dimensions.extend([-(2**63), 8, 4])
    shape.is_dynamic_dimension.extend([True, True])
    path.write_bytes(module.SerializeToString())
    with pytest.raises(ValueError, match=r'%p.1 is f32\[\?,<=8,4\]; '):
        preparation.load(str(path))


def test_sizes_beyond_an_index_of_32_bits_are_not_tiled():
    skipped = collections.Counter()
    module = measured_programs.pointwise(1 << 31, 4)
    assert tile_choices.kernels_of(module, 'p', set(), skipped) == []
    assert skipped == {'too large for an index of 32 bits': 1}


def test_products_of_narrow_floats_add_up_in_float32(tmp_path):
    module = measured_programs.product()
    for instruction in module.computations[-1].instructions:
        instruction.shape.element_type = 16  # bf16
    path = measured_programs.write(tmp_path / 'narrow.pb', module)
    entry = cutting.entry_of(preparation.load(path).module)
    by_id = {i.id: i for i in entry.instructions}
    assert len(by_id) == len(entry.instructions)
    kinds = [(i.opcode, i.shape.element_type) for i in entry.instructions]
    # Both operands go to f32 (11), the product is one, and its result goes back.
    assert kinds[:6] == [
        ('parameter', 16), ('parameter', 16), ('convert', 11), ('convert', 11),
        ('dot', 11), ('convert', 16),
    ]  # fmt: skip
    dot = entry.instructions[4]
    assert [by_id[o].opcode for o in dot.operand_ids] == ['convert', 'convert']
    split = entry.instructions[6]
    assert by_id[split.operand_ids[0]] == entry.instructions[5]
    assert all(i.shape.element_type == 16 for i in entry.instructions[5:])


def test_random_programs_are_the_same_for_a_seed():
    names = random_programs.random_names(30, seed=2)
    assert len(set(names)) == 30
    assert names[0] == 'random_convolution_seed2_0'
    load = lambda **size: random_programs.load_random(names[0], **size)
    first, small = load(), load(largest=1)
    assert first.module == load().module
    elements, fewer = (
        sum(np.prod(shape.dimensions) for shape in module.host_program_shape.parameters)
        for module in (first.module, small.module)
    )
    assert fewer < elements
    with pytest.raises(ValueError, match="--families has 'norms'; there are convol"):
        random_programs.random_names(4, families=['norms'])


@pytest.mark.slow  # traces 27 programs
def test_every_family_of_random_programs_is_something_that_xla_compiles():
    names = random_programs.random_names(len(random_programs.FAMILIES))
    assert len(set(map(families.find_family, names))) == len(names)
    for name in names:
        assert random_programs.load_random(name, variants=1).name == name


def test_sizes_are_powers_of_two_and_divisors():
    assert tile_choices.tile_sizes(12) == [1, 2, 3, 4, 6, 8, 12]
    assert tile_choices.tile_sizes(16) == [1, 2, 4, 8, 16]


def fused():
    """entry: fusion(x, y) = tanh(x) * y; then a copy into another layout."""
    module = building.Module('program')
    body = module.computation('fused')
    shape = building.shape_of('f32', [6, 8])
    x, y = body.parameter(shape), body.parameter(shape)
    body.add('multiply', shape, [body.add('tanh', shape, [x]), y])
    number = body.finish()
    entry = module.computation('entry')
    x, y = entry.parameter(shape), entry.parameter(shape)
    value = entry.add('fusion', shape, [x, y], calls=[number])
    other = building.shape_of('f32', [6, 8])
    other.layout.minor_to_major[:] = [0, 1]
    entry.add('copy', other, [value])
    return module.finish(entry)


def test_few_possible_configurations_are_all_taken():
    plan = rewriting.Plan(measured_programs.pointwise(4, 3))
    drawn = tile_choices.draw_tiles(plan, np.random.default_rng(0), 12)
    # 1, 2, 4 by 1, 2, 3; the untiled one is first, and once.
    assert drawn[0] == rewriting.Tiles((4, 3), ())
    every = sorted(itertools.product([1, 2, 4], [1, 2, 3]))
    assert sorted(tiles.output for tiles in drawn) == every


def test_of_many_configurations_half_the_sizes_are_whole_and_a_fifth_is_one():
    # Sizes 1 to 64, 1 to 8 and 1 to 2. Whole ones have .5 and a share of .3:
    whole = [0.5 + 0.3 / 7, 0.5 + 0.3 / 4, 0.5 + 0.3 / 2]
    untiled = np.prod(whole)  # is not drawn again
    plan = rewriting.Plan(measured_programs.pointwise(64, 8, 2))
    rng = np.random.default_rng(0)
    first = [tile_choices.draw_tiles(plan, rng, 2)[1].output[0] for _ in range(300)]
    for size, share in ((64, whole[0] - untiled), (1, 0.2 + 0.3 / 7)):
        share /= 1 - untiled
        deviation = np.sqrt(share * (1 - share) / 300)
        assert abs(np.mean(np.equal(first, size)) - share) < 4 * deviation


def test_a_module_is_cut_into_kernels():
    parts, skipped = cutting.cut(fused(), 'mine')
    assert skipped == {}
    entries = [cutting.entry_of(kernel.module).instructions for kernel in parts]
    opcodes = [[i.opcode for i in instructions] for instructions in entries]
    assert opcodes == [
        ['parameter', 'parameter', 'tanh', 'multiply'],
        ['parameter', 'transpose'],  # the copy, with its layout written out
    ]
    assert rewriting.Plan(parts[1].module).output == (8, 6)
    assert all(kernel.name.startswith('mine_') for kernel in parts)
    assert cutting.cut(fused(), 'mine', 100) == ([], {'too small to time': 2})
