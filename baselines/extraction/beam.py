"""Many raw files at once, with Apache Beam."""

import dataclasses
import functools
import os
from typing import Any, Dict, List, Optional
import uuid

from baselines import bulk
from baselines.extraction import extractor
from baselines.extraction import outcomes


def extract_files(
    paths: List[str],
    options: extractor.Options,
    runner: Optional[str] = None,
    beam_options: str = '',
) -> List[outcomes.Outcome]:
    """Extracts raw files with a Beam pipeline.

    The workers read `paths` and write `options.output`, so both must be on a
    file system that they see.

    Args:
        paths: raw files, absolute.
        options: how to extract.
        runner: name of an installed Beam runner; None is Beam's local one, on
            all cores.
        beam_options: command-line options for it, in one string.

    Returns:
        An outcome for each file, in their order.

    Raises:
        ValueError: no such runner, or the pipeline broke.
    """
    folder = os.path.join(options.output, f'.outcomes_{uuid.uuid4().hex}')
    work = functools.partial(_extract, options=dataclasses.asdict(options))
    found = bulk.each(work, paths, folder, runner or '', beam_options, 'extract')
    return [outcomes.Outcome(**outcome) for outcome in found]


def _extract(path: str, options: Dict[str, Any]) -> Dict[str, Any]:
    """Extracts one file, on a worker."""
    return dataclasses.asdict(
        extractor.extract_file(path, extractor.Options(**options))
    )
