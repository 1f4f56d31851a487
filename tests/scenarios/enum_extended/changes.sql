ALTER TABLE t MODIFY k ENUM('x', 'y', 'z');
INSERT INTO t VALUES (3, 'z');
UPDATE t SET k = 'z' WHERE id = 1;
