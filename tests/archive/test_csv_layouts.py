"""The layouts that we ship, each on a file in the published form; every number here was made up."""

from pathlib import Path

import pytest

from meteragent.archive.mapping import LAYOUTS
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError, ConfigError
from tests.archive.test_csv_file import opened, rows
from tests.support.archives import HALF_HOUR, policy

ENERGY = "kind = 'interval_energy'\nunit = 'kWh'\ninterval = '30min'"
HOURLY = ENERGY.replace("30min", "1h")
QUARTERS = ENERGY.replace("30min", "15min")
KILOWATTS = "unit = 'kW'\nhold = '1min'"
WATTS = "unit = 'W'\nhold = '30min'"
CASES = {
    "low-carbon-london": (
        "LCL-June.csv",
        ("LCLid,stdorToU,DateTime,KWH/hh (per half hour) \r\n"
        "MAC9,Std,2013-06-01 00:30:00.0000000, 0.21 \r\n"
        "MAC9,Std,2013-06-01 01:00:00.0000000,Null\r\nMAC8,ToU,2013-06-01 00:30:00.0000000, 1 \r\n"),
        ENERGY,
        "stamp = 'end'",
        [("MAC9", "06-01 00:30", 0.21), ("MAC9", "06-01 01:00", None), ("MAC8", "06-01 00:30", 1)],
    ),
    "cer": (
        "File1.txt",
        "9001 19501 0.14\n9001 19548 0.2\n9002 19502 1.5\n9001 45201 0.3\n9001 45204 0.4\n",
        ENERGY,
        "",  # day 195 was in summer, and on day 452, 2010-03-28, clocks were set forward
        [("9001", "07-13 23:30", 0.14), ("9001", "07-14 23:00", 0.2), ("9002", "07-14 00:00", 1.5),
         ("9001", "03-28 00:30", 0.3), ("9001", "03-28 01:00", 0.4)],
    ),
    "pecan-street": (
        "1minute_data.csv",
        ("dataid,localminute,air1,grid,solar,leg1v\n90,2018-11-04 01:30:00-05,0,0.5,,120.1\n"
        "90,2018-11-04 01:30:00-06,0,-0.25,1.1,120.2\n91,2018-11-04 01:30:00-06,0,,,\n"),
        KILOWATTS,
        "stamp = 'start'",
        [("90", "11-04 06:30", 0.5), ("90", "11-04 07:30", -0.25), ("91", "11-04 07:30", None)],
    ),
    "smart-star-homes": (
        "HomeX-meter1_2014.csv",
        "Date & Time,use [kW],gen [kW]\n2014-07-01 00:00:00,0.30,0\n2014-07-01 00:30:00,0.34,0\n",
        KILOWATTS,
        "stamp = 'start'\ntimezone = 'America/New_York'",
        [("HomeX-meter1_2014", "07-01 04:00", 0.3), ("HomeX-meter1_2014", "07-01 04:30", 0.34)],
    ),
    "smart-star-apartments": (
        "2015/Apt9_2015.csv",
        "2015-01-01 00:00:00,0.51\n2015-01-01 00:01:00,0.52\n",
        KILOWATTS,
        "stamp = 'start'\ntimezone = 'America/New_York'",
        [("2015/Apt9_2015", "01-01 05:00", 0.51), ("2015/Apt9_2015", "01-01 05:01", 0.52)],
    ),
    "redd": (
        "house_9/channel_3.dat",
        "1303132929 22.20\n1303132932 23\n",
        WATTS,
        "",
        [("house_9/channel_3", "04-18 13:22", 22.2), ("house_9/channel_3", "04-18 13:22", 23)],
    ),
    "nilmtk": (
        "building1/elec/meter2.csv",
        ("physical_quantity,power,power\ntype,active,reactive\n"
        "2014-05-01 10:00:00+02:00,5.5,1\n2014-05-01 10:00:06+02:00,6,1\n"),
        WATTS,
        "",
        [("building1/elec/meter2", "05-01 08:00", 5.5), ("building1/elec/meter2", "05-01 08:00", 6)],
    ),
    "european": (
        "export.csv",
        "sep=;\r\nmeter;time;value\r\n7;01.07.2026 00:15;0,125\r\n007;01.07.2026 24:00;1\r\n",
        ENERGY,
        "stamp = 'end'\ntimezone = 'Europe/Berlin'",
        [("7", "06-30 22:15", 0.125), ("007", "07-01 22:00", 1)],
    ),
    "datadis": (
        "consumos.csv",
        "cups;fecha;hora;consumo_kWh;metodoObtencion\nES00;2025/01/01;01:00;0,057;Real\nES00;2025/01/01;24:00;1,5;Real\n",
        HOURLY,
        "",
        [("ES00", "01-01 00:00", 0.057), ("ES00", "01-01 23:00", 1.5)],
    ),
    "enedis": (
        "maison.csv",
        ("Identifiant PRM;Type de donnees;Date de debut\r\n9999;Courbe de charge;01/01/2026\r\n"
        "Horodate;Valeur\r\n2026-01-01T00:30:00+01:00;1200\r\n2026-01-01T01:00:00+01:00;\r\n"),
        WATTS,
        "",
        [("maison", "12-31 23:00", 1200), ("maison", "12-31 23:30", None)],
    ),
    "quarter-hours": (
        "zaehler.csv",
        "Datum;Zeit von;Zeit bis;Verbrauch [kWh]\n01.01.2026;00:00;00:15;0,05\n01.01.2026;23:45;00:00;0,06\n",
        QUARTERS,
        "timezone = 'Europe/Vienna'",
        [("zaehler", "12-31 23:15", 0.05), ("zaehler", "01-01 23:00", 0.06)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_published_layout(layout: str, tmp_path: Path) -> None:
    """A folder in a published layout gives its meters, times in UTC and values, in capitals too."""
    name, content, source, keys, expected = CASES[layout]
    for path in (
        tmp_path / "lower" / name,
        tmp_path / "upper" / Path(name).with_suffix(Path(name).suffix.upper()),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(content, newline="")
    settings = policy(source=source, window=HALF_HOUR, archive=f"[archive.csv]\nlayout = '{layout}'\n{keys}")
    assert rows(Source.open(Tree.at(tmp_path / "lower"), settings)) == expected
    assert rows(Source.open(Tree.at(tmp_path / "upper"), settings)) == expected


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ("low-carbon-london", "stamp: found nothing"),
        ("pecan-street", "stamp: found nothing"),
        ("european", "timezone: found nothing"),
        ("quarter-hours", "timezone: found nothing"),
    ],
)
def test_what_a_publisher_does_not_state_is_asked_for(layout: str, why: str) -> None:
    """A layout states neither the stamp nor the zone of times if the publisher does not."""
    keys = f"[archive.csv]\nlayout = '{layout}'"
    with pytest.raises(ConfigError, match=rf"archive\.csv\.{why}"):
        policy(source=CASES[layout][2], window=HALF_HOUR, archive=keys)


def test_the_half_hours_of_the_day_on_which_clocks_are_set_back_are_refused(tmp_path: Path) -> None:
    """The Irish trial numbers 50 half hours on that day, in an order that is not known: the line is named."""
    for code in ("29849", "66950"):
        with pytest.raises(ArchiveError, match=r"line 2: column '2': .*days with 49 and 50"):
            opened(tmp_path / "File1.txt", f"9001 19501 0.14\n9001 {code} 0.1\n", "layout = 'cer'")
    with pytest.raises(ArchiveError, match="line 1: column '2': this time occurs twice in Europe/Dublin"):
        opened(tmp_path / "File1.txt", "9001 29802 0.14\n9001 29803 0.1\n", "layout = 'cer'")


def test_own_keys_take_precedence(tmp_path: Path) -> None:
    """Columns under [archive] and keys of [archive.csv] replace those of the layout."""
    content = "LCLid,tstp,energy(kWh/hh)\nMAC9,2013-06-01T01:30:00+01:00,0.5\n"
    csv = "layout = 'low-carbon-london'\nstamp = 'end'\nnull = ['none']"
    with pytest.raises(ArchiveError, match="in UTC, without an offset"):
        opened(tmp_path / "b.csv", content, csv, archive="time = 'tstp'\nvalue = 'energy(kWh/hh)'")
    local = content.replace("T01:30:00+01:00", " 00:30:00")
    source = opened(tmp_path / "b.csv", local, csv, archive="time = 'tstp'\nvalue = 'energy(kWh/hh)'")
    assert rows(source) == [("MAC9", "06-01 00:30", 0.5)]
