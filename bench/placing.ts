/** The rows of VMs that want a host, and the one step of their machine that finds it. */
import { createDeployment } from '../src/control/deployments/index.ts'
import type { Deps } from '../src/control/deps.ts'
import { vmMachine } from '../src/control/vms/index.ts'
import { type Db, statement } from '../src/db/db.ts'
import { wait } from '../src/engine/machine.ts'
import { createRunner, type Runner } from '../src/engine/runner.ts'
import { systemClock } from '../src/lib/clock.ts'
import { hours } from '../src/lib/duration.ts'
import { newId } from '../src/lib/ids.ts'
import { createVault } from '../src/lib/vault.ts'

const prefix = 'fd00:1:2:3::/64'
export const replicas = 10

const sql = {
  project: statement(
    'bench.project',
    `INSERT INTO project (id, slug, name, plan, ipv6_prefix) VALUES ($1, 'bench', 'bench', 'unlimited', '${prefix}')`,
  ),
  app: statement(
    'bench.app',
    `INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
       max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret)
     VALUES ($1, $2, $3, '', 8080, '/', 0, ${replicas}, 1, 100, false, 80, 80, $3 || '.bench', ''::bytea)`,
  ),
}

export const placingSql = {
  placed: statement<{ placed: number; steady: number }>(
    'bench.placed',
    `SELECT count(*) FILTER (WHERE phase <> 'placing')::int AS placed, count(*) FILTER (WHERE phase = 'steady')::int AS steady
     FROM machine WHERE kind = 'vm'`,
  ),
  /** How far the fullest and the emptiest host are apart, as a share of the mean. */
  spread: statement<{ share: number }>(
    'bench.spread',
    `SELECT ((max(used_vcpus) - min(used_vcpus)) / avg(used_vcpus))::float8 AS share FROM host`,
  ),
  oversold: statement<{ count: number }>(
    'bench.oversold',
    `SELECT count(*)::int AS count FROM host h WHERE used_vcpus > vcpus OR used_memory_mib > memory_mib OR used_disk_mib > disk_mib
       OR used_vcpus <> (SELECT coalesce(sum(vcpus), 0) FROM vm WHERE host_id = h.id)`,
  ),
}

/** @returns the id of a project without limits */
export async function makeProject(db: Db): Promise<string> {
  const projectId = newId()
  await db.run(sql.project, [projectId])
  return projectId
}

/** Deployments of ten VMs each. */
export async function makeDeployments(db: Db, projectId: string, named: string, apps: number): Promise<void> {
  for (let n = 0; n < apps; n++) {
    const appId = newId()
    await db.run(sql.app, [appId, projectId, `${named}-${n}`])
    await db.tx(tx =>
      createDeployment(tx, {
        ...{ projectId, appId, image: 'example/app:1', hypervisor: 0, vcpus: 1, memoryMib: 512, diskMib: 1024 },
        ...{ port: 8080, replicas, ipv6Prefix: prefix, triggerSource: 'api' },
      }),
    )
  }
}

/** Runs only this one step of every VM: find a host, reserve the room, commit. What comes after waits. */
export function placingRunner(deps: Pick<Deps, 'db' | 'bus' | 'config' | 'log'>): Runner {
  const { db, log } = deps
  const whole = vmMachine({ ...deps, clock: systemClock, vault: createVault(deps.config.secrets) })
  const machine = { ...whole, phases: { ...whole.phases, starting: async () => wait(hours(1)) } }
  return createRunner({ db, machines: [machine], log })
}
