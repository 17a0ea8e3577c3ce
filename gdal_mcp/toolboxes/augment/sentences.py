"""Describes measurements in words, for answers on the host and for a file in the container. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

NUMBERS = {
    "angle": "turned by {:+.1f} degrees",
    "brightness": "brightness {:+.1%} of the range",
    "contrast": "contrast {:+.1%}",
    "sharpness": "edges {:+.2f} (natural logarithm of their variance)",
    "noise": "noise {:+.2%} of the range",
    "histogram": "histogram moved by {:.2%}",
    "changed": "values changed by {:.2%} on average",
    "ssim": "structural similarity {:.3f}",
}
SMALL = {"brightness": 0.005, "contrast": 0.01, "sharpness": 0.05, "noise": 0.001, "histogram": 0.002}
AGREES = {
    True: "as it should",
    False: "not what it is for, or too little to see",
    None: "cannot be measured",
}


def describe_step(name: str, row: Mapping[str, Any]) -> str:
    """Describes one step: the measurement, and whether it matches the purpose of the step."""
    parts = [f"found again as {row['found']}"] if row.get("found") else []
    parts += [
        text.format(row[key])
        for key, text in NUMBERS.items()
        if row.get(key) is not None and abs(row[key]) >= SMALL.get(key, 0)
    ]
    return f"{name}: {'; '.join(parts) or 'no change that can be measured'} ({AGREES[row['agrees']]})"


def score_steps(rows: Sequence[Mapping[str, Any]]) -> float:
    """A score from 1 to 5: 5 if each step had its intended effect, 1 if none had; unmeasurable steps count half."""
    shares = [{True: 1.0, False: 0.0, None: 0.5}[row["agrees"]] for row in rows]
    return round(1 + 4 * sum(shares) / len(shares), 2) if shares else 1.0


def summarize_steps(rows: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on all steps."""
    if not rows:
        return "No step was applied, so nothing changed."
    counts = {word: sum(row["agrees"] is key for row in rows) for key, word in AGREES.items()}
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"Of {len(rows)} steps: {parts}. Measured on the pixels before and after each; no model looked at them."
