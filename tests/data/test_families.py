"""Programs, families, and what an epoch draws of each."""

import numpy as np
import pytest

from baselines.data import families


@pytest.mark.parametrize(
    'graph_id, program',
    [
        ('inception_v3_batch_128_train_0a1b', 'inception_v3_batch_128_train'),
        ('unet_3d.4x4.bf16_77', 'unet_3d.4x4.bf16'),
        ('0a1c5dcfa9f1', '0a1c5dcfa9f1'),  # a test kernel has no program
        ('_77', '_77'),
    ],
)
def test_program_of_a_kernel(graph_id, program):
    assert families.program_of_kernel(graph_id) == program


@pytest.mark.parametrize(
    'program, without',
    [
        ('resnet_v1_50_official_batch_128_bf16', 'resnet_v1_50_official_bf16'),
        ('albert_en_base_batch_size_16_test', 'albert_en_base_test'),
        ('mlperf_bert_batch_24_2x2', 'mlperf_bert_2x2'),
        ('sim_mixer_depth2_batch64_width512', 'sim_mixer_depth2_width512'),
        ('sim_unet_batch_4', 'sim_unet'),
        # Nothing says that these numbers are batch sizes.
        (
            'tf2_bert_pretrain_dynamic_batch_size',
            'tf2_bert_pretrain_dynamic_batch_size',
        ),
        ('resnet50.4x4.fp16', 'resnet50.4x4.fp16'),
        ('minibatch_3', 'minibatch_3'),
        ('net_batch_3x3', 'net_batch_3x3'),
    ],
)
def test_without_batch(program, without):
    assert families.without_batch(program) == without


@pytest.mark.parametrize(
    'program, family',
    [
        # The published validation programs.
        ('inception_v3_batch_128_train', 'inception'),
        ('resnet_v1_50_official_batch_128_bf16', 'resnet'),
        ('resnet50.4x4.fp16', 'resnet'),
        ('mlperf_bert_batch_24_2x2', 'mlperf_bert'),
        ('tf2_bert_pretrain_dynamic_batch_size', 'tf_bert_pretrain_dynamic'),
        ('bert_pretraining.4x4.fp16', 'bert_pretraining'),
        ('unet_3d.4x4.bf16', 'unet'),
        # Others: sizes are words, too, and a word may hold a hyphen.
        ('albert_en_base_batch_size_16_test', 'albert_en'),
        ('albert_en_xlarge_batch_size_16_test', 'albert_en'),
        ('small_bert_en_uncased_L-10_H-128_A-2_batch_size_16', 'bert_en_uncased'),
        ('sim_convnet_wide_batch_32', 'sim_convnet'),
        ('brax_es', 'brax_es'),
        # Digits first, and nothing but digits or sizes.
        ('3d_unet', 'unet'),
        ('0a1c5dcf', '0a1c5dcf'),
        ('base_50', 'base_50'),
    ],
)
def test_family(program, family):
    assert families.family(program) == family


def _order(names, temperature, seed=0):
    return families.epoch_order(np.random.default_rng(seed), names, temperature)


# Nine of a, one of b: 10 draws.
_NAMES = ['a', 'a', 'b', *'aaaaaaa']


def test_at_temperature_1_it_is_the_permutation_of_before():
    for seed in range(3):
        expected = np.random.default_rng(seed).permutation(len(_NAMES))
        np.testing.assert_array_equal(_order(_NAMES, 1.0, seed), expected)
        # The tile training permuted the kernels' numbers themselves.
        kernels = np.array([3, 5, 8, 13, 21, 34, 55, 89, 144, 233])
        np.testing.assert_array_equal(
            kernels[_order(_NAMES, 1.0, seed)],
            np.random.default_rng(seed).permutation(kernels),
        )


def test_at_temperature_0_families_come_equally_often():
    for seed in range(5):
        order = _order(_NAMES, 0.0, seed)
        assert len(order) == 10
        counts = np.bincount(order, minlength=10)
        assert counts[2] == 5 and counts.sum() == 10
        assert set(np.delete(counts, 2)) == {0, 1}  # five of nine, each once
    assert _order(_NAMES, 0.0, 1).tolist() != _order(_NAMES, 0.0, 2).tolist()
    assert _order(_NAMES, 0.0, 1).tolist() == _order(_NAMES, 0.0, 1).tolist()


def test_shares_between_are_right_on_average():
    # 9 ** 0.5 : 1 ** 0.5 = 3 : 1 of 10 draws: 7.5 and 2.5.
    drawn = [int((_order(_NAMES, 0.5, seed) == 2).sum()) for seed in range(400)]
    assert set(drawn) == {2, 3}
    assert np.mean(drawn) == pytest.approx(2.5, abs=0.1)


def test_a_small_family_comes_in_whole_rounds():
    names = ['big'] * 12 + ['small'] * 2 + ['mid'] * 4
    # 18 draws, 6 of each family.
    counts = np.bincount(_order(names, 0.0), minlength=18)
    assert counts[12:14].tolist() == [3, 3]
    assert counts[14:].sum() == 6 and set(counts[14:]) == {1, 2}
    assert counts[:12].sum() == 6 and set(counts[:12]) == {0, 1}


def test_one_family_is_drawn_as_if_there_were_none():
    for temperature in (0.0, 0.3):
        order = _order(['a'] * 7, temperature)
        assert sorted(order) == list(range(7))
