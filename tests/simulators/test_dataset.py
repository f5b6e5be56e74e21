"""Columns of public data sets and of any table are read in watts, and what is no power is refused."""

import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent.extras import SIMULATORS, hint
from simulators import __main__ as simulators
from simulators.traces.dataset import load, unit_in
from simulators.traces.trace import TraceError
from simulators.traces.trace import load as load_trace

REFIT = """Time,Unix,Aggregate,Appliance1,Appliance2,Issues
2013-09-17 22:08:11,1379455691,523,74,0,0
2013-09-17 22:08:18,1379455698,526,75,0,0
2013-09-17 22:08:26,1379455706,540,74,0,1
"""
METADATA = """elec_meters:
  1:
    data_location: house_3/channel_1.dat
    device_model: EcoManagerWholeHouseTx
  2:
    data_location: house_3/channel_2.dat
    device_model: EcoManagerTxPlug
  12:
    data_location: house_3/channel_12.dat
    device_model: CurrentCostTx
"""


def file(folder: Path, header: str, rows: list[str]) -> Path:
    """Write a CSV file with Unix seconds in its first column."""
    path = folder / "load.csv"
    path.write_text(
        "\n".join([header, *(f"{1400000400 + 60 * i},{row}" for i, row in enumerate(rows))]) + "\n"
    )
    return path


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house of UK-DALE, with a clamp on the mains, a plug, and a clamp on a circuit."""
    folder = tmp_path / "house_3"
    folder.mkdir()
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "building3.yaml").write_text(METADATA)
    (folder / "labels.dat").write_text("1 aggregate\n2 kettle\n12 kettle\n")
    (folder / "channel_1.dat").write_text("1361955600 400\n1361955606 410\n")
    (folder / "channel_2.dat").write_text("1361955601 1\n1361955607 2100\n")
    (folder / "channel_12.dat").write_text("1361955601 3\n1361955607 4\n")
    (folder / "mains.dat").write_text("1361955600.10 388.51 402.2 241.3\n1361955601.10 390 403 241\n")
    return folder


def test_refit(tmp_path: Path) -> None:
    """REFIT's own files give the total, or the appliance that is named; the clock is the column Unix."""
    path = tmp_path / "CLEAN_House2.csv"
    path.write_text(REFIT)
    assert load(path).watts.tolist() == [523, 526, 540]
    assert load(path, watts="Appliance1").times_ms.tolist() == [1379455691000, 1379455698000, 1379455706000]
    for column in ("Issues", "Unix", "Kettle"):
        with pytest.raises(TraceError, match=f"{column}; there are: Aggregate, Appliance1, Appliance2$"):
            load(path, watts=column)
    with pytest.raises(TraceError, match="Aggregate holds W, not kW"):
        load(path, unit="kW")


def test_uk_dale(house: Path) -> None:
    """A house gives its mains in W (not in VA) and its plugs, by label or by file."""
    assert load(house).watts.tolist() == [388.51, 390.0]
    assert load(house).times_ms.tolist() == [1361955600100, 1361955601100]
    assert load(house, watts="kettle").watts.tolist() == [1, 2100]
    assert load(house / "channel_2.dat").watts.tolist() == [1, 2100]


@pytest.mark.parametrize("channel", ["aggregate", "kettle_12"])
def test_uk_dale_in_volt_amperes(house: Path, channel: str) -> None:
    """What a clamp measured is apparent power: it is refused, even if watts are asked for."""
    match = rf"channel {channel} holds VA .*there are: mains, aggregate, kettle, kettle_12$"
    with pytest.raises(TraceError, match=match):
        load(house, watts=channel)
    with pytest.raises(TraceError, match=match):
        load(house, watts=channel, unit="W")


def test_uk_dale_without_metadata(house: Path) -> None:
    """Without the metadata the unit of a plug must be stated; the total is in VA all the same."""
    (house.parent / "metadata" / "building3.yaml").unlink()
    with pytest.raises(TraceError, match=r"channel kettle: without metadata.* its unit is unknown"):
        load(house, watts="kettle")
    assert load(house, watts="kettle", unit="W").watts.tolist() == [1, 2100]
    with pytest.raises(TraceError, match="aggregate holds VA"):
        load(house / "channel_1.dat", unit="W")
    with pytest.raises(TraceError, match="no channel tv; there are: mains, aggregate, kettle"):
        load(house, watts="tv")


