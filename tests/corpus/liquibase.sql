-- Liquibase: its log and lock tables, and the change types of its MySQL and MariaDB databases.
CREATE TABLE {database}.DATABASECHANGELOGLOCK (ID INT NOT NULL, `LOCKED` TINYINT(1) NOT NULL, LOCKGRANTED datetime NULL, LOCKEDBY VARCHAR(255) NULL, CONSTRAINT PK_DATABASECHANGELOGLOCK PRIMARY KEY (ID));

CREATE TABLE {database}.DATABASECHANGELOG (ID VARCHAR(255) NOT NULL, AUTHOR VARCHAR(255) NOT NULL, FILENAME VARCHAR(255) NOT NULL, DATEEXECUTED datetime NOT NULL, ORDEREXECUTED INT NOT NULL, EXECTYPE VARCHAR(10) NOT NULL, MD5SUM VARCHAR(35) NULL, `DESCRIPTION` VARCHAR(255) NULL, COMMENTS VARCHAR(255) NULL, TAG VARCHAR(255) NULL, LIQUIBASE VARCHAR(20) NULL, CONTEXTS VARCHAR(255) NULL, LABELS VARCHAR(255) NULL, DEPLOYMENT_ID VARCHAR(10) NULL);

CREATE TABLE {database}.client (id INT AUTO_INCREMENT NOT NULL, name VARCHAR(50) NOT NULL, active BIT(1) DEFAULT 1 NULL, CONSTRAINT PK_CLIENT PRIMARY KEY (id), UNIQUE (name));

INSERT INTO {database}.client (name) VALUES ('one'), ('two');

-- then

DELETE FROM {database}.DATABASECHANGELOGLOCK;

INSERT INTO {database}.DATABASECHANGELOGLOCK (ID, `LOCKED`) VALUES (1, 0);

UPDATE {database}.DATABASECHANGELOGLOCK SET `LOCKED` = 1, LOCKEDBY = 'host (10.0.0.1)', LOCKGRANTED = NOW() WHERE ID = 1 AND `LOCKED` = 0;

CREATE TABLE {database}.address (id BIGINT AUTO_INCREMENT NOT NULL COMMENT 'key', client_id INT NOT NULL, street VARCHAR(100) NULL, geo DOUBLE NULL, at timestamp DEFAULT NOW() NOT NULL, remarks LONGTEXT NULL, CONSTRAINT PK_ADDRESS PRIMARY KEY (id)) COMMENT='where they live';

ALTER TABLE {database}.address ADD CONSTRAINT fk_address_client FOREIGN KEY (client_id) REFERENCES {database}.client (id) ON UPDATE RESTRICT ON DELETE CASCADE;

INSERT INTO {database}.address (client_id, street, geo) VALUES (1, 'High St', 0.1);

ALTER TABLE {database}.client ADD age INT NULL, ADD email VARCHAR(255) NULL;

ALTER TABLE {database}.client ADD rating DECIMAL(5, 2) DEFAULT 1.5 NOT NULL COMMENT 'of five' AFTER name;

UPDATE {database}.client SET email = 'none' WHERE email IS NULL;

ALTER TABLE {database}.client MODIFY email VARCHAR(255) NOT NULL;

ALTER TABLE {database}.client MODIFY email VARCHAR(255) NULL;

ALTER TABLE {database}.client MODIFY name VARCHAR(120);

ALTER TABLE {database}.client CHANGE age years INT;

ALTER TABLE {database}.client ALTER active SET DEFAULT 0;

ALTER TABLE {database}.client ALTER rating DROP DEFAULT;

ALTER TABLE {database}.client MODIFY COLUMN name VARCHAR(120) COMMENT 'in full';

ALTER TABLE {database}.client COMMENT = 'who buys';

CREATE UNIQUE INDEX ix_client_email ON {database}.client(email, years DESC);

DROP INDEX ix_client_email ON {database}.client;

ALTER TABLE {database}.client ADD CONSTRAINT uq_client UNIQUE (email, id);

ALTER TABLE {database}.client DROP KEY uq_client;

ALTER TABLE {database}.address DROP FOREIGN KEY fk_address_client;

ALTER TABLE {database}.address MODIFY id BIGINT;

ALTER TABLE {database}.address DROP PRIMARY KEY;
ALTER TABLE {database}.address ADD PRIMARY KEY (id, client_id);

ALTER TABLE {database}.address MODIFY id BIGINT AUTO_INCREMENT;

ALTER TABLE {database}.client ADD created timestamp(6) NULL, ADD flags BIT(3) NULL, ADD pic BLOB NULL, ADD uid CHAR(36) NULL, ADD n NUMERIC(4) NULL, ADD nv NVARCHAR(9) NULL;

ALTER TABLE {database}.client DROP COLUMN flags;

ALTER TABLE {database}.client DROP COLUMN pic, DROP COLUMN uid;

RENAME TABLE {database}.address TO {database}.residence;

ALTER TABLE {database}.residence RENAME {database}.address;

CREATE OR REPLACE VIEW {database}.v_client AS SELECT id, name FROM client;

DROP VIEW {database}.v_client;

INSERT INTO {database}.DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, MD5SUM, `DESCRIPTION`, COMMENTS, EXECTYPE, CONTEXTS, LABELS, LIQUIBASE, DEPLOYMENT_ID) VALUES ('1', 'me', 'a.xml', NOW(), 1, '8:abc', 'createTable', '', 'EXECUTED', NULL, NULL, '4.20.0', '123');

UPDATE {database}.DATABASECHANGELOGLOCK SET `LOCKED` = 0, LOCKEDBY = NULL, LOCKGRANTED = NULL WHERE ID = 1;
