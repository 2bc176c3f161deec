"""The command ``etads completion`` (help): print a completion script for bash or zsh."""

import shlex
from dataclasses import dataclass
from typing import Dict, List

from ..platform.command_options import argument, options_command
from .etads import find_commands, load_main

SCRIPT = """\
# Completion of etads and etads-* for bash, and for zsh through bashcompinit. Made by: etads completion
if [ -n "${{ZSH_VERSION:-}}" ]; then
    autoload -U +X compinit && compinit -u
    autoload -U +X bashcompinit && bashcompinit
fi
_etads() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} name=${{COMP_WORDS[0]##*/}} words=""
    if [ "$name" = etads ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W {names} -- "$word")); return; fi
        name=etads-${{COMP_WORDS[1]#etads-}}
    fi
    case "$name $before" in
{choices}
    esac
    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
    case "$name" in
{options}
    esac
    case "$word" in
        ?*) COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -o bashdefault -F _etads etads {installed}
"""


@dataclass
class CompletionOptions:
    """Options of ``etads completion``."""

    shell: str = argument("SHELL", "bash or zsh; the same script works in both shells", choices=("bash", "zsh"))


def make_completion_script() -> str:
    """Generate the completion script from the argument parsers of all commands."""
    choices: List[str] = []
    options: List[str] = []
    for name in find_commands():
        parser = load_main(name).make_parser()
        words: Dict[str, None] = {}
        for part in parser.list_parsers():
            for action in part._actions:
                words.update(dict.fromkeys(option for option in action.option_strings if option.startswith("--")))
                if action.choices and action.option_strings:
                    pattern = "|".join(f"{shlex.quote(f'etads-{name} {option}')}" for option in action.option_strings)
                    choices.append(f"        {pattern}) words={shlex.quote(' '.join(map(str, action.choices)))} ;;")
                elif action.choices:
                    words.update(dict.fromkeys(map(str, action.choices)))
        options.append(f"        etads-{name}) words={shlex.quote(' '.join(words))} ;;")
    installed = [f"etads-{name}" for name, command in find_commands().items() if command.is_installed]
    return SCRIPT.format(
        names=shlex.quote(" ".join(find_commands())),
        choices="\n".join(choices),
        options="\n".join(options),
        installed=" ".join(installed),
    )


@options_command(
    "etads completion",
    CompletionOptions,
    description="Print a shell script that completes etads commands, options and their values.",
    epilog="""\
examples:
  etads completion bash > ~/.local/share/bash-completion/completions/etads      for new shells (bash-completion)
  source <(etads completion bash)                                               for this shell; likewise for zsh""",
)
def main(args: CompletionOptions) -> None:
    """Run the command ``etads completion``."""
    print(make_completion_script(), end="")
