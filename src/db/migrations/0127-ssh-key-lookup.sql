-- A login to an app over SSH finds the account by its key.
CREATE INDEX ssh_key_by_fingerprint ON ssh_key (fingerprint);
