-- When the program of a VM is started again after it has ended, and how often; null: always, as often as the
-- installation allows. A deployment keeps the app's.
ALTER TABLE app ADD COLUMN restart jsonb;
ALTER TABLE deployment ADD COLUMN restart jsonb;
-- VMs of the deployment whose programs have ended with code 0, and were not to be restarted.
ALTER TABLE deployment ADD COLUMN finished integer NOT NULL DEFAULT 0;
