-- phpMyAdmin: the statements of its structure and operations pages.
CREATE TABLE `{database}`.`guest` (`id` INT NOT NULL AUTO_INCREMENT , `name` VARCHAR(50) NOT NULL , `stay` INT NULL DEFAULT NULL , PRIMARY KEY (`id`)) ENGINE = InnoDB;

INSERT INTO `guest` (`id`, `name`, `stay`) VALUES (NULL, 'Kim', '3'), (NULL, 'Lee', NULL);

-- then

ALTER TABLE `guest` ADD `room` INT NOT NULL DEFAULT '0' AFTER `name`, ADD `vip` BOOLEAN NOT NULL DEFAULT FALSE AFTER `room`;

ALTER TABLE `guest` ADD INDEX(`room`);

ALTER TABLE `guest` ADD UNIQUE `name_room` (`name`, `room`) USING BTREE;

ALTER TABLE `guest` CHANGE `name` `full_name` VARCHAR(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL;

ALTER TABLE `guest` CHANGE `stay` `stay` BIGINT(20) UNSIGNED NULL DEFAULT NULL COMMENT 'nights';

ALTER TABLE `guest` CHANGE `room` `room` SMALLINT(6) NOT NULL DEFAULT '0' FIRST;

ALTER TABLE `guest` MODIFY COLUMN `vip` TINYINT(1) NOT NULL DEFAULT 0 AFTER `id`;

ALTER TABLE `guest` ADD `since` DATE NULL DEFAULT NULL AFTER `vip`, ADD `changed` TIMESTAMP on update CURRENT_TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP AFTER `since`;

UPDATE `guest` SET `since` = '2024-01-01' WHERE `guest`.`id` = 1;

ALTER TABLE `guest` DROP `vip`, DROP `since`;

ALTER TABLE `guest` DROP INDEX `name_room`;

ALTER TABLE `guest` DROP INDEX `room`, ADD UNIQUE `room` (`room`, `id`) USING BTREE;

ALTER TABLE `guest` DROP PRIMARY KEY, ADD PRIMARY KEY( `id`, `room`);

ALTER TABLE `guest` COMMENT = 'who stays';

ALTER TABLE `guest` ENGINE = InnoDB;

ALTER TABLE `guest` CHARSET=utf8mb4 COLLATE utf8mb4_unicode_ci;

ALTER TABLE `guest` CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

ALTER TABLE `guest` ORDER BY `full_name`;

ALTER TABLE `guest` AUTO_INCREMENT = 20, ROW_FORMAT = DYNAMIC;

OPTIMIZE TABLE `guest`;

CHECK TABLE `guest`;

FLUSH TABLE `guest`;

CREATE TABLE `{other}`.`guest` LIKE `{database}`.`guest`;

INSERT INTO `{other}`.`guest` SELECT * FROM `{database}`.`guest`;

CREATE TABLE `{database}`.`guest_copy` LIKE `{database}`.`guest`;

SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO';
INSERT INTO `{database}`.`guest_copy` SELECT * FROM `{database}`.`guest`;

RENAME TABLE `{database}`.`guest_copy` TO `{other}`.`guest_moved`;

RENAME TABLE `{other}`.`guest_moved` TO `{database}`.`guest_back`;

TRUNCATE `{database}`.`guest_back`;

ALTER TABLE `guest_back` PARTITION BY HASH (id) PARTITIONS 4;

ALTER TABLE `guest_back` REMOVE PARTITIONING;

DROP TABLE `guest_back`;

DROP TABLE `{other}`.`guest`;
