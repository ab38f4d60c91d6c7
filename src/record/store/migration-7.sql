-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- What the program spent on evaluation and on checkpoints outside of all epochs, where it says so.
ALTER TABLE node ADD COLUMN evaluation_outside_seconds REAL;
ALTER TABLE node ADD COLUMN checkpoint_outside_seconds REAL;
CREATE TRIGGER node_changed_aside AFTER UPDATE ON node
    WHEN (NEW.evaluation_outside_seconds, NEW.checkpoint_outside_seconds)
        IS NOT (OLD.evaluation_outside_seconds, OLD.checkpoint_outside_seconds)
BEGIN
    UPDATE node SET change_seq = NULL WHERE id = NEW.id;
END;
