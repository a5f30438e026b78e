-- Names and places of one project are read again when they change, and not those of all: the payload says whose they are.
-- Without one (the mesh, a listener that was away) everything is.
CREATE FUNCTION notify_network_of_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('network', coalesce(NEW.project_id, OLD.project_id)::text);
  RETURN NULL;
END $$;
DROP TRIGGER vm_network ON vm;
CREATE TRIGGER vm_network AFTER UPDATE ON vm FOR EACH ROW
  WHEN ((OLD.host_id, OLD.healthy, OLD.want) IS DISTINCT FROM (NEW.host_id, NEW.healthy, NEW.want))
  EXECUTE FUNCTION notify_network_of_project();
DROP TRIGGER vm_network_gone ON vm;
CREATE TRIGGER vm_network_gone AFTER DELETE ON vm FOR EACH ROW EXECUTE FUNCTION notify_network_of_project();
DROP TRIGGER app_network ON app;
CREATE TRIGGER app_network AFTER UPDATE ON app FOR EACH ROW
  WHEN ((OLD.active_deployment_id, OLD.want, OLD.name) IS DISTINCT FROM (NEW.active_deployment_id, NEW.want, NEW.name))
  EXECUTE FUNCTION notify_network_of_project();
CREATE TRIGGER app_network_new AFTER INSERT ON app FOR EACH ROW EXECUTE FUNCTION notify_network_of_project();
CREATE TRIGGER database_network AFTER UPDATE ON database FOR EACH ROW
  WHEN ((OLD.name, OLD.want) IS DISTINCT FROM (NEW.name, NEW.want))
  EXECUTE FUNCTION notify_network_of_project();
CREATE TRIGGER branch_network AFTER UPDATE ON branch FOR EACH ROW
  WHEN ((OLD.is_current, OLD.app_id, OLD.want) IS DISTINCT FROM (NEW.is_current, NEW.app_id, NEW.want))
  EXECUTE FUNCTION notify_network_of_project();
-- A host that was taken away is nobody's peer any more, and its gateway nobody's: at once.
CREATE TRIGGER host_network AFTER UPDATE ON host FOR EACH ROW
  WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at)
  EXECUTE FUNCTION notify_network();
CREATE TRIGGER prefix_network AFTER UPDATE ON private_network FOR EACH ROW EXECUTE FUNCTION notify_network();
