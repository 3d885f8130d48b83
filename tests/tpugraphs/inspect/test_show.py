"""`tpugraphs show`: what is in a file, in words and as a picture."""

import numpy as np
import pytest

from tests.helpers import hlo_modules
from tests.helpers import shapes
from tests.helpers import tile_records
from tests.helpers.hlo_modules import good_layout
from tests.helpers.hlo_modules import good_tile
from tests.helpers.hlo_modules import tile_file
from tests.helpers.hlo_modules import tile_run
from tpugraphs import commands
from tpugraphs.inspect import contents
from tpugraphs.inspect import layers
from tpugraphs.inspect import plot


def _show(*arguments):
    return commands.run('show', [str(a) for a in arguments])


def _raw(folder, data, name='raw.pb'):
    path = folder / name
    path.write_bytes(data)
    return path


def _repeating():
    """Five runs: the 2nd and 3rd, and the 4th and 5th have equal tiles."""
    runs = [tile_run(1000, default=True, kernel_bounds=[1])]
    runs += [tile_run(t, kernel_bounds=[2]) for t in (500, 505)]
    runs += [tile_run(t, kernel_bounds=[3]) for t in (2000, 2000)]
    runs += [tile_run(1, kernel_bounds=[4])]
    return hlo_modules.tuning(runs=runs)


def test_one_module_in_words(tmp_path, capsys):
    assert _show(_raw(tmp_path, tile_file(_repeating()))) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ['fusion_1_00000000000000ab', '(tile)']
    assert lines[1][1:] == '3 nodes, 2 edges, 140 features per node'.split()
    opcodes = [[name, '1', '#' * 30] for name in ('parameter', 'tanh', 'add')]
    assert lines[2:5] == opcodes
    assert lines[5][1:] == '5, 3 distinct; 1 run dropped'.split()
    assert lines[6][0] == '2' and '1 %' in ' '.join(lines[6])
    times = ['fastest 500 ns', 'default 1 us (2', 'median 1 us (2', 'slowest 2 us (4']
    for line, found in zip(lines[7:], times, strict=True):
        assert found in ' '.join(line)


def test_an_npz_says_the_same_as_its_raw_file(tmp_path, capsys):
    raw = _raw(tmp_path, tile_file(_repeating()))
    commands.run('extract', [str(raw), str(tmp_path / 'out')])
    capsys.readouterr()
    _show(raw)
    expected = capsys.readouterr().out.replace('; 1 run dropped', '')
    assert _show(tmp_path / 'out/fusion_1_00000000000000ab.npz') == 0
    assert capsys.readouterr().out == expected


def test_a_layout_file_and_its_npz(tmp_path, capsys):
    raw = _raw(tmp_path, good_layout().SerializeToString())
    assert _show(raw) == 0
    out = capsys.readouterr().out
    assert 'main_1_00000000000000cd (layout)' in out
    assert 'configurations  2 of 1 configurable node, 2 distinct\n' in out
    commands.run('extract', [str(raw), str(tmp_path / 'out'), '--pad=-1'])
    capsys.readouterr()
    assert _show(tmp_path / 'out/main_1_00000000000000cd.npz') == 0
    out = capsys.readouterr().out
    assert '2 of 1 configurable node, 2 distinct\n' in out
    assert '(absent entries are -1)' in out


def test_many_modules_have_a_line_each(tmp_path, capsys):
    broken = good_tile('broken', 3)
    broken.module.computations[0].instructions[0].operand_ids.append(1)
    single = hlo_modules.tuning(runs=[tile_run()], fingerprint=2)
    path = _raw(tmp_path, tile_file(_repeating(), single, broken))
    assert _show(path) == 0
    lines = capsys.readouterr().out.split('\n')
    head = 'module nodes edges configs repeated dropped fastest default slowest'
    row = 'fusion_1_00000000000000ab 3 2 5 2 1 500 ns 2.00x 4.00x'
    assert [line.split() for line in lines[:2]] == [head.split(), row.split()]
    assert "'fusion.1' has 1 run" in lines[2] and "instruction 'p': " in lines[3]
    assert _show(path, '--json') == 0
    first, _, third = shapes.check_shape('show', capsys.readouterr().out)['modules']
    times = dict(fastest_ns=500, default_ns=1000, median_ns=1000, slowest_ns=2000)
    counts = dict(count=5, distinct=3, repeated=2, dropped=1)
    assert first['configurations'] == {**counts, **times}
    assert third['configurations'] is None and 'node 0' in third['problem']


