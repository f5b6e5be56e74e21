"""Solar panels: the library's model, step by step, and a run from dawn to dusk."""

import numpy as np
import pytest

from simulators.homes.equipment import SOLAR
from simulators.homes.fleet import Fleet
from simulators.homes.household import Households
from simulators.homes.region import GERMANY, GREAT_BRITAIN, Region
from simulators.homes.signature import DAY_S
from simulators.homes.solar import Panels, Roofs
from simulators.homes.weather import STEP_S, day_of_year, sky
from tests.support.weather_peers import peer

HOMES = np.arange(12)


def test_power_is_the_librarys() -> None:
    """The plane's radiation, the cells' temperature, the panels and the inverter equal pvlib's."""
    library = peer("pvlib")
    people = Households.of(2, HOMES, GERMANY)
    roofs = Roofs.of(people, GERMANY)
    for day in (3, 95, 170, 280):
        today = sky(2, GERMANY, day)
        zenith = np.degrees(np.arccos(today.cos_zenith))
        for home in HOMES:
            tilt, azimuth = np.degrees([roofs.tilt[home], roofs.azimuth[home]])
            plane = library.irradiance.get_total_irradiance(
                tilt,
                azimuth,
                zenith,
                np.degrees(today.azimuth),
                today.beam_w,
                today.global_w,
                today.diffuse_w,
                dni_extra=day_of_year(day),
                albedo=0.2,
                model="isotropic",
            )["poa_global"]
            assert roofs.plane_w(today)[home] == pytest.approx(plane, abs=1e-6)
            cell_c = library.temperature.faiman(plane, today.temperature_c, 1.0)
            loss = 1 - library.pvsystem.pvwatts_losses() / 100
            peak_w = roofs.peak_w[home]
            direct_w = loss * library.pvsystem.pvwatts_dc(plane, cell_c, peak_w, -0.0035)
            inverter_w = library.inverter.pvwatts(direct_w, peak_w * loss)
            power_w = roofs.power_w(today)[home]
            # pvlib's standard losses are 14.08%, rounded to 4 digits here.
            assert power_w == pytest.approx(np.maximum(inverter_w, 0), rel=1e-4, abs=0.1)


@pytest.mark.parametrize(("region", "lowest", "highest"), [(GERMANY, 800, 1000), (GREAT_BRITAIN, 700, 950)])
def test_a_year_of_sun(region: Region, lowest: float, highest: float) -> None:
    """A kW of panels delivers what it does in the region, in kWh a year, on average over roofs.

    About 900 in Germany and 850 in the British Midlands. The seed is fixed; a tenth more or less is seen.
    """
    roofs = Roofs.of(Households.of(0, np.arange(200), region), region)
    daily = [roofs.power_w(sky(0, region, day)).sum(axis=1) * STEP_S / 3.6e6 for day in range(2, 365, 5)]
    yearly = 365 * np.mean(daily, axis=0) / roofs.peak_w * 1000
    assert lowest < yearly.mean() < highest


def test_a_run_is_a_day_of_negative_power() -> None:
    """Only owners have one; it begins and ends with the light, and its energy is the roof's."""
    fleet = Fleet.of_today(1, range(300), GERMANY)
    people = fleet.people
    runs = Panels(GERMANY).runs(people, people.absences(160), people.activity(160), 160)
    assert np.array_equal(runs.row, np.flatnonzero(people.owns[SOLAR]))
    assert (runs.levels_mw <= 0).all()
    assert (runs.start_s > 3 * 3600).all()
    assert (runs.stop_s < DAY_S - 2 * 3600).all()
    roofs = Roofs.of(people.select(runs.row), GERMANY)
    energy = roofs.power_w(sky(1, GERMANY, 160)).sum(axis=1) * STEP_S
    assert -runs.mean_w * (runs.stop_s - runs.start_s) == pytest.approx(energy, rel=1e-6)
    seen = fleet.day(160, 900).events.of(SOLAR)
    assert len(seen) == len(runs.row)
    assert (seen.watts < 0).all()
