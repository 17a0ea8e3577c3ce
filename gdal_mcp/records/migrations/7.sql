-- where a call that is approved in advance may read over the network
ALTER TABLE grants ADD COLUMN remote TEXT NOT NULL DEFAULT '[]';
