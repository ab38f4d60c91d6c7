-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- The image that the command runs in: a path or URI, its name in the catalogue, and `sha256:..`; NULL: no container.
ALTER TABLE run ADD COLUMN image TEXT;
ALTER TABLE run ADD COLUMN image_name TEXT;
ALTER TABLE run ADD COLUMN image_digest TEXT;
-- hub, pip or source.
ALTER TABLE run ADD COLUMN framework_provenance TEXT;
-- How the command got into its container, a JSON object as in record.json.
ALTER TABLE node ADD COLUMN container TEXT;
