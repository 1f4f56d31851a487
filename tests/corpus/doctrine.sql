-- Doctrine DBAL and its migrations: what the MySQL and MariaDB platforms of the schema manager write.
CREATE TABLE doctrine_migration_versions (version VARCHAR(191) NOT NULL, executed_at DATETIME DEFAULT NULL, execution_time INT DEFAULT NULL, PRIMARY KEY(version)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;

CREATE TABLE account (id INT AUTO_INCREMENT NOT NULL, login VARCHAR(180) NOT NULL, roles LONGTEXT NOT NULL COMMENT '(DC2Type:json)', secret VARCHAR(255) NOT NULL, seen_at DATETIME DEFAULT NULL COMMENT '(DC2Type:datetime_immutable)', UNIQUE INDEX UNIQ_7D3656A4AA08CB10 (login), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;

CREATE TABLE invoice (id INT AUTO_INCREMENT NOT NULL, amount NUMERIC(10, 2) NOT NULL, paid TINYINT(1) NOT NULL, remarks VARCHAR(100) DEFAULT NULL, PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;

INSERT INTO account (id, login, roles, secret) VALUES (1, 'ada', '[]', 'x'), (2, 'bob', '["ROLE_ADMIN"]', 'y');
INSERT INTO invoice (amount, paid, remarks) VALUES (12.50, 1, 'first'), (0.99, 0, NULL);

-- then

CREATE TABLE invoice_line (id INT AUTO_INCREMENT NOT NULL, invoice_id INT NOT NULL, label VARCHAR(255) NOT NULL, quantity SMALLINT UNSIGNED DEFAULT 1 NOT NULL, INDEX IDX_D3D1D6932989F1FD (invoice_id), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;

ALTER TABLE invoice_line ADD CONSTRAINT FK_D3D1D6932989F1FD FOREIGN KEY (invoice_id) REFERENCES invoice (id) ON DELETE CASCADE;

INSERT INTO invoice_line (invoice_id, label) SELECT id, CONCAT('line of ', id) FROM invoice;

ALTER TABLE invoice ADD account_id INT DEFAULT NULL, ADD currency VARCHAR(3) DEFAULT 'EUR' NOT NULL, CHANGE remarks remarks LONGTEXT DEFAULT NULL;

ALTER TABLE invoice ADD CONSTRAINT FK_906517449B6B5FBA FOREIGN KEY (account_id) REFERENCES account (id);

CREATE INDEX IDX_906517449B6B5FBA ON invoice (account_id);

UPDATE invoice SET account_id = 1, remarks = 'known';

ALTER TABLE account ADD uuid BINARY(16) DEFAULT NULL COMMENT '(DC2Type:uuid)', ADD balance DOUBLE PRECISION DEFAULT '0' NOT NULL, ADD active TINYINT(1) DEFAULT 1 NOT NULL, ADD extra JSON DEFAULT NULL;

UPDATE account SET uuid = LPAD(login, 16, 'x'), balance = id / 3, extra = '{"a": [1, null]}';

ALTER TABLE account CHANGE login email VARCHAR(255) NOT NULL, CHANGE secret secret VARCHAR(60) NOT NULL;

ALTER TABLE account ADD full_name VARCHAR(64) CHARACTER SET ascii NOT NULL COLLATE `ascii_general_ci`, ADD born DATE DEFAULT NULL COMMENT '(DC2Type:date_immutable)', ADD wakes TIME DEFAULT NULL;

ALTER TABLE account DROP wakes, CHANGE born born_on DATE DEFAULT NULL;

DROP INDEX UNIQ_7D3656A4AA08CB10 ON account;

CREATE UNIQUE INDEX UNIQ_7D3656A4E7927C74 ON account (email);

-- only: mysql-8 mysql-9 mariadb
ALTER TABLE account RENAME INDEX uniq_7d3656a4e7927c74 TO UNIQ_EMAIL;

ALTER TABLE invoice DROP FOREIGN KEY FK_906517449B6B5FBA;

DROP INDEX IDX_906517449B6B5FBA ON invoice;

ALTER TABLE invoice DROP account_id, CHANGE paid paid TINYINT(1) DEFAULT 0 NOT NULL, CHANGE currency currency CHAR(3) NOT NULL;

ALTER TABLE invoice_line DROP FOREIGN KEY FK_D3D1D6932989F1FD;

ALTER TABLE invoice MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, currency);

ALTER TABLE invoice CHANGE id id BIGINT AUTO_INCREMENT NOT NULL;

CREATE TABLE messenger_messages (id BIGINT AUTO_INCREMENT NOT NULL, body LONGTEXT NOT NULL, headers LONGTEXT NOT NULL, queue_name VARCHAR(190) NOT NULL, created_at DATETIME NOT NULL, available_at DATETIME NOT NULL, delivered_at DATETIME DEFAULT NULL, INDEX IDX_75EA56E0FB7336F0 (queue_name), INDEX IDX_75EA56E0E3BD61CE (available_at), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;

INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at) VALUES ('O:36:\"App\\Job\"', '[]', 'default', NOW(), NOW());

RENAME TABLE account TO member;

INSERT INTO doctrine_migration_versions (version, executed_at, execution_time) VALUES ('App\\Migrations\\Version20240101000000', NOW(), 12);

DROP TABLE invoice_line;
