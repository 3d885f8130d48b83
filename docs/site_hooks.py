"""Adds the documents outside of docs/ to the site that mkdocs builds."""

import pathlib
import posixpath
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests of the documents do without mkdocs
    from mkdocs.structure import files as files_lib

_ROOT = pathlib.Path(__file__).resolve().parent.parent
# Documents of the repository -> pages of the site.
_PAGES = {
    'README.md': 'index.md',
    'CONTRIBUTING.md': 'CONTRIBUTING.md',
    'CHANGELOG.md': 'CHANGELOG.md',
    'benchmarks/README.md': 'benchmarks.md',
}
_LINK = re.compile(r'\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)')


def on_files(files: 'files_lib.Files', config: Any) -> 'files_lib.Files':
    """Adds pages."""
    from mkdocs.structure import files as files_lib

    for source, page in _PAGES.items():
        content = (_ROOT / source).read_text(encoding='utf-8')
        files.append(files_lib.File.generated(config, page, content=content))
    return files


def on_page_markdown(
    markdown: str, page: Any, files: 'files_lib.Files', **_: Any
) -> str:
    """Points links and pictures to the files of the site.

    Of links to other files the text stays.
    """
    place = page.file.src_uri
    sources = {to: source for source, to in _PAGES.items()}
    folder = posixpath.dirname(sources.get(place, f'docs/{place}'))

    def replaced(link: 're.Match[str]') -> str:
        words, path, anchor = link[1], link[2], link[3] or ''
        target = posixpath.normpath(posixpath.join(folder, path))
        target = _PAGES.get(target) or target.removeprefix('docs/')
        if files.get_file_from_path(target) is None:
            return words
        relative = posixpath.relpath(target, posixpath.dirname(place) or '.')
        return f'[{words}]({relative}{anchor})'

    return _LINK.sub(replaced, markdown)
