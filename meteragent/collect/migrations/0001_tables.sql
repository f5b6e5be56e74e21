-- The tables of received records. The comments of tables and columns say what they hold.

CREATE TABLE setting (
    name        text PRIMARY KEY,
    value       text NOT NULL
);
COMMENT ON TABLE setting IS 'settings that cannot change once there are records';

CREATE TABLE descriptor (
    d           text PRIMARY KEY,
    facts       jsonb NOT NULL,
    space       text NOT NULL,
    unit        text NOT NULL,
    quantum_u   bigint NOT NULL CHECK (quantum_u > 0),
    variance    numeric NOT NULL CHECK (variance > 0),
    joules      numeric,
    is_energy   boolean NOT NULL,
    received    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE descriptor IS 'the terms under which records were released, by their id';
COMMENT ON COLUMN descriptor.facts IS 'the descriptor, without the fields that are one meter''s';
COMMENT ON COLUMN descriptor.quantum_u IS 'the step of the values, in millionths of the unit';
COMMENT ON COLUMN descriptor.variance IS 'the variance of the noise of one value, in the unit squared';
COMMENT ON COLUMN descriptor.joules IS
    'the energy of one unit: joules (energies), joules a second (powers); null if no energy follows from values';
COMMENT ON COLUMN descriptor.is_energy IS 'whether values are energies; otherwise they are mean powers';

CREATE TABLE record (
    stream      text NOT NULL,
    meter       text NOT NULL,
    t           timestamptz NOT NULL,
    band        text NOT NULL DEFAULT '',
    until       timestamptz NOT NULL,
    quanta      bigint NOT NULL,
    d           text NOT NULL,
    draws       integer NOT NULL DEFAULT 1,
    PRIMARY KEY (stream, meter, t, band)
) PARTITION BY RANGE (t);
COMMENT ON TABLE record IS 'the private value of each slot, once: quanta times the quantum of its descriptor';
COMMENT ON COLUMN record.t IS 'the start of the slot; of a band or a peak, that of the window';
COMMENT ON COLUMN record.band IS 'the band''s name; empty if slots are not bands';
COMMENT ON COLUMN record.draws IS 'the number of noises in a peak; otherwise 1';

CREATE TABLE terms (
    stream      text NOT NULL,
    d           text NOT NULL REFERENCES descriptor,
    PRIMARY KEY (stream, d)
);
COMMENT ON TABLE terms IS 'the descriptors that the records of each stream name';

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
COMMENT ON TABLE waiting IS 'records that arrived before their descriptor, as they arrived';

CREATE TABLE refused (
    stream      text NOT NULL,
    reason      text NOT NULL,
    count       bigint NOT NULL,
    latest      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, reason)
);
COMMENT ON TABLE refused IS 'how many messages were refused; a message that was delivered twice may count twice';

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
