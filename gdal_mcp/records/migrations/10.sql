-- the call of the workflow that a call is a step of
ALTER TABLE calls ADD COLUMN part_of TEXT NOT NULL DEFAULT '';
CREATE INDEX calls_by_workflow ON calls (part_of) WHERE part_of <> '';
