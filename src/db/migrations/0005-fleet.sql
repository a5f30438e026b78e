-- A host is silent (suspected), then lost (fenced: its VMs are replaced elsewhere), or taken away for good (removed).
ALTER TABLE host
  ADD COLUMN draining boolean NOT NULL DEFAULT false,
  ADD COLUMN suspected_at timestamptz,
  ADD COLUMN lost_at timestamptz,
  ADD COLUMN removed_at timestamptz;
DROP INDEX host_name;
CREATE UNIQUE INDEX host_name ON host (name) WHERE removed_at IS NULL;

-- VMs that were given up on a lost host. They may still run there, so their room stays taken until the host says that
-- they are gone, or is removed.
CREATE TABLE stray (
  vm_id uuid PRIMARY KEY,
  host_id uuid NOT NULL REFERENCES host,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX stray_host ON stray (host_id);

-- How often, and when last, a crashed VM of it was replaced: what the back-off is made of.
ALTER TABLE deployment
  ADD COLUMN replaced integer NOT NULL DEFAULT 0,
  ADD COLUMN replaced_at timestamptz;

-- Counts the observations that changed the row: an answer that was asked for before the newest of them is not written.
ALTER TABLE vm ADD COLUMN seen_count bigint NOT NULL DEFAULT 0;
