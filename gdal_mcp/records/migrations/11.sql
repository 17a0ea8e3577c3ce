-- calls that ended before there was a table of figures, which are counted when figures are first needed
CREATE TABLE uncounted (id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO uncounted
    SELECT id FROM calls WHERE finished IS NOT NULL AND id NOT IN (SELECT id FROM ended)
