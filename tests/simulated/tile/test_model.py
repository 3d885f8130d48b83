"""The analytical TPU model and the tile candidates, checked by hand."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.simulated import tpu
from baselines.simulated.hlo import Computation, Follow, Fusion, tensor
from baselines.simulated.tile import tiles
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tile.workload import Workload


def tiling_of(sizes, tile, output=None, **fields):
    shape = output or tensor('f32', sizes)
    space = tiles.space_of(shape, **fields)._replace(sizes=tuple(sizes))
    return tiles.Tiling(space, np.array([tile], np.int64))


def unary(opcode, shape):
    fusion = Fusion()
    fusion.parameter(shape).op(opcode)
    return Workload(fusion.finish(), tiles.space_of(shape))


class TestTiles:
    def test_candidates_are_parts_and_powers_of_two(self):
        # 26 / 1, 2, ... rounded up: 26 13 9 7 6 5 4 3 2 1; powers: 1 2 4 8 16.
        expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 26]
        assert tiles.axis_candidates(26, 1).tolist() == expected

    def test_candidates_are_multiples_of_the_step_or_the_whole(self):
        # 300 elements fill 3 steps of 128.
        assert tiles.axis_candidates(300, 128).tolist() == [128, 256, 300]

    def test_finer_candidates_include_odd_multiples(self):
        assert set(tiles.axis_candidates(64, 1, odd=3)) >= {3, 6, 12, 24, 48}

    @given(st.integers(1, 5000), st.sampled_from([1, 8, 128, 1024]))
    def test_candidates_are_sorted_distinct_and_end_with_the_whole(self, size, step):
        found = tiles.axis_candidates(size, step)
        assert (np.diff(found) > 0).all()
        assert found[0] >= 1 and found[-1] == size

    def test_bounds_are_physical_in_register_units(self):
        # [H, W, N, C] in memory; N in units of 8, C in units of 128.
        shape = tensor('f32', (128, 14, 14, 512), layout=(3, 0, 2, 1))
        assert tiles.bounds_of(shape) == ((1, 1), (2, 1), (0, 8), (3, 128))

    def test_rank_one_counts_whole_registers(self):
        assert tiles.bounds_of(tensor('f32', (4096,))) == ((0, 1024),)

    def test_config_columns(self):
        shape = tensor('f32', (32, 1000))
        kernel = tensor('f32', (4096, 1000), axes=(2, 1), layout=(0, 1))
        space = Space(
            (32, 1000, 4096),
            tiles.bounds_of(shape),
            tiles.bounds_of(kernel),
            contracted=(2,),
        )
        row = tiles.config_features(space, np.array([[16, 1000, 512]]))[0]
        # Kernel in memory: 1000 / 8 = 125, then 512 / 128 = 4.
        assert row[:8].tolist() == [125, 4, 0, 0, 0, 0, 129, 500]
        # Output: 16 / 8 = 2, then 1000 / 128 rounded up = 8.
        assert row[8:16].tolist() == [2, 8, 0, 0, 0, 0, 10, 16]
        # No input bounds: here the product of nothing is 0.
        assert row[16:].tolist() == [0] * 8
        assert row.dtype == np.float32

    def test_an_axis_shared_by_two_operands_obeys_both_steps(self):
        shape = tensor('f32', (4096, 1000), layout=(0, 1))  # 1000 along sublanes
        kernel = tensor('f32', (512, 1000), axes=(2, 1))  # 1000 along lanes
        space = Space(
            (4096, 1000, 512),
            tiles.bounds_of(shape),
            tiles.bounds_of(kernel),
            contracted=(2,),
        )
        assert space.steps == (128, 128, 128)

    def test_loops_run_reduced_then_contracted_innermost(self):
        shape = tensor('f32', (8, 16, 128))
        space = Space(
            (8, 16, 128, 64), tiles.bounds_of(shape), reduced=(0,), contracted=(3,)
        )
        assert space.loops == (1, 2, 0, 3)

    def test_drawn_tiles_are_distinct_and_cut_finer_on_demand(self):
        shape = tensor('f32', (64, 96, 1024))
        space = tiles.space_of(shape)
        few = tiles.candidates(space, np.random.default_rng(0), 100)
        many = tiles.candidates(space, np.random.default_rng(0), 20000)
        for drawn in (few, many):
            assert len(np.unique(drawn, axis=0)) == len(drawn)
            assert (drawn >= 1).all() and (drawn <= [64, 96, 1024]).all()
        coarse = np.prod(
            [len(tiles.axis_candidates(s, p)) for s, p in zip(space.sizes, space.steps)]
        )
        assert len(few) <= 100 and len(many) > coarse


class TestRegisters:
    @pytest.mark.parametrize(
        'dtype, dims, layout, registers, size',
        [
            # 10 x 200: 2 x 2 registers of 4 KiB, though 2,000 elements fill 1.95.
            ('f32', (10, 200), (1, 0), 4, 4096),
            # The other way round 200 / 8 = 25 and 10 / 128 -> 1.
            ('f32', (10, 200), (0, 1), 25, 4096),
            ('bf16', (3, 8, 128), (2, 1, 0), 3, 2048),
            ('pred', (1025,), (0,), 2, 1024),
            ('f32', (), (), 1, 4096),
        ],
    )
    def test_padding(self, dtype, dims, layout, registers, size):
        shape = tensor(dtype, dims, layout=layout)
        tiling = tiling_of((5,), [5])
        whole = shape._replace(axes=(None,) * len(dims))
        assert tiling.registers(whole) == [registers]
        assert tpu.register_bytes(shape) == size

    def test_the_last_tile_is_cut_off(self):
        # 10 rows of 8 sublanes in tiles of 4: 3 trips, 10 / 3 on average.
        shape = tensor('f32', (80, 128))
        tiling = tiling_of((80, 128), [32, 128])
        assert tiling.registers(shape) == [4]
        assert tiling.mean_registers(shape) == pytest.approx([10 / 3])

    @pytest.mark.parametrize(
        'tile, runs',
        [
            ((16, 512), 1),  # whole rows of registers: one piece
            ((16, 128), 2),  # a quarter of the lanes: a piece per 8 rows
            ((64, 128), 8),
            ((64, 512), 1),
        ],
    )
    def test_contiguous_runs(self, tile, runs):
        shape = tensor('f32', (64, 512))
        assert tiling_of((64, 512), tile).contiguous_runs(shape) == [runs]

    def test_images_of_a_convolution_overlap(self):
        # 4 outputs of stride 2 under a window of 3 read (4 - 1) * 2 + 3 = 9.
        image = tensor('f32', (20, 128), axes=(Follow(0, 2, 1, 2), 1))
        out = tensor('f32', (9, 128))
        tiling = tiling_of((9, 128, 3), [4, 128, 3], output=out, contracted=(2,))
        assert tiling.part(image).tolist() == [[9, 128]]
        assert image.moving == (0, 1, 2)

    def test_a_piece_of_a_concatenation_follows_its_share(self):
        piece = tensor('f32', (8, 100), axes=(0, Follow(1, 1, 3)))
        assert tiling_of((8, 300), [8, 200]).part(piece).tolist() == [[8, 67]]


class TestVisits:
    def test_what_a_loop_does_not_move_stays(self):
        out = tensor('f32', (64, 256))
        split = tiling_of((64, 256, 512), [32, 128, 128], out, contracted=(2,))
        # Trips 2, 2, 4: both operands move with the innermost loop.
        assert [split.visits(a)[0] for a in ((0, 2), (1, 2), (0, 1))] == [16, 16, 4]
        whole = tiling_of((64, 256, 512), [32, 128, 512], out, contracted=(2,))
        # Undivided depth: the left operand stays while the columns move.
        assert [whole.visits(a)[0] for a in ((0, 2), (1, 2), (0, 1))] == [2, 4, 4]
        assert whole.visits(()) == [1]
        assert split.trips == [16] and whole.trips == [4]


class TestTimes:
    @pytest.mark.parametrize(
        'rows, depth, columns, cycles',
        [
            (256, 256, 256, 2 * 256 + 128),  # 4 passes on 2 units
            (8, 256, 256, 2 * 128 + 128),  # weights take 128 cycles to load
            (256, 100, 130, 1 * 256 + 128),  # 1 x 2 passes, padded
            (256, 128, 128, 1 * 256 + 128),  # one pass leaves one unit idle
        ],
    )
    def test_matrix_cycles(self, rows, depth, columns, cycles):
        sizes = (np.array([n]) for n in (rows, depth, columns))
        assert tpu.matrix_cycles(*sizes) == [cycles]

    @pytest.mark.parametrize(
        'trips, overlap, time', [(1, 0.8, 160), (4, 0.8, 124), (4, 0.0, 160)]
    )
    def test_overlap(self, trips, overlap, time):
        # 4 trips hide 0.8 * 3 / 4 = 60 % of the shorter 60 ns.
        found = tpu.combined_ns(np.array([100.0]), np.array([60.0]), trips, overlap)
        assert found == pytest.approx([time])

    def test_one_tile_of_an_element_wise_kernel(self):
        workload = unary('tanh', tensor('f32', (16, 256)))
        # 4 registers each way, one piece: 16384 / 450 + 4 ns; load, tanh and
        # store take 1 + 10 + 1 slots on each, two per cycle of 1 / 0.94 ns.
        transfers = 2 * (16384 / 450 + 4)
        computing = 4 * 12 / 2 / 0.94
        expected = 500 + 150 + 2 * 20 + transfers + computing
        assert workload.runtime_ns(np.array([[16, 256]])) == pytest.approx([expected])

    def test_two_tiles_overlap_in_part(self):
        workload = unary('tanh', tensor('f32', (16, 256)))
        # Two tiles of 2 registers; 0.85 / 2 of the shorter side is hidden.
        transfers = 2 * 2 * (8192 / 450 + 4)
        computing = 4 * 12 / 2 / 0.94
        hidden = 0.85 / 2 * min(transfers, computing)
        expected = 500 + 2 * 150 + 4 * 20 + transfers + computing - hidden
        assert workload.runtime_ns(np.array([[8, 256]])) == pytest.approx([expected])

    def test_bf16_halves_bytes_and_pays_for_arithmetic(self):
        narrow = unary('add', tensor('bf16', (16, 256)))
        tiling = tiles.Tiling(narrow.space, np.array([[16, 256]]))
        assert narrow.transfers_ns(tiling)[0] == pytest.approx([2 * (8192 / 450 + 4)])
        assert narrow.vector_cycles(tiling) == [4 * (1 + 2 + 1) / 2]

    def test_buffers(self):
        workload = unary('tanh', tensor('f32', (16, 256)))
        once, twice = workload.vector_memory(np.array([[16, 256], [8, 128]]))
        assert once.tolist() == [2 * 16384, 2 * 4096]
        assert twice.tolist() == [4 * 16384, 4 * 4096]

    def test_without_room_for_two_buffers_nothing_overlaps(self):
        workload = unary('tanh', tensor('f32', (16, 256)))
        tile = np.array([[8, 256]])
        small = tpu.TPU_V3._replace(vector_memory_bytes=4 * 8192 - 1)
        none = tpu.TPU_V3._replace(overlap=0.0)
        assert workload.runtime_ns(tile, small) == workload.runtime_ns(tile, none)
        assert workload.runtime_ns(tile) < workload.runtime_ns(tile, none)

    def test_sums_across_lanes_cost_shuffles(self):
        def cycles(dims):
            shape = tensor('f32', (16, 256))
            fusion = Fusion()
            fusion.parameter(shape).reduce(dims)
            space = tiles.space_of(shape, reduced=tuple(dims))
            workload = Workload(fusion.finish(), space)
            tiling = tiles.Tiling(space, np.array([[16, 256]]))
            return workload.vector_cycles(tiling)[0]

        # Load and add: 2 slots on 4 registers, and 1 for the stored register.
        # Along lanes: 2 registers are left, 3 + 14 slots each.
        assert cycles([1]) == (4 * 2 + 2 * (3 + 14) + 1) / 2
        # Along sublanes: 2 registers are left, 3 + 6 slots each.
        assert cycles([0]) == (4 * 2 + 2 * (3 + 6) + 1) / 2

    def test_a_change_of_the_fastest_dimension_costs_more(self):
        def cycles(layout):
            shape = tensor('f32', (16, 16, 256))
            entry = Computation()
            given = entry.parameter(shape._replace(layout=layout))
            entry.add('copy', shape, given)
            space = tiles.space_of(shape)
            tiling = tiles.Tiling(space, np.array([[16, 16, 256]]))
            return Workload([entry], space).vector_cycles(tiling)[0]

        # Result: 16 * 2 * 2 = 64 registers, (slots + store) on each.  Operand:
        # sublanes swapped, 64 registers; lanes swapped, 16 * (256 / 8) = 512.
        assert cycles((2, 0, 1)) == (64 * (3 + 1) + 64) / 2
        assert cycles((1, 2, 0)) == (64 * (8 + 1) + 512) / 2