def test_redd_has_two_mains(tmp_path: Path) -> None:
    """The two mains of a house of REDD are parts of its load, so neither is taken for the home's total."""
    (tmp_path / "labels.dat").write_text("1 mains\n2 mains\n3 oven\n")
    (tmp_path / "channel_2.dat").write_text("1303132929 22.20\n1303132930 23.17\n")
    with pytest.raises(
        TraceError, match="two mains, which are parts of its load: name one of mains, mains_2"
    ):
        load(tmp_path, unit="W")
    assert load(tmp_path, watts="mains_2", unit="W").watts.tolist() == [22.2, 23.17]


def test_no_house(tmp_path: Path) -> None:
    """A folder without labels is refused."""
    with pytest.raises(TraceError, match=r"not a house of UK-DALE: .*labels\.dat"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("load_kW", "kW"),
        ("Load [kW]", "kW"),
        ("powerWatts", "W"),
        ("watts", "W"),
        ("energy (kWh)", "kWh"),
        ("energy_Wh", "Wh"),
        ("Kilo Watts", "kW"),
        ("apparent_power", "VA"),
        ("phase_a", "A"),
        ("p_W", "W"),
        ("a", None),
        ("Aggregate", None),
        ("value", None),
    ],
)
def test_units_in_names(name: str, unit: str | None) -> None:
    """A column's name states its unit in many ways, or not at all."""
    assert unit_in(name) == unit


def test_kilowatts(tmp_path: Path) -> None:
    """Kilowatts become watts, if the name states them or the caller does."""
    path = file(tmp_path, "t,load_kW,load", ["0.25,0.25", "1.5,1.5"])
    assert load(path, watts="load_kW").watts.tolist() == [250.0, 1500.0]
    assert load(path, watts="load", unit="kW").watts.tolist() == [250.0, 1500.0]
    assert load(path, watts="load", unit="W").watts.tolist() == [0.25, 1.5]


