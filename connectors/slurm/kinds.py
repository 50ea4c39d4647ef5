"""What kind of work a Slurm job is: Slurm doesn't say, so stated rules on names decide, and the basis is kept.

The first rule that matches wins, in the order partition, QOS, name: whoever set up a partition for inference meant it.
"""

import re
from functools import lru_cache

_WORDS = (
    ("interactive", r"interactive|jupyter|notebook|vscode|code-server|desktop|rstudio|devel|debug"),
    ("inference", r"inference|infer|serving|serve|vllm|triton|endpoint"),
    ("training", r"pre-?train|train(?:ing)?|fine-?tun(?:e|ing)|sft|dpo|rlhf|grpo|lora"),
    ("pipeline", r"pipeline|snakemake|nextflow|nf|cromwell|airflow"),
)
# a word counts where it stands alone: between the ends, digits and punctuation
_RULES = tuple((kind, re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)) for kind, words in _WORDS)
_ANY = re.compile("|".join(words for _kind, words in _WORDS), re.IGNORECASE)
_SHELLS = frozenset({"bash", "sh", "zsh", "interactive", "csh", "tcsh", "fish"})


def kind_of(partition: str, qos: str, name: str, *, batch: bool, no_gpus: bool) -> tuple[str, str]:
    """Return the kind and by which rule."""
    found = kind_of_place(partition, qos) or _by_words("name", name[:200])
    if found is not None:
        return found
    if name in _SHELLS and not batch:
        return "interactive", f"name is {name}"
    if batch and no_gpus:
        return "batch", "batch script without GPUs"
    return "other", "no rule matched"


@lru_cache(maxsize=4096)
def kind_of_place(partition: str, qos: str) -> tuple[str, str] | None:
    """Return the kind and the rule where the partition or the QOS says it; None where neither does."""
    return _by_words("partition", partition) or _by_words("QOS", qos)


def _by_words(place: str, text: str) -> tuple[str, str] | None:
    if _ANY.search(text) is None:
        return None
    for kind, rule in _RULES:
        if match := rule.search(text):
            return kind, f"{place} says {match[0].lower()}"
    return None
