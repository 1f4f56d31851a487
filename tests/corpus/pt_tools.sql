-- Percona Toolkit: pt-table-checksum and pt-heartbeat, which write in STATEMENT format; pt-archiver.
CREATE TABLE `sale` (`id` int NOT NULL AUTO_INCREMENT, `amount` decimal(8,2) NOT NULL, `at` datetime NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

CREATE TABLE `sale_archive` (`id` int NOT NULL, `amount` decimal(8,2) NOT NULL, `at` datetime NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

INSERT INTO `sale` (`amount`, `at`) VALUES (1.5, '2020-01-01'), (2.5, '2024-01-01'), (3, '2024-02-01');

-- then

CREATE DATABASE IF NOT EXISTS `{other}` /* pt-table-checksum */;

CREATE TABLE IF NOT EXISTS `{other}`.`checksums` (
  db CHAR(64) NOT NULL,
  tbl CHAR(64) NOT NULL,
  chunk INT NOT NULL,
  chunk_time FLOAT NULL,
  chunk_index VARCHAR(200) NULL,
  lower_boundary TEXT NULL,
  upper_boundary TEXT NULL,
  this_crc CHAR(40) NOT NULL,
  this_cnt INT NOT NULL,
  master_crc CHAR(40) NULL,
  master_cnt INT NULL,
  ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (db, tbl, chunk),
  INDEX ts_db_tbl (ts, db, tbl)
) ENGINE=InnoDB;

SET SESSION binlog_format = 'STATEMENT';
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
DELETE FROM `{other}`.`checksums` WHERE db = '{database}' AND tbl = 'sale';
REPLACE INTO `{other}`.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) SELECT '{database}', 'sale', '1', NULL, NULL, NULL, COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, `amount`, `at`)) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `{database}`.`sale` /*checksum table*/;
UPDATE `{other}`.`checksums` SET chunk_time = '0.01', master_crc = 'abc', master_cnt = '3' WHERE db = '{database}' AND tbl = 'sale' AND chunk = '1';
SET SESSION binlog_format = 'ROW';

CREATE TABLE IF NOT EXISTS `{other}`.`heartbeat` (
  ts varchar(26) NOT NULL,
  server_id int unsigned NOT NULL PRIMARY KEY,
  file varchar(255) DEFAULT NULL,
  position bigint unsigned DEFAULT NULL,
  relay_master_log_file varchar(255) DEFAULT NULL,
  exec_master_log_pos bigint unsigned DEFAULT NULL
);

SET SESSION binlog_format = STATEMENT;
REPLACE INTO `{other}`.`heartbeat` (ts, server_id, file, position) VALUES ('2024-01-01T00:00:00.000100', '1', 'mysql-bin.000001', '4');
UPDATE `{other}`.`heartbeat` SET ts='2024-01-01T00:00:01.000500' WHERE server_id='1';
SET SESSION binlog_format = ROW;

UPDATE `sale` SET `amount` = 9 WHERE `id` = 2;

INSERT INTO `{database}`.`sale_archive`(`id`,`amount`,`at`) SELECT `id`,`amount`,`at` FROM `{database}`.`sale` WHERE (`at` < '2021-01-01');

DELETE FROM `{database}`.`sale` WHERE (((`id` >= '1'))) AND (((`id` <= '9'))) AND (`at` < '2021-01-01') LIMIT 1000;

OPTIMIZE TABLE `{database}`.`sale`;

ANALYZE TABLE `{database}`.`sale`;

DROP TABLE IF EXISTS `{other}`.`checksums`;
