"""Counts of the additive model of time, by hand."""

import dataclasses

import numpy as np
import pytest

from baselines.features import kernel_nodes
from baselines.features import tile_table
from baselines.hlo import schema
from tests.helpers import hlo_kernels
from tpugraphs_lab.columns import loop_costs
from tpugraphs_lab.columns import node_groups


def _counts(raw, edges, *bounds):
    """Counts of (output, kernel) bounds, the untiled ones first."""
    record = hlo_kernels.kernel(raw, edges, hlo_kernels.configs(*bounds))
    nodes = kernel_nodes.KernelNodes(hlo_kernels.store(record))
    groups = node_groups.NodeGroups(nodes)
    rows = node_groups.bounds_in(record.config_feat.astype(np.float64))
    columns = loop_costs.LoopCosts(groups)
    kernels = np.zeros(len(rows), np.int64)
    return columns.counts(kernels, groups.cut(kernels, rows))


def _equal(counts, **expected):
    for name, wanted in expected.items():
        assert counts[name].tolist() == pytest.approx(wanted), name


def test_terms_of_a_loop():
    nodes = [
        hlo_kernels.node('parameter', [60, 100]),
        hlo_kernels.node('exponential', [60, 100], root=True),
    ]
    counts = _counts(nodes, [(1, 0)], ([60, 100], []), ([6, 100], []), ([60, 12], []))
    assert [*counts] == [*loop_costs.NANOSECONDS]
    _equal(
        counts,
        call=[1, 1, 1],
        rounds=[1, 10, 9],
        loops=[60, 60, 540],  # 9 tiles of 12 go over 108 columns
        tails=[60_000 * 0.04, 60_000 * 0.04, 64_800 / 3],  # ten operations each
        functions=[6000, 6000, 6480],
        results=[6000, 6000, 6480],
        bytes=[24_000, 24_000, 25_920],
        jumps=[0, 0, 0],
        sums=[0, 0, 0],
        products=[0, 0, 0],
        # Twice 24,000 bytes; twice ten times 2,400; 60 rows of 48 bytes in each of 9.
        lines_1=[2 * 375, 20 * 38, 18 * 60],
        # The pages of 12 columns are those of all: 60 steps of 400 bytes.
        pages_1=[2 * 6, 20 * 1, 18 * 6],
    )


def test_steps_by_powers_of_two_share_sets_of_a_cache():
    """A transpose: its inner loop goes down columns, in steps of 64 lines."""
    nodes = [
        hlo_kernels.node('parameter', [128, 1024]),
        hlo_kernels.node('transpose', [1024, 128], root=True),
    ]
    nodes[1][1][schema.NODE.at('dimensions_0')] = 1
    counts = _counts(
        nodes, [(1, 0)], ([1024, 128], []), ([1024, 8], []), ([1024, 16], [])
    )
    whole = 8192  # lines of either array
    _equal(
        counts,
        jumps=3 * [128 * 1024],
        # Of 32 KB: all lines of a column fall into one set, which holds 8.  With more
        # of them each element fetches its line again.
        lines_1=[128 * 1024 + whole, whole + 16 * 1024, 128 * 1024 + 8 * 1024],
        # Of 1 MB: into 32 sets, which hold 256.
        lines_2=[2 * whole, whole + 16 * 1024, whole + 8 * 1024],
        # 64 pages: a column has 128, 8 and 16.  Of the output, each round's columns
        # touch all 128 pages.
        pages_1=[128 * 1024 + 128, 128 + 16 * 128, 128 + 8 * 128],
        pages_2=[128 + 128, 128 + 16 * 128, 128 + 8 * 128],
    )


@pytest.mark.parametrize('opcode, term', [('add', 'sums'), ('maximum', 'extremes')])
def test_reductions_are_chains_unless_of_one_element(opcode, term):
    nodes = [
        hlo_kernels.node('parameter', [60, 10]),
        hlo_kernels.node(opcode, []),
        hlo_kernels.node('reduce', [10], root=True),
    ]
    counts = _counts(nodes, [(2, 0)], ([10], [60]), ([10], [1]), ([5], [20]))
    other = {'sums': 'extremes', 'extremes': 'sums'}[term]
    _equal(counts, **{term: [600, 0, 600], other: [0, 0, 0], 'rounds': [1, 60, 6]})


def test_products_have_no_loops():
    nodes = [
        hlo_kernels.node('parameter', [8, 20]),
        hlo_kernels.node('parameter', [20, 16]),
        hlo_kernels.node('dot', [8, 16], root=True),
    ]
    bounds = ([8, 16], [20]), ([8, 16], [10]), ([8, 1], [20])
    counts = _counts(nodes, [(2, 0), (2, 1)], *bounds)
    _equal(
        counts,
        products=3 * [2560],
        short_products=[0, 2560, 0],
        thin_products=[0, 0, 2560],
    )
    for name in ('loops', 'jumps', 'splits', 'sums', 'lines_1', 'convolutions'):
        assert not counts[name].any(), name


def test_columns_are_a_time_its_change_and_shares():
    bounds = hlo_kernels.configs(([60, 100], []), ([6, 100], []))
    kernels = [
        dataclasses.replace(
            hlo_kernels.addition([60, 100], bounds),
            graph_id=f'kernel_{release}',
            xla_release=release,
        )
        for release in (4030, 12000)
    ]
    store = hlo_kernels.store(*kernels)
    whole = tile_table.TileTable(store, ['loop'])
    names = loop_costs.LoopCosts.names
    assert names[:2] == ('exact_cost_time', 'exact_cost_change')
    assert whole.names[-len(names) :] == names
    table = whole.rows(np.arange(4)).astype(float)[:, -len(names) :]
    assert table[:, 2:].sum(axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert table[[0, 2], 1].tolist() == [0, 0]
    assert table[1, 1] == pytest.approx(table[1, 0] - table[0, 0], abs=1e-5)
    call = names.index('exact_cost_call')
    for row, since in ((0, False), (2, True)):  # the release decides what a call costs
        taken = np.exp(table[row, 0]) * table[row, call]
        rates = loop_costs.NANOSECONDS['call']
        assert taken == pytest.approx(rates[since], rel=1e-4)
