-- When the time of a job is up whose limit may be raised.
ALTER TABLE node ADD COLUMN time_limit_ms INTEGER;
