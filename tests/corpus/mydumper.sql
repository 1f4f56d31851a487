-- mydumper and myloader: what a restore by myloader writes.
CREATE TABLE `stock` (`id` int NOT NULL, `n` int DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

INSERT INTO `stock` VALUES (1,10),(2,20);

-- then

/*!40101 SET NAMES binary*/;
/*!40014 SET FOREIGN_KEY_CHECKS=0*/;
/*!40101 SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO'*/;
/*!40103 SET TIME_ZONE='+00:00' */;
SET autocommit=1;

DROP TABLE IF EXISTS `{database}`.`stock`;

CREATE TABLE `stock` (
  `id` int NOT NULL,
  `n` int DEFAULT NULL,
  `label` varchar(30) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'schön',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

START TRANSACTION;
INSERT INTO `stock` VALUES(1,10,"grün")
,(2,20,NULL);
COMMIT;

CREATE TABLE `move` (
  `id` int NOT NULL AUTO_INCREMENT,
  `stock_id` int DEFAULT NULL,
  `at` datetime DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4;

INSERT INTO `move` VALUES(1,1,"2024-01-01 10:00:00"),(2,2,NULL);

ALTER TABLE `move` 
  ADD KEY `stock_id` (`stock_id`);

ALTER TABLE `move` ADD KEY `at` (`at`), ADD UNIQUE KEY `both` (`stock_id`,`at`);

ALTER TABLE `{database}`.`move` ADD CONSTRAINT `move_stock` FOREIGN KEY (`stock_id`) REFERENCES `stock` (`id`);

TRUNCATE TABLE `{database}`.`move`;

INSERT INTO `{database}`.`move` VALUES (0,1,"2024-01-01");

DELETE FROM `{database}`.`move`;

CREATE DATABASE IF NOT EXISTS `{other}`;

CREATE TABLE `{other}`.`stock` (`id` int NOT NULL, `é` int, PRIMARY KEY (`id`)) COMMENT 'naïve';

/*!40101 SET NAMES utf8mb4*/;
SET SESSION SQL_MODE = DEFAULT;

/*!50001 CREATE VIEW `stock_view` AS SELECT 1 AS `id`*/;

DROP VIEW IF EXISTS `stock_view`;

DROP TABLE `move`;
