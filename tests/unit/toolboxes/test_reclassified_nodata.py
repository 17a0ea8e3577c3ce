"""A mapping of classes is read as GDAL reads it: the first entry that contains the nodata value decides."""

import pytest

from gdal_mcp.toolboxes.gdal.preflight.checks.mapping import gives_class

NAN = float("nan")


@pytest.mark.parametrize(
    ("mapping", "nodata"),
    [
        ("[-inf,5]=1;(5,inf]=2", -9999),
        ("[0,5]=1;DEFAULT=2", -9999),
        ("[0,5]=1;default = 2", NAN),
        ("( -10000 , -9999 ]=1;[0,5]=2", -9999),
        ("[0, 255]=1", 0),
    ],
)
def test_nodata_becomes_a_class(mapping: str, nodata: float) -> None:
    assert gives_class(mapping, nodata)


@pytest.mark.parametrize(
    ("mapping", "nodata"),
    [
        ("[0,5]=1;(5,10]=2", -9999),
        ("[0,5]=1;DEFAULT=NO_DATA", -9999),
        ("[0,5]=1;DEFAULT=PASS_THROUGH", -9999),
        ("-9999=0;[0,5]=1", -9999),
        ("[-9999,-9999]=0;[0,5]=1", -9999),
        ("(0,255]=1", 0),
        ("[0,255)=1", 255),
        ("", 0),
        ("a=1;[x,y]=2;[1]=3", 0),
    ],
)
def test_nodata_is_kept_or_named(mapping: str, nodata: float) -> None:
    assert not gives_class(mapping, nodata)
