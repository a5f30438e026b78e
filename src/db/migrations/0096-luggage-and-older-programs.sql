-- Which kinds of machines each runner that lives runs. One that is not in here is of a program that does not say so: an older one.
CREATE TABLE runner (
  id uuid PRIMARY KEY,
  kinds text[] NOT NULL,
  since timestamptz NOT NULL DEFAULT now()
);

-- When more of it was last seen to have come.
ALTER TABLE vm_snapshot_move ADD COLUMN progressed_at timestamptz NOT NULL DEFAULT now();
-- Since when the snapshots that go along with the VM are there: the target's own time begins then.
ALTER TABLE migration ADD COLUMN luggage_at timestamptz;

-- Programs older than 0095 wish a snapshot away and leave its generation: its host would take that for what it was told before.
UPDATE vm_snapshot SET generation = 2 WHERE want = 'absent' AND generation = 1;
CREATE FUNCTION raise_removed_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.generation := OLD.generation + 1;
  RETURN NEW;
END
$$;
CREATE TRIGGER vm_snapshot_removed BEFORE UPDATE ON vm_snapshot FOR EACH ROW
  WHEN (OLD.want = 'present' AND NEW.want = 'absent' AND NEW.generation = OLD.generation)
  EXECUTE FUNCTION raise_removed_snapshot();

-- One commit for all of a group, also where a program that knows of no luggage was started again meanwhile: its step fails, and another's
-- does it. What nobody wants any more, or was given up, is not waited for.
CREATE FUNCTION refuse_to_leave_luggage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM vm_snapshot_move x JOIN vm_snapshot s ON s.id = x.snapshot_id
             WHERE x.group_id IN (NEW.group_id, NEW.migration_id) AND x.want = 'move'
               AND x.state IN ('preparing', 'copying', 'complete') AND s.want = 'present') THEN
    RAISE EXCEPTION 'volume % would become another host''s without the snapshots of VMs that have copies of it', NEW.volume_id;
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER volume_move_luggage AFTER UPDATE ON volume_move DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM 'clearing' AND NEW.state = 'clearing')
  EXECUTE FUNCTION refuse_to_leave_luggage();
