CREATE TABLE born (id INT PRIMARY KEY, w VARCHAR(9));
INSERT INTO born VALUES (1, 'one'), (2, 'two');
UPDATE born SET w = 'deux' WHERE id = 2;
CREATE TABLE twin LIKE t;
INSERT INTO twin SELECT * FROM t WHERE id < 3;
DELETE FROM twin WHERE id = 1;
