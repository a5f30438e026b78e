-- Time of the last checkout. A checkout that is never paid is checked for a week only. Existing rows start now.
ALTER TABLE billing_account ADD COLUMN checkout_at timestamptz NOT NULL DEFAULT now();
