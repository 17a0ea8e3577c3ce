"""The path of a folder on the engine's host: by whole parts of a path, the longest pair first, and never by guessing."""

from pathlib import Path, PurePosixPath

import pytest

from gdal_mcp.settings import SettingsError, load_settings
from gdal_mcp.settings.pathmap import PathMap
from sandbox.errors import AttestationFailed
from sandbox.template import VolumePath


def test_longest_matching_pair_decides_the_host_path():
    paths = PathMap.parse(["/data:/srv/geodata", "/data/fast:/mnt/ssd", "/odd:name:/b:c"])
    for inside, host in (
        ("/data", "/srv/geodata"),
        ("/data/.gdal-mcp/staging/x/out", "/srv/geodata/.gdal-mcp/staging/x/out"),
        ("/data/fast/dem.tif", "/mnt/ssd/dem.tif"),
        ("/data/faster/dem.tif", "/srv/geodata/faster/dem.tif"),
        ("/odd:name/a", "/b:c/a"),
    ):
        assert paths.host(inside) == host
    assert PathMap.parse([]).host("/anywhere/at all") == "/anywhere/at all"


@pytest.mark.claim("engine.path-map-proven")
def test_unmapped_path_is_never_sent_to_the_engine():
    for inside in ("/database", "/dat", "/", "/srv/geodata", "data", "/da/ta"):
        with pytest.raises(AttestationFailed):
            PathMap.parse(["/data:/srv/geodata"]).host(inside)


def test_folder_may_lie_in_a_cluster_claim():
    paths = PathMap.parse(["/data:workspace", "/data/ann:people/of/ann"])
    assert paths.source(Path("/data/dem.tif")) == VolumePath(
        "/data/dem.tif", "workspace", PurePosixPath("dem.tif")
    )
    assert paths.source(Path("/data/ann/x")) == VolumePath("/data/ann/x", "people", PurePosixPath("of/ann/x"))
    assert paths.source(Path("/data")) == VolumePath("/data", "workspace", PurePosixPath("."))
    for text in ("/data:workspace/../etc", "/data:-x", "/data:a:b"):
        with pytest.raises(ValueError):
            PathMap.parse([text])


def test_only_pairs_of_absolute_folders_are_accepted():
    for texts in (
        [""], ["/data"], ["/data:"], [":/data"], ["data:/srv"], ["/data:Srv"], ["/a/..:/srv"], ["/a:/srv/../etc"],
        ["/a:/b:/c"], ["//a:/b"], ["/a://b"], ["/a:/b\0c"], ["/a /b"],
        ["/data:/srv/a", "/data/:/srv/b"],  # two targets for one folder are invalid too
    ):  # fmt: skip
        with pytest.raises(ValueError):
            PathMap.parse(texts)


def test_server_with_unreadable_path_map_does_not_start(tmp_path):
    load_settings(workspaces=(tmp_path,), path_map="/data:/srv/geodata, /state:/var/lib/gdal-mcp")
    with pytest.raises(SettingsError):
        load_settings(workspaces=(tmp_path,), path_map="/data")
