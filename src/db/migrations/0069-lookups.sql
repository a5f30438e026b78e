-- Every lookup by something that grows with the number of tenants has an index; test/query-plans.test.ts finds the rest.
CREATE INDEX account_default_project ON account (default_project_id);
CREATE INDEX account_admins ON account (id) WHERE role = 'Admin';
CREATE INDEX notification_plan_limit ON notification (created_at) WHERE kind = 'plan.limit_reached';
CREATE INDEX volume_snapshot_volume ON volume_snapshot (volume_id);
CREATE INDEX vm_app ON vm (app_id);
CREATE INDEX vm_snapshot_deployment ON vm_snapshot (deployment_id);
CREATE INDEX vm_snapshot_host ON vm_snapshot (host_id);
CREATE INDEX migration_vm ON migration (vm_id);
CREATE INDEX migration_source ON migration (source_host_id);
CREATE INDEX usage_span_ended ON usage_span (ended_at);
CREATE INDEX usage_egress_seen ON usage_egress (seen_at);
CREATE INDEX route_app ON route (app_id);
CREATE INDEX route_gone ON route (changed_at) WHERE state = 'gone';
CREATE INDEX scm_state_used ON scm_state (used_at);
CREATE INDEX acme_challenge_expires ON acme_challenge (expires_at);
CREATE INDEX branch_backup_drill ON branch_backup (branch_id) WHERE drill_branch_id IS NOT NULL;
CREATE INDEX branch_restore_snapshot ON branch (restore_snapshot_id) WHERE restore_snapshot_id IS NOT NULL;
-- What is deleted looks for those that name it.
CREATE INDEX refresh_token_account ON refresh_token (account_id);
CREATE INDEX pat_project ON pat (project_id);
CREATE INDEX security_rule_project ON security_rule (project_id);
CREATE INDEX build_project ON build (project_id);
CREATE INDEX domain_project ON domain (project_id);
