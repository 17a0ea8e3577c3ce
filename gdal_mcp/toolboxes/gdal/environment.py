"""The whole environment of a GDAL container. Nothing from the host or from the image is added to it.

It switches off drivers that reach a network or a database, spawn a program or load a library named in a data file;
every way to run code from a data file; remote access of PROJ; configuration files; standard input as a data source.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from gdal_mcp.toolboxes.gdal.faults import NOT_PROBED, Probed, faults, load_probed, workarounds
from sandbox.template import STAGING_TARGET, Limits

SKIPPED_DRIVERS: Final = (
    # OGC and vendor web services
    *("HTTP", "WMS", "WMTS", "WCS", "WFS", "OAPIF", "OGCAPI", "CSW", "STACIT", "STACTA"),
    *("PLMOSAIC", "PLSCENES", "DAAS"),
    *("EEDA", "EEDAI", "NGW", "Carto", "AmigoCloud", "Elasticsearch"),
    # databases; ODBC, MSSQL, PGeo and ADBC also load a library that a data file names
    *("PostgreSQL", "PostGISRaster", "MySQL", "MSSQLSpatial", "ODBC", "PGeo", "ADBC"),
    "GPSBabel",  # spawns a program
    *("GNMFile", "GNMDatabase"),  # geographic networks, which refer to other datasets
)

FIXED: Final = MappingProxyType(
    {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",  # $HOME/.gdal/gdalrc may set any option
        "LC_ALL": "C.UTF-8",
        "GDAL_SKIP": ",".join(SKIPPED_DRIVERS),
        "GDAL_CONFIG_FILE": "/dev/null",
        "GDAL_VRT_ENABLE_PYTHON": "NO",
        "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
        "GDAL_ENABLE_EXTERNAL": "NO",
        "GDAL_ALGORITHM_ALLOW_WRITES_IN_STREAM": "NO",
        "OGR_SQLITE_ALLOW_EXTERNAL_ACCESS": "NO",
        "OGR_SQLITE_DIALECT_ALLOW_CREATE_VIRTUAL_TABLE": "NO",
        "MRF_ENABLE_CACHING": "NO",
        "GDAL_MEM_ENABLE_OPEN": "NO",
        "CPL_ALLOW_VSISTDIN": "NO",
        "CPL_ENABLE_PATH_TRAVERSAL_DETECTION": "YES",
        "CPL_VSIL_CURL_ALLOWED_FILENAME": "/vsicurl/disabled",
        "CPL_VSIL_CURL_HEADER_FILE_KVP_ENABLED": "NO",
        "GDAL_HTTP_CONNECTTIMEOUT": "1",
        "GDAL_HTTP_TIMEOUT": "1",
        "GDAL_HTTP_MAX_RETRY": "0",
        "GML_SKIP_RESOLVE_ELEMS": "ALL",
        "GML_DOWNLOAD_SCHEMA": "NO",
        "PROJ_NETWORK": "OFF",
        "GDAL_PAM_PROXY_DIR": "/tmp/pam",  # noqa: S108 - inside the container; statistics of read-only data go there
        # folder that `inside/parts/temporary.py` creates for calls that write; without it SQLite uses /tmp
        "SQLITE_TMPDIR": f"{STAGING_TARGET}/.temporary",
        "GDAL_MAX_DATASET_POOL_SIZE": "64",
        "CPL_MAX_ERROR_REPORTS": "50",  # a damaged file repeats one error thousands of times
        "CPL_DEBUG": "OFF",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
    }
)

# variables that can change a result, for receipts. GDAL_SKIP and the pool size are the same in every call
ANSWER_SETTINGS: Final = (
    *("GDAL_NUM_THREADS", "GDAL_CACHEMAX"),
    *sorted({name for fault in faults().values() for name in fault.environment}),
)
CACHE_SHARE = 8  # divisor of the memory limit for GDAL's block cache; warping and compression need the rest


def environment(limits: Limits, probed: Probed = NOT_PROBED) -> MappingProxyType[str, str]:
    """The environment for these limits in the probed image.

    GDAL detects neither the CPU quota nor the memory limit, so both are set. A fault of GDAL is worked around unless
    its probe found that the image does not have it.
    """
    cache_mib = max(16, limits.memory_bytes // CACHE_SHARE >> 20)
    own = {"GDAL_NUM_THREADS": str(gdal_threads(limits)), "GDAL_CACHEMAX": str(cache_mib)}
    return MappingProxyType({**FIXED, **own, **workarounds(probed)})


# the environment for limits and an image digest
Environment: TypeAlias = Callable[[Limits, str], Mapping[str, str]]


@cache
def environment_in(state_dir: Path) -> Environment:
    """The environment for servers with this state folder, which contains the results of probes."""
    return lambda limits, digest: environment(limits, load_probed(state_dir, digest))


def not_probed(limits: Limits, _digest: str) -> Mapping[str, str]:
    """The environment in an image without results of probes."""
    return environment(limits)


def gdal_threads(limits: Limits) -> int:
    """The number of threads that GDAL may use for one computation: the whole CPUs of the limits, at least one."""
    return max(1, math.floor(limits.cpus))
