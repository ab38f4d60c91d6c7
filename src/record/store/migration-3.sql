-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- Indexes of the job array, as in the job file; NULL: no array.
ALTER TABLE run ADD COLUMN array TEXT;
-- Further jobs of an array that was split, a JSON array of objects with job_id and offset.
ALTER TABLE run ADD COLUMN parts TEXT;
ALTER TABLE run ADD COLUMN framework TEXT;
ALTER TABLE run ADD COLUMN framework_version TEXT;
ALTER TABLE run ADD COLUMN framework_compiler TEXT;
ALTER TABLE run ADD COLUMN storage TEXT;
ALTER TABLE run ADD COLUMN storage_class TEXT;
-- 1 where it waits for what cannot come without a change.
ALTER TABLE run ADD COLUMN stuck INTEGER NOT NULL DEFAULT 0;
-- Why it ended otherwise than well: one word, and words.
ALTER TABLE run ADD COLUMN cause TEXT;
ALTER TABLE run ADD COLUMN cause_text TEXT;
-- Elements of the array by state, a JSON object.
ALTER TABLE run ADD COLUMN elements TEXT;

-- Elements of an array that have run, and how they ended; `attempt` is that which did, NULL where none left a mark.
CREATE TABLE element (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    element INTEGER NOT NULL,
    attempt INTEGER,
    state TEXT NOT NULL,
    exit_code INTEGER,
    exit_signal INTEGER,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    PRIMARY KEY (run, element)
) STRICT, WITHOUT ROWID;
