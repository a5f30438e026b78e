-- Leading zero bits of the proof of work that a captcha in words asks for besides its answer; 0: none.
ALTER TABLE captcha ADD COLUMN work_bits smallint NOT NULL DEFAULT 0;
