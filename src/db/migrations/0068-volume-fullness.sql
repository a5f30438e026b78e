-- Percent that its people were told it is full to: 0, 80 or 95.
ALTER TABLE volume ADD COLUMN fullness smallint NOT NULL DEFAULT 0;
