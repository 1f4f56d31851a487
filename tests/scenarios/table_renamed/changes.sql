UPDATE t SET v = 11 WHERE id = 1;
RENAME TABLE t TO moved;
UPDATE moved SET v = 21 WHERE id = 2;
