/** Creates VMs that need a host, and runs the workflow step that places them. */
import { createDeployment } from '../src/control/deployments/index.ts'
import type { Deps } from '../src/control/base/deps.ts'
import { vmWorkflow } from '../src/control/vms/index.ts'
import { type Db, statement } from '../src/db/db.ts'
import { wait } from '../src/engine/workflow.ts'
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
  /** Counts VMs that have a host and wait, because `onlyPlacingRunner` runs no further step. */
  done: statement<{ count: number }>(
    'bench.placedOnly',
    `SELECT count(*)::int AS count FROM machine WHERE kind = 'vm' AND lease IS NULL AND wake_at > now() + interval '30 minutes'`,
  ),
  /** Selects the difference in used vCPUs between the fullest and the emptiest host, relative to the mean. */
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

/** Creates a project without limits. @returns its id */
export async function makeProject(db: Db): Promise<string> {
  const projectId = newId()
  await db.run(sql.project, [projectId])
  return projectId
}

/** Creates apps with one deployment of ten VMs each. */
export async function makeDeployments(db: Db, projectId: string, named: string, apps: number): Promise<void> {
  for (let n = 0; n < apps; n++) {
    const appId = newId()
    await db.run(sql.app, [appId, projectId, `${named}-${n}`])
    await db.tx(tx =>
      createDeployment(tx, {
        projectId,
        appId,
        image: 'example/app:1',
        hypervisor: 0,
        vcpus: 1,
        memoryMib: 512,
        diskMib: 1024,
        port: 8080,
        replicas,
        ipv6Prefix: prefix,
        triggerSource: 'api',
      }),
    )
  }
}

type Placing = Pick<Deps, 'db' | 'bus' | 'config' | 'log'>

const machineOf = ({ config, ...deps }: Placing) =>
  vmWorkflow({ ...deps, config, clock: systemClock, vault: createVault(config.secrets) })

/**
 * Returns a runner that places every VM: finds a host, reserves capacity and commits. The next phase of the VM's
 * workflow only waits.
 */
export function placingRunner(deps: Placing): Runner {
  const whole = machineOf(deps)
  const workflow = { ...whole, phases: { ...whole.phases, starting: async () => wait(hours(1)) } }
  return createRunner({ ...deps, workflows: [workflow] })
}

/**
 * Returns a runner that only places VMs. Unlike with `placingRunner`, the workflow of a placed VM runs no further
 * step, because the placing step commits a wait instead of a transition.
 */
export function onlyPlacingRunner(deps: Placing): Runner {
  const whole = machineOf(deps)
  const placing: typeof whole.phases.placing = async step => {
    const next = await whole.phases.placing(step)
    return next.do === 'go' ? wait(hours(1)) : next
  }
  return createRunner({ ...deps, workflows: [{ ...whole, phases: { ...whole.phases, placing } }] })
}
