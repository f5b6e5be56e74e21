"""P1 telegrams: what is one, and that what went wrong on the way is seen."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode.p1 import compute_crc, parse_telegram
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError
from tests.support.profile_fixtures import dsmr

HEADER = "XMX5LGBBFG1009325446"
LINES = ("1-3:0.2.8(50)", "0-0:1.0.0(261120133007W)", "1-0:1.8.1(005317.408*kWh)", "1-0:1.7.0(00.417*kW)")
WHOLE = dsmr.telegram(HEADER, *LINES)


def refusal(payload: bytes, code: str = "1-0:1.7.0", unit: str = "kW") -> str:
    """How a telegram, or a number of it, is counted."""
    with pytest.raises(PayloadError) as refused:
        parse_telegram(payload).read_code(code, unit)
    assert refused.value.__context__ is None
    return refused.value.reason


def with_line(line: str) -> bytes:
    """A telegram with another line for its power."""
    return dsmr.telegram(HEADER, *LINES[:-1], line)


def time_of(stated: str, zone: str | None = None) -> int | None:
    """The time of a telegram that states it so."""
    return parse_telegram(dsmr.telegram(HEADER, f"0-0:1.0.0({stated})", *LINES[2:]), zone).time_ms


def test_the_checksum_is_the_known_one() -> None:
    """The sum is CRC-16/ARC, whose published check value is BB3D; bit by bit it is the same."""
    assert compute_crc(b"123456789") == 0xBB3D
    assert f"{compute_crc(WHOLE[: WHOLE.index(b'!') + 1]):04X}".encode() == WHOLE[-6:-2]


@given(flips=st.sets(st.integers(0, 8 * (len(WHOLE) - 2) - 1), min_size=1, max_size=3))
def test_no_flipped_bits_pass(flips: set[int]) -> None:
    """One to three flipped bits anywhere in a telegram are seen, or leave its numbers as they were."""
    wrong = bytearray(WHOLE)
    for bit in flips:
        wrong[bit // 8] ^= 1 << bit % 8
    try:
        found = parse_telegram(bytes(wrong))
    except PayloadError:
        return
    assert found == parse_telegram(WHOLE)


def test_summer_and_winter_are_two_and_one_hours_ahead() -> None:
    """S is UTC+2 and W is UTC+1, so the hour that comes twice in autumn is told apart."""
    assert time_of("261120133007W") == 1795177807000
    summer, winter = time_of("261025023000S"), time_of("261025023000W")
    assert summer is not None
    assert winter is not None
    assert winter - summer == 3_600_000


@pytest.mark.parametrize(
    ("zone", "winter_h", "summer_h"),
    [
        ("Europe/Amsterdam", 1, 2),
        ("Europe/Stockholm", 1, 2),
        ("Europe/Dublin", 0, 1),
        ("Europe/Lisbon", 0, 1),
        ("Europe/Helsinki", 2, 3),
        ("Europe/Vilnius", 2, 3),
        ("Europe/Riga", 2, 3),
        ("Europe/Tallinn", 2, 3),
        ("UTC", 0, 0),
    ],
)
def test_the_zone_of_a_telegram_is_stated(zone: str, winter_h: int, summer_h: int) -> None:
    """W is the zone's winter time and S its summer time, whatever the month: some meters have W all year."""
    utc_ms = 1795181407000  # 13:30:07 as if it were UTC
    assert time_of("261120133007W", zone) == utc_ms - winter_h * 3_600_000
    assert time_of("261120133007S", zone) == utc_ms - summer_h * 3_600_000
    july, november = time_of("260720133007W", zone), time_of("261120133007W", zone)
    assert july is not None
    assert november is not None
    assert november - july == 123 * 86_400_000


def test_the_time_of_arrival_may_count() -> None:
    """With `arrival` a telegram's time is not even looked at: a meter without S or W can be read."""
    assert time_of("261120133007W", "arrival") is None
    assert time_of("261120133007", "arrival") is None


def test_codes_of_the_past_are_no_values_of_now() -> None:
    """Only `*255` is the present value; a number in W has two decimals at most, and may be below 0 if net."""
    readout = dsmr.telegram("ESY5", "1-0:16.7.0*01(000010*W)", "1-0:16.7.0*255(-12.34*W)", has_checksum=False)
    assert parse_telegram(readout).read_code("1-0:16.7.0", "kW", is_signed=True) == Decimal("-0.01234")
    assert refusal(readout, "1-0:16.7.0") == "refused_type"
    assert refusal(readout.replace(b"12.34", b"12.345"), "1-0:16.7.0") == "refused_type"
    assert refusal(readout.replace(b"-12.34", b"12.345"), "1-0:16.7.0") == "refused_unit"


@pytest.mark.parametrize(
    "stated", ["261120133007", "261320133007W", "261120253007W", "26112013300W", "261120133007X", ""]
)
def test_a_time_that_is_none_is_refused(stated: str) -> None:
    """No month 13, no hour 25, no time without S or W."""
    assert refusal(dsmr.telegram(HEADER, f"0-0:1.0.0({stated})", *LINES[2:])) == "refused_time"


