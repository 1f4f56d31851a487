RENAME TABLE t TO _t_old;
RENAME TABLE _u_old TO t;
UPDATE t SET v = 101 WHERE id = 1;
DROP TABLE _t_old;
