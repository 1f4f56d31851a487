CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(20));
INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
