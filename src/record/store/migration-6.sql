-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- Other databases that rows came from, by their random names.
CREATE TABLE origin (
    id INTEGER PRIMARY KEY,
    store TEXT NOT NULL UNIQUE
) STRICT;

-- Where a row was imported from, and its number there: which version of it this is. NULL: nobody imported it. `told_` is what
-- its database told of the run's end; the state itself may be made of what several told.
ALTER TABLE run ADD COLUMN origin INTEGER REFERENCES origin (id);
ALTER TABLE run ADD COLUMN origin_seq INTEGER;
ALTER TABLE run ADD COLUMN told_state TEXT;
ALTER TABLE run ADD COLUMN told_ended_at_ms INTEGER;
ALTER TABLE node ADD COLUMN origin INTEGER REFERENCES origin (id);
ALTER TABLE node ADD COLUMN origin_seq INTEGER;
ALTER TABLE timing ADD COLUMN origin INTEGER REFERENCES origin (id);
ALTER TABLE timing ADD COLUMN origin_seq INTEGER;
ALTER TABLE gpu ADD COLUMN origin INTEGER REFERENCES origin (id);
ALTER TABLE gpu ADD COLUMN origin_seq INTEGER;
ALTER TABLE block ADD COLUMN origin INTEGER REFERENCES origin (id);

-- Imports that were taken in, by the digest of their lines.
CREATE TABLE import (
    name TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    lines INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Lines of imports whose run, or whose measurement of it (`measure`; empty: the run), did not come yet.
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    measure TEXT NOT NULL,
    line TEXT NOT NULL,
    UNIQUE (run_id, measure, line)
) STRICT;
