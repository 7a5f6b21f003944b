"""Completion of the command in a shell, which is made from its parser."""

from __future__ import annotations

import argparse
from typing import Any

from continual_learning.schema.errors import unknown
from continual_learning.studies import registry

SHELLS = ("bash", "zsh")

# Zsh runs the function of bash by its compatibility layer.
_ZSH = "autoload -Uz compinit bashcompinit && compinit -u && bashcompinit\n"
_SCRIPT = """{zsh}_continual() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case "${{COMP_WORDS[1]}} $word" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _continual continual
"""


def add(command: Any) -> None:
    """Add the command.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
    """
    parser = command(
        "completion",
        _completion,
        "print the script with which a shell completes this command",
        ' Bash: put `eval "$(continual completion bash)"` into ~/.bashrc; zsh likewise, with zsh '
        "and ~/.zshrc.",
    )
    parser.add_argument("shell", metavar="SHELL", help=f"{' or '.join(SHELLS)}")


def script(shell: str, commands: dict[str, argparse.ArgumentParser]) -> str:
    """Return the script that a shell evaluates.

    Args:
      shell: one of `SHELLS`.
      commands: {name: its parser}.
    """
    if shell not in SHELLS:
        raise unknown("shell", shell, SHELLS)
    cases = []
    for name, parser in commands.items():
        flags = [flag for action in parser._actions for flag in action.option_strings]
        cases.append(f'      "{name} -"*) words="{" ".join(flags)}" ;;')
        named = [action.dest for action in parser._actions if not action.option_strings]
        if "experiment" in named:
            cases.append(f'      "{name} "*) words="{" ".join(registry.names())}" ;;')
    return _SCRIPT.format(
        zsh=_ZSH if shell == "zsh" else "", commands=" ".join(commands), cases="\n".join(cases)
    )


def _completion(args: argparse.Namespace) -> int:
    print(script(args.shell, args.commands), end="")
    return 0