def test_a_module_is_chosen_by_name_or_number(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = _raw(tmp_path, tile_file(good_tile(), good_tile('copy.2', 2)))
    for wanted in ('copy.2', '1', 'copy_2_0000000000000002'):
        assert _show(path, '--module', wanted) == 0
        assert capsys.readouterr().out.startswith('copy_2_0000000000000002 (tile)')
    for *arguments, word in (
        ('--module', 'cpoy.2', "'cpoy.2'"),
        ('--plot', 'a.png', '--module'),
        ('--module', '0', '--plot', 'a.xyz', 'png'),
    ):
        assert _show(path, *arguments) == 1
        error = capsys.readouterr().err
        assert word in error and error.count('\n') == 1
    assert [p.name for p in tmp_path.iterdir()] == ['raw.pb']


def test_a_module_without_configurations(tmp_path, capsys):
    path = _raw(tmp_path, good_tile().module.SerializeToString(), 'a.pb')
    drawn = tmp_path / 'a.png'
    assert _show(path, '--json', '--plot', drawn) == 0
    captured = capsys.readouterr()
    assert captured.err == f'drawn: {drawn}\n'
    shown = shapes.check_shape('show', captured.out)
    assert shown['modules'][0]['configurations'] is None and shown['program'] is None


def test_shapes_in_words():
    feat = np.zeros((4, 140), np.float32)
    feat[0, 2 + 11] = feat[1, 2 + 13] = feat[2, 2] = 1  # f32, bf16, invalid
    feat[0, 21:24] = [2, 0, 3]
    # The last has an element type without a column.
    assert contents.format_shapes(feat, 0) == ('f32[2,0,3]', 'bf16', '?', '?')


def test_nodes_stand_right_above_their_first_user():
    # 0 -> 1 -> 2 -> 4, 3 -> 4; 3 also feeds nothing else; 5 stands alone.
    edges = np.array([[1, 0], [2, 1], [4, 2], [4, 3]])
    assert layers.compute_layers(6, edges).tolist() == [0, 1, 2, 2, 3, 3]
    # A second, earlier user keeps node 3 higher up.
    edges = np.concatenate([edges, [[1, 3]]])
    assert layers.compute_layers(6, edges).tolist() == [0, 1, 2, 0, 3, 3]


def test_a_cycle_in_a_damaged_file_names_the_graph(tmp_path):
    edges = np.array([[0, 1], [1, 0], [2, 1]])
    rng = np.random.default_rng(0)
    kernel = tile_records.make_record(rng, 'damaged', nodes=3, edge_index=edges)
    tile_records.write_split(tmp_path, [kernel])
    [content] = contents.read_contents(str(tmp_path / 'damaged.npz'))
    with pytest.raises(ValueError, match='^damaged: '):
        plot.draw_graph(content, str(tmp_path / 'a.png'))


def test_nodes_of_a_layer_keep_their_room():
    rng = np.random.default_rng(0)
    edges = np.array(
        [(c, p) for c in range(1, 60) for p in rng.choice(c, min(c, 2), replace=False)]
    )
    room = rng.uniform(0.2, 1, 60)
    layer = layers.compute_layers(60, edges)
    x, paths = layers.place_nodes(layer, edges, room)
    assert (layer[edges[:, 0]] > layer[edges[:, 1]]).all()
    for row in range(layer.max() + 1):
        members = np.flatnonzero(layer == row)
        members = members[np.argsort(x[members])]
        gaps = np.diff(x[members])
        needed = room[members[1:]] + room[members[:-1]]
        assert (gaps >= needed - 1e-9).all()
    for (consumer, producer), path in zip(edges, paths):
        assert path[0].tolist() == [x[producer], layer[producer]]
        assert path[-1].tolist() == [x[consumer], layer[consumer]]
        assert (np.diff(path[:, 1]) == 1).all()


@pytest.mark.parametrize('ending, magic', [('png', b'\x89PNG'), ('svg', b'<?xml')])
def test_pictures(tmp_path, ending, magic):
    path = _raw(tmp_path, tile_file(_repeating()))
    assert _show(path, '--plot', tmp_path / f'new/a.{ending}') == 0
    drawn = (tmp_path / f'new/a.{ending}').read_bytes()
    assert drawn.startswith(magic)
    if ending == 'svg':
        text = drawn.decode()
        labels = 'parameter', 'f32[2,3]', 'default, 2', 'elementwise'
        for label in (*labels, '5 configurations'):
            assert f'<!-- {label} -->' in text


def test_of_large_graphs_runtimes_alone_are_drawn(tmp_path, capsys):
    instructions = [
        dict(id=i, opcode='tanh', operand_ids=[i - 1] if i else []) for i in range(401)
    ]
    module = hlo_modules.module(hlo_modules.computation(*instructions))
    tuning = hlo_modules.tuning(module, [tile_run(5, default=True)] * 2)
    path = _raw(tmp_path, tile_file(tuning))
    assert _show(path, '--plot', tmp_path / 'a.svg') == 0
    text = (tmp_path / 'a.svg').read_text()
    assert '401 nodes, 400 edges' in text and 'tanh' not in text
    program = _raw(tmp_path, module.SerializeToString(), 'module.pb')
    assert _show(program, '--plot', tmp_path / 'b.svg') == 1
    assert ' 400 nodes, not 401' in capsys.readouterr().err
