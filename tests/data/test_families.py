"""Programs, families, and what an epoch draws of each."""

import numpy as np
import pytest

from baselines.data import families


@pytest.mark.parametrize(
    'function, name, expected',
    [
        (families.find_program, 'net_v3_batch_128_0a1b', 'net_v3_batch_128'),
        # A test kernel has no program.
        (families.find_program, '0a1c5dcfa9f1', '0a1c5dcfa9f1'),
        (families.find_program, '_77', '_77'),
        (families.remove_batch_size, 'net_v1_50_batch_128_bf16', 'net_v1_50_bf16'),
        (families.remove_batch_size, 'mixer_batch64_width512', 'mixer_width512'),
        (families.remove_batch_size, 'sim_unet_batch_4', 'sim_unet'),
        # Nothing says that these numbers are batch sizes.
        (families.remove_batch_size, 'minibatch_3', 'minibatch_3'),
        (families.remove_batch_size, 'net_batch_3x3', 'net_batch_3x3'),
        # The published validation programs.
        (families.find_family, 'inception_v3_batch_128_train', 'inception'),
        (families.find_family, 'resnet50.4x4.fp16', 'resnet'),
        (families.find_family, 'mlperf_bert_batch_24_2x2', 'mlperf_bert'),
        # Others: sizes are words, too, and a word may hold a hyphen.
        (families.find_family, 'albert_en_base_batch_size_16_test', 'albert_en'),
        (
            families.find_family,
            'small_bert_en_uncased_L-10_H-128_A-2',
            'bert_en_uncased',
        ),
        # Digits first, and nothing but digits or sizes.
        (families.find_family, '3d_unet', 'unet'),
        (families.find_family, '0a1c5dcf', '0a1c5dcf'),
        (families.find_family, 'base_50', 'base_50'),
    ],
)
def test_names_of_programs_and_families(function, name, expected):
    assert function(name) == expected


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
