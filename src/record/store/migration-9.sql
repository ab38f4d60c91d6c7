-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- What a run is a run of, as JSON, and the two names by which runs that may be alike are found.
ALTER TABLE run ADD COLUMN identity TEXT;
CREATE INDEX run_program ON run (identity ->> 'program') WHERE identity IS NOT NULL;
CREATE INDEX run_workload ON run (identity ->> 'key') WHERE identity IS NOT NULL;
CREATE TRIGGER run_changed_identity AFTER UPDATE ON run WHEN NEW.identity IS NOT OLD.identity
BEGIN
    UPDATE run SET change_seq = NULL WHERE id = NEW.id;
END;
