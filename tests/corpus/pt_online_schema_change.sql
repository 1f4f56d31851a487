-- pt-online-schema-change: _new and _old tables, its triggers, and the swap.
CREATE TABLE `visit` (`id` bigint NOT NULL AUTO_INCREMENT, `page` varchar(50) NOT NULL, `ms` int DEFAULT NULL, PRIMARY KEY (`id`), KEY `page` (`page`)) ENGINE=InnoDB;

INSERT INTO `visit` (`page`, `ms`) VALUES ('/', 10), ('/about', NULL);

-- then

CREATE TABLE `{database}`.`_visit_new` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `page` varchar(50) NOT NULL,
  `ms` int DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `page` (`page`)
) ENGINE=InnoDB;

ALTER TABLE `{database}`.`_visit_new` ADD COLUMN agent VARCHAR(80) NOT NULL DEFAULT '', MODIFY ms BIGINT;

CREATE TRIGGER `pt_osc_visit_del` AFTER DELETE ON `{database}`.`visit` FOR EACH ROW DELETE IGNORE FROM `{database}`.`_visit_new` WHERE `{database}`.`_visit_new`.`id` <=> OLD.`id`;

CREATE TRIGGER `pt_osc_visit_upd` AFTER UPDATE ON `{database}`.`visit` FOR EACH ROW BEGIN DELETE IGNORE FROM `{database}`.`_visit_new` WHERE !(OLD.`id` <=> NEW.`id`) AND `{database}`.`_visit_new`.`id` <=> OLD.`id`; REPLACE INTO `{database}`.`_visit_new` (`id`, `page`, `ms`) VALUES (NEW.`id`, NEW.`page`, NEW.`ms`); END;

CREATE TRIGGER `pt_osc_visit_ins` AFTER INSERT ON `{database}`.`visit` FOR EACH ROW REPLACE INTO `{database}`.`_visit_new` (`id`, `page`, `ms`) VALUES (NEW.`id`, NEW.`page`, NEW.`ms`);

INSERT LOW_PRIORITY IGNORE INTO `{database}`.`_visit_new` (`id`, `page`, `ms`) SELECT `id`, `page`, `ms` FROM `{database}`.`visit` LOCK IN SHARE MODE /*pt-online-schema-change 4711 copy table*/;

INSERT INTO `visit` (`page`) VALUES ('/late');

UPDATE `visit` SET `ms` = 7 WHERE `page` = '/';

ANALYZE TABLE `{database}`.`_visit_new` /* pt-online-schema-change */;

RENAME TABLE `{database}`.`visit` TO `{database}`.`_visit_old`, `{database}`.`_visit_new` TO `{database}`.`visit`;

INSERT INTO `visit` (`page`, `agent`) VALUES ('/new', 'curl');

DROP TRIGGER IF EXISTS `{database}`.`pt_osc_visit_del`;

DROP TRIGGER IF EXISTS `{database}`.`pt_osc_visit_upd`;

DROP TRIGGER IF EXISTS `{database}`.`pt_osc_visit_ins`;

SET foreign_key_checks=0;
DROP TABLE IF EXISTS `{database}`.`_visit_old`;
SET foreign_key_checks=1;

DELETE FROM `visit` WHERE `page` = '/late';
