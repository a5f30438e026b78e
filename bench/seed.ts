/** Inserts the rows of an installation with many users in bulk. */
import type pg from 'pg'

const appColumns = `id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
  max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret`
const appValues = (name: string) =>
  `'', 8080, '/', 0, 1, 1, 1, false, 80, 80, ${name} || '.bench', decode(repeat('ab', 40), 'hex')`

export async function seedApps(sql: pg.Client, projectId: string, count: number, prefix: string): Promise<void> {
  await sql.query(
    `INSERT INTO app (${appColumns})
     SELECT gen_random_uuid(), $1, name, ${appValues('name')} FROM (SELECT $3 || '-' || n AS name FROM generate_series(1, $2::int) n) s`,
    [projectId, count, prefix],
  )
  await sql.query('ANALYZE app')
}

/** Adds projects of other tenants, each with `apps` apps. */
export async function seedTenants(sql: pg.Client, count: number, apps: number, prefix: string): Promise<void> {
  await sql.query(
    `WITH made AS (
       INSERT INTO project (id, slug, name, plan, ipv6_prefix)
       SELECT gen_random_uuid(), $3 || '-' || n, 'bench', 'unlimited', 'fd' || substr(md5($3 || n), 1, 2) || ':' || substr(md5($3 || n), 3, 4) || ':' || substr(md5($3 || n), 7, 4) || ':1::/64'
       FROM generate_series(1, $1::int) n RETURNING id, slug)
     INSERT INTO app (${appColumns})
     SELECT gen_random_uuid(), made.id, 'app-' || n, ${appValues(`'app-' || n || '-' || made.slug`)}
     FROM made, generate_series(1, $2::int) n`,
    [count, apps, prefix],
  )
  // Vacuum and make a checkpoint now. Otherwise, PostgreSQL would do so during the measurements.
  await sql.query('VACUUM ANALYZE project, app')
  await sql.query('CHECKPOINT')
}

export interface SeededVm {
  readonly vmId: string
  readonly hostId: string
}

/**
 * Adds `hosts` hosts, and for every app whose name has this prefix a serving deployment with one VM, spread over all
 * hosts. The workflows of these deployments and VMs wake up in a day, that is, not during a benchmark.
 */
export async function seedServing(sql: pg.Client, appsNamed: string, hosts: number): Promise<SeededVm[]> {
  await sql.query(
    `INSERT INTO host (id, name, incarnation, version, arch, network, hypervisors, vcpus, memory_mib, disk_mib)
     SELECT gen_random_uuid(), 'bench-' || gen_random_uuid(), 'bench', '0', 'x64', 'fake',
       '[{"name":"fake","available":true,"detail":"bench","capabilities":{"pause":true,"snapshot":true,"hotplugDisk":true,"balloon":true,"migrate":"live"}}]',
       10000, 10000000, 100000000 FROM generate_series(1, $1::int) n`,
    [hosts],
  )
  await sql.query(
    `INSERT INTO deployment (id, app_id, project_id, disk_mib, memory_mib, vcpus, hypervisor, image, job_id, port, trigger_source, started_at)
     SELECT gen_random_uuid(), id, project_id, 1024, 512, 1, 0, 'example/app:1', 'job-' || id, 8080, 'api', now()
     FROM app WHERE name LIKE $1 AND active_deployment_id IS NULL`,
    [`${appsNamed}%`],
  )
  await sql.query(
    `UPDATE app SET active_deployment_id = d.id FROM deployment d WHERE d.app_id = app.id AND app.active_deployment_id IS NULL`,
  )
  await sql.query(
    `INSERT INTO vm (id, app_id, project_id, deployment_id, disk_mib, memory_mib, vcpus, host_id, hypervisor, ipv6_address, endpoint_host,
       endpoint_port, healthy, placed_at, seen_generation, seen_state)
     SELECT gen_random_uuid(), d.app_id, d.project_id, d.id, 1024, 512, 1, h.id, 'fake', 
       'fd01:' || substr(md5(d.id::text), 1, 4) || ':' || substr(md5(d.id::text), 5, 4) || ':' || substr(md5(d.id::text), 9, 4) || '::1', '127.0.0.1', 8080, true,
       now(), 1, 'running'
     FROM (SELECT *, row_number() OVER () AS n FROM deployment x WHERE NOT EXISTS (SELECT 1 FROM vm WHERE vm.deployment_id = x.id)) d
     JOIN (SELECT id, row_number() OVER (ORDER BY name) - 1 AS n FROM host) h ON h.n = d.n % (SELECT count(*) FROM host)`,
  )
  await sql.query(
    `INSERT INTO machine (id, kind, phase, wake_at) SELECT id, 'vm', 'steady', now() + interval '1 day' FROM vm
     UNION ALL SELECT id, 'deployment', 'serving', now() + interval '1 day' FROM deployment ON CONFLICT DO NOTHING`,
  )
  await sql.query(
    `UPDATE host SET used_vcpus = c.n, used_memory_mib = c.n * 512, used_disk_mib = c.n * 1024
     FROM (SELECT host_id, count(*)::int AS n FROM vm GROUP BY 1) c WHERE c.host_id = host.id`,
  )
  await sql.query('ANALYZE')
  const { rows } = await sql.query<SeededVm>('SELECT id AS "vmId", host_id AS "hostId" FROM vm')
  return rows
}
