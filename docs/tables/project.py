"""Tables of the project: its rooms, its decisions, and the clients that it was tried with."""

import tomllib

from docs.promises import ROOT
from docs.tables.markdown import Lines, Parts, rows_of, table, words

_TRANSPORTS = {"stdio": "stdio", "http": "HTTP"}


def _rooms() -> Lines:
    """The layers of the import contracts, each with its sentence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    server, packages, sandbox = (
        contract["layers"] for contract in project["tool"]["importlinter"]["contracts"]
    )
    rooms = [layer.replace("gdal_mcp.", "") for layer in server]
    sentences = words("rooms", [*rooms, *packages[1:], *sandbox])
    yield ""
    rule = ["-" * 8]
    for layer in (*rooms, *rule, *packages[1:], *rule, *sandbox):
        yield f"    {layer:<36}{sentences.get(layer, '')}".rstrip()
    yield ""


def _decisions() -> Lines:
    for page in sorted((ROOT / "docs/adr").glob("0*.md")):
        number, _, title = (
            page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(". ")
        )
        yield f"- [{number}. {title}]({page.name})"


def _clients() -> Lines:
    """The results of each client, by the steps of tests/e2e/clients."""
    recorded = rows_of("clients.toml")
    rows = []
    for row in recorded["client"]:
        differs = "; ".join(f"{step}: {what}" for step, what in row.get("differs", {}).items())
        with_ = f" with {', '.join(row['with'])}" if "with" in row else ""
        version = f"`{row['package']}` {row['version']}{with_}"
        transports = ", ".join(_TRANSPORTS[name] for name in row.get("transports", ["stdio"]))
        rows.append((row["name"], version, transports, row["era"], differs or "everything works"))
    yield from table(("client", "version", "transport", "era", f"tried {recorded['tried']}"), rows)


PARTS: Parts = {
    "rooms": _rooms,
    "decisions": _decisions,
    "clients": _clients,
}
