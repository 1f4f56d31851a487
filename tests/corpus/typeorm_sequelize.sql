-- TypeORM and Sequelize, the query interfaces of both for MySQL and MariaDB.
CREATE TABLE `typeorm_migrations` (`id` int NOT NULL AUTO_INCREMENT, `timestamp` bigint NOT NULL, `name` varchar(255) NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

CREATE TABLE `photo` (`id` int NOT NULL AUTO_INCREMENT, `name` varchar(255) NOT NULL, `isPublished` tinyint NOT NULL DEFAULT 0, `createDate` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), UNIQUE INDEX `IDX_f8a2b1` (`name`), PRIMARY KEY (`id`)) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS `Projects` (`id` INTEGER auto_increment , `title` VARCHAR(255), `done` TINYINT(1) DEFAULT false, `createdAt` DATETIME NOT NULL, `updatedAt` DATETIME NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;

INSERT INTO `photo`(`id`, `name`) VALUES (DEFAULT, 'sun'), (DEFAULT, 'moon');
INSERT INTO `Projects` (`id`,`title`,`createdAt`,`updatedAt`) VALUES (DEFAULT,'one','2024-01-01 00:00:00','2024-01-01 00:00:00');

-- then

ALTER TABLE `photo` ADD `views` int NOT NULL DEFAULT '0';

ALTER TABLE `photo` ADD `authorId` int NULL;

ALTER TABLE `photo` ADD UNIQUE INDEX `IDX_author` (`authorId`);

ALTER TABLE `photo` CHANGE `name` `title` varchar(255) NOT NULL;

ALTER TABLE `photo` DROP COLUMN `title`;
ALTER TABLE `photo` ADD `title` varchar(500) NOT NULL;

ALTER TABLE `photo` MODIFY `views` bigint NOT NULL DEFAULT '0';

ALTER TABLE `photo` CHANGE `isPublished` `isPublished` tinyint(1) NOT NULL DEFAULT 1;

ALTER TABLE `photo` ADD `updateDate` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), ADD `lat` decimal(9,6) NULL, ADD `tags` text NULL, ADD `mood` enum ('good', 'bad') NOT NULL DEFAULT 'good', ADD `flags` set ('a', 'b') NULL, ADD `extra` json NULL;

UPDATE `photo` SET `title` = 'night', `flags` = 'a,b', `lat` = 1.5, `extra` = '[]' WHERE `id` IN (2);

ALTER TABLE `photo` CHANGE `mood` `mood` enum ('good', 'bad', 'ugly') NOT NULL DEFAULT 'good';

-- only: mysql
ALTER TABLE `photo` ADD `area` int AS (`authorId` * `views`) VIRTUAL NULL;

-- only: mariadb
ALTER TABLE `photo` ADD `area` int AS (`authorId` * `views`) VIRTUAL;

-- only: mysql
ALTER TABLE `photo` ADD `full` varchar(255) AS (CONCAT(`title`,' ',`authorId`)) STORED NULL;

-- only: mariadb
ALTER TABLE `photo` ADD `full` varchar(255) AS (CONCAT(`title`,' ',`authorId`)) STORED;

ALTER TABLE `photo` MODIFY `id` int NOT NULL;

ALTER TABLE `photo` DROP PRIMARY KEY;
ALTER TABLE `photo` ADD PRIMARY KEY (`id`, `isPublished`);

ALTER TABLE `photo` MODIFY `id` int NOT NULL AUTO_INCREMENT;

DROP INDEX `IDX_author` ON `photo`;

CREATE UNIQUE INDEX `REL_8f2c` ON `photo` (`authorId`);

ALTER TABLE `photo` RENAME TO `picture`;

RENAME TABLE `picture` TO `photo`;

ALTER TABLE `Projects` ADD `deadline` DATETIME;

ALTER TABLE `Projects` ADD `owner` INTEGER, ADD CONSTRAINT `projects_owner_foreign_idx` FOREIGN KEY (`owner`) REFERENCES `typeorm_migrations` (`id`) ON DELETE SET NULL ON UPDATE CASCADE;

ALTER TABLE `Projects` CHANGE `title` `title` TEXT;

ALTER TABLE `Projects` CHANGE `done` `finished` TINYINT(1) DEFAULT false;

ALTER TABLE `Projects` ADD INDEX `projects_deadline` (`deadline`);

ALTER TABLE `Projects` ADD CONSTRAINT `projects_title_uk` UNIQUE (`deadline`, `id`);

ALTER TABLE `Projects` DROP INDEX `projects_title_uk`;

ALTER TABLE `Projects` DROP FOREIGN KEY `projects_owner_foreign_idx`;

ALTER TABLE `Projects` ADD `score` FLOAT(11,2), ADD `exact` DOUBLE PRECISION, ADD `uuid` CHAR(36) BINARY, ADD `b` BLOB, ADD `big` BIGINT(20) UNSIGNED ZEROFILL DEFAULT 0 NOT NULL;

UPDATE `Projects` SET `score`=1.55,`uuid`='abc',`b`=x'00' WHERE `id` = 1;

ALTER TABLE `Projects` DROP `deadline`;

ALTER TABLE `Projects` CHANGE COLUMN `uuid` `uuid` CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '' COMMENT 'its name' AFTER `id`;

CREATE TABLE IF NOT EXISTS `Projects` (`id` INTEGER auto_increment , PRIMARY KEY (`id`)) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS `Tasks` (`id` CHAR(36) BINARY , `ProjectId` INTEGER, `state` ENUM('open', 'closed') DEFAULT 'open', `createdAt` DATETIME NOT NULL, PRIMARY KEY (`id`), FOREIGN KEY (`ProjectId`) REFERENCES `Projects` (`id`) ON DELETE SET NULL ON UPDATE CASCADE) ENGINE=InnoDB;

INSERT INTO `Tasks` VALUES ('u-1', 1, 'open', '2024-01-01');

DROP TABLE IF EXISTS `Tasks`;

TRUNCATE TABLE `typeorm_migrations`;

DROP TABLE `typeorm_migrations`;