@pytest.mark.parametrize(
    ("line", "counter"),
    [
        ("1-0:1.7.0(00.417*W)", "refused_unit"),
        ("1-0:1.7.0(000334*Wh)", "refused_unit"),
        ("1-0:1.7.0(-000334*W)", "refused_type"),
        ("1-0:1.7.0(00.417*kVA)", "refused_unit"),
        ("1-0:1.7.0(00.417)", "refused_type"),
        ("1-0:1.7.0()", "refused_type"),
        ("1-0:1.7.0(-0.417*kW)", "refused_type"),
        ("1-0:1.7.0(0,417*kW)", "refused_type"),
        ("1-0:1.7.0(261120133000W)(00.417*kW)", "refused_type"),
        ("1-0:1.7.0(00.417*kW)\r\n1-0:1.7.0(00.417*kW)", "refused_type"),
    ],
)
def test_a_line_that_is_no_number_of_its_unit_is_refused(line: str, counter: str) -> None:
    """One value with the stated unit, once: all else is refused under a name, though the sum is right."""
    assert refusal(with_line(line)) == counter


@pytest.mark.parametrize(
    "payload",
    [
        WHOLE.partition(b"!")[0],
        WHOLE.partition(b"!")[0] + b"!",
        WHOLE[:-3],
        WHOLE.replace(b"!", b"!0"),
        WHOLE + b"1-0:1.7.0(00.417*kW)\r\n",
        WHOLE.replace(b"00.417", b"00.418"),
        WHOLE.replace(b"\r\n\r\n", b"\r\n"),
    ],
)
def test_a_telegram_that_is_not_whole_is_refused(payload: bytes) -> None:
    """Without its end, without its sum or with another one, or with more after it: refused_checksum."""
    assert refusal(payload) == "refused_checksum"


def test_a_register_of_all_tariffs_beside_one_tariff_alone_is_refused() -> None:
    """Where a tariff's line has turned into another's, without a sum, no number is made of what is left."""
    lines = ("1-0:1.8.0(004217.553*kWh)", "1-0:1.8.2(003908.114*kWh)")
    with pytest.raises(PayloadError) as refused:
        PROFILES["dsmr-p1"].quantities["import"].read(dsmr.telegram(HEADER, *lines, has_checksum=False))
    assert refused.value.reason == "refused_missing"


def test_all_tariffs_are_summed() -> None:
    """A meter that sends four tariffs and no sum has the register of all four, and none if one is missing."""
    lines = [f"1-0:2.8.{tariff}(0000{tariff}000.00{tariff}*kWh)" for tariff in range(1, 5)]
    find = PROFILES["dsmr-p1"].quantities["export"]
    assert [number.number for number in find.read(dsmr.telegram(HEADER, *lines))] == [Decimal("10000.010")]
    for missing in range(3):
        with pytest.raises(PayloadError) as refused:
            find.read(dsmr.telegram(HEADER, *lines[:missing], *lines[missing + 1 :]))
        assert refused.value.reason == "refused_missing"


def test_a_gateway_may_append_to_a_readout() -> None:
    """What follows a D0 readout's end is ignored, and what follows a telegram's end is a checksum."""
    readout = dsmr.telegram("ESY5", "1-0:1.7.0*255(000417.00*W)", has_checksum=False)
    assert parse_telegram(readout + b"  25818685\r\nDE00000\r\n") == parse_telegram(readout)
    assert refusal(dsmr.telegram("ISK5", LINES[-1], has_checksum=False) + b"25818685") == "refused_checksum"
    assert refusal(readout.partition(b"!")[0]) == "refused_checksum"


def test_a_checksum_may_lack_its_zeros() -> None:
    """Some devices write 00A1 as A1; any other sum is still seen."""
    lines = [f"0-0:96.13.0({number:04d})" for number in range(400)]
    wholes = [dsmr.telegram(HEADER, *LINES, line) for line in lines]
    short = [whole for whole in wholes if b"!0" in whole]
    assert short
    for whole in short:
        body, _, crc = whole.partition(b"!")
        assert parse_telegram(body + b"!" + crc.lstrip(b"0")) == parse_telegram(whole)
        assert refusal(body + b"!1" + crc[1:]) == "refused_checksum"


def test_line_ends_may_have_been_changed_on_the_way() -> None:
    """A telegram with LF for CR LF is the same telegram; blanks around it do not matter."""
    changed = b" \n" + WHOLE.replace(b"\r\n", b"\n") + b"\n"
    assert parse_telegram(changed) == parse_telegram(WHOLE)


def test_what_is_no_telegram_is_refused() -> None:
    """Two in one message, an encrypted one, or anything else."""
    assert refusal(b"\xdb\x08KFM\xff") == "refused_encrypted"
    assert refusal(b"512") == "refused_type"
    assert refusal(b"") == "refused_empty"
    assert refusal(WHOLE + WHOLE) == "refused_checksum"
