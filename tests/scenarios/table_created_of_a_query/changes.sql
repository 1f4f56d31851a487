CREATE TABLE born (PRIMARY KEY (id)) SELECT id, v FROM t;
UPDATE born SET v = 0 WHERE id = 2;