@pytest.mark.parametrize(
    ("header", "rows", "options", "why"),
    [
        ("t,load", ["0.25", "1.5"], {}, "column load may hold W or kW: state its unit .*there are: t, load"),
        ("t,load_kW", ["1", "2"], {"unit": "W"}, "column load_kW holds kW, not W; there are: t, load_kW"),
        ("t,use_kWh", ["1", "2"], {}, "column use_kWh holds kWh, not watts"),
        ("t,use_kWh", ["1", "2"], {"unit": "kW"}, "column use_kWh holds kWh, not watts"),
        ("t,voltage", ["230", "231"], {}, "column voltage holds V, not watts"),
        ("t,counter", [str(9000 + i // 3) for i in range(100)], {}, "never falls, as a register of energy"),
        ("t,load", ["100", "200"], {"watts": "power"}, "no column power; there are: t, load"),
        ("t,load", ["100", "200"], {"unit": "MW"}, "unit MW is none of W, kW"),
        ("t,load", ["1400000400", "1400000460"], {}, "column load holds clock times"),
    ],
)
def test_what_is_no_power(
    header: str, rows: list[str], options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """A column in another unit, a register, a clock, or one whose unit is not known is refused."""
    with pytest.raises(TraceError, match=why):
        load(file(tmp_path, header, rows), **options)


def test_what_looks_odd_and_is_power(tmp_path: Path) -> None:
    """A constant load, a short rise, and whole numbers of few watts are power."""
    for rows in (["7"] * 200, [str(i) for i in range(99)], ["0", "1", "0"]):
        assert load(file(tmp_path, "t,load", rows)).watts.tolist() == [int(row) for row in rows]


TWO_HOMES = "time,power_W,home\n1400000400,100,a\n1400000400,900,b\n1400000460,110,a\n1400000460,910,b\n"


@pytest.mark.parametrize(
    ("content", "watts"),
    [
        ("time,power_W\n1413500000000,100\n1413500010000,120\n", [100, 120]),
        ("time;power_W\n1413500000;100,5\n1413500010;120,5\n", [100.5, 120.5]),
        ("\ufefftime,power_W\n1413500000,100\n1413500010,120\n", [100, 120]),
    ],
)
@pytest.mark.parametrize("name", ["load.csv", "LOAD.CSV", "load.csv.gz"])
def test_exports_are_understood(content: str, watts: list[float], name: str, tmp_path: Path) -> None:
    """Unix milliseconds, a decimal comma, a byte order mark and gzip give the same trace."""
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    trace = load(tmp_path / name)
    assert trace.watts.tolist() == watts
    assert trace.times_ms.tolist() == [1413500000000, 1413500010000]


@pytest.mark.parametrize(
    ("content", "csv", "unit", "watts", "first_ms"),
    [
        ("1303132929 22.20\n1303132932 23\n", {"layout": "redd"}, "W", [22.2, 23], 1_303_132_929_000),
        (
            "2015-01-01 00:00:00,0.5\n2015-01-01 00:01:00,0.75\n",
            {"layout": "smart-star-apartments", "timezone": "America/New_York"},
            None,
            [500, 750],
            1_420_088_400_000,
        ),
        (
            "a,b,c\ntype,active,reactive\n2014-05-01 10:00+02:00,5.5,1\n2014-05-01 10:01+02,6,1\n",
            {"layout": "nilmtk"},
            None,
            [5.5, 6],
            1_398_931_200_000,
        ),
        (
            "a\nb\nHorodate;Valeur\n2026-01-01T00:30:00+01:00;1200\n2026-01-01T01:00:00+01:00;900\n",
            {"layout": "enedis"},
            None,
            [1200, 900],
            1_767_222_000_000,
        ),
        (
            "Date;P;Time\n16/12/2006;4.216;17:24:00\n16/12/2006;?;17:25:00\n16/12/2006;5.36;17:26:00\n",
            {
                "time": ["Date", "Time"],
                "format": "%d/%m/%Y %H:%M:%S",
                "timezone": "Europe/Paris",
                "decimal": ".",
                "null": ["?"],
            },
            "kW",
            [4216, 5360],
            1_166_286_240_000,
        ),
    ],
)
def test_layouts_are_understood(
    content: str, csv: dict[str, Any], unit: str | None, watts: list[float], first_ms: int, tmp_path: Path
) -> None:
    """Keys of [archive.csv] read files as `sanitise` does: without a header, in local time, with gaps."""
    path = tmp_path / "load.txt"
    path.write_text(content)
    trace = load(path, csv=csv, unit=unit)
    assert trace.watts.tolist() == watts
    assert trace.times_ms[0] == first_ms


@pytest.mark.parametrize(
    ("csv", "why"),
    [
        ({"layout": "low-carbon-london"}, "source.kind: found 'power'; expected 'interval_energy'"),
        ({"layout": "lcl"}, "archive.csv.layout: found 'lcl'; expected one of low-carbon-london"),
        ({"layout": "european"}, "archive.csv.timezone: found nothing; expected the zone"),
        ({"formt": "unix s"}, "archive.csv.formt: found an unknown key"),
    ],
)
def test_keys_that_are_wrong(csv: dict[str, Any], why: str, tmp_path: Path) -> None:
    """Keys are refused as those of a configuration are; energies are no watts."""
    path = tmp_path / "load.csv"
    path.write_text("time,power_W\n1413500000,100\n1413500010,120\n")
    with pytest.raises(TraceError, match=re.escape(why)):
        load(path, csv=csv)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("1336276800,512.3,600\n1336276801,513.0,601\n", "first line holds numbers, not names"),
        ("2014-01-01 00:00:00,0.51\n2014-01-01 00:01:00,0.52\n", "first line holds numbers, not names"),
        (
            "time,power_W\n1413500000000000,100\n1413500010000000,120\n",
            "line 2: column 'time': expected milliseconds",
        ),
        ("time,power_W\n0,100\n1413500010000,120\n", "line 3: column 'time': expected seconds since 1970"),
        ("time,power_W\n1413500000,100\n1413500010000,120\n", "line 3: column 'time': expected seconds"),
        ("time,power_W\n2014-05-01 00:00,1\n2014-05-01T00:01Z,2\n", "line 3: column 'time': expected a"),
        ("time,power_W\n2014-05-01 00:00,1\n01.05.2014 00:01,2\n", "line 3: column 'time': expected a"),
        ("time,power_W\n1413500000,100\n1413500010,?\n", "line 3: column 'power_W': expected a number"),
        ("time,power_W\n1413500000,100\n1413500010,1,5\n", "line 3: expected 2 cells between ','"),
        ("time,power_W,power_W\n1413500000,100,1\n1413500010,120,2\n", "more than one has this name"),
        (
            "time,usage\n1413500000,250\n1413501800,500\n",
            "column usage may hold power or energy: state its unit",
        ),
        ("PK\x03\x04", "an Excel workbook or a zip archive"),
        (TWO_HOMES, "2 of 4 readings have the time of another and other watts: are they of several homes"),
    ],
)
def test_what_would_be_misread_is_refused(content: str, why: str, tmp_path: Path) -> None:
    """A file without a header, of another unit of time, or of several homes is refused, and not guessed."""
    path = tmp_path / "load.csv"
    path.write_text(content)
    with pytest.raises(TraceError, match=why):
        load(path)


def test_a_home_of_several(tmp_path: Path) -> None:
    """`where` chooses the home; a home or a column that is not there is refused."""
    path = tmp_path / "load.csv"
    path.write_text(TWO_HOMES)
    assert load(path, where="home=b").watts.tolist() == [900, 910]
    for where, why in (("home=c", "no row has c in column home"), ("id=b", "no column id; there are: time")):
        with pytest.raises(TraceError, match=why):
            load(path, where=where)


def test_numbers_that_wrap_and_times_that_are_far(tmp_path: Path) -> None:
    """Watts beyond 63 bits and times of the year 9999 are refused as what they are."""
    seconds = pa.array([1413500000, 1413500010])
    far = pa.array([253402300799000000, 253402300800000000]).cast(pa.timestamp("us", "UTC"))
    for name, times, watts in (
        ("numbers beyond 63 bits", seconds, pa.array([2**64 - 1500, 100], pa.uint64())),
        ("holds times after 2100", far, pa.array([1, 2])),
    ):
        pq.write_table(pa.table({"time": times, "power_W": watts}), tmp_path / "in.parquet")
        with pytest.raises(TraceError, match=name):
            load(tmp_path / "in.parquet")


def test_replay_sends_nothing_that_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`replay` ends with code 2 before it writes anything; a stated unit is converted."""
    trace, out = file(tmp_path, "t,load", ["0.25", "1.5"]), tmp_path / "out.csv"
    assert simulators.main(["replay", str(trace), "--out", str(out)]) == 2
    assert "column load may hold W or kW: state its unit (--unit of replay)" in capsys.readouterr().err
    assert not out.exists()
    assert simulators.main(["replay", str(trace), "--unit", "kW", "--out", str(out)]) == 0
    assert load_trace(out).watts.tolist() == [250.0, 1500.0]


def test_real_homes(data: Path) -> None:
    """Both real homes are read as they stand, and their submeters by name."""
    for path in sorted((data / "homes").glob("*.parquet")):
        assert np.array_equal(load(path).watts, load_trace(path).watts)
        assert load(path, watts="Kettle").watts.max() > 1000


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path, and that there is no such file: nothing about its format."""
    with pytest.raises(TraceError, match=r"lod\.csv: no such file$"):
        load(tmp_path / "lod.csv")


def test_a_first_column_of_names_is_told(tmp_path: Path) -> None:
    """If the first column holds no times, the error says how to name the one that does, and lists all."""
    path = tmp_path / "load.csv"
    path.write_text("home,time,watts\nnorth,1400000400,5\nnorth,1400000460,7\n")
    with pytest.raises(TraceError, match=r"with time=\.\.\.; there are: home, time, watts"):
        load(path, watts="watts")
    assert load(path, time="time", watts="watts").watts.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import simulators.traces.dataset", "sim"),
        ("from simulators.peers import opendp_laplace; opendp_laplace('1/40')", "peers"),
        ("from simulators.peers import diffprivlib_laplace; diffprivlib_laplace('1/40')", "peers"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(code: str, extra: str) -> None:
    """Importing or using a module without its extra says what to install, as the commands do."""
    packages = ["pyarrow", "opendp", "opendp.prelude", "diffprivlib", "diffprivlib.mechanisms"]
    program = f"import sys; sys.modules.update(dict.fromkeys({packages}, None)); {code}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert hint(extra, SIMULATORS) in last
