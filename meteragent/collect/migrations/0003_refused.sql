-- Where refused messages come from.

ALTER TABLE refused ADD COLUMN origin text NOT NULL DEFAULT '', ADD COLUMN detail text NOT NULL DEFAULT '';
COMMENT ON COLUMN refused.origin IS 'the topic of the latest message; for twice and overlap, its meter';
COMMENT ON COLUMN refused.detail IS 'what is wrong with the latest message; it names a field, and never a value';
