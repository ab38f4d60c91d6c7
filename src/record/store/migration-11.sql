-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- The wall clock of the node was set while the epoch ran: its times are not used.
ALTER TABLE timing ADD COLUMN clock_set INTEGER NOT NULL DEFAULT 0;
