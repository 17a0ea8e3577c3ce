"""The generated parts of the documentation: tables made from the code, with sentences from the TOML files in `docs/`."""

from functools import partial

from bench import nodes
from docs import distribution, hosts
from docs.tables import engines, program, project, security, tools
from docs.tables.markdown import Parts, table

__all__ = ["PARTS", "Parts"]

PARTS: Parts = {
    **tools.PARTS,
    **program.PARTS,
    **engines.PARTS,
    **security.PARTS,
    **project.PARTS,
    "buttons": distribution.buttons,
    "hosts": lambda: table(hosts.COLUMNS, hosts.rows()),
    "nodes": partial(nodes.table, nodes.Load(1000 / 60), nodes.Cluster()),
}
