-- who undid a call
ALTER TABLE calls ADD COLUMN undone TEXT NOT NULL DEFAULT '';
