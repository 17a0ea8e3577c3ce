"""Two catalogues' data are compared to the last word, and a catalogue fits its own release only."""

import pytest

from gdal_mcp.gdal.catalogue.drift import differences, unfit
from gdal_mcp.gdal.catalogue.load import packaged, packaged_text


def test_a_change_is_found_among_commands_or_among_drivers() -> None:
    text = packaged_text()
    assert differences(text, text) == ((), ())
    first, last = text.index('"algorithms":['), text.index('"drivers":[')
    for at in (first + 200, last - 200):
        commands, drivers = differences(text, f"{text[:at]}!{text[at:]}")
        assert (len(commands), drivers) == (2, ())
    for at in (last + 200, len(text) - 200):
        commands, drivers = differences(text, f"{text[:at]}!{text[at:]}")
        assert (commands, len(drivers)) == ((), 2)


def test_another_version_of_the_same_interface_is_no_difference() -> None:
    text = packaged_text()
    assert differences(text, text.replace('"gdal":"3.13.3"', '"gdal":"3.13.4"')) == ((), ())


def test_a_command_that_is_gone_is_one_difference_wherever_it_stood() -> None:
    lines = packaged_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"name":"like"' in line)
    commands, drivers = differences("".join(lines), "".join(lines[:at] + lines[at + 1 :]))
    assert (commands, drivers) == ((f"-{lines[at].rstrip().rstrip(',')}",), ())


def test_a_catalogue_fits_its_release() -> None:
    for version in ["3.13.3", "3.13.0", "3.13.12", "3.13"]:
        assert unfit(packaged(), version) is None


@pytest.mark.claim("args.catalogue-fits")
def test_a_catalogue_fits_no_other_release() -> None:
    for version in ["3.12.9", "3.14.0", "3.130.3", "3.1.3", "4.13.3", "13.3.1", "3", ""]:
        assert unfit(packaged(), version)
