-- who may decide what, what was decided beforehand, and calls by principal
ALTER TABLE approvals ADD COLUMN call_id TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN effect TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN workspaces TEXT NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN ways TEXT NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN details TEXT NOT NULL DEFAULT '{}';
ALTER TABLE approvals ADD COLUMN holder TEXT NOT NULL DEFAULT '';
CREATE TABLE grants (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, workspace TEXT NOT NULL,
    created REAL NOT NULL, expires REAL NOT NULL, granted_by TEXT NOT NULL, granted_how TEXT NOT NULL,
    revoked REAL, revoked_by TEXT NOT NULL DEFAULT '');
CREATE INDEX grants_live ON grants (principal, tool, expires) WHERE revoked IS NULL;
CREATE INDEX calls_principal ON calls (principal);
