"""Words that identify nobody: those in the keys, units and states of meters and gateways.

They include the plain names (letters, digits and _) of fields that a built-in profile reads or drops.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from meteragent.decode.profiles import PROFILES

_UNITS = """
w kw mw va kva var kvar wh kwh mwh vah varh kvarh v mv a ma hz c f k l m m3 dm3 gj j mj s ms min h d lat lon
percent pct dbm db eur gbp usd pf ratio counts imp ppm lux
"""

_STATES = """
true false yes no on off none null nan inf infinity unknown unavailable undefined online offline ok error
open closed auto manual timer init http mqtt button loopback telegram electricity gas water heat warm cold
heating cooling notify status full event crc parity checksum connected disconnected import export net
consumer producer single mono multi tri high low normal peak offpeak base idle charging discharging
"""

_METERING = """
power powers energy energies load demand consumption consumed consume production produced generation
generated usage used use delivered delivery returned return ret received receive supply feed fed grid solar
pv battery house home site meter meters emeter meterid register registers reading readings read value values
val data datas field fields object objects result results measurement measurements sensor sensors interval
intervals block blocks pulse pulses pulsecount count counts counter counters cumulative total totals sum
today yesterday day days daily week weekly month monthly year yearly hour hourly minute minutes second
seconds period now last first previous prev next current currents currently present instant instantaneous
inst average avg mean minimum maximum max active act reactive react apparent aprt aapparent real energyin
energyout factor cos phi angle frequency freq voltage volt volts ampere amps amp watt watts kilowatt kilo
tariff tariffs tarif rate rates price prices cost costs currency standing charge unit units uom scale scaler
multiplier phase phases line lines neutral channel channels circuit input inputs output outputs relay relays
switch plug socket component params param method device devices dev node nodes gateway hub host model
manufacturer manufacture version ver firmware fw hw hardware type types kind class media name names label
friendly description title serial number num identifier identification ident eui address addr mac ssid wifi
ip ipv4 net network rssi snr lqi signal linkquality quality link strength time times timestamp timestamps ts
date datetime utc unixtime unix epoch local zone timezone offset start end begin stop duration uptime age
lastseen seen updated update transmit sent send message messages msg payload payloads topic topics qos
retain seq sequence frame frames port length len size index idx code codes state states status alarm alarms
flag flags warning errors failure failures outage outages power_off sag sags swell swells long short log
actual delta change changed changes calibrated user src source dst destination target id ids uuid guid key
keys mode config configuration settings set info information sys system cloud temperature humidity temp
brightness coordinator process discovery origin availability customer supplier mpan mprn pod adco contract
account tenant application location latitude longitude altitude electricitymeter gasmeter electric
telegram obis crc mic checksum differential consumptions intervalcount endpoint ert idm netidm scm scmplus
plus tamper encoder hop module appliance leak backflow basic spare by from to of in out per and the all any
other extra additional new old raw agg rx tx up down event events uplink confirmed deduplication dr adr fcnt
fport margin regional modulation lora bandwidth spreading cr rpc tele stat cmnd homeassistant zigbee2mqtt
shellies shelly emon emonhub glow vzlogger sml2mqtt wmbusmeters wmbus rtl rtlamr rtlamr2mqtt dsmr p1 tasmota
esphome senml chirpstack iammeter realtime private statestream aenergy apower em em1 emdata em1data pm pm1
vrms irms equipment position at phy enc protocol unitrate standingcharge tags server uploadsn sta cumul
em24 iem3000 abbb23 nemo ime amiplus omnipower esyswm ehzp gransystems positive negative three partial packet
"""

_CODES = """
papp base hchc hchp isousc ptec iinst imax hhphc motdetat optarif adps ppot tic teleinfo east easf sinsts
sinsti smaxsn irms1 urms1 ntarf ltarf ngtf prm relais stge umoy eait eaid ccasn ccain bbr bbrhcjb bbrhpjb
bbrhcjw bbrhpjw bbrhcjr bbrhpjr ejphn ejphpm pejp demain contact msg1 msg2 pref pcoup date energytotal
energytoday energyyesterday bn bt bu bv bs bver n u v vs vb vd s t ut l1 l2 l3 l a b c x y z p q r i e k tc
tf pn sn tst mid fw_ver z1 z2 hp hc hpjb hpjw hpjr hcjb hcjw hcjr wh_in wh_out txt md dd apikey
"""

_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def _fields() -> Iterator[str]:
    """Yield the plain names of fields that the built-in profiles read or drop, in lower case."""
    for profile in PROFILES.values():
        names = (*profile.fields, *profile.personal)
        yield from (name.lower() for name in names if _FIELD.fullmatch(name))


WORDS = frozenset([*f"{_UNITS} {_STATES} {_METERING} {_CODES}".split(), *_fields()])
"""All words that identify nobody, in lower case."""

UNITS = frozenset(_UNITS.split())

_TIMES = """
t bt ut ts time times timestamp date datetime unixtime unix epoch seen lastseen
"""
TIME_WORDS = frozenset(_TIMES.split())
"""A number is taken for a Unix time only under a key with one of these words."""

_SMALL = """
id type bver version ver phase channel tariff idx qos port fport seq ert endpoint packet
"""
SMALL = frozenset(_SMALL.split())
"""Under a key that consists of these words, a number of one or two (decimal or hexadecimal) digits is kept,
because it describes the message. A decimal number under `type` may have three digits."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", re.ASCII)
_JOINTS = re.compile(r"[A-Za-z0-9_\-. %/+²³°€$£]*")
_DIGITS_MAX = 2


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[str, ...]:
    """Split a name into words and numbers, in lower case."""
    return tuple(part.lower() for part in _PARTS.findall(text))


@lru_cache(maxsize=4096)
def is_known(text: str) -> bool:
    """Return whether a name consists of known words and at most one number of up to two digits."""
    if text.lower() in WORDS:
        return True
    pieces = parts(text)
    numbers = [piece for piece in pieces if piece.isdecimal()]
    if len(numbers) > 1 or any(len(number) > _DIGITS_MAX for number in numbers):
        return False
    name_parts = [piece for piece in pieces if not piece.isdecimal()]
    # Two or more single letters could spell anything.
    could_spell = sum(len(part) == 1 for part in name_parts) > 1
    return (
        bool(name_parts)
        and not could_spell
        and all(w in WORDS for w in name_parts)
        and bool(_JOINTS.fullmatch(text))
    )
