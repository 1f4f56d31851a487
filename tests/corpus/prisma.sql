-- Prisma Migrate for MySQL: statements with their comments, as its migration files hold them.
-- CreateTable
CREATE TABLE `_prisma_migrations` (
    id                      VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum                VARCHAR(64) NOT NULL,
    finished_at             DATETIME(3),
    migration_name          VARCHAR(255) NOT NULL,
    logs                    TEXT,
    rolled_back_at          DATETIME(3),
    started_at              DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    applied_steps_count     INTEGER UNSIGNED NOT NULL DEFAULT 0
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

-- CreateTable
CREATE TABLE `Person` (
    `id` INTEGER NOT NULL AUTO_INCREMENT,
    `email` VARCHAR(191) NOT NULL,
    `name` VARCHAR(191) NULL,
    `createdAt` DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    `role` ENUM('USER', 'ADMIN') NOT NULL DEFAULT 'USER',

    UNIQUE INDEX `Person_email_key`(`email`),
    PRIMARY KEY (`id`)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

INSERT INTO `Person` (`email`, `name`) VALUES ('a@x', 'A'), ('b@x', NULL);

-- then

-- CreateTable
CREATE TABLE `Note` (
    `id` VARCHAR(191) NOT NULL,
    `title` VARCHAR(191) NOT NULL,
    `content` LONGTEXT NULL,
    `published` BOOLEAN NOT NULL DEFAULT false,
    `authorId` INTEGER NOT NULL,
    `size` DOUBLE NOT NULL DEFAULT 0,
    `cost` DECIMAL(65, 30) NOT NULL DEFAULT 0,
    `big` BIGINT NULL,
    `raw` LONGBLOB NULL,

    INDEX `Note_authorId_idx`(`authorId`),
    PRIMARY KEY (`id`)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

-- AddForeignKey
ALTER TABLE `Note` ADD CONSTRAINT `Note_authorId_fkey` FOREIGN KEY (`authorId`) REFERENCES `Person`(`id`) ON DELETE RESTRICT ON UPDATE CASCADE;

INSERT INTO `Note` (`id`, `title`, `authorId`, `cost`) VALUES ('c1', 'n', 1, 1.5);

-- AlterTable
ALTER TABLE `Person` ADD COLUMN `age` INTEGER NULL,
    ADD COLUMN `bio` TEXT NULL,
    ADD COLUMN `balance` DECIMAL(10, 2) NOT NULL DEFAULT 0.00;

UPDATE `Person` SET `name` = '' WHERE `name` IS NULL;

-- AlterTable
ALTER TABLE `Person` MODIFY `name` VARCHAR(250) NOT NULL DEFAULT '',
    MODIFY `role` ENUM('USER', 'ADMIN', 'GUEST') NOT NULL DEFAULT 'USER';

UPDATE `Person` SET `age` = 4, `role` = 'GUEST' WHERE `id` = 2;

-- AlterTable
ALTER TABLE `Person` ADD COLUMN `updatedAt` DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3);

-- AlterTable
ALTER TABLE `Person` DROP COLUMN `bio`,
    ADD COLUMN `profile` JSON NULL,
    ADD COLUMN `smallish` SMALLINT UNSIGNED NULL,
    ADD COLUMN `born` DATE NULL;

-- AlterTable
ALTER TABLE `Person` ALTER COLUMN `balance` DROP DEFAULT;

-- CreateIndex
CREATE UNIQUE INDEX `Note_title_authorId_key` ON `Note`(`title`, `authorId`);

-- CreateIndex
CREATE FULLTEXT INDEX `Note_title_content_idx` ON `Note`(`title`, `content`);

-- CreateIndex
CREATE INDEX `Note_title_idx` ON `Note`(`title`(50) DESC);

-- RenameIndex
ALTER TABLE `Person` RENAME INDEX `Person_email_key` TO `Person_email_unique`;

-- DropForeignKey
ALTER TABLE `Note` DROP FOREIGN KEY `Note_authorId_fkey`;

-- DropIndex
DROP INDEX `Note_title_idx` ON `Note`;

-- AlterTable
ALTER TABLE `Note` DROP PRIMARY KEY,
    DROP COLUMN `id`,
    ADD COLUMN `id` INTEGER NOT NULL AUTO_INCREMENT,
    ADD PRIMARY KEY (`id`);

-- RenameTable
ALTER TABLE `Note` RENAME TO `Memo`;

-- CreateTable
CREATE TABLE `_GroupToPerson` (
    `A` INTEGER NOT NULL,
    `B` INTEGER NOT NULL,

    UNIQUE INDEX `_GroupToPerson_AB_unique`(`A`, `B`),
    INDEX `_GroupToPerson_B_index`(`B`)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

INSERT INTO `_GroupToPerson` VALUES (1, 1), (2, 1);

-- RedefineIndex
CREATE INDEX `_GroupToPerson_A_idx` ON `_GroupToPerson`(`A`);
DROP INDEX `_GroupToPerson_AB_unique` ON `_GroupToPerson`;

-- DropTable
DROP TABLE `_GroupToPerson`;
