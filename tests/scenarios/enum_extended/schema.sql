CREATE TABLE t (id INT PRIMARY KEY, k ENUM('x', 'y'));
INSERT INTO t VALUES (1, 'x'), (2, 'y');
