-- Alembic and SQLAlchemy: the operations of the MySQL dialect.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE device (
	id INTEGER NOT NULL AUTO_INCREMENT, 
	serial_no VARCHAR(50) NOT NULL, 
	kind ENUM('phone','tablet'), 
	`order` INTEGER, 
	price NUMERIC(10, 2), 
	PRIMARY KEY (id), 
	UNIQUE (serial_no)
);

INSERT INTO device (serial_no, kind, `order`, price) VALUES ('a', 'phone', 1, 9.9), ('b', NULL, NULL, NULL);

-- then

INSERT INTO alembic_version (version_num) VALUES ('1975ea83b712');

ALTER TABLE device ADD COLUMN owner VARCHAR(100);

ALTER TABLE device ADD COLUMN active BOOL NOT NULL DEFAULT true;

ALTER TABLE device ADD COLUMN created_at DATETIME NOT NULL DEFAULT now();

ALTER TABLE device ADD COLUMN ratio FLOAT, ADD COLUMN big BIGINT, ADD COLUMN body LONGTEXT, ADD COLUMN doc JSON, ADD COLUMN raw BLOB, ADD COLUMN d DATE, ADD COLUMN t TIME, ADD COLUMN u CHAR(32), ADD COLUMN small SMALLINT(6);

UPDATE device SET owner='me', ratio=0.25, doc='{"x": [1, 2]}', t='10:11:12' WHERE device.id = 1;

ALTER TABLE device MODIFY owner VARCHAR(200) NULL;

ALTER TABLE device CHANGE owner holder VARCHAR(200) NULL;

ALTER TABLE device MODIFY kind ENUM('phone','tablet','watch') NULL;

ALTER TABLE device MODIFY serial_no VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'printed on it';

ALTER TABLE device ALTER COLUMN active DROP DEFAULT;

ALTER TABLE device ALTER COLUMN active SET DEFAULT false;

UPDATE device SET `order` = 0 WHERE `order` IS NULL;

ALTER TABLE device MODIFY `order` BIGINT NOT NULL DEFAULT '0';

CREATE INDEX ix_device_holder ON device (holder);

CREATE INDEX ix_device_body ON device (body(10), kind);

CREATE FULLTEXT INDEX ix_device_text ON device (body);

DROP INDEX ix_device_text ON device;

ALTER TABLE device ADD CONSTRAINT uq_device UNIQUE (holder, id);

ALTER TABLE device DROP INDEX uq_device;

CREATE TABLE reading (
	id BIGINT NOT NULL AUTO_INCREMENT, 
	device_id INTEGER NOT NULL, 
	value DOUBLE, 
	squared DOUBLE GENERATED ALWAYS AS (value * value) STORED, 
	at TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, 
	CONSTRAINT pk_reading PRIMARY KEY (id), 
	CONSTRAINT fk_reading_device FOREIGN KEY(device_id) REFERENCES device (id) ON DELETE CASCADE
)ENGINE=InnoDB COMMENT='measured' DEFAULT CHARSET=utf8mb4;

INSERT INTO reading (device_id, value) VALUES (1, 1.5), (2, NULL);

ALTER TABLE reading ADD COLUMN half DOUBLE GENERATED ALWAYS AS (value / 2) VIRTUAL;

ALTER TABLE reading DROP COLUMN half;

ALTER TABLE reading DROP FOREIGN KEY fk_reading_device;

ALTER TABLE reading DROP COLUMN device_id;

ALTER TABLE device DROP COLUMN `order`;

ALTER TABLE reading COMMENT 'all that was measured';

ALTER TABLE reading RENAME TO measurement;

ALTER TABLE measurement MODIFY value DECIMAL(12, 4) NULL;

UPDATE alembic_version SET version_num='27c6a30d7c24' WHERE alembic_version.version_num = '1975ea83b712';

DROP TABLE measurement;
