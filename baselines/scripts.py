"""Reads the flags of the four scripts and of `tpugraphs train`.

A setting of `config` becomes an absl flag; --help shows the flags by theme; a TOML
file (--config) stands in for flags that are not given.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import json
import re
import shlex
import sys
from typing import TypeVar

from absl import app
from absl import flags

from baselines import config
from baselines import recipes
from baselines.core import exits
from baselines.core import files
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import hardware
from baselines.runs import finding

_AnyConfig = TypeVar('_AnyConfig')

# The flags in --help, the published ones first; all others are of training.
THEMES: Mapping[str, Sequence[str]] = {
    'data': (
        *('data_root', 'cache_dir', 'source', 'search', 'toy_data', 'sample_data'),
        *('skip_bad_files', 'fold', 'inputcsv', 'sample'),
    ),
    'model': (
        *('dir', 'dirs', 'model', 'model_kwargs_json', 'models_file'),
        *('columns', 'estimate', 'trees'),
        'init_from',
    ),
    'training': (
        *('epochs', 'early_stop', 'lr', 'clip_norm', 'batch', 'configs', 'max_configs'),
        *('keep_nodes', 'validate_batches', 'eval_every', 'losses', 'recipe'),
    ),
    'output': ('out_dir', 'results_csv', 'output', 'run_id', 'test_mode', 'resume'),
}
_REST = 'training'

_CONFIG_HELP = (
    'read settings from this TOML file, whose keys are names of flags, as in '
    'lr = 0.01; flags that are given win'
)
_FILES = """\
flags from files:
  --config=run.toml    {}
  --flagfile=FILE      read flags from this text file, one a line"""
_PREDICT = 'tiles_gen_predictions_csv.py'
_WIDE = 20  # columns of a flag
_ILLEGAL = re.compile(r'flag --(\w+)=(.*): (?:invalid|could not|\()', re.DOTALL)
HELP_ALL = '--help-all'
_HELP_WORDS = ('--help', '-help', '-h', '-?', '--helpshort', HELP_ALL)
# The flags in --help of a training; --help-all shows the rest.
BASIC = (
    *('data_root', 'source', 'search', 'sample_data', 'model', 'models_file'),
    *('epochs', 'losses', 'recipe', 'seed', 'out_dir', 'resume'),
)


def define_flags(
    config_class: type, only: Sequence[str] = (), values: flags.FlagValues = flags.FLAGS
) -> None:
    """Defines one absl flag for each setting; for the running script only.

    Args:
        config_class: the dataclass of the settings.
        only: the names of those wanted; all by default, and --config.
        values: absl's `FlagValues` to define them in; by default the process's.
    """
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for field in dataclasses.fields(config_class):
        if only and field.name not in only:
            continue
        about = settings_lib.get_help(config_class, field.name)
        define[type(field.default)](  # bool, int, float or str
            field.name, field.default, about, flag_values=values
        )
        # `--help` lists the flags that the script itself defines: these, too.
        values.register_key_flag_for_module(sys.argv[0], values[field.name])
    if not only:
        define[str]('config', '', _CONFIG_HELP, flag_values=values)


def run_script(main: Callable[[Sequence[str]], int], doc: str | None) -> None:
    """Runs a script whose flags are defined; --help shows `doc` and the flags."""
    argv = sys.argv[1:]
    if any(word in _HELP_WORDS for word in argv):
        key_flags = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
        shown = write_help(doc or '', key_flags, '', () if HELP_ALL in argv else BASIC)
        sys.exit(exits.run_guarded(lambda: print(shown)))

    def parse(words: Sequence[str]) -> list[str]:
        try:
            return _parse_words(flags.FLAGS, words)
        except ValueError as error:
            sys.exit(f'error: {error}')

    app.run(main, flags_parser=parse)


def run_training_script(config_class: type, doc: str | None) -> None:
    """Runs a script that trains: its flags are the settings."""
    define_flags(config_class)
    run_script(functools.partial(train, config_class), doc)


def train(
    config_class: type, argv: Sequence[str], values: flags.FlagValues = flags.FLAGS
) -> int:
    """Trains as parsed flags say; returns the exit code.

    Args:
        config_class: the dataclass of the flags.
        argv: the name of the script, and words that are no flags.
        values: the flags, by default those of the process.
    """
    exits.refuse_arguments(argv)

    def work():
        settings = read_flags(config_class, values)
        refuse_wrong_names(settings)
        from baselines.training import cross_validation
        from baselines.training import run_training

        command, model_dir = exits.format_command(), ''
        with exits.log_progress(short=True):
            if settings.folds or settings.seeds > 1:
                cross_validation.train_all(settings, command)
            else:
                model_dir = run_training.train(settings, command=command)
        if model_dir:  # of one training, and there of the chief alone
            print(suggest_next_steps(settings, model_dir))

    return exits.run_guarded(work)


def refuse_wrong_names(settings: config.AnyConfig) -> None:
    """Raises ValueError for names that can be checked without TensorFlow.

    They are those of a model, losses, and a run.
    """
    task = settings.collection.task
    if not settings.models_file and registry.is_shipped(task):
        names = dict.fromkeys([*registry.MODELS[task], registry.TREES])
        registry.resolve(settings.model, names, 'model')
    if settings.models_file:
        registry.check_code_file(settings.models_file)
    of_ranking = registry.find_ranking_losses()
    for entry in settings.losses.split(','):
        name = entry.strip().partition(':')[0]
        if name.endswith('.py'):
            registry.check_code_file(name, 'losses')
        elif name not in of_ranking and name[:4] != 'tfr.':
            registry.resolve(name, registry.LOSSES, 'loss')
    if settings.init_from:
        with finding.as_flag('--init_from'):
            finding.find_one(settings.init_from, task)


def suggest_next_steps(settings: config.AnyConfig, model_dir: str) -> str:
    """Returns commands to try after a training, as text.

    Args:
        model_dir: the directory that it has written.
    """
    task = settings.collection.task
    latest = ['--dir', 'latest']
    if settings.out_dir != type(settings).out_dir:
        latest += ['--out_dir', settings.out_dir]
    if settings.models_file:
        latest += ['--models_file', settings.models_file]
    first, *others = settings.collection.parts
    flag = ['--collection', first.name] if others else []
    commands = [['rank', 'FILE.pb', *latest, *flag]]
    root = files.expand(settings.data_root)
    lines = []
    if settings.sample_data or len(hardware.list_splits(root, first)) > 1:
        commands.insert(0, ['evaluate', *latest])
        if task == 'tile':
            own = ['--models_file', settings.models_file] * bool(settings.models_file)
            words = [_PREDICT, '--dir', files.format_path(model_dir), *own]
            lines.append('python ' + ' '.join(map(_quote_word, words)))
        elif not settings.sample_data and not others:
            commands.insert(0, ['predict', *latest])  # its CSV is for Kaggle's
    better = recipes.find_better_training(settings)
    if better is not None:
        data = config.format_flags(settings, recipes.DATA)
        flags = [f'--{name}={value}' for name, value in better.flags.items() if value]
        commands.append(['train', task, *data, *flags])
    lines += [shlex.join(['tpugraphs', *command]) for command in commands]
    if better is not None:
        measure = 'OPA' if task == 'tile' else 'tau'
        cost = f'about {better.minutes:g} min of processor time'
        lines.append(f'({measure} {better.score:.2f} on the test split, {cost})')
    return 'next:    ' + '\n         '.join(lines)


def _quote_word(word: str) -> str:
    """Quotes a word for a shell, in which ~ is the home folder."""
    return (
        word if shlex.quote(word[1:]) == word[1:] else shlex.quote(files.expand(word))
    )


def add_flags(parser: argparse.ArgumentParser, about: str) -> None:
    """Declares the rest of a command line as `flags`, for `parse_flags`."""
    rest = {'nargs': argparse.REMAINDER, 'metavar': '--flag=value'}
    # Not required, or an error about another word asks for flags, too.
    parser.add_argument('flags', help=f'settings; {about}', **rest).required = False


def parse_flags(
    kinds: Sequence[type],
    name: str,
    doc: str,
    argv: Sequence[str],
    basic: Sequence[str],
) -> flags.FlagValues | None:
    """Parses the flags of a command; prints help instead, and returns None.

    Args:
        kinds: dataclasses whose fields are flags; those of a training come first.
        basic: the flags that --help shows.

    Raises:
        ValueError: a flag is unknown, or its value is of another type.
    """
    values = flags.FlagValues()
    define_flags(kinds[0], values=values)
    for kind in kinds[1:]:
        define_flags(kind, [field.name for field in dataclasses.fields(kind)], values)
    if any(word in _HELP_WORDS for word in argv):
        defined = [values[flag] for flag in values]
        print(write_help(doc, defined, name, () if HELP_ALL in argv else basic))
        return None
    exits.refuse_arguments(_parse_words(values, [name, *argv]))
    return values


def _parse_words(values: flags.FlagValues, words: Sequence[str]) -> list[str]:
    """Parses a command line into `values`; returns its name, and words without flags.

    Raises:
        ValueError: a flag is unknown, or its value is of another type.
    """
    try:
        return values([words[0], *rewrite_negations(words[1:], values)])
    except flags.UnrecognizedFlagError as error:
        flag = error.flagname
        nearest = registry.suggest_nearest(flag, values)
        raise ValueError(f'there is no flag --{flag}{nearest}') from None
    except flags.IllegalFlagValueError as error:
        # 'flag --NAME=VALUE: what the type of the flag says of the value'
        flag, value = _ILLEGAL.match(str(error)).groups()
        wanted = settings_lib.TYPES[type(values[flag].default)]
        about = ' '.join((values[flag].help or '').split())
        raise ValueError(
            f'--{flag} must be {wanted}, not {text.quoted(value)}: {about}'
        ) from None
    except flags.Error as error:
        raise ValueError(str(error)) from None


def rewrite_negations(argv: Sequence[str], values: text.JsonObject) -> list[str]:
    """Writes --no-x as --nox, which absl knows, where x is a flag."""
    start = '--no-'
    return [
        f'--no{word[len(start) :]}'
        if word.startswith(start) and word[len(start) :] in values
        else word
        for word in argv
    ]


def read_flags(config_class: type[_AnyConfig], values: flags.FlagValues) -> _AnyConfig:
    """Reads the settings from parsed flags and --config, checked.

    Raises:
        ValueError: a value is out of range; names the flag.
    """
    # Flags override the file, and both override the recipe.
    path = values['config'].value if 'config' in values else ''
    chosen = read_toml(config_class, path) if path else {}
    for field in dataclasses.fields(config_class):  # type: ignore
        flag = values[field.name]
        if flag.present:
            chosen[field.name] = flag.value
    if '.py' in chosen.get('model', ''):  # models.py:MyModel
        [task] = [t for t, kind in config.CONFIGS.items() if kind is config_class]
        named = registry.split_model_name(chosen['model'], task)
        if chosen.get('models_file', named['models_file']) != named['models_file']:
            raise ValueError(
                f'--model={chosen["model"]} names a file, and --models_file another'
            )
        chosen.update(named)
    return config.apply_recipe(config_class(**chosen), chosen)


def read_toml(config_class: type, path: str) -> text.JsonObject:
    """Reads settings by name from a TOML file; model_kwargs_json may be a table.

    Raises:
        ValueError: it is no TOML, a key is no setting of `config_class`, or a value
            is of another type.
        OSError: it cannot be read.
    """
    content = settings_lib.read_toml(path, 'config')
    with text.locate_errors(f'--config: {path}'):
        return settings_lib.convert_types(config_class, content, 'flag')


# Of one training alone; and the settings of a recipe stand for themselves.
_NOT_REPEATED = ('resume', 'results_csv', 'recipe')


def list_changed_settings(args: text.JsonObject) -> text.JsonObject:
    """Returns the settings that repeat a training, where they differ from the defaults.

    Args:
        args: the settings in its run file.
    """
    kind = config.LayoutConfig if 'source' in args else config.TileConfig
    defaults = config.to_json(kind())
    defaults['data_root'] = files.expand(defaults['data_root'])  # as in run files
    return {
        name: args[name]
        for name, value in defaults.items()
        if name in args and name not in _NOT_REPEATED and args[name] != value
    }


def to_toml(settings: text.JsonObject) -> str:
    """Writes settings, text, numbers and truth values, for --config.

    TOML reads these values as JSON writes them.
    """
    lines = [
        f'{name} = {json.dumps(value, ensure_ascii=False)}\n'
        for name, value in settings.items()
    ]
    return ''.join(lines)


def write_help(
    doc: str, defined: Sequence[flags.Flag], name: str, basic: Sequence[str]
) -> str:
    """Writes the text of --help.

    Args:
        doc: the docstring of the script.
        defined: the absl flags that it defines.
        name: name of the command; '' for the script's.
        basic: the flags of a training that are shown; empty for all.
    """
    name = name or f'python {sys.argv[0]}'
    lines = [f'usage: {name} [--flag=value ...]\n', doc.strip(), '']
    by_name = {flag.name: flag for flag in defined}
    trains = 'epochs' in by_name
    number = len(by_name)
    if trains and basic:
        by_name = {flag: by_name[flag] for flag in basic if flag in by_name}
    order = {n: theme for theme, names in THEMES.items() for n in names}
    order.update({n: _REST for n in by_name if n not in order})
    by_name.pop('config', None)  # described below
    for theme in THEMES:
        inside = [n for n in order if n in by_name and order[n] == theme]
        if inside:
            lines += [f'{theme}:', *(_describe_flag(by_name[n]) for n in inside), '']
    if trains and not basic:
        lines.append(_FILES.format(_indent_help(_CONFIG_HELP).lstrip()))
    elif trains:
        lines.append(f'{HELP_ALL} shows all {number} flags.')
    return '\n'.join(lines).rstrip()


def _describe_flag(flag: flags.Flag) -> str:
    """Returns the lines of --help on a flag: its default and its help text."""
    shown = f'--[no]{flag.name}'
    about = ' '.join(flag.help.split())
    if not flag.boolean:
        default = flag.default_as_str or ''
        shown = f'--{flag.name}=' + default.strip('"[\']')
        about = about.replace('; repeat this option to specify a list of values', '')
    if len(shown) > _WIDE:
        return f'  {shown}\n' + _indent_help(about)
    return f'  {shown:<{_WIDE}} ' + _indent_help(about).lstrip()


def _indent_help(about: str) -> str:
    margin = _WIDE + 3
    return text.wrap_line(' ' * margin + about, margin)
