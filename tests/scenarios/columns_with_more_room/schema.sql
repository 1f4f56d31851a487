CREATE TABLE t (id INT PRIMARY KEY, n INT, d DECIMAL(5,2), s VARCHAR(20), c CHAR(5), e ENUM('x', 'y'), f FLOAT(7,2));
INSERT INTO t VALUES (1, 10, 1.5, 'a ', 'b', 'x', 0.5), (2, 20, -999.99, '', 'bcdef', 'y', 1.25);
