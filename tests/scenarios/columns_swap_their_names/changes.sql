ALTER TABLE t RENAME COLUMN v TO s, RENAME COLUMN s TO v;
UPDATE t SET v = 'bb', s = 21 WHERE id = 2;
INSERT INTO t (id, v, s) VALUES (4, 'd', 40);
