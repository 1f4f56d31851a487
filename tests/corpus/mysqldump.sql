-- mysqldump and mariadb-dump: what replaying a dump writes, with its conditional comments.
CREATE TABLE `kept` (`id` int NOT NULL, `v` varchar(10) DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

INSERT INTO `kept` VALUES (1,'a'),(2,'b');

-- then

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

DROP TABLE IF EXISTS `city`;

/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `city` (
  `id` int NOT NULL AUTO_INCREMENT,
  `name` char(35) COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT '',
  `country` char(3) CHARACTER SET latin1 NOT NULL DEFAULT '',
  `people` int unsigned NOT NULL DEFAULT '0',
  `seen` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  `kind` enum('town','it''s','a\\b') DEFAULT NULL,
  `size` decimal(10,2) GENERATED ALWAYS AS ((`people` / 1000)) STORED,
  PRIMARY KEY (`id`),
  UNIQUE KEY `name_country` (`name`,`country`),
  KEY `country` (`country`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci ROW_FORMAT=DYNAMIC COMMENT='places; many';
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `city` WRITE;
/*!40000 ALTER TABLE `city` DISABLE KEYS */;
INSERT INTO `city` (`id`, `name`, `country`, `people`, `seen`, `kind`) VALUES (1,'Berne','CHE',134000,'2024-01-01 00:00:00','town'),(2,'O\'Higgins','CHL',1,'2024-01-01 00:00:00','it\'s');
/*!40000 ALTER TABLE `city` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `kept`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `kept` (
  `id` int(11) NOT NULL,
  `v` varchar(20) DEFAULT NULL,
  `extra` bigint(20) unsigned DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `kept` WRITE;
/*!40000 ALTER TABLE `kept` DISABLE KEYS */;
set autocommit=0;
INSERT INTO `kept` VALUES (5,'x',18446744073709551615);
/*!40000 ALTER TABLE `kept` ENABLE KEYS */;
UNLOCK TABLES;
commit;
set autocommit=1;

SET @saved_cs_client     = @@character_set_client;
/*!50503 SET character_set_client = utf8mb4 */;
/*!50001 CREATE VIEW `big_cities` AS SELECT
 1 AS `id`,
 1 AS `name`*/;
SET character_set_client = @saved_cs_client;

/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' */ ;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `city_bi` BEFORE INSERT ON `city` FOR EACH ROW SET NEW.people = COALESCE(NEW.people, 0) */;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;

INSERT INTO `city` (`name`) VALUES ('Zug');

/*!50106 SET @save_time_zone= @@TIME_ZONE */ ;
/*!50106 DROP EVENT IF EXISTS `tidy` */;
/*!50106 CREATE*/ /*!50117 DEFINER=`root`@`localhost`*/ /*!50106 EVENT `tidy` ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' ON COMPLETION NOT PRESERVE DISABLE DO DELETE FROM city */ ;
/*!50106 SET TIME_ZONE= @save_time_zone */ ;

/*!50003 DROP PROCEDURE IF EXISTS `noop` */;
/*!50003 CREATE*/ /*!50020 DEFINER=`root`@`localhost`*/ /*!50003 PROCEDURE `noop`()
BEGIN
  SELECT 'DROP TABLE city'; END */;

/*!50001 DROP VIEW IF EXISTS `big_cities`*/;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `big_cities` AS select `city`.`id` AS `id`,`city`.`name` AS `name` from `city` where (`city`.`people` > 100000) */;

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{other}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `{other}`;
DROP TABLE IF EXISTS `city`;
CREATE TABLE `city` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
INSERT INTO `city` VALUES (1);
USE `{database}`;

-- only: mysql
CREATE TABLE `parted` (
  `id` int NOT NULL,
  `at` date NOT NULL,
  PRIMARY KEY (`id`,`at`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1
/*!50100 PARTITION BY RANGE (year(`at`))
(PARTITION p0 VALUES LESS THAN (2020) ENGINE = InnoDB,
 PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */;

-- only: mysql-8 mysql-9
CREATE TABLE `hidden` (
  `id` int NOT NULL,
  `secret` int DEFAULT NULL /*!80023 INVISIBLE */,
  `code` varchar(9) DEFAULT (concat(_utf8mb4'x',1)),
  KEY `s` (`secret`) /*!80000 INVISIBLE */,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- only: mariadb
/*M!999999\- enable the sandbox mode */;
CREATE TABLE `maria` (
  `id` int(11) NOT NULL,
  `a` int(11) DEFAULT 5 CHECK (`a` > 0),
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB /*M!100301 COMMENT='only here' */;

/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;
