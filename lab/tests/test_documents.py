"""Links of the laboratory's pages, and the flags of their commands."""

import pytest

from tests import test_documents as rules


@pytest.mark.parametrize('page', rules.documents.pages('lab'))
def test_a_page(page, tmp_path):
    rules.test_flags_of_commands_exist(page, tmp_path)
    rules.test_commands_stand_in_blocks_of_a_shell(page)
    rules.test_commands_in_sentences_exist(page)
    rules.test_links_lead_somewhere(page)


def test_every_benchmark_has_its_line():
    rules.test_every_benchmark_has_its_line('lab/benchmarks')
