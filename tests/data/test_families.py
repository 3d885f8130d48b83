"""Programs, families, and what an epoch draws of each."""

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
        ('sim_mixer_depth2_batch64_width512', 'sim_mixer_depth2_width512'),
        ('sim_unet_batch_4', 'sim_unet'),
        # Nothing says that these numbers are batch sizes.
        (
            'tf2_bert_pretrain_dynamic_batch_size',
            'tf2_bert_pretrain_dynamic_batch_size',
        ),
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
        ('resnet50.4x4.fp16', 'resnet'),
        ('mlperf_bert_batch_24_2x2', 'mlperf_bert'),
        ('tf2_bert_pretrain_dynamic_batch_size', 'tf_bert_pretrain_dynamic'),
        # Others: sizes are words, too, and a word may hold a hyphen.
        ('albert_en_base_batch_size_16_test', 'albert_en'),
        ('small_bert_en_uncased_L-10_H-128_A-2_batch_size_16', 'bert_en_uncased'),
        ('sim_convnet_wide_batch_32', 'sim_convnet'),
        # Digits first, and nothing but digits or sizes.
        ('3d_unet', 'unet'),
        ('0a1c5dcf', '0a1c5dcf'),
        ('base_50', 'base_50'),
    ],
)
def test_family(program, family):
    assert families.family(program) == family
