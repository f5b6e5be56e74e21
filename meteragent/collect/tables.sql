-- The tables of received records, and views of them. The comments of tables and columns say what they hold.

CREATE TABLE setting (
    name        text PRIMARY KEY,
    value       text NOT NULL
);
COMMENT ON TABLE setting IS 'settings that cannot change once there are records';

CREATE TABLE descriptor (
    d           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest      text NOT NULL UNIQUE,
    id          text NOT NULL,
    facts       text NOT NULL,
    is_summable boolean NOT NULL,
    unit        text NOT NULL,
    quantum_u   bigint NOT NULL CHECK (quantum_u > 0),
    variance    numeric NOT NULL CHECK (variance > 0),
    joules      numeric,
    is_energy   boolean NOT NULL,
    bands       jsonb NOT NULL,
    received    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE descriptor IS 'the terms under which records were released';
COMMENT ON COLUMN descriptor.digest IS 'the SHA-256 of the facts';
COMMENT ON COLUMN descriptor.id IS 'its first 8 digits, by which records name it; other terms may have the same';
COMMENT ON COLUMN descriptor.facts IS
    'the JSON whose hash is the id: the descriptor, without the id and the fields that are one meter''s';
COMMENT ON COLUMN descriptor.is_summable IS 'whether values of several homes may be summed';
COMMENT ON COLUMN descriptor.quantum_u IS 'the step of the values, in millionths of the unit';
COMMENT ON COLUMN descriptor.variance IS 'the variance of the noise of one value, in the unit squared';
COMMENT ON COLUMN descriptor.joules IS
    'the energy of one unit: joules (energies), joules a second (powers); null if no energy follows from values';
COMMENT ON COLUMN descriptor.is_energy IS 'whether values are energies; otherwise they are mean powers';
COMMENT ON COLUMN descriptor.bands IS 'the seconds of each band in a window, by its name';

CREATE TABLE record (
    stream      text NOT NULL,
    meter       text NOT NULL,
    t           timestamptz NOT NULL,
    band        text NOT NULL DEFAULT '',
    until       timestamptz NOT NULL,
    quanta      bigint NOT NULL,
    d           integer NOT NULL,
    draws       integer NOT NULL DEFAULT 1,
    PRIMARY KEY (stream, meter, t, band)
) PARTITION BY RANGE (t);
COMMENT ON TABLE record IS 'the private value of each slot, once: quanta times the quantum of its descriptor';
COMMENT ON COLUMN record.t IS 'the start of the slot; of a band or a peak, that of the window';
COMMENT ON COLUMN record.band IS 'the band''s name; empty if slots are not bands';
COMMENT ON COLUMN record.draws IS 'the number of noises in a peak; otherwise 1';

CREATE TABLE terms (
    stream      text NOT NULL,
    meter       text NOT NULL,
    d           integer NOT NULL REFERENCES descriptor,
    PRIMARY KEY (stream, meter, d)
);
COMMENT ON TABLE terms IS 'the descriptors that each meter has announced';

CREATE TABLE waiting (
    place       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    d           text NOT NULL,
    stream      text NOT NULL,
    meter       text NOT NULL,
    topic       text NOT NULL,
    payload     bytea NOT NULL,
    received    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX waiting_once ON waiting (d, topic, sha256(payload));
CREATE INDEX waiting_for ON waiting (stream, meter, d);
COMMENT ON TABLE waiting IS 'records that arrived before their descriptor, as they arrived';

CREATE TABLE refused (
    stream      text NOT NULL,
    reason      text NOT NULL,
    count       bigint NOT NULL,
    latest      timestamptz NOT NULL DEFAULT now(),
    origin      text NOT NULL DEFAULT '',
    detail      text NOT NULL DEFAULT '',
    PRIMARY KEY (stream, reason)
);
COMMENT ON TABLE refused IS 'how many messages were refused; a message that was delivered twice may count twice';
COMMENT ON COLUMN refused.origin IS 'the topic of the latest message; for twice and overlap, its meter';
COMMENT ON COLUMN refused.detail IS 'what is wrong with the latest message; it names a field, and never a value';

CREATE TABLE collector (
    name        text PRIMARY KEY,
    version     text NOT NULL,
    started     timestamptz NOT NULL DEFAULT now(),
    latest      timestamptz,
    messages    bigint NOT NULL DEFAULT 0,
    written     bigint NOT NULL DEFAULT 0,
    repeated    bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE collector IS 'each running `meteragent collect`: when it last committed, and what since its start';

CREATE TABLE feeder (
    meter       text NOT NULL,
    feeder      text NOT NULL,
    valid       tstzrange NOT NULL DEFAULT '(,)',
    capacity    numeric CHECK (capacity > 0),
    -- A meter is on one feeder at a time. Hashes stand in for the extension btree_gist, which not everybody may install.
    EXCLUDE USING gist (
        int8range(hashtextextended(meter, 0), hashtextextended(meter, 0), '[]') WITH &&, valid WITH &&
    )
);
CREATE INDEX feeder_meter ON feeder (meter);
COMMENT ON TABLE feeder IS 'the feeder of each meter, for the times that `valid` contains; yours to fill';
COMMENT ON COLUMN feeder.capacity IS 'what the meter''s connection allows, in any unit, for the dominance rule';

-- Views with exact sums. A value is quanta * quantum, a whole number of millionths, so every sum is exact.

CREATE VIEW value AS
SELECT r.stream, r.meter, r.t, r.until, r.band,
       r.quanta * d.quantum_u * 0.000001 AS value,
       d.unit, d.variance, r.d, d.id, r.draws
FROM record r JOIN descriptor d USING (d);
COMMENT ON VIEW value IS 'records in their unit, exactly; `variance` is that of the noise';

CREATE VIEW energy AS
SELECT r.stream, r.meter, r.t, r.until, r.band,
       r.quanta * d.quantum_u * 0.000001 * j.joules AS joules,
       r.quanta * d.quantum_u * 0.000001 * j.joules / 3600000 AS kwh,
       d.variance * j.joules * j.joules AS variance_j2,
       sqrt(d.variance) * j.joules / 3600000 AS sd_kwh,
       r.d
FROM record r
JOIN descriptor d USING (d),
LATERAL (
    SELECT CASE
        WHEN d.is_energy THEN d.joules
        WHEN r.band = '' THEN d.joules * extract(epoch FROM r.until - r.t)
        ELSE d.joules * (d.bands ->> r.band)::numeric
    END AS joules
) j
WHERE j.joules IS NOT NULL;
COMMENT ON VIEW energy IS 'the energy of each record; joules are exact, kwh is rounded; sums of variance_j2 are variances of sums';

CREATE VIEW mean_power AS
SELECT e.stream, e.meter, e.t, e.until, e.band,
       e.joules / s.seconds AS watts,
       e.variance_j2 / (s.seconds * s.seconds) AS variance_w2,
       e.d
FROM energy e
JOIN descriptor d USING (d),
LATERAL (
    SELECT CASE WHEN e.band = '' THEN extract(epoch FROM e.until - e.t)
                ELSE (d.bands ->> e.band)::numeric END AS seconds
) s
WHERE s.seconds > 0;
COMMENT ON VIEW mean_power IS 'the mean power of each record, in watts';

-- 1.959963984540054 is the 97.5 % quantile of the normal distribution.
CREATE VIEW feeder_total AS
SELECT c.*, c.total / c.homes AS mean, sqrt(c.variance) / c.homes AS sd,
       (c.total - 1.959963984540054 * sqrt(c.variance)) / c.homes AS low,
       (c.total + 1.959963984540054 * sqrt(c.variance)) / c.homes AS high
FROM (
    SELECT r.stream, f.feeder, r.t, r.until, d.unit, count(*) AS homes,
           sum(r.quanta * d.quantum_u) * 0.000001 AS total, sum(d.variance) AS variance
    FROM record r
    JOIN descriptor d USING (d)
    JOIN feeder f ON f.meter = r.meter AND f.valid @> r.t
    WHERE r.band = '' AND d.is_summable
    GROUP BY r.stream, f.feeder, r.t, r.until, d.unit
) c;
COMMENT ON VIEW feeder_total IS
    'each slot of each feeder: exact total and variance, and the mean with its 95 % interval by the normal approximation';

CREATE VIEW stream_total AS
SELECT c.*, c.total / c.homes AS mean, sqrt(c.variance) / c.homes AS sd,
       (c.total - 1.959963984540054 * sqrt(c.variance)) / c.homes AS low,
       (c.total + 1.959963984540054 * sqrt(c.variance)) / c.homes AS high
FROM (
    SELECT r.stream, r.t, r.until, d.unit, count(*) AS homes,
           sum(r.quanta * d.quantum_u) * 0.000001 AS total, sum(d.variance) AS variance
    FROM record r
    JOIN descriptor d USING (d)
    WHERE r.band = '' AND d.is_summable
    GROUP BY r.stream, r.t, r.until, d.unit
) c;
COMMENT ON VIEW stream_total IS 'each slot of each stream over all meters, as feeder_total';

CREATE FUNCTION shown_total(
    of_stream text, from_t timestamptz, to_t timestamptz,
    at_least integer DEFAULT 15, share numeric DEFAULT NULL, by_capacity boolean DEFAULT false
) RETURNS TABLE (
    feeder text, t timestamptz, until timestamptz, unit text, homes bigint,
    total numeric, mean numeric, sd numeric, low numeric, high numeric, shown boolean
) LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH slot AS (
        SELECT f.feeder, f.capacity, r.meter, r.t, r.until, d.unit, d.variance,
               r.quanta * d.quantum_u AS value_u,
               CASE WHEN d.is_energy THEN 1 ELSE extract(epoch FROM r.until - r.t) END * d.joules AS joules
        FROM record r
        JOIN descriptor d USING (d)
        JOIN feeder f ON f.meter = r.meter AND f.valid @> r.t
        WHERE r.stream = of_stream AND r.t >= from_t AND r.t < to_t AND r.band = '' AND d.joules IS NOT NULL
    ), home AS (
        SELECT s.feeder, s.meter, sum(s.value_u * s.joules) * 0.000001 AS energy,
               sum(s.variance * s.joules * s.joules) AS variance
        FROM slot s GROUP BY s.feeder, s.meter
    ), whole AS (
        SELECT h.feeder, count(*) AS homes, sum(h.energy) AS energy, sum(h.variance) AS variance
        FROM home h GROUP BY h.feeder
    ), doubtful AS (
        -- The energy E_i of a home less the share s of the feeder's E has the variance below. If some home has
        -- more than its share, the feeder is shown with a probability of about 5 % at most: 1.6448536269514722
        -- is the 95 % quantile of the normal distribution.
        SELECT w.feeder
        FROM whole w JOIN home h USING (feeder)
        GROUP BY w.feeder, w.homes
        HAVING w.homes * share < 1 OR bool_or(coalesce(
            h.energy - share * w.energy + 1.6448536269514722
            * sqrt((1 - share) * (1 - share) * h.variance + share * share * (w.variance - h.variance)) > 0, true))
    ), cell AS (
        SELECT s.feeder, s.t, s.until, s.unit, count(*) AS homes, sum(s.value_u) * 0.000001 AS total,
               sum(s.variance) AS variance,
               count(*) >= at_least AND CASE
                   WHEN share IS NULL THEN true
                   WHEN by_capacity
                   THEN count(s.capacity) = count(*) AND max(s.capacity) <= share * sum(s.capacity)
                   ELSE s.feeder NOT IN (SELECT doubtful.feeder FROM doubtful)
               END AS shown
        FROM slot s GROUP BY s.feeder, s.t, s.until, s.unit
    )
    SELECT c.feeder, c.t, c.until, c.unit, c.homes,
           CASE WHEN c.shown THEN c.total END,
           CASE WHEN c.shown THEN c.total / c.homes END,
           CASE WHEN c.shown THEN sqrt(c.variance) / c.homes END,
           CASE WHEN c.shown THEN (c.total - 1.959963984540054 * sqrt(c.variance)) / c.homes END,
           CASE WHEN c.shown THEN (c.total + 1.959963984540054 * sqrt(c.variance)) / c.homes END,
           c.shown
    FROM cell c ORDER BY c.feeder, c.t
$$;
COMMENT ON FUNCTION shown_total IS
    'feeder_total under the rules of consume.by_feeder: a number of homes, and no home with more than a share';
