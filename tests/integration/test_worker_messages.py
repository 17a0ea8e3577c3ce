"""GDAL's messages in threads other than the job's own: they keep their level and are part of the job's answer."""

import json

import pytest

from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PROGRAM = r"""
import json, sys, threading, types
handler = types.ModuleType("handler")
exec(sys.argv[2], handler.__dict__)
handler.prepare()
from osgeo import gdal
reporting = handler.part("reporting")

def report(level):
    thread = threading.Thread(target=gdal.Error, args=(level, 1, f"of level {level}"))
    thread.start()
    thread.join()

with reporting.Errors() as job:
    report(gdal.CE_Warning)
    with reporting.quiet() as aside:
        report(gdal.CE_Failure)
    report(gdal.CE_Failure)
report(gdal.CE_Warning)
print(json.dumps([[[row["level"] for row in one.rows], one.failures] for one in (job, aside)]))
"""


def test_thread_messages_keep_level_and_reach_their_collector(oracle: Oracle) -> None:
    python, isolated, switch, _worker, *words = gdal_command()
    job, aside = json.loads(oracle.must(python, isolated, switch, PROGRAM, *words))
    assert job == [["warning", "error"], 1]
    assert aside == [["error"], 1]
