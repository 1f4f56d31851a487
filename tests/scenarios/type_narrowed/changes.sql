UPDATE t SET s = 'longer' WHERE id = 2;
SET sql_mode = '';
ALTER TABLE t MODIFY s VARCHAR(3), MODIFY v TINYINT;
INSERT INTO t VALUES (4, 40, 'd');
SET sql_mode = DEFAULT;
