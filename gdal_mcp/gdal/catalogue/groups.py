"""Which arguments of an algorithm go together, by GDAL's own rules. Pure."""

from collections.abc import Set as AbstractSet

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Algorithm, Argument


def check_groups(algorithm: Algorithm, names: AbstractSet[str]) -> None:
    """Raises ArgumentRefused for arguments that exclude each other, and for one that needs another."""
    for argument in (one for one in algorithm.arguments if one.name in names):
        rivals = companions(algorithm, argument, "exclusion_group") & names
        if rivals:
            raise ArgumentRefused(
                f"--{min(rivals)} is mutually exclusive with '{argument.name}'.", "Give one of them."
            )
        needed = companions(algorithm, argument, "dependency_group") | set(argument.depends_on)
        if needed - names:
            raise ArgumentRefused(f"--{argument.name} also needs --{min(needed - names)}.", "Give both.")


def check_missing(algorithm: Algorithm, names: AbstractSet[str]) -> None:
    """Raises ArgumentRefused for a required argument that is not among the names."""
    missing = [one.name for one in algorithm.arguments if one.required and one.name not in names]
    if missing:
        raise ArgumentRefused(f"gdal {algorithm.path} needs {', '.join(missing)}.", "Give them.")
    for group in algorithm.one_of:
        if not names & set(group):
            raise ArgumentRefused(
                f"gdal {algorithm.path} needs one of {', '.join(group)}.", "Give one of them."
            )


def companions(algorithm: Algorithm, argument: Argument, group: str) -> set[str]:
    """The names of the other arguments in the exclusion or dependency group of an argument."""
    own = getattr(argument, group)
    return {
        one.name for one in algorithm.arguments if own and getattr(one, group) == own and one is not argument
    }
