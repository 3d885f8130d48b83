"""Programs, families, and what an epoch draws of each."""

import numpy as np
import pytest

from baselines.data import families


@pytest.mark.parametrize(
    'graph_id, program',
    [
        ('inception_v3_batch_128_train_0a1b', 'inception_v3_batch_128_train'),
        ('0a1c5dcfa9f1', '0a1c5dcfa9f1'),  # a test kernel has no program
        ('_77', '_77'),
    ],
)
def test_program_of_a_kernel(graph_id, program):
    assert families.find_program(graph_id) == program


@pytest.mark.parametrize(
    'program, without',
    [
        ('resnet_v1_50_official_batch_128_bf16', 'resnet_v1_50_official_bf16'),
        ('sim_mixer_depth2_batch64_width512', 'sim_mixer_depth2_width512'),
        ('sim_unet_batch_4', 'sim_unet'),
        # Nothing says that these numbers are batch sizes.
        ('minibatch_3', 'minibatch_3'),
        ('net_batch_3x3', 'net_batch_3x3'),
    ],
)
def test_without_batch(program, without):
    assert families.remove_batch_size(program) == without


@pytest.mark.parametrize(
    'program, family',
    [
        # The published validation programs.
        ('inception_v3_batch_128_train', 'inception'),
        ('resnet50.4x4.fp16', 'resnet'),
        ('mlperf_bert_batch_24_2x2', 'mlperf_bert'),
        # Others: sizes are words, too, and a word may hold a hyphen.
        ('albert_en_base_batch_size_16_test', 'albert_en'),
        ('small_bert_en_uncased_L-10_H-128_A-2_batch_size_16', 'bert_en_uncased'),
        # Digits first, and nothing but digits or sizes.
        ('3d_unet', 'unet'),
        ('0a1c5dcf', '0a1c5dcf'),
        ('base_50', 'base_50'),
    ],
)
def test_family(program, family):
    assert families.find_family(program) == family


# Nine graphs of a, one of b.
_NAMES = ['a', 'a', 'b', *'aaaaaaa']


@pytest.mark.parametrize(
    'temperature, of_a, of_b',
    # 10 draws: 9 and 1, 7.5 and 2.5 (as 9 ** 0.5 : 1), or 5 and 5.
    [(1.0, 1, 1), (0.5, 7.5 / 9, 2.5), (0.0, 5 / 9, 5)],
)
def test_weights(temperature, of_a, of_b):
    found = families.compute_weights(_NAMES, temperature)
    np.testing.assert_allclose(found, [of_a, of_a, of_b, *[of_a] * 7])


def _drawn(temperature, seed):
    expected = families.compute_weights(_NAMES, temperature)
    return families.draw_graphs(np.random.default_rng(seed), expected)


def test_families_are_drawn_as_often_as_they_should_be():
    for seed in range(5):
        counts = np.bincount(_drawn(0.0, seed), minlength=10)
        assert counts[2] == 5 and counts.sum() == 10
        permuted = np.random.default_rng(seed).permutation(10)
        np.testing.assert_array_equal(_drawn(1.0, seed), permuted)
        assert set(np.delete(counts, 2)) == {0, 1}  # five of nine, each once
    rare = [int((_drawn(0.5, seed) == 2).sum()) for seed in range(400)]
    assert set(rare) == {2, 3}
    assert np.mean(rare) == pytest.approx(2.5, abs=0.1)
